//! Matrix multiplication of strided operands: packed panels and a register-blocked inner loop in vector code.

use pulp::{Simd, WithSimd};

use crate::engine::elementwise::map::arch;
use crate::engine::par;

/// Rows of a register block.
const MR: usize = 6;
/// Depth of a packed panel: a strip of B of this depth stays in the first-level cache.
const KC: usize = 256;
/// Rows of A packed at a time, for the second-level cache; a multiple of `MR`.
const MC: usize = 120;
/// Columns of B packed at a time, for the last-level cache.
const NC: usize = 1024;
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

impl<T: Copy> Matrix<'_, T> {
    #[inline(always)]
    fn at(&self, row: usize, column: usize) -> T {
        self.data[self.offset + row * self.row + column * self.column]
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
pub(crate) trait Wide: Copy + Send + Sync + Default + std::ops::AddAssign {
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
    // A thread gets whole rows; every thread packs all of B, so few rows are not worth sharing.
    let work = if m >= 4 * MR { m.saturating_mul(n).saturating_mul(k) } else { 0 };
    par::chunks(out, MR * n, work, |start, rows| {
        let first = start / n;
        let a = Matrix { offset: a.offset + first * a.row, ..a };
        arch().dispatch(Gemm { m: rows.len() / n, k, n, a, b, out: rows });
    });
}

struct Gemm<'a, T: Operand> {
    m: usize,
    k: usize,
    n: usize,
    a: Matrix<'a, T>,
    b: Matrix<'a, T>,
    out: &'a mut [T::Wide],
}

impl<T: Operand> WithSimd for Gemm<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Gemm { m, k, n, a, b, out } = self;
        let nr = 2 * <T::Wide as Wide>::lanes::<S>();
        let mut packed_a = vec![T::Wide::default(); MC.min(m.next_multiple_of(MR)) * KC.min(k)];
        let mut packed_b = vec![T::Wide::default(); KC.min(k) * NC.min(n.next_multiple_of(nr))];
        for jc in (0..n).step_by(NC) {
            let nc = NC.min(n - jc);
            for pc in (0..k).step_by(KC) {
                let kc = KC.min(k - pc);
                pack(&b, nr, (jc, nc), (pc, kc), true, &mut packed_b);
                for ic in (0..m).step_by(MC) {
                    let mc = MC.min(m - ic);
                    pack(&a, MR, (ic, mc), (pc, kc), false, &mut packed_a);
                    for jr in (0..nc).step_by(nr) {
                        let strip_b = &packed_b[jr * kc..][..nr * kc];
                        for ir in (0..mc).step_by(MR) {
                            let strip_a = &packed_a[ir * kc..][..MR * kc];
                            let block = micro::<T::Wide, S>(simd, strip_a, strip_b, nr);
                            let width = nr.min(nc - jr);
                            for (i, row) in block.iter().enumerate().take(MR.min(mc - ir)) {
                                let at = (ic + ir + i) * n + jc + jr;
                                let target = &mut out[at..at + width];
                                if pc == 0 {
                                    target.copy_from_slice(&row[..width]);
                                } else {
                                    target.iter_mut().zip(row).for_each(|(t, &r)| *t += r);
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Packs `count` rows of A (or columns of B) from `first` on, `depth` long, in strips of `width` interleaved lines;
/// missing lines of the last strip are zero.
#[inline(always)]
fn pack<T: Operand>(
    from: &Matrix<'_, T>,
    width: usize,
    (first, count): (usize, usize),
    (start, depth): (usize, usize),
    columns: bool,
    to: &mut [T::Wide],
) {
    let (along, across) = if columns { (from.column, from.row) } else { (from.row, from.column) };
    let from = Matrix { row: along, column: across, ..*from };
    for strip in (0..count).step_by(width) {
        let lines = width.min(count - strip);
        let out = &mut to[strip * depth..][..width * depth];
        if lines < width {
            out.fill(T::Wide::default());
        }
        if along == 1 {
            for (p, row) in out.chunks_exact_mut(width).enumerate() {
                let at = from.offset + first + strip + (start + p) * across;
                for (o, &x) in row.iter_mut().zip(&from.data[at..at + lines]) {
                    *o = x.widen();
                }
            }
        } else {
            for line in 0..lines {
                for p in 0..depth {
                    out[p * width + line] = from.at(first + strip + line, start + p).widen();
                }
            }
        }
    }
}

/// One register block: `MR` rows by `nr` columns, two vectors wide.
#[inline(always)]
fn micro<W: Wide, S: Simd>(simd: S, a: &[W], b: &[W], nr: usize) -> [[W; MAX_NR]; MR] {
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
    let mut block = [[W::default(); MAX_NR]; MR];
    for (row, acc) in block.iter_mut().zip(&acc) {
        W::vectors_mut::<S>(row)[..2].copy_from_slice(acc);
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_the_definition_for_all_layouts_and_edges() {
        for &(m, k, n) in &[(1, 1, 1), (1, 7, 5), (6, 3, 16), (7, 257, 33), (125, 20, 17), (30, 300, 1100), (3, 0, 2)] {
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
                        let want: f64 = (0..k).map(|p| a.at(i, p) * b.at(p, j)).sum();
                        assert!((out[i * n + j] - want).abs() < 1e-9, "{m} {k} {n} layout {layout} at {i},{j}");
                    }
                }
            }
        }
    }
}
