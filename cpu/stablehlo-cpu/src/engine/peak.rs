//! The memory that a run needs at once, which is compared with the available memory before the run.

use super::machine_memory::MachineMemory;
use super::pool::Pool;
use crate::error::RunError;

/// Minimum size of a peak in bytes that is compared with the machine's memory, because reading the free memory takes
/// longer than a small run.
const LARGE: usize = 256 << 20;

/// What a run allocates at the same time: its temporary values and its results.
pub(crate) struct Peak {
    pub(crate) bytes: usize,
    /// The size of the largest values, and the ops that define them.
    pub(crate) largest: Vec<(usize, String)>,
}

impl Peak {
    /// Returns an error if `pool` or the machine has less memory left.
    pub(crate) fn check(&self, pool: &Pool) -> Result<(), RunError> {
        let machine = if self.bytes >= LARGE { MachineMemory::read() } else { None };
        let available = pool.available(machine);
        if available >= self.bytes {
            return Ok(());
        }
        Err(RunError::TooLarge { wanted: self.bytes, available, largest: self.largest.clone() })
    }
}
