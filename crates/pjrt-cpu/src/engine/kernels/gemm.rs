//! Matrix multiplication of strided operands: packed panels and a register-blocked inner loop in vector code.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::thread::LocalKey;

use pulp::{NullaryFnOnce, Simd, WithSimd};

use crate::engine::elementwise::map::arch;
use crate::engine::par;
use crate::engine::pool::{LINE, Line};
use crate::engine::view::View;

/// Rows of a register block, for machines with 16 and with 32 vector registers.
const FEW_ROWS: usize = 6;
const MANY_ROWS: usize = 12;
/// Depth of a packed panel: a strip of B of this depth stays in the first-level cache.
const KC: usize = 256;
/// Rows of A packed at a time, for the second-level cache; a multiple of both row counts.
const MC: usize = 120;
/// Columns of B packed at a time, for the last-level cache.
const NC: usize = 1024;
/// Depth of B packed at a time, a multiple of the panels'.
const DEEP: usize = 16 * KC;
/// Widest register block any machine uses, in elements.
const MAX_NR: usize = 32;

/// A matrix in a slice: element (row, column) is at `offset + row * row_stride + column * column_stride`.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a, T> {
    pub(crate) data: &'a [T],
    pub(crate) offset: usize,
    pub(crate) row: usize,
    pub(crate) column: usize,
}

impl<T> Matrix<'_, T> {
    fn transposed(self) -> Self {
        Matrix { row: self.column, column: self.row, ..self }
    }
}

/// Numbers multiplied as another type: itself, or `f32` for the narrow floats.
pub(crate) trait Operand: Copy + Send + Sync {
    type Wide: Wide;
    fn widen(self) -> Self::Wide;
}

impl Operand for f32 {
    type Wide = f32;
    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }
}

impl Operand for f64 {
    type Wide = f64;
    #[inline(always)]
    fn widen(self) -> f64 {
        self
    }
}

impl Operand for half::bf16 {
    type Wide = f32;
    #[inline(always)]
    fn widen(self) -> f32 {
        self.to_f32()
    }
}

impl Operand for half::f16 {
    type Wide = f32;
    #[inline(always)]
    fn widen(self) -> f32 {
        self.to_f32()
    }
}

/// A type with vector arithmetic.
pub(crate) trait Wide: bytemuck::Pod + Send + Sync + Default + std::ops::AddAssign {
    type Vector<S: Simd>: Copy;
    /// Elements of a vector.
    fn lanes<S: Simd>() -> usize;
    fn splat<S: Simd>(simd: S, x: Self) -> Self::Vector<S>;
    fn mul_add<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>, c: Self::Vector<S>) -> Self::Vector<S>;
    fn vectors<S: Simd>(slice: &[Self]) -> &[Self::Vector<S>];
    fn vectors_mut<S: Simd>(slice: &mut [Self]) -> &mut [Self::Vector<S>];
}

macro_rules! wide {
    ($t:ty, $v:ident, $lanes:ident, $splat:ident, $mul_add:ident, $as:ident, $as_mut:ident) => {
        impl Wide for $t {
            type Vector<S: Simd> = S::$v;
            #[inline(always)]
            fn lanes<S: Simd>() -> usize {
                S::$lanes
            }
            #[inline(always)]
            fn splat<S: Simd>(simd: S, x: Self) -> S::$v {
                simd.$splat(x)
            }
            #[inline(always)]
            fn mul_add<S: Simd>(simd: S, a: S::$v, b: S::$v, c: S::$v) -> S::$v {
                simd.$mul_add(a, b, c)
            }
            #[inline(always)]
            fn vectors<S: Simd>(slice: &[Self]) -> &[S::$v] {
                S::$as(slice).0
            }
            #[inline(always)]
            fn vectors_mut<S: Simd>(slice: &mut [Self]) -> &mut [S::$v] {
                S::$as_mut(slice).0
            }
        }
    };
}

// `mul_add_e` is fused where the machine can, and two operations where it cannot.
wide!(f32, f32s, F32_LANES, splat_f32s, mul_add_e_f32s, as_simd_f32s, as_mut_simd_f32s);
wide!(f64, f64s, F64_LANES, splat_f64s, mul_add_e_f64s, as_simd_f64s, as_mut_simd_f64s);

/// `out = a * b` for a row-major `m x n` output.
pub(crate) fn gemm<T: Operand>(m: usize, k: usize, n: usize, a: Matrix<'_, T>, b: Matrix<'_, T>, out: &mut [T::Wide]) {
    if k == 0 {
        return out.fill(T::Wide::default());
    }
    if m == 0 || n == 0 {
        return;
    }
    let (mr, nr) = arch().dispatch(Shape::<T::Wide>(PhantomData));
    let threads = par::threads(m.saturating_mul(n).saturating_mul(k));
    // Whole strips of rows per thread; each packs its rows of A, and all share the packed B.
    // A few parts per thread, so that an unlucky thread does not hold up the rest.
    let rows = m.div_ceil(threads * 4).next_multiple_of(mr);
    let (depth, width) = (DEEP.min(k), NC.min(n.next_multiple_of(nr)));
    let spread = if threads > 1 { usize::MAX } else { 0 };
    with_panel(&PANEL_B, depth * width, |packed: &mut [T::Wide]| {
        for jc in (0..n).step_by(NC) {
            let nc = NC.min(n - jc);
            let strips = nc.div_ceil(nr);
            for kb in (0..k).step_by(DEEP) {
                let kd = DEEP.min(k - kb);
                // All of B that the rows go through before threads wait for one another again.
                let mut rest = &mut packed[..strips * nr * kd];
                let mut packs = Vec::new();
                for pc in (kb..kb + kd).step_by(KC) {
                    let kc = KC.min(kb + kd - pc);
                    let (block, tail) = rest.split_at_mut(strips * nr * kc);
                    rest = tail;
                    let piece = strips.div_ceil(threads * 2);
                    let parts = block.chunks_mut(piece * nr * kc).enumerate();
                    packs.extend(parts.map(|(i, part)| (pc, kc, i * piece * nr, part)));
                }
                par::each(packs, spread, |(pc, kc, first, part)| {
                    let lines = (jc + first, (part.len() / kc).min(nc - first));
                    arch().dispatch(Pack { from: b.transposed(), width: nr, lines, depth: (pc, kc), to: part });
                });
                let packed = &packed[..strips * nr * kd];
                let tasks = out.chunks_mut(rows * n).enumerate().collect();
                par::each(tasks, spread, |(i, out)| {
                    for pc in (kb..kb + kd).step_by(KC) {
                        let kc = KC.min(kb + kd - pc);
                        let block = Block { k: (pc, kc), n: (jc, nc), row: n, mr, nr };
                        let packed = &packed[(pc - kb) * strips * nr..][..strips * nr * kc];
                        block.rows(&a, i * rows, packed, &mut *out);
                    }
                });
            }
        }
    });
}

/// Rows of a matrix that are made of equally long runs of a buffer, as the windows of a convolution are.
pub(crate) struct Windows<'a, T> {
    pub(crate) data: &'a [T],
    /// Where each row starts.
    pub(crate) rows: &'a View,
    /// Where each run of a row starts, after the row's own start.
    pub(crate) taps: &'a [usize],
    /// Elements of a run.
    pub(crate) run: usize,
}

/// Rows of the output made at a time by one thread.
const TASK: usize = 240;

/// `out = a * b` for a row-major output of `n` columns, with the rows of A read where they are.
pub(crate) fn windows_gemm<T: Operand<Wide = T> + Wide>(a: &Windows<'_, T>, n: usize, b: Matrix<'_, T>, out: &mut [T]) {
    let depth = a.taps.len() * a.run;
    if depth == 0 {
        return out.fill(T::default());
    }
    if out.is_empty() {
        return;
    }
    let (_, nr) = arch().dispatch(Shape::<T>(PhantomData));
    let work = (out.len()).saturating_mul(depth);
    with_panel(&PANEL_B, depth * n.next_multiple_of(nr), |packed: &mut [T]| {
        arch().dispatch(Pack { from: b.transposed(), width: nr, lines: (0, n), depth: (0, depth), to: packed });
        let packed = &*packed;
        let tasks: Vec<_> = out.chunks_mut(TASK * n).enumerate().collect();
        par::each(tasks, work, |(task, out)| {
            arch().dispatch(WindowTask { a, first: task * TASK, n, nr, packed, out });
        });
    });
}

/// Some rows of a product of windows.
struct WindowTask<'a, T> {
    a: &'a Windows<'a, T>,
    first: usize,
    n: usize,
    nr: usize,
    packed: &'a [T],
    out: &'a mut [T],
}

impl<T: Wide> WithSimd for WindowTask<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if S::REGISTER_COUNT >= 32 {
            self.tiles::<S, MANY_ROWS>(simd);
        } else {
            self.tiles::<S, FEW_ROWS>(simd);
        }
    }
}

impl<T: Wide> WindowTask<'_, T> {
    #[inline(always)]
    fn tiles<S: Simd, const MR: usize>(self, simd: S) {
        let WindowTask { a, first, n, nr, packed, out } = self;
        let count = out.len() / n;
        let mut starts = [0; TASK];
        a.rows.positions(first, &mut starts[..count]);
        // Rows missing from the last block read those of another; what they make is not kept.
        let last = starts[count - 1];
        starts[count..].fill(last);
        let strip = a.taps.len() * a.run * nr;
        for (j, b) in packed.chunks_exact(strip).enumerate() {
            let width = nr.min(n - j * nr);
            for i in (0..count).step_by(MR) {
                let mut rows = [0; MR];
                rows.copy_from_slice(&starts[i..i + MR]);
                let tile = window_block::<T, S, MR>(simd, a, &rows, b, nr);
                for (r, from) in tile.iter().enumerate().take(MR.min(count - i)) {
                    out[(i + r) * n + j * nr..][..width].copy_from_slice(&from[..width]);
                }
            }
        }
    }
}

/// One register block of a product of windows.
#[inline(always)]
fn window_block<W: Wide, S: Simd, const MR: usize>(
    simd: S,
    a: &Windows<'_, W>,
    rows: &[usize; MR],
    b: &[W],
    nr: usize,
) -> [[W; MAX_NR]; MR] {
    let zero = W::splat(simd, W::default());
    let mut acc = [[zero; 2]; MR];
    let run = a.run;
    for (&tap, b) in a.taps.iter().zip(b.chunks_exact(run * nr)) {
        let lines: [&[W]; MR] = std::array::from_fn(|i| &a.data[rows[i] + tap..][..run]);
        // Counted by the lines' length, which spares a check for each of them.
        for p in 0..run {
            let b = W::vectors::<S>(&b[p * nr..][..nr]);
            let (b0, b1) = (b[0], b[1]);
            for i in 0..MR {
                let x = W::splat(simd, lines[i][p]);
                acc[i][0] = W::mul_add(simd, x, b0, acc[i][0]);
                acc[i][1] = W::mul_add(simd, x, b1, acc[i][1]);
            }
        }
    }
    stored::<W, S, MR>(&acc)
}

/// The part of a product that one packed block of B contributes.
#[derive(Clone, Copy)]
struct Block {
    /// First index and count along the summed dimension, and along the columns.
    k: (usize, usize),
    n: (usize, usize),
    /// Columns of the output.
    row: usize,
    mr: usize,
    nr: usize,
}

impl Block {
    /// Adds to (or sets, for the first block) the rows of `out`, which are those from `first` on.
    fn rows<T: Operand>(self, a: &Matrix<'_, T>, first: usize, packed_b: &[T::Wide], out: &mut [T::Wide]) {
        let m = out.len() / self.row;
        let (pc, kc) = self.k;
        with_panel(&PANEL_A, MC.min(m.next_multiple_of(self.mr)) * kc, |packed_a: &mut [T::Wide]| {
            for ic in (0..m).step_by(MC) {
                let mc = MC.min(m - ic);
                let panel = &mut packed_a[..mc.next_multiple_of(self.mr) * kc];
                arch().dispatch(Pack { from: *a, width: self.mr, lines: (first + ic, mc), depth: (pc, kc), to: panel });
                arch().dispatch(Panel { block: self, ic, mc, packed_a: panel, packed_b, out: &mut *out });
            }
        });
    }
}

thread_local! {
    /// Packed panels, kept between products: fresh pages would cost more than the packing.
    static PANEL_A: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
    static PANEL_B: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
}

/// Calls `f` with `len` elements of a thread's panel. A product run meanwhile by the same thread gets another.
fn with_panel<W: Wide>(panel: &'static LocalKey<RefCell<Vec<Line>>>, len: usize, f: impl FnOnce(&mut [W])) {
    let mut lines = panel.take();
    let needed = (len * size_of::<W>()).div_ceil(LINE);
    if lines.len() < needed {
        lines.resize(needed, bytemuck::Zeroable::zeroed());
    }
    f(&mut bytemuck::cast_slice_mut(&mut lines)[..len]);
    panel.set(lines);
}

/// Rows and columns of a register block.
struct Shape<W>(PhantomData<W>);

impl<W: Wide> WithSimd for Shape<W> {
    type Output = (usize, usize);

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> (usize, usize) {
        (if S::REGISTER_COUNT >= 32 { MANY_ROWS } else { FEW_ROWS }, 2 * W::lanes::<S>())
    }
}

/// All register blocks of one packed panel of A with the packed block of B.
struct Panel<'a, W> {
    block: Block,
    ic: usize,
    mc: usize,
    packed_a: &'a [W],
    packed_b: &'a [W],
    out: &'a mut [W],
}

impl<W: Wide> WithSimd for Panel<'_, W> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if S::REGISTER_COUNT >= 32 {
            self.tiles::<S, MANY_ROWS>(simd);
        } else {
            self.tiles::<S, FEW_ROWS>(simd);
        }
    }
}

impl<W: Wide> Panel<'_, W> {
    #[inline(always)]
    fn tiles<S: Simd, const MR: usize>(self, simd: S) {
        let Panel { block, ic, mc, packed_a, packed_b, out } = self;
        let Block { k: (pc, kc), n: (jc, nc), row, nr, .. } = block;
        for jr in (0..nc).step_by(nr) {
            let strip_b = &packed_b[jr * kc..][..nr * kc];
            let width = nr.min(nc - jr);
            for ir in (0..mc).step_by(MR) {
                let strip_a = &packed_a[ir * kc..][..MR * kc];
                let tile = micro::<W, S, MR>(simd, strip_a, strip_b, nr);
                for (i, from) in tile.iter().enumerate().take(MR.min(mc - ir)) {
                    let at = (ic + ir + i) * row + jc + jr;
                    let target = &mut out[at..at + width];
                    if pc == 0 {
                        target.copy_from_slice(&from[..width]);
                    } else {
                        target.iter_mut().zip(from).for_each(|(t, &r)| *t += r);
                    }
                }
            }
        }
    }
}

/// Packs rows `lines` (first, count) of a matrix over columns `depth`, in strips of `width` interleaved rows;
/// missing rows of the last strip are zero.
struct Pack<'a, T: Operand> {
    from: Matrix<'a, T>,
    width: usize,
    lines: (usize, usize),
    depth: (usize, usize),
    to: &'a mut [T::Wide],
}

impl<T: Operand> NullaryFnOnce for Pack<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Pack { from, width, lines: (first, count), depth: (start, depth), to } = self;
        for (strip, out) in to.chunks_exact_mut(width * depth).enumerate() {
            let strip = strip * width;
            let lines = width.min(count.saturating_sub(strip));
            if lines < width {
                out.fill(T::Wide::default());
            }
            let at = from.offset + (first + strip) * from.row + start * from.column;
            if from.row == 1 {
                for (p, row) in out.chunks_exact_mut(width).enumerate() {
                    let at = at + p * from.column;
                    for (o, &x) in row.iter_mut().zip(&from.data[at..at + lines]) {
                        *o = x.widen();
                    }
                }
            } else if from.column == 1 {
                for line in 0..lines {
                    let at = at + line * from.row;
                    let to = out[line..].iter_mut().step_by(width);
                    to.zip(&from.data[at..at + depth]).for_each(|(o, &x)| *o = x.widen());
                }
            } else {
                for line in 0..lines {
                    for p in 0..depth {
                        out[p * width + line] = from.data[at + line * from.row + p * from.column].widen();
                    }
                }
            }
        }
    }
}

/// One register block: `MR` rows by `nr` columns, two vectors wide.
#[inline(always)]
fn micro<W: Wide, S: Simd, const MR: usize>(simd: S, a: &[W], b: &[W], nr: usize) -> [[W; MAX_NR]; MR] {
    let zero = W::splat(simd, W::default());
    let mut acc = [[zero; 2]; MR];
    for (a, b) in a.chunks_exact(MR).zip(b.chunks_exact(nr)) {
        let b = W::vectors::<S>(b);
        let (b0, b1) = (b[0], b[1]);
        for i in 0..MR {
            let x = W::splat(simd, a[i]);
            acc[i][0] = W::mul_add(simd, x, b0, acc[i][0]);
            acc[i][1] = W::mul_add(simd, x, b1, acc[i][1]);
        }
    }
    stored::<W, S, MR>(&acc)
}

#[inline(always)]
fn stored<W: Wide, S: Simd, const MR: usize>(acc: &[[W::Vector<S>; 2]; MR]) -> [[W; MAX_NR]; MR] {
    let mut block = [[W::default(); MAX_NR]; MR];
    for (row, acc) in block.iter_mut().zip(acc) {
        W::vectors_mut::<S>(row)[..2].copy_from_slice(acc);
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_the_definition_for_all_layouts_and_edges() {
        for &(m, k, n) in
            &[(1, 1, 1), (1, 7, 5), (6, 3, 16), (7, 257, 33), (125, 20, 17), (30, 300, 1100), (13, 4200, 3), (3, 0, 2)]
        {
            let value = |i: usize| ((i * 2654435761) % 1000) as f64 / 250.0 - 2.0;
            let a: Vec<f64> = (0..m * k).map(value).collect();
            let b: Vec<f64> = (0..k * n).map(|i| value(i + 77)).collect();
            for layout in 0..4 {
                let a = if layout & 1 == 0 {
                    Matrix { data: &a[..], offset: 0, row: k, column: 1 }
                } else {
                    Matrix { data: &a[..], offset: 0, row: 1, column: m }
                };
                let b = if layout & 2 == 0 {
                    Matrix { data: &b[..], offset: 0, row: n, column: 1 }
                } else {
                    Matrix { data: &b[..], offset: 0, row: 1, column: k }
                };
                let mut out = vec![f64::NAN; m * n];
                gemm(m, k, n, a, b, &mut out);
                for i in 0..m {
                    for j in 0..n {
                        let want: f64 =
                            (0..k).map(|p| a.data[i * a.row + p * a.column] * b.data[p * b.row + j * b.column]).sum();
                        assert!((out[i * n + j] - want).abs() < 1e-9, "{m} {k} {n} layout {layout} at {i},{j}");
                    }
                }
            }
        }
    }

    #[test]
    fn windows_in_place_match_the_definition() {
        // Rows of three taps of five elements, in a buffer of lines of seven.
        let data: Vec<f32> = (0..4000u16).map(|i| f32::from(i % 97) - 48.0).collect();
        let taps = [0usize, 14, 28];
        for rows in [1usize, 11, 12, 240, 250, 500] {
            let view = View::new(&[rows], &[7], 3);
            for n in [1usize, 31, 32, 40, 70] {
                let b: Vec<f32> = (0..15 * n).map(|i| f32::from(u8::try_from(i % 13).unwrap()) - 6.0).collect();
                let mut out = vec![f32::NAN; rows * n];
                let windows = Windows { data: &data, rows: &view, taps: &taps, run: 5 };
                windows_gemm(&windows, n, Matrix { data: &b, offset: 0, row: n, column: 1 }, &mut out);
                for i in 0..rows {
                    for j in 0..n {
                        let at = |p: usize| data[3 + i * 7 + taps[p / 5] + p % 5];
                        let want: f32 = (0..15).map(|p| at(p) * b[p * n + j]).sum();
                        assert!((out[i * n + j] - want).abs() < 0.01, "{rows} {n} at {i},{j}");
                    }
                }
            }
        }
    }
}
