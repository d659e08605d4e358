//! Products of integers. The sums wrap, so sums of 32 bits have the right low bits for every narrower result, signed or
//! not.

#[cfg(target_arch = "x86_64")]
use std::any::Any;

use bytemuck::{Pod, Zeroable, cast, cast_slice, cast_slice_mut};
use pulp::{NullaryFnOnce, Simd};

use super::blocking::Out;
use super::number::{Operand, Wide, one_by_one};
use super::pack::{Lines, Matrix, Part};
use super::product::product;
use crate::engine::elementwise::map::vectorized;
use crate::engine::stop::Stop;

/// An integer of 32 bits.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(transparent)]
pub(crate) struct Word(u32);

/// Two integers of 16 bits, which are neighbors along the contracting dimension. The product of two pairs is the sum of
/// both products, a [`Word`].
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(transparent)]
pub(crate) struct Pair(u32);

macro_rules! wide {
    ($t:ident, $mul_add:expr) => {
        impl std::ops::AddAssign for $t {
            #[inline(always)]
            fn add_assign(&mut self, other: Self) {
                self.0 = self.0.wrapping_add(other.0);
            }
        }

        impl Operand for $t {
            type Wide = $t;
            #[inline(always)]
            fn widen(self) -> $t {
                self
            }
            fn as_wide(slice: &[$t]) -> Option<&[$t]> {
                Some(slice)
            }
        }

        impl Wide for $t {
            type Vector<S: Simd> = S::u32s;
            #[inline(always)]
            fn lanes<S: Simd>() -> usize {
                S::U32_LANES
            }
            #[inline(always)]
            fn splat<S: Simd>(simd: S, x: Self) -> S::u32s {
                simd.splat_u32s(x.0)
            }
            #[inline(always)]
            fn plus<S: Simd>(simd: S, a: S::u32s, b: S::u32s) -> S::u32s {
                simd.add_u32s(a, b)
            }
            #[inline(always)]
            fn mul_add<S: Simd>(simd: S, a: S::u32s, b: S::u32s, c: S::u32s) -> S::u32s {
                simd.add_u32s($mul_add(simd, a, b), c)
            }
            #[inline(always)]
            fn vectors<S: Simd>(slice: &[Self]) -> &[S::u32s] {
                S::as_simd_u32s(cast_slice(slice)).0
            }
            #[inline(always)]
            fn vectors_mut<S: Simd>(slice: &mut [Self]) -> &mut [S::u32s] {
                S::as_mut_simd_u32s(cast_slice_mut(slice)).0
            }
            #[inline(always)]
            fn interleave(lines: &[&[Self]], out: &mut [Self], width: usize) {
                one_by_one(lines, out, width);
            }
        }
    };
}

impl std::ops::Mul for Word {
    type Output = Word;
    #[inline(always)]
    fn mul(self, other: Word) -> Word {
        Word(self.0.wrapping_mul(other.0))
    }
}

wide!(Word, Simd::mul_u32s);
wide!(Pair, multiply_pairs);

/// Multiplies pairs. The comparison of types costs nothing, because the compiler knows both.
#[inline(always)]
fn multiply_pairs<S: Simd>(simd: S, a: S::u32s, b: S::u32s) -> S::u32s {
    #[cfg(target_arch = "x86_64")]
    {
        let simd: &dyn Any = &simd;
        if let Some(simd) = simd.downcast_ref::<pulp::x86::V4>() {
            return cast(simd.multiply_wrapping_add_adjacent_i16x32(cast(a), cast(b)));
        }
        if let Some(simd) = simd.downcast_ref::<pulp::x86::V3>() {
            return cast(simd.multiply_wrapping_add_adjacent_i16x16(cast(a), cast(b)));
        }
    }
    let mut products = simd.splat_u32s(0);
    let (a, b) = ([a], [b]);
    let (a, b): (&[[i16; 2]], &[[i16; 2]]) = (cast_slice(&a), cast_slice(&b));
    let out: &mut [i32] = cast_slice_mut(std::slice::from_mut(&mut products));
    for ((o, &[a, c]), &[b, d]) in out.iter_mut().zip(a).zip(b) {
        *o = (i32::from(a) * i32::from(b)).wrapping_add(i32::from(c) * i32::from(d));
    }
    products
}

/// An integer type of which products are computed.
pub(crate) trait Integer: Pod + Send + Sync {
    /// The packed elements.
    type Packed: Operand<Wide = Self::Packed> + Wide;
    /// Number of elements along the contracting dimension in a packed element.
    const TOGETHER: usize;
    /// Returns the lines of an operand whose contracting dimension has `k` indices.
    fn lines(of: Matrix<'_, Self>, k: usize) -> impl Lines<Self::Packed>;

    /// Computes an `m x k` by `k x n` product, modulo 2^32. The extents must not be zero. After a stop request, only a
    /// part of the output may be computed.
    fn product(
        (m, k, n): (usize, usize, usize),
        a: Matrix<'_, Self>,
        b: Matrix<'_, Self>,
        out: &mut [u32],
        stop: Option<&Stop>,
    ) {
        let (a, b) = (Self::lines(a, k), Self::lines(b.transposed(), k));
        let (depth, to) = (k.div_ceil(Self::TOGETHER), Out { row: n, column: 0 });
        product::<Self::Packed>((m, depth, n), &a, &b, cast_slice_mut(out), to, stop);
    }
}

macro_rules! words {
    ($($t:ty),*) => {
        $(impl Integer for $t {
            type Packed = Word;
            const TOGETHER: usize = 1;
            fn lines(of: Matrix<'_, Self>, _: usize) -> impl Lines<Word> {
                let Matrix { data, offset, row, column } = of;
                Matrix { data: cast_slice::<$t, Word>(data), offset, row, column }
            }
        })*
    };
}

words!(i32, u32);

macro_rules! pairs {
    ($($t:ty: $wide:expr),*) => {
        $(impl Integer for $t {
            type Packed = Pair;
            const TOGETHER: usize = 2;
            fn lines(of: Matrix<'_, Self>, k: usize) -> impl Lines<Pair> {
                Pairs { of, k, pair: |low: $t, high: $t| Pair(cast([$wide(low), $wide(high)])) }
            }
        })*
    };
}

pairs!(i8: i16::from, u8: i16::from, i16: i16::from, u16: u16::cast_signed);

/// The lines of an operand, as pairs along the contracting dimension, which has `k` indices. The last pair of an odd
/// number is padded with zero.
struct Pairs<'a, T, F> {
    of: Matrix<'a, T>,
    k: usize,
    pair: F,
}

impl<T: Pod + Send + Sync, F: Fn(T, T) -> Pair + Sync> Lines<Pair> for Pairs<'_, T, F> {
    fn pack(&self, part: Part, width: usize, to: &mut [Pair]) {
        vectorized(Pack { from: self, part, width, to });
    }
}

struct Pack<'p, 'a, T, F> {
    from: &'p Pairs<'a, T, F>,
    part: Part,
    width: usize,
    to: &'p mut [Pair],
}

impl<T: Pod, F: Fn(T, T) -> Pair> NullaryFnOnce for Pack<'_, '_, T, F> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Pack {
            from: Pairs { of, k, pair },
            part: Part { lines: (first, count), depth: (start, depth) },
            width,
            to,
        } = self;
        let whole = depth.min(k / 2 - start);
        for (strip, out) in to.chunks_exact_mut(width * depth).enumerate() {
            let strip = strip * width;
            let lines = width.min(count - strip);
            if lines < width {
                out.fill(Pair(0));
            }
            let origin = of.offset + (first + strip) * of.row + 2 * start * of.column;
            let at = |line: usize, p: usize| origin + line * of.row + 2 * p * of.column;
            for p in 0..whole {
                let out = &mut out[p * width..][..lines];
                if of.row == 1 {
                    let (low, high) = (&of.data[at(0, p)..][..lines], &of.data[at(0, p) + of.column..][..lines]);
                    for ((o, &low), &high) in out.iter_mut().zip(low).zip(high) {
                        *o = pair(low, high);
                    }
                } else {
                    for (line, o) in out.iter_mut().enumerate() {
                        *o = pair(of.data[at(line, p)], of.data[at(line, p) + of.column]);
                    }
                }
            }
            if whole < depth {
                for (line, o) in out[whole * width..][..lines].iter_mut().enumerate() {
                    *o = pair(of.data[at(line, whole)], T::zeroed());
                }
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the tests need all bit patterns")]
mod tests {
    use super::*;

    /// Compares products with their definition, for all layouts, and for elements with all bit patterns of the type.
    fn compare<T: Integer + Into<i64>>(value: fn(u32) -> T, mask: u32) {
        for (m, k, n) in
            [(1, 1, 1), (3, 2, 5), (5, 7, 3), (13, 1, 33), (12, 64, 32), (25, 801, 67), (64, 5, 1), (1, 9, 70)]
        {
            let random = |i: usize| value((i as u32).wrapping_mul(0x9E37_79B9) >> 3);
            let a: Vec<T> = (0..2 * m * k + 3).map(random).collect();
            let b: Vec<T> = (7..2 * k * n + 10).map(random).collect();
            for (x, y) in [((2 * k, 2), (1, k)), ((1, m), (n, 1)), ((k, 1), (2, 2 * k)), ((k, 1), (n, 1))] {
                let matrix = |data, (row, column)| Matrix { data, offset: 3, row, column };
                let (a, b) = (matrix(&a[..], x), matrix(&b[..], y));
                let mut out = vec![7; m * n];
                T::product((m, k, n), a, b, &mut out, None);
                for (at, out) in out.into_iter().enumerate() {
                    let (i, j) = (at / n, at % n);
                    let product = |p: usize| {
                        let x: i64 = a.data[3 + i * a.row + p * a.column].into();
                        let y: i64 = b.data[3 + p * b.row + j * b.column].into();
                        x.wrapping_mul(y)
                    };
                    let want = (0..k).map(product).fold(0, i64::wrapping_add) as u32;
                    assert_eq!(out & mask, want & mask, "{m} x {k} x {n}, {x:?} {y:?}: element {i}, {j}");
                }
            }
        }
    }

    #[test]
    fn products_match_their_definition() {
        compare(|x| x as i8, u32::MAX);
        compare(|x| x as u8, u32::MAX);
        compare(|x| x as i16, u32::MAX);
        // The sums of 16 bits of unsigned numbers are those of signed numbers.
        compare(|x| x as u16, 0xFFFF);
        compare(|x| x.rotate_left(9) as i32, u32::MAX);
        compare(|x| x.rotate_left(9), u32::MAX);
        // The largest sums of a pair.
        compare(|_| i8::MIN, u32::MAX);
        compare(|_| i16::MIN, u32::MAX);
        compare(|_| u8::MAX, u32::MAX);
    }
}
