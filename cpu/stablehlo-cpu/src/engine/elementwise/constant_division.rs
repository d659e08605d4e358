//! Quotients and remainders of integers of at most 32 bits and a constant. They are computed with a multiplication and
//! a shift, which have vector code, instead of a division.

use std::sync::Arc;

use bytemuck::{Pod, cast_slice, cast_slice_mut};
use pulp::NullaryFnOnce;
use stablehlo::ir::Binary;

use super::Loop;
use super::map::vectorized;
use crate::engine::dtype::DType;

/// Returns the loop of `op`, which is a division or a remainder, with the second operand `divisor`. Returns `None` if
/// the loop for any divisor must be used.
pub(crate) fn divide_by(op: Binary, dtype: DType, divisor: i128) -> Option<Loop> {
    let size = u32::try_from(divisor.unsigned_abs()).ok().filter(|&size| (2..=1 << 31).contains(&size))?;
    let divisor = Divisor::new(size, divisor < 0);
    macro_rules! of {
        ($t:ty) => {
            match op {
                Binary::Divide => with::<$t, false>(divisor),
                _ => with::<$t, true>(divisor),
            }
        };
    }
    Some(match dtype {
        DType::I8 => of!(i8),
        DType::I16 => of!(i16),
        DType::I32 => of!(i32),
        DType::U8 => of!(u8),
        DType::U16 => of!(u16),
        _ => return None,
    })
}

fn with<T: Integer, const IS_REMAINDER: bool>(divisor: Divisor) -> Loop {
    Loop::With(Arc::new(move |x, out| {
        vectorized(Divide::<T, IS_REMAINDER> { divisor, x: cast_slice(x), out: cast_slice_mut(out) });
    }))
}

/// A divisor `d` with `2^(l-1) < d <= 2^l`. With `m = ceil(2^(31+l) / d)`, `m * d` exceeds `2^(31+l)` by less than
/// `2^l`. Therefore `x * m / 2^(31+l)` exceeds `x / d` by less than `1 / d` for all `x <= 2^31`, and has the same
/// integer part.
#[derive(Clone, Copy)]
struct Divisor {
    size: u32,
    is_negative: bool,
    multiplier: u64,
    shift: u32,
}

impl Divisor {
    fn new(size: u32, is_negative: bool) -> Self {
        let shift = 31 + (u32::BITS - (size - 1).leading_zeros());
        Self { size, is_negative, multiplier: (1u64 << shift).div_ceil(u64::from(size)), shift }
    }
}

/// An integer whose size is at most `2^31`.
trait Integer: Pod + Send + Sync {
    fn size(self) -> u32;
    fn is_negative(self) -> bool;
    /// Returns the low bits of an integer.
    fn wrapped(x: u32) -> Self;
}

macro_rules! integers {
    ($($t:ty: $size:expr, $is_negative:expr;)*) => {$(
        impl Integer for $t {
            #[inline(always)]
            fn size(self) -> u32 { $size(self) }
            #[inline(always)]
            fn is_negative(self) -> bool { $is_negative(self) }
            #[inline(always)]
            #[expect(clippy::allow_attributes, reason = "a type needs some of these lints only")]
            #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "keeps the low bits")]
            fn wrapped(x: u32) -> Self { x as Self }
        }
    )*};
}

integers! {
    i8: |x: i8| u32::from(x.unsigned_abs()), |x: i8| x < 0;
    i16: |x: i16| u32::from(x.unsigned_abs()), |x: i16| x < 0;
    i32: |x: i32| x.unsigned_abs(), |x: i32| x < 0;
    u8: u32::from, |_| false;
    u16: u32::from, |_| false;
}

struct Divide<'a, T, const IS_REMAINDER: bool> {
    divisor: Divisor,
    x: &'a [T],
    out: &'a mut [T],
}

impl<T: Integer, const IS_REMAINDER: bool> NullaryFnOnce for Divide<'_, T, IS_REMAINDER> {
    type Output = ();

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "a quotient is not larger than the dividend")]
    fn call(self) {
        let Divisor { size, is_negative, multiplier, shift } = self.divisor;
        for (out, &x) in self.out.iter_mut().zip(self.x) {
            let quotient = ((u64::from(x.size()) * multiplier) >> shift) as u32;
            let (result, is_negative) = if IS_REMAINDER {
                (x.size() - quotient * size, x.is_negative())
            } else {
                (quotient, x.is_negative() != is_negative)
            };
            *out = T::wrapped(if is_negative { result.wrapping_neg() } else { result });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: Pod + PartialEq + std::fmt::Debug>(
        dtype: DType,
        divisor: i128,
        x: &[T],
        divide: impl Fn(T) -> T,
        remain: impl Fn(T) -> T,
    ) {
        let mut out = x.to_vec();
        for (op, exact) in [(Binary::Divide, &divide as &dyn Fn(T) -> T), (Binary::Remainder, &remain)] {
            divide_by(op, dtype, divisor).unwrap().run(cast_slice(x), &[], &[], cast_slice_mut(&mut out));
            for (&x, &got) in x.iter().zip(&out) {
                assert_eq!(got, exact(x), "{op:?} {x:?} {divisor}");
            }
        }
    }

    #[test]
    fn narrow_integers() {
        let all: Vec<u8> = (0..=u8::MAX).collect();
        let signed: Vec<i8> = (i8::MIN..=i8::MAX).collect();
        for d in 2..=u8::MAX {
            check(DType::U8, d.into(), &all, |x| x / d, |x| x % d);
        }
        for d in signed.iter().copied().filter(|d| !(-1..=1).contains(d)) {
            check(DType::I8, d.into(), &signed, |x| x / d, |x| x % d);
        }
        let all: Vec<u16> = (0..=u16::MAX).collect();
        let signed: Vec<i16> = (i16::MIN..=i16::MAX).collect();
        for d in [2, 3, 5, 7, 10, 26, 100, 255, 256, 641, 1000, 32767, 32768, 40000, 65535] {
            check(DType::U16, d.into(), &all, |x| x / d, |x| x % d);
            if let Ok(d) = i16::try_from(d) {
                check(DType::I16, d.into(), &signed, |x| x / d, |x| x % d);
                check(DType::I16, (-d).into(), &signed, |x| x / -d, |x| x % -d);
            }
        }
    }

    #[test]
    fn integers_of_32_bits() {
        let divisors = [2, 3, 5, 7, 10, 26, 641, 1000, 65535, 65537, 1 << 30, (1 << 30) + 1, i32::MAX - 1, i32::MAX];
        for d in divisors.into_iter().chain(divisors.map(|d| -d)).chain([i32::MIN]) {
            let mut x: Vec<i32> = (0..2000).map(|i: i32| i.wrapping_mul(1_640_531_527)).collect();
            // Multiples of the divisor, and their neighbors.
            x.extend((-40..40).flat_map(|k: i32| [-1, 0, 1].map(|by| d.wrapping_mul(k).wrapping_add(by))));
            x.extend([i32::MIN, i32::MIN + 1, i32::MAX, i32::MAX - 1]);
            check(DType::I32, d.into(), &x, |x| x.wrapping_div(d), |x| x.wrapping_rem(d));
        }
    }

    #[test]
    fn other_divisors_and_types() {
        for divisor in [-1, 0, 1, 1 << 32] {
            assert!(divide_by(Binary::Divide, DType::I32, divisor).is_none());
        }
        assert!(divide_by(Binary::Divide, DType::U32, 3).is_none());
        assert!(divide_by(Binary::Remainder, DType::I64, 3).is_none());
    }
}
