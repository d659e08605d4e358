//! `ragged_all_to_all`: members exchange runs of rows whose positions and lengths are known only at run time.

use bytemuck::pod_read_unaligned;

use crate::engine::pool::Buffer;
use crate::error::RunError;

/// Index of the operand among each member's inputs. The following constants are the indices of the other inputs.
const OPERAND: usize = 0;
const OUTPUT: usize = 1;
const INPUT_OFFSETS: usize = 2;
const SEND_SIZES: usize = 3;
const OUTPUT_OFFSETS: usize = 4;

/// `ragged_all_to_all`. Offsets and sizes are `i64` and count rows.
pub(crate) struct RaggedAllToAll {
    /// Size of a row in bytes.
    pub(crate) row: usize,
    /// Number of runs that each member sends to each member.
    pub(crate) runs: usize,
}

impl RaggedAllToAll {
    /// Copies the output operand of the member at `place` of the group to `out`. Then overwrites the rows that this
    /// member receives. Returns an error if a run of rows is not inside the sender's operand and the output.
    pub(crate) fn run(&self, contributions: &[Vec<Buffer>], place: usize, out: &mut [u8]) -> Result<(), RunError> {
        out.copy_from_slice(contributions[place][OUTPUT].bytes());
        for (sender, inputs) in contributions.iter().enumerate() {
            let number = |input: usize, at: usize| -> i64 {
                inputs[input].bytes().as_chunks::<8>().0.get(at).map_or(-1, |bytes| pod_read_unaligned(bytes))
            };
            for at in place * self.runs..(place + 1) * self.runs {
                let (from, size, to) = (number(INPUT_OFFSETS, at), number(SEND_SIZES, at), number(OUTPUT_OFFSETS, at));
                let operand = inputs[OPERAND].bytes();
                let (Some(read), Some(written)) =
                    (self.range(from, size, operand.len()), self.range(to, size, out.len()))
                else {
                    return Err(RunError::Input(format!(
                        "ragged_all_to_all: member {sender} of the group sends {size} rows from its row {from} to row {to} \
                         of member {place}, but the operand has {} rows and the output {}",
                        operand.len() / self.row.max(1),
                        out.len() / self.row.max(1)
                    )));
                };
                out[written].copy_from_slice(&operand[read]);
            }
        }
        Ok(())
    }

    /// Returns the byte range of the given rows, or `None` if a tensor of `bytes` bytes does not contain them.
    fn range(&self, first: i64, rows: i64, bytes: usize) -> Option<std::ops::Range<usize>> {
        let rows = usize::try_from(rows).ok()?;
        if rows == 0 {
            return Some(0..0);
        }
        let start = usize::try_from(first).ok()?.checked_mul(self.row)?;
        let end = rows.checked_mul(self.row)?.checked_add(start)?;
        (end <= bytes).then_some(start..end)
    }
}
