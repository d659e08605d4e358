//! Narrow element types. Floats of at most eight bits are decoded to `f32` and rounded back. Integers of fewer than
//! eight bits wrap around at their own width.

use std::sync::Arc;

use stablehlo::{FloatFormat, NonFinite};

use super::Loop;
use super::map::scalar1;
use super::num::ToOdd as _;
use crate::engine::dtype::DType;

/// A float format with a sign, `exponent + mantissa + 1` bits wide.
#[derive(Clone, Copy)]
struct Format {
    exponent: u32,
    mantissa: u32,
    bias: i32,
    non_finite: NonFinite,
}

/// Returns the format of a float type with a sign and at most eight bits, or `None` for any other type.
fn format(dtype: DType) -> Option<Format> {
    let format = FloatFormat::of(dtype.element_type())?;
    let narrow = format.exponent_bits + format.mantissa_bits < 8;
    narrow.then_some(Format {
        exponent: format.exponent_bits,
        mantissa: format.mantissa_bits,
        bias: format.bias,
        non_finite: format.non_finite,
    })
}

impl Format {
    /// Returns the number of bits without the sign.
    fn width(&self) -> u32 {
        self.exponent + self.mantissa
    }

    /// Returns the bit pattern of infinity, which only some formats have.
    fn infinity(&self) -> u32 {
        ((1 << self.exponent) - 1) << self.mantissa
    }

    fn largest(&self) -> u32 {
        let ones = (1 << self.width()) - 1;
        match self.non_finite {
            NonFinite::Ieee => self.infinity() - 1,
            NonFinite::Fn => ones - 1,
            NonFinite::Fnuz | NonFinite::Finite => ones,
        }
    }

    fn nan(&self, sign: u32) -> u32 {
        match self.non_finite {
            NonFinite::Ieee => sign | self.infinity() | 1 << (self.mantissa - 1),
            NonFinite::Fn => sign | ((1 << self.width()) - 1),
            NonFinite::Fnuz => 1 << self.width(),
            // The format has no NaN. Use negative zero, as other implementations of the format do.
            NonFinite::Finite => 1 << self.width(),
        }
    }

    fn decode(&self, code: u8) -> f32 {
        let code = u32::from(code) & ((1 << (self.width() + 1)) - 1);
        let magnitude = code & ((1 << self.width()) - 1);
        let negative = code >> self.width() != 0;
        if self.non_finite == NonFinite::Fnuz && negative && magnitude == 0 {
            return f32::NAN;
        }
        let sign = if negative { -1.0 } else { 1.0 };
        if magnitude > self.largest() {
            let infinite = self.non_finite == NonFinite::Ieee && magnitude == self.infinity();
            return if infinite { sign * f32::INFINITY } else { f32::NAN.copysign(sign) };
        }
        let fraction = u16::try_from(magnitude & ((1 << self.mantissa) - 1)).map_or(0.0, f32::from);
        let exponent = i32::try_from(magnitude >> self.mantissa).unwrap_or(0);
        let unit = 2f32.powi(-(self.mantissa.cast_signed()));
        let value = match exponent {
            0 => fraction * unit * 2f32.powi(1 - self.bias),
            _ => (1.0 + fraction * unit) * 2f32.powi(exponent - self.bias),
        };
        sign * value
    }

    /// Returns the bit pattern of `x`, rounded to nearest with ties to even.
    fn encode(&self, x: f64) -> u8 {
        let sign = u32::from(x.is_sign_negative()) << self.width();
        let code = if x.is_nan() { self.nan(sign) } else { self.encode_number(x.abs(), sign) };
        u8::try_from(code).unwrap_or(u8::MAX)
    }

    fn encode_number(&self, x: f64, sign: u32) -> u32 {
        let beyond = match self.non_finite {
            NonFinite::Ieee => sign | self.infinity(),
            NonFinite::Fn | NonFinite::Fnuz => self.nan(sign),
            NonFinite::Finite => sign | self.largest(),
        };
        if x >= 1e30 {
            return beyond;
        }
        // Use the exponent of x, but at least that of the smallest normal number.
        let own = i32::try_from(x.to_bits() >> 52).unwrap_or(0) - 1023;
        let exponent = own.max(1 - self.bias);
        let steps = (x * 2f64.powi(self.mantissa.cast_signed() - exponent)).round_ties_even();
        // `steps` is at most 2^(mantissa + 1). With that value, the sum below carries into the exponent.
        let steps = (0..=1u32 << (self.mantissa + 1)).find(|&s| f64::from(s) == steps).unwrap_or(0);
        let base = u32::try_from(exponent + self.bias - 1).unwrap_or(0) << self.mantissa;
        let magnitude = base + steps;
        match magnitude {
            0 if self.non_finite == NonFinite::Fnuz => 0,
            _ if magnitude > self.largest() => beyond,
            _ => sign | magnitude,
        }
    }
}

/// Decodes an `f8E8M0FNU`, an unsigned power of two. Block-scaled formats use this type for their scales.
fn decode_e8m0(code: u8) -> f32 {
    match code {
        0 => f32::from_bits(1 << 22),
        255 => f32::NAN,
        _ => f32::from_bits(u32::from(code) << 23),
    }
}

/// Rounds to the nearest `f8E8M0FNU`. A number halfway between two powers of two rounds up. Infinity and numbers that
/// are not positive become NaN.
fn encode_e8m0(x: f64) -> u8 {
    if x.is_nan() || x <= 0.0 || x.is_infinite() {
        return 255;
    }
    let bits = x.to_bits();
    let exponent = i32::try_from(bits >> 52).unwrap_or(0) - 1023;
    let up = i32::from(bits & (1 << 51) != 0);
    u8::try_from((exponent + up + 127).clamp(0, 255)).unwrap_or(255)
}

/// Returns the loop that decodes each bit pattern of a narrow float type to an `f32`, or `None` for any other type.
pub(crate) fn decode(dtype: DType) -> Option<Loop> {
    let table: Vec<f32> = match format(dtype) {
        Some(f) => (0..=255).map(|code| f.decode(code)).collect(),
        None if dtype == DType::F8E8M0FNU => (0..=255).map(decode_e8m0).collect(),
        None => return None,
    };
    Some(Loop::With(Arc::new(move |a, o| scalar1::<u8, f32>(a, o, |code| table[usize::from(code)]))))
}

/// Returns the loop that rounds each number of type `from` to the narrow float type `dtype` and stores its bit pattern.
/// Returns `None` if `dtype` is not a narrow float type, or if `from` is not `f32`, `f64`, `i64` or `u64`.
pub(crate) fn encode(dtype: DType, from: DType) -> Option<Loop> {
    let f = format(dtype);
    if f.is_none() && dtype != DType::F8E8M0FNU {
        return None;
    }
    let one = move |x: f64| f.map_or_else(|| encode_e8m0(x), |f| f.encode(x));
    Some(Loop::With(match from {
        DType::F32 => Arc::new(move |a, o| scalar1::<f32, u8>(a, o, |x| one(f64::from(x)))),
        DType::F64 => Arc::new(move |a, o| scalar1::<f64, u8>(a, o, one)),
        // Not every 64-bit integer is an `f64`.
        DType::I64 => Arc::new(move |a, o| scalar1::<i64, u8>(a, o, |x| one(f64::from(x.to_odd())))),
        DType::U64 => Arc::new(move |a, o| scalar1::<u64, u8>(a, o, |x| one(f64::from(x.to_odd())))),
        _ => return None,
    }))
}

/// Returns the loop that keeps only the low bits of `i8` or `u8` numbers, sign- or zero-extended according to the type.
pub(crate) fn wrap(dtype: DType) -> Option<Loop> {
    let drop = 8 - dtype.narrow_bits()?;
    Some(Loop::With(if matches!(dtype, DType::I2 | DType::I4) {
        Arc::new(move |a, o| scalar1::<i8, i8>(a, o, |x| x.wrapping_shl(drop) >> drop))
    } else {
        Arc::new(move |a, o| scalar1::<u8, u8>(a, o, |x| x.wrapping_shl(drop) >> drop))
    }))
}

/// Returns the loop that converts `f64` to a narrow integer. It rounds toward zero and saturates. NaN becomes 0.
pub(crate) fn from_f64(dtype: DType) -> Option<Loop> {
    let bits = dtype.narrow_bits()?;
    let signed = matches!(dtype, DType::I2 | DType::I4);
    let (low, high) = if signed { (-(1i8 << (bits - 1)), (1i8 << (bits - 1)) - 1) } else { (0, (1i8 << bits) - 1) };
    Some(Loop::With(Arc::new(move |a, o| {
        scalar1::<f64, i8>(a, o, |x| {
            let all = low..=high;
            let x = x.trunc();
            all.clone().find(|&i| f64::from(i) == x).unwrap_or(if x.is_nan() {
                0
            } else if x < 0.0 {
                low
            } else {
                high
            })
        });
    })))
}

/// Returns the loop of `count_leading_zeros` if `leading` is set, and of `popcnt` otherwise. The loop counts only the
/// bits of the narrow type.
pub(crate) fn counted(dtype: DType, leading: bool) -> Option<Loop> {
    let bits = dtype.narrow_bits()?;
    let mask = (1u8 << bits) - 1;
    Some(Loop::With(Arc::new(move |a, o| {
        scalar1::<u8, u8>(a, o, |x| {
            let count = if leading { (x & mask).leading_zeros() + bits - 8 } else { (x & mask).count_ones() };
            u8::try_from(count).unwrap_or(0)
        });
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [DType; 10] = [
        DType::F4E2M1FN,
        DType::F6E2M3FN,
        DType::F6E3M2FN,
        DType::F8E3M4,
        DType::F8E4M3,
        DType::F8E4M3FN,
        DType::F8E4M3FNUZ,
        DType::F8E4M3B11FNUZ,
        DType::F8E5M2,
        DType::F8E5M2FNUZ,
    ];

    #[test]
    fn every_pattern_round_trips() {
        for dtype in ALL {
            let f = format(dtype).unwrap();
            for code in 0..=u8::try_from((1u32 << (f.width() + 1)) - 1).unwrap() {
                let value = f.decode(code);
                if value.is_nan() {
                    assert!(f.decode(f.encode(f64::from(value))).is_nan(), "{dtype:?} {code}");
                } else {
                    assert_eq!(f.encode(f64::from(value)), code, "{dtype:?} {code} = {value}");
                }
            }
        }
        for code in 0..=254 {
            assert_eq!(encode_e8m0(f64::from(decode_e8m0(code))), code);
        }
    }

    #[test]
    fn rounding_and_overflow() {
        let f = |dtype: DType, x: f64| {
            let f = format(dtype).unwrap();
            f.decode(f.encode(x))
        };
        assert_eq!(f(DType::F8E4M3FN, 17.0), 16.0);
        assert_eq!(f(DType::F8E4M3FN, 19.0), 20.0);
        assert_eq!(f(DType::F8E4M3FN, 448.0), 448.0);
        assert_eq!(f(DType::F8E4M3FN, 464.0), 448.0, "halfway to a number that would exist");
        assert!(f(DType::F8E4M3FN, 465.0).is_nan());
        assert_eq!(f(DType::F8E5M2, 1e9), f32::INFINITY);
        assert_eq!(f(DType::F8E4M3, -240.0), -240.0);
        assert_eq!(f(DType::F8E4M3, -250.0), f32::NEG_INFINITY);
        assert!(f(DType::F8E4M3FNUZ, f64::INFINITY).is_nan());
        assert_eq!(f(DType::F4E2M1FN, 2.5), 2.0);
        assert_eq!(f(DType::F4E2M1FN, -1e9), -6.0);
        assert_eq!(f(DType::F8E5M2, 2f64.powi(-17)), 0.0, "half of the smallest number");
        assert_eq!(f(DType::F8E5M2, 3.0 * 2f64.powi(-18)), 2f32.powi(-16));
    }
}
