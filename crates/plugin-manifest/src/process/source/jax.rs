//! JAX's own variables. As in JAX, they take precedence over every launcher. They do not contain the rank.

use super::input::{Input, Reading};
use crate::Faults;
use crate::process::partial_topology::Partial;
use crate::process::provenance::Item;

/// Variable with the port that replaces the port of a launcher's coordinator.
pub(in crate::process) const PORT: &str = "JAX_COORDINATOR_PORT";

const ADDRESS: &str = "JAX_COORDINATOR_ADDRESS";
const PARTITION: &str = "JAX_PARTITION_INDEX";
const SLICE: &str = "JAX_SLICE_INDEX";

pub(in crate::process) fn read(input: &Input<'_>) -> Result<Reading, Faults> {
    if !(input.has(ADDRESS) || input.has(PARTITION) || input.has(SLICE)) {
        return Ok(if input.port(PORT)?.is_some() {
            Reading::Incomplete(format!("only {PORT}, for the coordinator of a launcher"))
        } else {
            Reading::Absent
        });
    }
    let partition = input.number(PARTITION)?;
    let slice = if partition.is_some() { partition } else { input.number(SLICE)? };
    let coordinator = input.address(ADDRESS)?;
    Ok(Reading::Present(Partial { coordinator, ..Partial::default() }.with([(Item::SliceIndex, slice)])))
}
