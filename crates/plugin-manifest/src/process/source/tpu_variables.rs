//! The variables of a TPU worker, which Google Kubernetes Engine sets. There is one process on each host, unless local
//! ranks are also set.

use super::input::{Input, Reading, about};
use crate::process::address::Address;
use crate::process::partial_topology::{Attributed, Partial, field};
use crate::process::provenance::Item;
use crate::{Fault, Faults};

const HOSTS: &str = "TPU_WORKER_HOSTNAMES";
const WORKER: &str = "TPU_WORKER_ID";
const TASK: &str = "CLOUD_TPU_TASK_ID";
const PROCESSES: &str = "TPU_PROCESS_ADDRESSES";
const MEGASCALE: &str = "MEGASCALE_COORDINATOR_ADDRESS";
const SLICE: &str = "MEGASCALE_SLICE_ID";
const SLICES: &str = "MEGASCALE_NUM_SLICES";

/// Port of JAX's coordinator on TPU hosts. Megascale's own coordinator uses another port.
const PORT: u16 = 8482;

pub(in crate::process) fn read(input: &Input<'_>) -> Result<Reading, Faults> {
    let Some(hosts) = input.text(HOSTS) else {
        if input.has(TASK) && input.has(PROCESSES) {
            return processes(input);
        }
        return Ok(input.without(HOSTS, &[WORKER, TASK, "TPU_ACCELERATOR_TYPE", MEGASCALE]));
    };
    let names: Vec<String> = hosts.split(',').map(|host| host.trim().to_owned()).collect();
    if let Some(at) = names.iter().position(String::is_empty) {
        return Err(Fault::new(HOSTS, format!("{hosts:?}: the name of worker {at} is empty")).into());
    }
    let worker = if names.len() == 1 && !input.has(WORKER) {
        input.known(HOSTS, 0)
    } else {
        input.required(WORKER, "set it to the index of this host in TPU_WORKER_HOSTNAMES")?
    };
    slice(input, HOSTS, names, worker).map(Reading::Present)
}

/// Combines the list of this slice's hosts with the Megascale variables. `name` is the variable or attribute of the
/// list, and `worker` is the index of this host in the list. Returns the hosts, the slice and the coordinator.
pub(super) fn slice(
    input: &Input<'_>,
    name: &str,
    hosts: Vec<String>,
    worker: Attributed<u32>,
) -> Result<Partial, Faults> {
    let in_slice =
        u32::try_from(hosts.len()).map_err(|_| Fault::new(name, "the list names more than 4294967295 hosts"))?;
    let mut coordinator = match hosts.first() {
        Some(first) => {
            let address = first.parse::<Address>().map_err(|faults| about(name, first, &faults))?;
            Some(input.known(name, Address::new(address.host(), Some(PORT))?))
        }
        None => None,
    };
    let (mut index, mut slices, mut partial) = (0, 1, Partial::default());
    if let Some(megascale) = input.address(MEGASCALE)? {
        let remedy = format!("set it together with {MEGASCALE}");
        let (slice_index, slice_count) = (input.required(SLICE, &remedy)?, input.required(SLICES, &remedy)?);
        (index, slices) = (slice_index.value, slice_count.value);
        partial = partial.with([(Item::SliceIndex, Some(slice_index)), (Item::SliceCount, Some(slice_count))]);
        coordinator = Some(Attributed::new(megascale.value.with_port(PORT), megascale.origin));
    }
    if worker.value >= in_slice {
        let message =
            format!("worker {} does not exist, because {name} lists {in_slice}; the first is 0", worker.value);
        return Err(Fault::new(field(&worker.origin), message).into());
    }
    let many =
        || Fault::new(SLICES, format!("{slices} slices of {in_slice} hosts each are more than 4294967295 hosts"));
    let count = in_slice.checked_mul(slices).ok_or_else(many)?;
    let first = in_slice.checked_mul(index).ok_or_else(many)?;
    let host_index = Attributed::new(first.saturating_add(worker.value), worker.origin);
    let numbers = [(Item::HostIndex, Some(host_index)), (Item::HostCount, Some(input.known(name, count)))];
    Ok(Partial { coordinator, hosts: Some(input.known(name, hosts)), ..partial }.with(numbers))
}

/// Reads the variables that a process plan has already set for this process. The index of the process in the list of
/// all addresses is its rank.
fn processes(input: &Input<'_>) -> Result<Reading, Faults> {
    let addresses = input.text(PROCESSES).unwrap_or_default();
    let count = u32::try_from(addresses.split(',').count())
        .map_err(|_| Fault::new(PROCESSES, "the list names more than 4294967295 processes"))?;
    let first = addresses.split(',').next().unwrap_or_default();
    let first = first.parse::<Address>().map_err(|faults| about(PROCESSES, addresses, &faults))?;
    let coordinator = Some(input.known(PROCESSES, first.with_port(PORT)));
    let numbers = [(Item::GlobalRank, input.number(TASK)?), (Item::WorldSize, Some(input.known(PROCESSES, count)))];
    Ok(Reading::Present(Partial { coordinator, ..Partial::default() }.with(numbers)))
}
