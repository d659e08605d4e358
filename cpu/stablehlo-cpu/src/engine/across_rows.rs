//! Reductions across the rows of a step that processes a few rows at a time.
//!
//! The operand exists only for the current rows, so each of its rows is combined with running results. A result that
//! the rows of several chunks contribute to has running results of its own in each chunk, which are combined in the
//! order of the chunks. The chunks depend only on the sizes, so results do not depend on the number of threads.

use std::any::Any;
use std::ops::Range;

use super::graph::{Node, Op, Value};
use super::kernels::combine::Body;
use super::kernels::reduce::{Extents, Reduce, ReduceFn, identity};
use super::pool::Line;
use super::scalar_fn::Combine;
use super::tile::reserve;

/// Minimum size in bytes of an operand. Smaller operands fit the caches of a core also as a whole.
const MIN_OPERAND: usize = 1 << 20;
/// Number of chunks of rows, if there are enough rows.
const CHUNKS: usize = 16;
/// Maximum size of the running results of all chunks together, in bytes. They are also at most this part of the
/// operands.
const MAX_RUNNING: usize = 32 << 20;
const MAX_PART: usize = 8;

/// A reduction across rows.
pub(crate) struct AcrossRows {
    /// The reduction of `[outer, reduced, inner]` rows to `[outer, inner]` rows.
    extents: Extents,
    /// Size of a row of the operand and of the result in bytes. The row of a result has as many elements as that of the
    /// operand, or only one.
    operand: usize,
    result: usize,
    /// Size of an element in bytes.
    size: usize,
    fold: ReduceFn,
    combine: fn(&mut [u8], &[u8]),
    identity: [u8; 16],
}

impl AcrossRows {
    /// Returns the reduction of a node, if its operand has `rows` rows of `columns` elements or of one element, and
    /// each row belongs to one row of the result.
    pub(crate) fn of_node(node: &Node, rows: usize, columns: usize, values: &[Value]) -> Option<Self> {
        let Reduce { extents, op, dtype, run } = reduction(node)?;
        let operand = &values[node.ins[0] as usize];
        let columns = match operand.n {
            n if n == rows * columns => columns,
            n if n == rows => 1,
            _ => return None,
        };
        let &Extents { outer, reduced, inner } = extents;
        let (extents, result) = if inner.is_multiple_of(columns) {
            (Extents { outer, reduced, inner: inner / columns }, columns)
        } else if inner == 1 && reduced.is_multiple_of(columns) {
            (Extents { outer, reduced: reduced / columns, inner: 1 }, 1)
        } else {
            return None;
        };
        let Body::Fast { run: combine, .. } = Body::fast(Combine::Op(*op), *dtype)? else { return None };
        let size = dtype.size();
        let large = operand.bytes() >= MIN_OPERAND && extents.reduced > 1;
        large.then_some(Self {
            extents,
            operand: columns * size,
            result: result * size,
            size,
            fold: *run,
            combine,
            identity: identity(*op, *dtype)?,
        })
    }

    /// Returns the number of rows that contribute to the same rows of the result.
    fn rows_together(&self) -> usize {
        self.extents.reduced * self.extents.inner
    }

    /// Returns the size in bytes of the results of the rows in `range`. The range contains all rows of each result.
    pub(crate) fn bytes_of(&self, range: &Range<usize>) -> usize {
        range.len() / self.rows_together() * self.extents.inner * self.result
    }

    /// Returns the size of the whole result in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.extents.outer * self.extents.inner * self.result
    }

    /// Returns the element that changes no element with which it is combined.
    pub(crate) fn identity(&self) -> &[u8] {
        &self.identity[..self.size]
    }

    /// Combines the elements of `x` with those of `running`.
    pub(crate) fn combine(&self, running: &mut [u8], x: &[u8]) {
        (self.combine)(running, x);
    }

    /// Combines the rows from `start` on with the running results. `running` contains the results from that of the row
    /// `first` on, which is the first row of its result.
    pub(crate) fn add(&self, operand: &[u8], start: usize, first: usize, running: &mut [u8], folded: &mut Vec<Line>) {
        let Extents { reduced, inner, .. } = self.extents;
        let together = self.rows_together();
        let (mut row, mut rest) = (start, operand);
        while !rest.is_empty() {
            let (outer, within) = (row / together - first / together, row % together);
            let (at, count) = if inner == 1 {
                (outer, reduced - within)
            } else {
                let at = within % inner;
                (outer * inner + at, inner - at)
            };
            let count = count.min(rest.len() / self.operand);
            let (now, later) = rest.split_at(count * self.operand);
            if inner == 1 {
                let target = &mut running[at * self.result..][..self.result];
                if now.len() == self.result {
                    self.combine(target, now);
                } else {
                    let folded = reserve(folded, self.result);
                    let inner = self.result / self.size;
                    let extents = Extents { outer: 1, reduced: now.len() / self.result, inner };
                    (self.fold)(&extents, now, self.identity(), folded, None);
                    self.combine(target, folded);
                }
            } else {
                self.combine(&mut running[at * self.result..][..now.len()], now);
            }
            (row, rest) = (row + count, later);
        }
    }
}

/// Returns the reduction of a node, if it has a loop.
pub(crate) fn reduction(node: &Node) -> Option<&Reduce> {
    let Op::Kernel { kernel, .. } = &node.op else { return None };
    let kernel: &dyn Any = &**kernel;
    kernel.downcast_ref()
}

/// How the rows of a step with reductions across rows are divided into chunks.
pub(crate) struct Chunks {
    /// Number of rows of a chunk. The last chunk may have fewer.
    pub(crate) rows: usize,
    /// For each reduction, whether the rows of a result are never in different chunks.
    pub(crate) apart: Vec<bool>,
}

impl Chunks {
    /// Returns `None` if the running results would take too much memory, or if there is only one chunk.
    pub(crate) fn of<'a>(rows: usize, reductions: impl Iterator<Item = &'a AcrossRows> + Clone) -> Option<Self> {
        // The largest part of the rows that several chunks can consist of.
        let parts = reductions.clone().map(AcrossRows::rows_together).filter(|part| rows / part >= CHUNKS);
        let part = parts.max().unwrap_or(1);
        let apart: Vec<bool> = reductions.clone().map(|r| part.is_multiple_of(r.rows_together())).collect();
        let (mut running, mut operands) = (0, 0usize);
        for (reduction, _) in reductions.zip(&apart).filter(|(_, apart)| !**apart) {
            running += reduction.bytes();
            operands = operands.saturating_add(rows.saturating_mul(reduction.operand));
        }
        let most = MAX_RUNNING.min(operands / MAX_PART).checked_div(running).unwrap_or(CHUNKS);
        let count = CHUNKS.min(most).min(rows / part);
        (count > 1).then(|| Self { rows: (rows / part).div_ceil(count) * part, apart })
    }
}
