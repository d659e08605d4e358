//! Matrix products whose first operand consists of runs of contiguous elements, and whose second operand is small. The
//! second operand is packed once. The rows of the first operand are interleaved for one register block at a time, so
//! that they are still in the first-level cache when they are multiplied. No other copy of the operands is made, and
//! each element of the output is written once.

use std::marker::PhantomData;

use pulp::{Simd, WithSimd};

use super::blocking::{Out, work};
use super::number::{Operand, Wide};
use super::pack::{Lines, MAX_WIDTH, PANEL_B, Part, with_panel};
use super::tile::{self, Shape, with_rows};
use crate::engine::elementwise::map::arch;
use crate::engine::parallel;
use crate::engine::stop::Stop;

/// Maximum size of the second operand in bytes, so that it stays in the second-level cache.
const HELD: usize = 512 << 10;
/// Minimum length of a run, in elements, for which this method is used.
const RUN: usize = 16;

/// The rows of an operand, each with the same number of runs.
pub(crate) trait Runs<'a, W>: Sync {
    /// Returns the length of a run, and the number of runs per row.
    fn shape(&self) -> (usize, usize);
    /// Stores the runs of row `row` in `to`. Consecutive runs are `stride` elements of `to` apart.
    fn row(&self, row: usize, to: &mut [&'a [W]], stride: usize);
}

/// Returns whether [`product`] is efficient for runs of this length, a depth of `k` and `n` columns.
pub(crate) fn suits<W>(run: usize, k: usize, n: usize) -> bool {
    run >= RUN && k.saturating_mul(n).saturating_mul(size_of::<W>()) <= HELD
}

/// Computes the product of `a` and `b`. The lines of `b` are its columns. The extents must not be zero.
pub(crate) fn product<'a, T: Operand>(
    m: usize,
    n: usize,
    a: &impl Runs<'a, T::Wide>,
    b: &impl Lines<T>,
    out: &mut [T::Wide],
    to: Out,
    stop: Option<&Stop>,
) {
    let (run, runs) = a.shape();
    let k = run * runs;
    let (mr, nr) = arch().dispatch(Shape::<T::Wide>(PhantomData));
    let out = &mut out[..m * to.row];
    with_panel(&PANEL_B, n.next_multiple_of(nr) * k, |panel: &mut [T::Wide]| {
        b.pack(Part { lines: (0, n), depth: (0, k) }, nr, panel);
        let panel = &*panel;
        parallel::chunks_until(stop, out, mr * to.row, work(m, k, n), |start, part| {
            arch().dispatch(Direct { a, b: panel, n, first: start / to.row, out: part, to });
        });
    });
}

/// Some rows of a product, computed by one task.
struct Direct<'o, 'r, R, W> {
    a: &'r R,
    b: &'r [W],
    n: usize,
    first: usize,
    out: &'o mut [W],
    to: Out,
}

impl<'a, W: Wide, R: Runs<'a, W>> WithSimd for Direct<'_, '_, R, W> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        with_rows!(S, ROWS => self.rows::<S, ROWS>(simd));
    }
}

impl<'a, W: Wide, R: Runs<'a, W>> Direct<'_, '_, R, W> {
    #[inline(always)]
    fn rows<S: Simd, const MR: usize>(self, simd: S) {
        let Direct { a, b, n, first, out, to } = self;
        let (run, runs) = a.shape();
        let nr = 2 * W::lanes::<S>();
        // Interleave the runs of the rows of a register block: the first run of every row, then the second, and so on.
        let mut starts: Vec<&[W]> = vec![&[]; MR * runs];
        // Copy the interleaved rows to this buffer. Reading the rows directly from `MR` addresses is slower, because
        // the compiler then runs out of registers and keeps sums in memory.
        let mut rows = vec![W::default(); MR * runs * run];
        for (block, out) in out.chunks_mut(MR * to.row).enumerate() {
            let count = out.len() / to.row;
            for i in 0..MR {
                // The last block may have fewer than `MR` rows. Its missing rows repeat the last row, and their results
                // are not written.
                a.row(first + block * MR + i.min(count - 1), &mut starts[i..], MR);
            }
            for (starts, rows) in starts.chunks_exact(MR).zip(rows.chunks_exact_mut(MR * run)) {
                W::interleave(starts, rows, MR);
            }
            for (j, b) in b.chunks_exact(nr * run * runs).enumerate() {
                let columns = nr.min(n - j * nr);
                let to = Out { column: to.column + j * nr, ..to };
                if columns > nr / 2 {
                    store::<W, S, 2>(&tile::product::<W, S, MR, MR, 2>(simd, &rows, 0, b), out, to, columns);
                } else {
                    store::<W, S, 1>(&tile::product::<W, S, MR, MR, 1>(simd, &rows, 0, b), out, to, columns);
                }
            }
        }
    }
}

/// Stores the first `columns` columns of the register block `acc` in `out`, at the position `to`.
#[inline(always)]
fn store<W: Wide, S: Simd, const VECTORS: usize>(
    acc: &[[W::Vector<S>; VECTORS]],
    out: &mut [W],
    to: Out,
    columns: usize,
) {
    let width = VECTORS * W::lanes::<S>();
    for (row, acc) in out.chunks_exact_mut(to.row).zip(acc) {
        let row = &mut row[to.column..][..columns];
        if columns == width {
            W::vectors_mut::<S>(row).copy_from_slice(acc);
        } else {
            let mut all = [W::default(); MAX_WIDTH];
            W::vectors_mut::<S>(&mut all[..width]).copy_from_slice(acc);
            row.copy_from_slice(&all[..columns]);
        }
    }
}
