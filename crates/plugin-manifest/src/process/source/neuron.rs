//! AWS Neuron's own variables. Users set these variables by hand, with a different index for each process.

use super::input::{Input, Reading};
use crate::Faults;
use crate::process::address::Address;
use crate::process::partial_topology::{Attributed, Partial};
use crate::process::provenance::Item;

const INDEX: &str = "NEURON_PJRT_PROCESS_INDEX";
const SIZE: &str = "NEURON_PJRT_WORLD_SIZE";
const DEVICES: &str = "NEURON_PJRT_PROCESSES_NUM_DEVICES";
const ROOT: &str = "NEURON_RT_ROOT_COMM_ID";

pub(in crate::process) fn read(input: &Input<'_>) -> Result<Reading, Faults> {
    if !input.has(INDEX) {
        return Ok(input.without(INDEX, &[SIZE, DEVICES, ROOT]));
    }
    let listed = input.text(DEVICES).map(|list| u32::try_from(list.split(',').count()).unwrap_or(u32::MAX));
    let world_size = match listed {
        Some(count) => input.known(DEVICES, count),
        None => input.required(SIZE, &format!("set it or {DEVICES} together with {INDEX}"))?,
    };
    // The Neuron runtimes listen on the port of this address, so the coordinator needs another port.
    let coordinator = match input.address(ROOT)? {
        Some(root) => Some(Attributed::new(Address::new(root.value.host(), None)?, root.origin)),
        None => None,
    };
    let numbers = [(Item::GlobalRank, input.number(INDEX)?), (Item::WorldSize, Some(world_size))];
    Ok(Reading::Present(Partial { coordinator, ..Partial::default() }.with(numbers)))
}
