//! The variables of a TPU worker, which Google Kubernetes Engine sets. There is one process on each host, unless local
//! ranks are also set.

use super::input::{Input, Reading, about};
use crate::process::address::Address;
use crate::process::partial_topology::{Attributed, Partial};
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
        let found = [WORKER, TASK, "TPU_ACCELERATOR_TYPE", MEGASCALE].into_iter().find(|name| input.has(name));
        return Ok(found.map_or(Reading::Absent, |name| Reading::Incomplete(format!("{name} is set without {HOSTS}"))));
    };
    let names: Vec<String> = hosts.split(',').map(|host| host.trim().to_owned()).collect();
    if let Some(at) = names.iter().position(String::is_empty) {
        return Err(Fault::new(HOSTS, format!("{hosts:?}: the name of worker {at} is empty")).into());
    }
    let worker = if names.len() == 1 && !input.has(WORKER) {
        Some(input.known(HOSTS, 0))
    } else {
        input.required(WORKER, "set it to the index of this host in TPU_WORKER_HOSTNAMES")?
    };
    slice(input, names, input.known(HOSTS, ()), worker).and_then(Reading::present)
}

/// Combines the list of this slice's hosts with the Megascale variables. `listed` is the origin of the list, and
/// `worker` is the index of this host in the list. Returns the hosts, the slice and the coordinator.
pub(super) fn slice(
    input: &Input<'_>,
    hosts: Vec<String>,
    listed: Attributed<()>,
    worker: Option<Attributed<u32>>,
) -> Result<Partial, Faults> {
    let from = |value| Attributed::new(value, listed.origin.clone());
    let name = listed.origin.name.as_deref().unwrap_or(HOSTS);
    let in_slice =
        u32::try_from(hosts.len()).map_err(|_| Fault::new(name, "the list names more than 4294967295 hosts"))?;
    let mut coordinator = match hosts.first() {
        Some(first) => {
            let address = first.parse::<Address>().map_err(|faults| about(name, first, &faults))?;
            Some(Attributed::new(Address::new(address.host(), Some(PORT))?, listed.origin.clone()))
        }
        None => None,
    };
    let (mut slice_index, mut slice_count) = (None, None);
    if let Some(megascale) = input.address(MEGASCALE)? {
        let remedy = format!("set it together with {MEGASCALE}");
        (slice_index, slice_count) = (input.required(SLICE, &remedy)?, input.required(SLICES, &remedy)?);
        coordinator = Some(Attributed::new(megascale.value.with_port(PORT), megascale.origin));
    }
    if let Some(worker) = worker.as_ref().filter(|worker| worker.value >= in_slice) {
        let message =
            format!("worker {} does not exist, because {name} lists {in_slice}; the first is 0", worker.value);
        return Err(Fault::new(crate::process::partial_topology::field(&worker.origin), message).into());
    }
    let slices = slice_count.as_ref().map_or(1, |count: &Attributed<u32>| count.value);
    let index = slice_index.as_ref().map_or(0, |index: &Attributed<u32>| index.value);
    let many =
        || Fault::new(SLICES, format!("{slices} slices of {in_slice} hosts each are more than 4294967295 hosts"));
    let count = in_slice.checked_mul(slices).ok_or_else(many)?;
    let first = in_slice.checked_mul(index).ok_or_else(many)?;
    let host_index =
        worker.map(|worker| Attributed { value: first.saturating_add(worker.value), origin: worker.origin });
    Ok(Partial {
        host_index,
        host_count: Some(from(count)),
        slice_index,
        slice_count,
        coordinator,
        hosts: Some(Attributed::new(hosts, listed.origin.clone())),
        ..Partial::default()
    })
}

/// Reads the variables that a process plan has already set for this process. The index of the process in the list of
/// all addresses is its rank.
fn processes(input: &Input<'_>) -> Result<Reading, Faults> {
    let addresses = input.text(PROCESSES).unwrap_or_default();
    let count = u32::try_from(addresses.split(',').count())
        .map_err(|_| Fault::new(PROCESSES, "the list names more than 4294967295 processes"))?;
    let first = addresses.split(',').next().unwrap_or_default();
    let first = first.parse::<Address>().map_err(|faults| about(PROCESSES, addresses, &faults))?;
    Reading::present(Partial {
        global_rank: input.number(TASK)?,
        world_size: Some(input.known(PROCESSES, count)),
        coordinator: Some(input.known(PROCESSES, first.with_port(PORT))),
        ..Partial::default()
    })
}
