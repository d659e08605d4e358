//! The variables that Open MPI's `mpirun` sets.

use super::input::{Input, Reading, port_of_job};
use crate::process::address::Address;
use crate::process::partial_topology::{Attributed, Partial};
use crate::process::provenance::Item;
use crate::{Fault, Faults};

/// Variable with the address of `mpirun` itself, such as `1531576320.0;tcp://10.96.0.1,10.148.0.1:34911`. Open MPI 5 no
/// longer sets this variable, so the user must specify the coordinator if there are several hosts.
const URI: &str = "OMPI_MCA_orte_hnp_uri";
const RANK: &str = "OMPI_COMM_WORLD_RANK";
const SIZE: &str = "OMPI_COMM_WORLD_SIZE";
const LOCAL_RANK: &str = "OMPI_COMM_WORLD_LOCAL_RANK";
const LOCAL_SIZE: &str = "OMPI_COMM_WORLD_LOCAL_SIZE";

pub(in crate::process) fn read(input: &Input<'_>) -> Result<Reading, Faults> {
    if !(input.has(RANK) || input.has(SIZE)) {
        return Ok(input.without(RANK, &[URI]));
    }
    let numbers = [
        (Item::GlobalRank, RANK),
        (Item::WorldSize, SIZE),
        (Item::LocalRank, LOCAL_RANK),
        (Item::LocalWorldSize, LOCAL_SIZE),
    ];
    let numbers = input.all(&numbers, "start the program with mpirun")?;
    Ok(Reading::Present(Partial { coordinator: coordinator(input)?, ..numbers }))
}

/// Returns the coordinator's address. Its host is the host of `mpirun`, because Open MPI runs rank 0 there by default.
/// Its port is derived from the job ID. The port is unknown if the job ID is malformed. Returns `None` if the variable
/// with the host is not set.
fn coordinator(input: &Input<'_>) -> Result<Option<Attributed<Address>>, Faults> {
    let Some(uri) = input.text(URI) else { return Ok(None) };
    let host = ["tcp://", "tcp6://"].iter().find_map(|scheme| {
        let rest = &uri[uri.find(scheme)? + scheme.len()..];
        let host = match rest.strip_prefix('[') {
            Some(v6) => v6.split([',', ']']).next()?,
            None => rest.split([',', ':']).next()?,
        };
        Address::new(host, None).ok()
    });
    let Some(host) = host else {
        let message = format!("{uri:?} has no tcp address; set JAX_COORDINATOR_ADDRESS to host:port of rank 0");
        return Err(Fault::new(URI, message).into());
    };
    // The job ID in the URI is always a multiple of 4096. Divide it, so that different jobs get different ports.
    let job: Option<u64> = uri.split_once('.').and_then(|(job, _)| job.parse().ok());
    let address = match job {
        Some(job) => host.with_port(port_of_job(job / 4096)),
        None => host,
    };
    Ok(Some(input.known(URI, address)))
}
