//! JAX's own variables. They precede every launcher, as in JAX. None of them contains the rank.

use super::input::{Input, Reading};
use crate::Faults;
use crate::process::partial_topology::Partial;

/// The port that replaces the one from a launcher.
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
    let slice_index = if partition.is_some() { partition } else { input.number(SLICE)? };
    Reading::present(Partial { coordinator: input.address(ADDRESS)?, slice_index, ..Partial::default() })
}
