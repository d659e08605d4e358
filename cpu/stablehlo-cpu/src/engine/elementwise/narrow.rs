//! Narrow element types. Floats of at most eight bits are decoded to `f32` and rounded back. Integers of fewer than
//! eight bits wrap around at their own width.

use std::sync::Arc;

use stablehlo::{FloatFormat, NonFinite};

use super::Loop;
use super::map::scalar1;
use super::num::ToOdd as _;
use crate::engine::dtype::DType;

/// Returns the format of a float type with a sign and at most eight bits, or `None` for any other type.
fn format(dtype: DType) -> Option<FloatFormat> {
    FloatFormat::of(dtype.element_type()).filter(|format| width(format) < 8)
}

/// Returns the number of bits of a format without the sign.
fn width(format: &FloatFormat) -> u32 {
    format.exponent_bits + format.mantissa_bits
}

#[expect(clippy::cast_possible_truncation, reason = "every number of the format is an f32")]
fn decode_pattern(format: &FloatFormat, code: u8) -> f32 {
    format.decode(code.into()) as f32
}

/// Returns the bit pattern of `x`, rounded to nearest with ties to even. A NaN keeps its sign if the format has two.
fn encode_number(format: &FloatFormat, x: f64) -> u8 {
    // The format may have no NaN. Use negative zero, as other implementations of the format do.
    let sign = 1 << width(format);
    let code = format.encode(x).unwrap_or(sign);
    let is_negative_nan = x.is_nan() && x.is_sign_negative();
    let keeps_sign = is_negative_nan && matches!(format.non_finite, NonFinite::Ieee | NonFinite::Fn);
    u8::try_from(if keeps_sign { code | sign } else { code }).unwrap_or(u8::MAX)
}

/// Decodes an `f8E8M0FNU`, an unsigned power of two. Block-scaled formats use this type for their scales.
fn decode_e8m0(code: u8) -> f32 {
    match code {
        0 => f32::from_bits(1 << 22),
        255 => f32::NAN,
        _ => f32::from_bits(u32::from(code) << 23),
    }
}

/// Rounds to the nearest `f8E8M0FNU` as the package `ml_dtypes` does. A number halfway between two powers of two rounds
/// up. Infinity and numbers that are not positive become NaN.
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
        Some(f) => (0..=255).map(|code| decode_pattern(&f, code)).collect(),
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
    let one = move |x: f64| f.map_or_else(|| encode_e8m0(x), |f| encode_number(&f, x));
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
            for code in 0..=u8::try_from((1u32 << (width(&f) + 1)) - 1).unwrap() {
                let value = decode_pattern(&f, code);
                if value.is_nan() {
                    assert!(decode_pattern(&f, encode_number(&f, value.into())).is_nan(), "{dtype:?} {code}");
                } else {
                    assert_eq!(encode_number(&f, value.into()), code, "{dtype:?} {code} = {value}");
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
            decode_pattern(&f, encode_number(&f, x))
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
