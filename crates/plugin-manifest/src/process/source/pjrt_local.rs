//! `PJRT_LOCAL_PROCESS_RANK` and `PJRT_LOCAL_PROCESS_COUNT`, which PyTorch/XLA sets for the processes that it spawns on
//! a host.

use super::input::{Input, Reading};
use crate::Faults;
use crate::process::provenance::Item;

const RANK: &str = "PJRT_LOCAL_PROCESS_RANK";
const COUNT: &str = "PJRT_LOCAL_PROCESS_COUNT";

pub(in crate::process) fn read(input: &Input<'_>) -> Result<Reading, Faults> {
    if !(input.has(RANK) || input.has(COUNT)) {
        return Ok(Reading::Absent);
    }
    let remedy = format!("set both {RANK} and {COUNT}, or neither");
    input.all(&[(Item::LocalRank, RANK), (Item::LocalWorldSize, COUNT)], &remedy).map(Reading::Present)
}
