//! Matrix products with a small output and a large contracting dimension. The contracting dimension is split into
//! parts, which run on different cores. The parts depend only on the product's extents, so that results do not depend
//! on the number of cores.

use super::blocking::{Out, work};
use super::number::{Operand, Wide};
use super::pack::{Lines, PARTS, Part, with_panel};
use crate::engine::parallel;
use crate::engine::stop::Stop;

/// Maximum number of elements of the output of a product that is split.
const FEW: usize = 1 << 16;
/// Minimum depth of a part.
const DEPTH: usize = 1024;
/// Minimum number of parts. There are at most [`MOST`], because the results of all parts are in memory at the same
/// time.
const FEWEST: usize = 4;
const MOST: usize = 32;

/// Returns the depth of the parts, or `None` if the product should not be split.
pub(super) fn depth((m, k, n): (usize, usize, usize)) -> Option<usize> {
    let parts = (k / DEPTH).min(MOST);
    (parts >= FEWEST && m.saturating_mul(n) <= FEW).then(|| k.div_ceil(parts))
}

/// A view of an operand in which the contracting dimension begins at index `start`.
pub(super) struct Offset<'a, L> {
    pub(super) lines: &'a L,
    pub(super) start: usize,
}

impl<T: Operand, L: Lines<T>> Lines<T> for Offset<'_, L> {
    fn pack(&self, part: Part, width: usize, to: &mut [T::Wide]) {
        let depth = (self.start + part.depth.0, part.depth.1);
        self.lines.pack(Part { depth, ..part }, width, to);
    }
}

/// Computes a product as the sum of parts of the given depth. `compute` computes one part from its extents and its
/// start in the contracting dimension.
pub(super) fn product<W: Wide>(
    (m, k, n): (usize, usize, usize),
    depth: usize,
    out: &mut [W],
    to: Out,
    stop: Option<&Stop>,
    compute: impl Fn((usize, usize, usize), usize, &mut [W]) + Sync,
) {
    let size = m * n;
    with_panel(&PARTS, size * k.div_ceil(depth), |parts: &mut [W]| {
        let tasks: Vec<_> = parts.chunks_exact_mut(size).enumerate().collect();
        parallel::each_until(stop, tasks, work(m, k, n), |(part, sums)| {
            let start = part * depth;
            parallel::alone(|| compute((m, depth.min(k - start), n), start, sums));
        });
        let parts = &*parts;
        let out = &mut out[..(m - 1) * to.row + to.column + n];
        parallel::chunks_until(stop, out, to.row, size_of_val(parts), |first, rows| {
            for (i, row) in rows.chunks_mut(to.row).enumerate() {
                let (row, at) = (&mut row[to.column..][..n], (first / to.row + i) * n);
                row.copy_from_slice(&parts[at..at + n]);
                for part in parts.chunks_exact(size).skip(1) {
                    row.iter_mut().zip(&part[at..at + n]).for_each(|(o, &x)| *o += x);
                }
            }
        });
    });
}
