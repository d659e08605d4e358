//! Metadata of a Google TPU VM, read through [`Host::metadata`](crate::process::Host::metadata).

use super::input::{Input, Reading, number};
use super::tpu_variables;
use crate::{Fault, Faults};

const WORKER: &str = "agent-worker-number";
const ENDPOINTS: &str = "worker-network-endpoints";
const TPU_ENV: &str = "tpu-env";

/// If this variable is set, the metadata server is not queried.
const SKIP: &str = "TPU_SKIP_MDS_QUERY";

pub(in crate::process) fn read(input: &Input<'_>) -> Result<Reading, Faults> {
    if input.has(SKIP) {
        return Ok(Reading::Incomplete(format!("{SKIP} is set, so the metadata server is not queried")));
    }
    let metadata = |attribute: &str| input.host.and_then(|host| host.metadata(attribute));
    let Some(worker) = metadata(WORKER) else { return Ok(Reading::Absent) };
    let worker = input.known(WORKER, number(WORKER, &worker)?);
    let endpoints = metadata(ENDPOINTS).ok_or_else(|| {
        Fault::new(ENDPOINTS, format!("the metadata has {WORKER} but lacks this entry; set TPU_WORKER_HOSTNAMES"))
    })?;
    // Each endpoint has the form `name:id:address`.
    let addresses: Option<Vec<String>> =
        endpoints.trim().split(',').map(|endpoint| endpoint.split(':').nth(2).map(str::to_owned)).collect();
    let addresses = addresses.ok_or_else(|| {
        Fault::new(
            ENDPOINTS,
            format!("{endpoints:?} does not have the form name:id:address,…; set TPU_WORKER_HOSTNAMES"),
        )
    })?;
    let mut partial = tpu_variables::slice(input, ENDPOINTS, addresses, worker)?;
    // Add the shape of the slice, under the names of the environment variables. The metadata uses one of two names for
    // each value. The newer name is first.
    let tpu_env = metadata(TPU_ENV).unwrap_or_default();
    for (variable, names) in [
        ("TPU_ACCELERATOR_TYPE", ["ACCELERATOR_TYPE", "TPU_ACCELERATOR_TYPE"]),
        ("TPU_HOST_BOUNDS", ["TPU_PROCESS_BOUNDS", "HOST_BOUNDS"]),
        ("TPU_CHIPS_PER_HOST_BOUNDS", ["TPU_CHIPS_PER_PROCESS_BOUNDS", "CHIPS_PER_HOST_BOUNDS"]),
    ] {
        if let Some(value) = names.iter().find_map(|name| field_of(&tpu_env, name)) {
            partial.attributes.insert(variable.to_owned(), value);
        }
    }
    // The mesh of processes of TPU v7 has a fourth axis, of size 2, which the metadata omits.
    let seventh = partial
        .attributes
        .get("TPU_ACCELERATOR_TYPE")
        .is_some_and(|kind| kind.starts_with("tpu7") || kind.starts_with("v7"));
    for (variable, fourth) in [("TPU_HOST_BOUNDS", ",1"), ("TPU_CHIPS_PER_HOST_BOUNDS", ",2")] {
        if let Some(bounds) =
            partial.attributes.get_mut(variable).filter(|bounds| seventh && bounds.matches(',').count() == 2)
        {
            bounds.push_str(fourth);
        }
    }
    Ok(Reading::Present(partial))
}

/// Returns the value of a field in lines of the form `NAME: 'value'`.
fn field_of(lines: &str, name: &str) -> Option<String> {
    let value = lines.lines().find_map(|line| line.split_once(':').filter(|(field, _)| field.trim() == name))?.1;
    let value = value.trim().trim_matches('\'');
    (!value.is_empty()).then(|| value.to_owned())
}
