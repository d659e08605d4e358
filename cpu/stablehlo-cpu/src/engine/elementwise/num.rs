//! Arithmetic of each element type, as the StableHLO specification defines it.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "StableHLO's convert is Rust's `as`: wrapping between integers, saturating from floats, NaN to 0"
)]

use bytemuck::Pod;
use half::{bf16, f16};

use super::{fused, math};
use crate::engine::dtype::Pred;

/// Arithmetic of every element type. Integers wrap. Truth values add with `or` and multiply with `and`.
pub(crate) trait Num: Pod + PartialOrd + Send + Sync {
    fn add(self, o: Self) -> Self;
    fn sub(self, o: Self) -> Self;
    fn mul(self, o: Self) -> Self;
    fn div(self, o: Self) -> Self;
    fn rem(self, o: Self) -> Self;
    fn max(self, o: Self) -> Self;
    fn min(self, o: Self) -> Self;
    fn pow(self, o: Self) -> Self;
    /// Returns a key whose unsigned order is the type's total order (`-NaN < -inf < .. < -0 < +0 < .. < inf < NaN`).
    fn order(self) -> u64;
}

/// Bitwise operations on integers and truth values.
pub(crate) trait Bits: Num {
    fn and(self, o: Self) -> Self;
    fn or(self, o: Self) -> Self;
    fn xor(self, o: Self) -> Self;
    fn not(self) -> Self;
}

/// Operations on integers only.
pub(crate) trait Int: Bits {
    fn shl(self, o: Self) -> Self;
    fn shr_arithmetic(self, o: Self) -> Self;
    fn shr_logical(self, o: Self) -> Self;
    fn popcnt(self) -> Self;
    fn clz(self) -> Self;
    fn neg(self) -> Self;
    fn abs(self) -> Self;
    fn sign(self) -> Self;
}

/// Operations on floats only.
pub(crate) trait Real: Num {
    fn abs(self) -> Self;
    fn neg(self) -> Self;
    fn sign(self) -> Self;
    fn atan2(self, o: Self) -> Self;
    fn cbrt(self) -> Self;
    fn ceil(self) -> Self;
    fn floor(self) -> Self;
    fn round_afz(self) -> Self;
    fn round_even(self) -> Self;
    fn cos(self) -> Self;
    fn sin(self) -> Self;
    fn tan(self) -> Self;
    fn tanh(self) -> Self;
    fn exp(self) -> Self;
    fn exp2(self) -> Self;
    fn exp_m1(self) -> Self;
    fn ln(self) -> Self;
    fn log2(self) -> Self;
    fn ln_1p(self) -> Self;
    fn logistic(self) -> Self;
    fn rsqrt(self) -> Self;
    fn sqrt(self) -> Self;
    fn is_finite(self) -> bool;
    /// Returns `self * b + c`, rounded once.
    fn fma(self, b: Self, c: Self) -> Self;
}

macro_rules! int {
    ($($t:ty, $u:ty, $signed:literal;)*) => {$(
        impl Num for $t {
            #[inline(always)]
            fn add(self, o: Self) -> Self { self.wrapping_add(o) }
            #[inline(always)]
            fn sub(self, o: Self) -> Self { self.wrapping_sub(o) }
            #[inline(always)]
            fn mul(self, o: Self) -> Self { self.wrapping_mul(o) }
            #[inline(always)]
            fn div(self, o: Self) -> Self { if o == 0 { !0 } else { self.wrapping_div(o) } }
            #[inline(always)]
            fn rem(self, o: Self) -> Self { if o == 0 { self } else { self.wrapping_rem(o) } }
            #[inline(always)]
            fn max(self, o: Self) -> Self { Ord::max(self, o) }
            #[inline(always)]
            fn min(self, o: Self) -> Self { Ord::min(self, o) }
            #[inline]
            fn pow(self, o: Self) -> Self {
                #[allow(unused_comparisons, reason = "never true for the unsigned types")]
                if $signed && o < 0 {
                    // Return 1 / self^-o, rounded toward zero.
                    return match self {
                        1 => 1,
                        _ if self == !0 => if o & 1 == 0 { 1 } else { !0 },
                        _ => 0,
                    };
                }
                let (mut base, mut exponent, mut result) = (self, o, 1);
                while exponent != 0 {
                    if exponent & 1 != 0 { result = <$t>::wrapping_mul(result, base); }
                    base = base.wrapping_mul(base);
                    exponent >>= 1;
                }
                result
            }
            #[inline(always)]
            fn order(self) -> u64 { if $signed { (self as i64 as u64) ^ (1 << 63) } else { self as u64 } }
        }
        impl Bits for $t {
            #[inline(always)]
            fn and(self, o: Self) -> Self { self & o }
            #[inline(always)]
            fn or(self, o: Self) -> Self { self | o }
            #[inline(always)]
            fn xor(self, o: Self) -> Self { self ^ o }
            #[inline(always)]
            fn not(self) -> Self { !self }
        }
        impl Int for $t {
            #[inline(always)]
            fn shl(self, o: Self) -> Self { if (o as $u) < <$u>::BITS as $u { self.wrapping_shl(o as u32) } else { 0 } }
            #[inline(always)]
            fn shr_arithmetic(self, o: Self) -> Self {
                // Fill with the sign bit, even for unsigned types. The operation, not the type, determines the fill.
                let filled = if (self as $u) >> (<$u>::BITS - 1) != 0 { !0 } else { 0 };
                let shift = o as $u;
                if shift >= <$u>::BITS as $u { return filled; }
                let low = ((self as $u) >> shift) as $t;
                if shift == 0 { low } else { low | filled.wrapping_shl(<$u>::BITS - shift as u32) }
            }
            #[inline(always)]
            fn shr_logical(self, o: Self) -> Self {
                if (o as $u) < <$u>::BITS as $u { ((self as $u) >> (o as $u)) as $t } else { 0 }
            }
            #[inline(always)]
            fn popcnt(self) -> Self { self.count_ones() as $t }
            #[inline(always)]
            fn clz(self) -> Self { self.leading_zeros() as $t }
            #[inline(always)]
            fn neg(self) -> Self { self.wrapping_neg() }
            #[inline(always)]
            fn abs(self) -> Self {
                #[allow(unused_comparisons, reason = "never true for the unsigned types")]
                if $signed && self < 0 { self.wrapping_neg() } else { self }
            }
            #[inline(always)]
            fn sign(self) -> Self {
                #[allow(unused_comparisons, reason = "never true for the unsigned types")]
                if self == 0 { 0 } else if $signed && self < 0 { !0 } else { 1 }
            }
        }
    )*};
}

int! {
    i8, u8, true;
    i16, u16, true;
    i32, u32, true;
    i64, u64, true;
    u8, u8, false;
    u16, u16, false;
    u32, u32, false;
    u64, u64, false;
}

impl Num for Pred {
    #[inline(always)]
    fn add(self, o: Self) -> Self {
        Pred(self.0 | o.0)
    }
    #[inline(always)]
    fn sub(self, o: Self) -> Self {
        Pred(self.0 ^ o.0)
    }
    #[inline(always)]
    fn mul(self, o: Self) -> Self {
        Pred(self.0 & o.0)
    }
    #[inline(always)]
    fn div(self, o: Self) -> Self {
        Pred(self.0 & o.0)
    }
    #[inline(always)]
    fn rem(self, _: Self) -> Self {
        Pred(0)
    }
    #[inline(always)]
    fn max(self, o: Self) -> Self {
        Pred(self.0 | o.0)
    }
    #[inline(always)]
    fn min(self, o: Self) -> Self {
        Pred(self.0 & o.0)
    }
    #[inline(always)]
    fn pow(self, o: Self) -> Self {
        Pred(self.0 | (o.0 ^ 1))
    }
    #[inline(always)]
    fn order(self) -> u64 {
        u64::from(self.0)
    }
}

impl Bits for Pred {
    #[inline(always)]
    fn and(self, o: Self) -> Self {
        Pred(self.0 & o.0)
    }
    #[inline(always)]
    fn or(self, o: Self) -> Self {
        Pred(self.0 | o.0)
    }
    #[inline(always)]
    fn xor(self, o: Self) -> Self {
        Pred(self.0 ^ o.0)
    }
    #[inline(always)]
    fn not(self) -> Self {
        Pred(self.0 ^ 1)
    }
}

macro_rules! float {
    ($($t:ident, $bits:ty, $signed:ty, { $($fast:ident = $path:path;)* };)*) => {$(
        impl Num for $t {
            #[inline(always)]
            fn add(self, o: Self) -> Self { self + o }
            #[inline(always)]
            fn sub(self, o: Self) -> Self { self - o }
            #[inline(always)]
            fn mul(self, o: Self) -> Self { self * o }
            #[inline(always)]
            fn div(self, o: Self) -> Self { self / o }
            #[inline(always)]
            fn rem(self, o: Self) -> Self { self % o }
            #[inline(always)]
            fn max(self, o: Self) -> Self {
                // NaN takes precedence, and +0 is larger than -0. Equal numbers differ at most in the sign bit, so the
                // bitwise `and` of +0 and -0 is +0.
                let equal = <$t>::from_bits(self.to_bits() & o.to_bits());
                let larger = if self > o { self } else { o };
                let number = if self == o { equal } else { larger };
                if self.is_nan() { self } else { number }
            }
            #[inline(always)]
            fn min(self, o: Self) -> Self {
                let equal = <$t>::from_bits(self.to_bits() | o.to_bits());
                let smaller = if self < o { self } else { o };
                let number = if self == o { equal } else { smaller };
                if self.is_nan() { self } else { number }
            }
            #[inline(always)]
            fn pow(self, o: Self) -> Self { self.powf(o) }
            #[inline(always)]
            fn order(self) -> u64 {
                let bits = self.to_bits();
                let mask = ((bits as $signed) >> (<$bits>::BITS - 1)) as $bits | (1 << (<$bits>::BITS - 1));
                u64::from(bits ^ mask)
            }
        }
        impl Real for $t {
            #[inline(always)]
            fn abs(self) -> Self { <$t>::abs(self) }
            #[inline(always)]
            fn neg(self) -> Self { -self }
            #[inline(always)]
            fn sign(self) -> Self { if self.is_nan() || self == 0.0 { self } else { (1.0 as $t).copysign(self) } }
            #[inline(always)]
            fn atan2(self, o: Self) -> Self { <$t>::atan2(self, o) }
            #[inline(always)]
            fn cbrt(self) -> Self { <$t>::cbrt(self) }
            #[inline(always)]
            fn ceil(self) -> Self { <$t>::ceil(self) }
            #[inline(always)]
            fn floor(self) -> Self { <$t>::floor(self) }
            #[inline(always)]
            fn round_afz(self) -> Self { <$t>::round(self) }
            #[inline(always)]
            fn round_even(self) -> Self { <$t>::round_ties_even(self) }
            #[inline(always)]
            fn tan(self) -> Self { <$t>::tan(self) }
            $(
                #[inline(always)]
                fn $fast(self) -> Self { $path(self) }
            )*
            #[inline(always)]
            fn rsqrt(self) -> Self { 1.0 / <$t>::sqrt(self) }
            #[inline(always)]
            fn sqrt(self) -> Self { <$t>::sqrt(self) }
            #[inline(always)]
            fn is_finite(self) -> bool { <$t>::is_finite(self) }
            #[inline(always)]
            fn fma(self, b: Self, c: Self) -> Self { fused::$t(self, b, c) }
        }
    )*};
}

fn logistic64(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

float! {
    f32, u32, i32, {
        tanh = math::tanh; exp = math::exp; exp2 = math::exp2; exp_m1 = math::exp_m1; ln = math::ln;
        log2 = math::log2; ln_1p = math::ln_1p; logistic = math::logistic; sin = math::sin; cos = math::cos;
    };
    f64, u64, i64, {
        tanh = f64::tanh; exp = f64::exp; exp2 = f64::exp2; exp_m1 = f64::exp_m1; ln = f64::ln; log2 = f64::log2;
        ln_1p = f64::ln_1p; logistic = logistic64; sin = f64::sin; cos = f64::cos;
    };
}

/// Kernels compute with numbers narrower than `f32` directly. Elementwise functions convert them first.
macro_rules! narrow {
    ($($t:ident;)*) => {$(
        impl Num for $t {
            narrow!(@two $t: add sub mul div rem max min pow);
            #[inline(always)]
            fn order(self) -> u64 {
                let bits = self.to_bits();
                let mask = ((bits as i16) >> 15) as u16 | 0x8000;
                u64::from(bits ^ mask)
            }
        }
    )*};
    (@two $t:ident: $($f:ident)*) => {$(
        #[inline(always)]
        fn $f(self, o: Self) -> Self { narrowed::<$t>(<f32 as Num>::$f(self.widen(), o.widen())) }
    )*};
}

narrow! {
    bf16;
    f16;
}

/// Rounds an `f32` to the narrower type `T`, with ties to even.
#[inline(always)]
pub(crate) fn narrowed<T: Narrow>(x: f32) -> T {
    T::narrow(x)
}

/// Rounds an `f32` to the nearest number of the narrower type `T`.
#[inline(always)]
pub(crate) fn rounded<T: Narrow>(x: f32) -> f32 {
    T::narrow(x).widen()
}

/// Types narrower than `f32` whose arithmetic is done in `f32`, with rounding of each result. The functions have no
/// branches, so that loops over them are vectorized.
pub(crate) trait Narrow: Sized {
    /// Rounds to nearest, with ties to even.
    fn narrow(x: f32) -> Self;
    fn widen(self) -> f32;
}

impl Narrow for bf16 {
    #[inline(always)]
    fn narrow(x: f32) -> Self {
        let bits = x.to_bits();
        let rounded = bits.wrapping_add(0x7FFF + ((bits >> 16) & 1)) >> 16;
        let quiet = (bits >> 16) | 0x40;
        bf16::from_bits((if x.is_nan() { quiet } else { rounded }) as u16)
    }

    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }
}

/// Number of bits of an `f32`'s mantissa that an `f16` lacks.
const DROPPED: u32 = 13;
/// Difference between the biases of the exponents of `f32` and `f16`, at the position of an `f32`'s exponent.
const BIAS: u32 = 112 << 23;
/// The smallest positive `f16`, 2^-24.
const SMALLEST: f32 = 1.0 / 16_777_216.0;

impl Narrow for f16 {
    #[inline(always)]
    fn narrow(x: f32) -> Self {
        let magnitude = x.to_bits() & 0x7FFF_FFFF;
        let sign = (x.to_bits() ^ magnitude) >> 16;
        let ties_to_even = 0xFFF + ((magnitude >> DROPPED) & 1);
        // A carry out of the largest number makes infinity.
        let normal = magnitude.wrapping_sub(BIAS).wrapping_add(ties_to_even) >> DROPPED;
        // The sum of 0.5 and a number below 2^-14 is rounded to a multiple of 2^-24.
        let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
        let special = if x.is_nan() { 0x7E00 | ((magnitude >> DROPPED) & 0x3FF) } else { 0x7C00 };
        let finite = if magnitude < (-14i32 + 127).cast_unsigned() << 23 { subnormal } else { normal };
        let rounded = if magnitude < (16 + 127) << 23 { finite } else { special };
        f16::from_bits((sign | rounded) as u16)
    }

    #[inline(always)]
    fn widen(self) -> f32 {
        let bits = u32::from(self.to_bits());
        let (sign, magnitude) = ((bits & 0x8000) << 16, bits & 0x7FFF);
        let normal = (magnitude << DROPPED) + BIAS;
        let subnormal = (magnitude.cast_signed() as f32 * SMALLEST).to_bits();
        let special = (magnitude << DROPPED) | 0x7F80_0000;
        let finite = if magnitude < 0x400 { subnormal } else { normal };
        f32::from_bits(sign | if magnitude < 0x7C00 { finite } else { special })
    }
}

/// Conversion to an `f32` that is rounded again to a narrower type.
pub(crate) trait ToOdd: Copy {
    /// Returns the number if it is an `f32`, and otherwise that of its two neighbors whose last bit is 1. Rounding the
    /// result to nearest, to a type with at least two bits less, is then the same as rounding the number itself.
    fn to_odd(self) -> f32;
}

macro_rules! exact_to_odd {
    ($($t:ty)*) => {$(
        impl ToOdd for $t {
            #[inline(always)]
            fn to_odd(self) -> f32 { self as f32 }
        }
    )*};
}

exact_to_odd!(i8 i16 u8 u16 f32);

impl ToOdd for f64 {
    #[inline(always)]
    fn to_odd(self) -> f32 {
        // Avoid branches, so that loops over this function are vectorized.
        let nearest = self as f32;
        let is_larger = f64::from(nearest).abs() > self.abs();
        let odd = f32::from_bits(nearest.to_bits().wrapping_sub(u32::from(is_larger)) | 1);
        if f64::from(nearest) == self || self.is_nan() { nearest } else { odd }
    }
}

macro_rules! to_odd_through_f64 {
    ($($t:ty)*) => {$(
        impl ToOdd for $t {
            #[inline(always)]
            fn to_odd(self) -> f32 { f64::from(self).to_odd() }
        }
    )*};
}

to_odd_through_f64!(i32 u32);

impl ToOdd for u64 {
    #[inline(always)]
    fn to_odd(self) -> f32 {
        // Keep the leading 24 bits, which an `f32` holds. The last of them is 1 if a dropped bit is.
        let dropped = 40u32.saturating_sub(self.leading_zeros());
        let kept = self >> dropped;
        let sticky = u64::from(kept << dropped != self);
        ((kept | sticky) << dropped) as f32
    }
}

impl ToOdd for i64 {
    #[inline(always)]
    fn to_odd(self) -> f32 {
        let magnitude = self.unsigned_abs().to_odd();
        if self < 0 { -magnitude } else { magnitude }
    }
}

/// Conversion to `R` with the semantics of `convert`.
pub(crate) trait Cast<R>: Copy {
    fn cast(self) -> R;
}

macro_rules! casts {
    // Implements the conversion of every numeric type to every numeric type.
    ($($t:ty)*) => { $( casts!(@from $t); )* };
    (@from $t:ty) => {
        casts!(@as $t: i8 i16 i32 i64 u8 u16 u32 u64 f32 f64);
        impl Cast<Pred> for $t {
            #[inline(always)]
            fn cast(self) -> Pred { Pred::from(self != (0 as $t)) }
        }
        impl Cast<$t> for Pred {
            #[inline(always)]
            fn cast(self) -> $t { self.0 as $t }
        }
        impl Cast<f16> for $t {
            #[inline(always)]
            fn cast(self) -> f16 { narrowed(self.to_odd()) }
        }
    };
    (@as $t:ty: $($r:ty)*) => {$(
        impl Cast<$r> for $t {
            #[inline(always)]
            fn cast(self) -> $r { self as $r }
        }
    )*};
}

casts!(i8 i16 i32 i64 u8 u16 u32 u64 f32 f64);

macro_rules! half_casts {
    ($($h:ty: $($t:ty)*;)*) => {$(
        $(
            impl Cast<$t> for $h {
                #[inline(always)]
                fn cast(self) -> $t { self.widen() as $t }
            }
        )*
        impl Cast<Pred> for $h {
            #[inline(always)]
            fn cast(self) -> Pred { Pred::from(self.widen() != 0.0) }
        }
        impl Cast<$h> for Pred {
            #[inline(always)]
            fn cast(self) -> $h { narrowed(f32::from(self.0)) }
        }
    )*};
}

half_casts! {
    bf16: i8 i16 i32 i64 u8 u16 u32 u64 f32 f64;
    f16: i8 i16 i32 i64 u8 u16 u32 u64 f32 f64;
}

macro_rules! to_bf16 {
    ($($t:ty)*) => {$(
        impl Cast<bf16> for $t {
            #[inline(always)]
            fn cast(self) -> bf16 { narrowed(self.to_odd()) }
        }
    )*};
}

to_bf16!(i8 i16 i32 i64 u8 u16 u32 u64 f32 f64);

impl Cast<bf16> for f16 {
    #[inline(always)]
    fn cast(self) -> bf16 {
        narrowed(self.widen())
    }
}

impl Cast<f16> for bf16 {
    #[inline(always)]
    fn cast(self) -> f16 {
        narrowed(self.widen())
    }
}

macro_rules! same {
    ($($t:ty)*) => {$(
        impl Cast<$t> for $t {
            #[inline(always)]
            fn cast(self) -> $t { self }
        }
    )*};
}

same!(Pred bf16 f16);
