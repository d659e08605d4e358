//! The element types of matrix products, and their vector arithmetic.

use pulp::Simd;
#[cfg(feature = "math")]
use stablehlo_cpu_math::Dense;

use crate::engine::elementwise::num::Narrow;

/// A type of which [`dense`](super::dense) computes products.
#[cfg(not(feature = "math"))]
pub(crate) trait Dense {}
#[cfg(not(feature = "math"))]
impl<T> Dense for T {}

/// An element type of operands. `Wide` is the type in which elements are multiplied: the same type, or `f32` for the
/// narrow floats.
pub(crate) trait Operand: Copy + Send + Sync {
    type Wide: Wide;
    fn widen(self) -> Self::Wide;
    /// Returns the same slice with elements of type `Wide`, or `None` if `Wide` is not `Self`.
    fn as_wide(slice: &[Self]) -> Option<&[Self::Wide]>;
}

impl Operand for f32 {
    type Wide = f32;
    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }
    fn as_wide(slice: &[f32]) -> Option<&[f32]> {
        Some(slice)
    }
}

impl Operand for f64 {
    type Wide = f64;
    #[inline(always)]
    fn widen(self) -> f64 {
        self
    }
    fn as_wide(slice: &[f64]) -> Option<&[f64]> {
        Some(slice)
    }
}

impl Operand for half::bf16 {
    type Wide = f32;
    #[inline(always)]
    fn widen(self) -> f32 {
        Narrow::widen(self)
    }
    fn as_wide(_: &[Self]) -> Option<&[f32]> {
        None
    }
}

impl Operand for half::f16 {
    type Wide = f32;
    #[inline(always)]
    fn widen(self) -> f32 {
        Narrow::widen(self)
    }
    fn as_wide(_: &[Self]) -> Option<&[f32]> {
        None
    }
}

/// A type with the vector arithmetic of packed products.
pub(crate) trait Wide: bytemuck::Pod + Send + Sync + Default + std::ops::AddAssign {
    type Vector<S: Simd>: Copy;
    /// Returns the number of elements of a vector.
    fn lanes<S: Simd>() -> usize;
    fn splat<S: Simd>(simd: S, x: Self) -> Self::Vector<S>;
    fn plus<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    fn mul_add<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>, c: Self::Vector<S>) -> Self::Vector<S>;
    fn vectors<S: Simd>(slice: &[Self]) -> &[Self::Vector<S>];
    fn vectors_mut<S: Simd>(slice: &mut [Self]) -> &mut [Self::Vector<S>];
    /// Computes `out[p * width + i] = lines[i][p]`, for each `p` that fits into `out`.
    fn interleave(lines: &[&[Self]], out: &mut [Self], width: usize);
}

/// A floating-point type with vector arithmetic.
pub(crate) trait Float: Wide + Dense + std::ops::Mul<Output = Self> + std::ops::Neg<Output = Self> {
    /// Loads a slice into a vector, and pads it with zeros. The slice must not be longer than a vector.
    fn load_padded<S: Simd>(simd: S, slice: &[Self]) -> Self::Vector<S>;
    /// Returns the sum of all elements of a vector. On x86, adds the second half of the elements to the first half
    /// until one element is left. The order on other machines is not specified.
    fn sum<S: Simd>(simd: S, v: Self::Vector<S>) -> Self;
    /// Returns `self * b + c`, rounded once.
    fn fused(self, b: Self, c: Self) -> Self;
}

macro_rules! wide {
    ($t:ty, $v:ident, $lanes:ident, $splat:ident, $add:ident, $mul_add:ident, $partial:ident, $sum:ident, $as:ident, $as_mut:ident, $interleave:path) => {
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
            fn plus<S: Simd>(simd: S, a: S::$v, b: S::$v) -> S::$v {
                simd.$add(a, b)
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
            #[inline(always)]
            fn interleave(lines: &[&[Self]], out: &mut [Self], width: usize) {
                $interleave(lines, out, width);
            }
        }

        impl Float for $t {
            #[inline(always)]
            fn load_padded<S: Simd>(simd: S, slice: &[Self]) -> S::$v {
                simd.$partial(slice)
            }
            #[inline(always)]
            fn sum<S: Simd>(simd: S, v: S::$v) -> Self {
                simd.$sum(v)
            }
            #[inline(always)]
            fn fused(self, b: Self, c: Self) -> Self {
                self.mul_add(b, c)
            }
        }
    };
}

// `mul_add_e` is fused if the machine supports fused operations, and consists of two operations otherwise.
wide!(
    f32,
    f32s,
    F32_LANES,
    splat_f32s,
    add_f32s,
    mul_add_e_f32s,
    partial_load_f32s,
    reduce_sum_f32s,
    as_simd_f32s,
    as_mut_simd_f32s,
    singles
);
wide!(
    f64,
    f64s,
    F64_LANES,
    splat_f64s,
    add_f64s,
    mul_add_e_f64s,
    partial_load_f64s,
    reduce_sum_f64s,
    as_simd_f64s,
    as_mut_simd_f64s,
    one_by_one
);

/// Computes `out[p * width + i] = f(lines[i][p])`. Reads one cache line of each line at a time.
#[inline(always)]
pub(super) fn interleave<T: Copy, R>(lines: &[&[T]], out: &mut [R], width: usize, f: impl Fn(T) -> R) {
    const BLOCK: usize = 16;
    for (block, out) in out.chunks_mut(BLOCK * width).enumerate() {
        for (i, line) in lines.iter().enumerate() {
            let from = &line[block * BLOCK..][..out.len() / width];
            for (o, &x) in out[i..].iter_mut().step_by(width).zip(from) {
                *o = f(x);
            }
        }
    }
}

pub(super) fn one_by_one<T: Copy>(lines: &[&[T]], out: &mut [T], width: usize) {
    interleave(lines, out, width, |x| x);
}

fn singles(lines: &[&[f32]], out: &mut [f32], width: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = pulp::x86::V3::try_new() {
        return Simd::vectorize(simd, shuffle::Interleave { simd, lines, out, width });
    }
    one_by_one(lines, out, width);
}

/// Transposition in registers. Compilers do not generate this code on their own, and transposing one element at a time
/// costs as much as a product with few columns.
#[cfg(target_arch = "x86_64")]
mod shuffle {
    use std::arch::x86_64::__m256;

    use bytemuck::cast;
    use pulp::x86::V3;
    use pulp::{Simd, WithSimd};

    pub(super) struct Interleave<'a> {
        pub(super) simd: V3,
        pub(super) lines: &'a [&'a [f32]],
        pub(super) out: &'a mut [f32],
        pub(super) width: usize,
    }

    impl WithSimd for Interleave<'_> {
        type Output = ();

        // Arrays are destructured by hand, because closures passed to `map` are not compiled for the vector
        // instructions.
        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) {
            let Interleave { simd, lines, out, width } = self;
            let depth = out.len() / width;
            let whole = depth / 8 * 8;
            let blocks = |line| blocks(line, whole);
            let (eights, rest) = lines.as_chunks::<8>();
            for (group, [a, b, c, d, e, f, g, h]) in eights.iter().enumerate() {
                let lines = blocks(a).zip(blocks(b)).zip(blocks(c)).zip(blocks(d));
                let lines = lines.zip(blocks(e)).zip(blocks(f)).zip(blocks(g)).zip(blocks(h));
                for (out, (((((((a, b), c), d), e), f), g), h)) in out.chunks_exact_mut(8 * width).zip(lines) {
                    let columns = eight(simd, [*a, *b, *c, *d, *e, *f, *g, *h]);
                    for (out, column) in out.chunks_exact_mut(width).zip(&columns) {
                        out[group * 8..][..8].copy_from_slice(column);
                    }
                }
            }
            let mut done = eights.len() * 8;
            if let Some([a, b, c, d]) = rest.first_chunk::<4>() {
                let lines = blocks(a).zip(blocks(b)).zip(blocks(c)).zip(blocks(d));
                for (out, (((a, b), c), d)) in out.chunks_exact_mut(8 * width).zip(lines) {
                    let [[a, e], [b, f], [c, g], [d, h]] = four(simd, [*a, *b, *c, *d]);
                    for (out, column) in out.chunks_exact_mut(width).zip(&[a, b, c, d, e, f, g, h]) {
                        out[done..][..4].copy_from_slice(column);
                    }
                }
                done += 4;
            }
            for (i, line) in lines.iter().enumerate() {
                let from = if i < done { whole } else { 0 };
                for p in from..depth {
                    out[p * width + i] = line[p];
                }
            }
        }
    }

    #[inline(always)]
    fn blocks(line: &[f32], whole: usize) -> std::slice::Iter<'_, [f32; 8]> {
        line[..whole].as_chunks::<8>().0.iter()
    }

    type Pair = (__m256, __m256);

    #[inline(always)]
    fn pairs(simd: V3, a: __m256, b: __m256) -> Pair {
        (simd.avx._mm256_unpacklo_ps(a, b), simd.avx._mm256_unpackhi_ps(a, b))
    }

    #[inline(always)]
    fn fours(simd: V3, a: __m256, b: __m256) -> Pair {
        (simd.avx._mm256_shuffle_ps::<0x44>(a, b), simd.avx._mm256_shuffle_ps::<0xEE>(a, b))
    }

    #[inline(always)]
    fn halves(simd: V3, a: __m256, b: __m256) -> ([f32; 8], [f32; 8]) {
        (cast(simd.avx._mm256_permute2f128_ps::<0x20>(a, b)), cast(simd.avx._mm256_permute2f128_ps::<0x31>(a, b)))
    }

    /// Transposes eight lines of eight numbers.
    #[inline(always)]
    fn eight(simd: V3, [a, b, c, d, e, f, g, h]: [[f32; 8]; 8]) -> [[f32; 8]; 8] {
        let ((a0, a1), (b0, b1)) = (pairs(simd, cast(a), cast(b)), pairs(simd, cast(c), cast(d)));
        let ((c0, c1), (d0, d1)) = (pairs(simd, cast(e), cast(f)), pairs(simd, cast(g), cast(h)));
        let ((e0, e1), (e2, e3)) = (fours(simd, a0, b0), fours(simd, a1, b1));
        let ((f0, f1), (f2, f3)) = (fours(simd, c0, d0), fours(simd, c1, d1));
        let ((p0, p4), (p1, p5)) = (halves(simd, e0, f0), halves(simd, e1, f1));
        let ((p2, p6), (p3, p7)) = (halves(simd, e2, f2), halves(simd, e3, f3));
        [p0, p1, p2, p3, p4, p5, p6, p7]
    }

    /// Transposes four lines of eight numbers. Returns the columns in pairs: 0 and 4, 1 and 5, 2 and 6, 3 and 7.
    #[inline(always)]
    fn four(simd: V3, [a, b, c, d]: [[f32; 8]; 4]) -> [[[f32; 4]; 2]; 4] {
        let ((a0, a1), (b0, b1)) = (pairs(simd, cast(a), cast(b)), pairs(simd, cast(c), cast(d)));
        let ((e0, e1), (e2, e3)) = (fours(simd, a0, b0), fours(simd, a1, b1));
        [cast(e0), cast(e1), cast(e2), cast(e3)]
    }
}
