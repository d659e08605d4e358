//! Reductions across the rows of a step that processes a few rows at a time.
//!
//! The operand exists only for the current rows, so each of its rows is combined with running results. A result that
//! the rows of several chunks contribute to has running results of its own in each chunk, which are combined in the
//! order of the chunks. The chunks depend only on the sizes, so results do not depend on the number of threads.

use std::any::Any;
use std::cell::RefCell;

use super::graph::{Node, Op, Value, ValueIndex};
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

thread_local! {
    /// The result of folding rows. Later reductions on this thread reuse it.
    static FOLDED: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
}

/// A reduction across rows.
#[derive(Clone)]
pub(crate) struct AcrossRows {
    /// The result.
    pub(crate) value: ValueIndex,
    /// Whether each chunk contains all rows of each row of the result that it contributes to. Otherwise, each chunk has
    /// running results of its own.
    pub(crate) is_apart: bool,
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
            value: node.outs[0],
            is_apart: false,
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

    /// Returns the size in bytes of the results of a chunk of `rows` rows.
    pub(crate) fn bytes_of_chunk(&self, rows: usize) -> usize {
        let outer = if self.is_apart { rows / self.rows_together() } else { self.extents.outer };
        outer * self.extents.inner * self.result
    }

    /// Returns the element that changes no element with which it is combined.
    pub(crate) fn identity(&self) -> &[u8] {
        &self.identity[..self.size]
    }

    /// Combines the elements of `x` with those of `running`.
    pub(crate) fn combine(&self, running: &mut [u8], x: &[u8]) {
        (self.combine)(running, x);
    }

    /// Combines the rows from `start` on with the running results of the chunk whose first row is `first`.
    pub(crate) fn add(&self, operand: &[u8], start: usize, first: usize, running: &mut [u8]) {
        let Extents { reduced, inner, .. } = self.extents;
        let together = self.rows_together();
        let before = if self.is_apart { first / together } else { 0 };
        let (mut row, mut rest) = (start, operand);
        while !rest.is_empty() {
            let (outer, within) = (row / together - before, row % together);
            // The next rows that are combined with one row of the result, or each with a row of its own.
            let (at, count) = if inner == 1 { (0, reduced - within) } else { (within % inner, inner - within % inner) };
            let count = count.min(rest.len() / self.operand);
            let (now, later) = rest.split_at(count * self.operand);
            let running = &mut running[(outer * inner + at) * self.result..];
            if inner > 1 || now.len() == self.result {
                self.combine(&mut running[..now.len()], now);
            } else {
                let extents = Extents { outer: 1, reduced: now.len() / self.result, inner: self.result / self.size };
                let mut lines = FOLDED.take();
                let folded = reserve(&mut lines, self.result);
                (self.fold)(&extents, now, self.identity(), folded, None);
                self.combine(&mut running[..self.result], folded);
                FOLDED.set(lines);
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

/// The reductions across rows of a step, and how they divide the rows into chunks.
#[derive(Default)]
pub(crate) struct Across {
    pub(crate) reductions: Vec<AcrossRows>,
    /// Number of rows of a chunk. The last chunk may have fewer.
    pub(crate) chunk: usize,
}

impl Across {
    /// Adds a reduction to a step of `rows` rows. Returns false if the running results would then take too much memory,
    /// or if there would be only one chunk.
    pub(crate) fn add(&mut self, reduction: AcrossRows, rows: usize) -> bool {
        self.reductions.push(reduction);
        // The largest part of the rows that several chunks can consist of.
        let parts = self.reductions.iter().map(AcrossRows::rows_together).filter(|part| rows / part >= CHUNKS);
        let part = parts.max().unwrap_or(1);
        let (mut running, mut operands) = (0, 0usize);
        for reduction in &mut self.reductions {
            reduction.is_apart = part.is_multiple_of(reduction.rows_together());
            if !reduction.is_apart {
                running += reduction.bytes_of_chunk(rows);
                operands = operands.saturating_add(rows.saturating_mul(reduction.operand));
            }
        }
        let most = MAX_RUNNING.min(operands / MAX_PART).checked_div(running).unwrap_or(CHUNKS);
        let count = CHUNKS.min(most).min(rows / part);
        self.chunk = (rows / part).div_ceil(count.max(1)) * part;
        count > 1
    }
}
