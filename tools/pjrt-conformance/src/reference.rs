//! Reference values: the exact values of small float types, and the accepted errors of float results.

use pjrt::ElementType;

/// Bit layout of a float type with at most 8 bits.
struct Format {
    exponent_bits: u32,
    mantissa_bits: u32,
    bias: i32,
    /// How the format encodes infinities and NaNs.
    specials: Specials,
}

#[derive(PartialEq)]
enum Specials {
    /// The largest exponent encodes infinities and NaNs, as in IEEE 754.
    Ieee,
    /// There are no infinities. If all exponent and mantissa bits are set, the value is NaN.
    Finite,
    /// There are no infinities and no negative zero. The bit pattern of negative zero is NaN.
    FiniteUnsignedZero,
    /// There are no infinities and no NaNs. Every bit pattern is a finite number.
    None,
}

fn format(ty: ElementType) -> Option<Format> {
    let new =
        |exponent_bits, mantissa_bits, bias, specials| Some(Format { exponent_bits, mantissa_bits, bias, specials });
    match ty {
        ElementType::F8E5M2 => new(5, 2, 15, Specials::Ieee),
        ElementType::F8E4M3 => new(4, 3, 7, Specials::Ieee),
        ElementType::F8E3M4 => new(3, 4, 3, Specials::Ieee),
        ElementType::F8E4M3FN => new(4, 3, 7, Specials::Finite),
        ElementType::F8E4M3B11FNUZ => new(4, 3, 11, Specials::FiniteUnsignedZero),
        ElementType::F8E5M2FNUZ => new(5, 2, 16, Specials::FiniteUnsignedZero),
        ElementType::F8E4M3FNUZ => new(4, 3, 8, Specials::FiniteUnsignedZero),
        ElementType::F4E2M1FN => new(2, 1, 1, Specials::None),
        ElementType::F6E2M3FN => new(2, 3, 1, Specials::None),
        ElementType::F6E3M2FN => new(3, 2, 3, Specials::None),
        _ => None,
    }
}

/// Small float types whose bit patterns [`decode`] can convert.
pub(crate) const SMALL_FLOATS: &[ElementType] = &[
    ElementType::F8E5M2,
    ElementType::F8E4M3,
    ElementType::F8E3M4,
    ElementType::F8E4M3FN,
    ElementType::F8E4M3B11FNUZ,
    ElementType::F8E5M2FNUZ,
    ElementType::F8E4M3FNUZ,
    ElementType::F4E2M1FN,
    ElementType::F6E2M3FN,
    ElementType::F6E3M2FN,
    ElementType::F8E8M0FNU,
];

/// Returns the value of a bit pattern of a small float type. Returns `None` if the type is not in [`SMALL_FLOATS`].
pub(crate) fn decode(ty: ElementType, bits: u8) -> Option<f32> {
    if ty == ElementType::F8E8M0FNU {
        return Some(if bits == 0xff { f32::NAN } else { 2f32.powi(i32::from(bits) - 127) });
    }
    let Format { exponent_bits, mantissa_bits, bias, specials } = format(ty)?;
    let width = 1 + exponent_bits + mantissa_bits;
    let sign = if bits >> (width - 1) & 1 == 1 { -1.0 } else { 1.0 };
    let largest = (1u32 << exponent_bits) - 1;
    let exponent = u32::from(bits) >> mantissa_bits & largest;
    let mantissa = u32::from(bits) & ((1 << mantissa_bits) - 1);
    let all_ones = exponent == largest && mantissa == (1 << mantissa_bits) - 1;
    match specials {
        Specials::Ieee if exponent == largest => {
            return Some(if mantissa == 0 { sign * f32::INFINITY } else { f32::NAN });
        }
        Specials::Finite if all_ones => return Some(f32::NAN),
        Specials::FiniteUnsignedZero if u32::from(bits) == 1 << (width - 1) => return Some(f32::NAN),
        _ => {}
    }
    let scale = 2f32.powi(-i32::try_from(mantissa_bits).ok()?);
    #[expect(clippy::cast_precision_loss, reason = "a mantissa has at most four bits")]
    let fraction = mantissa as f32 * scale;
    let exponent = i32::try_from(exponent).ok()?;
    Some(match exponent {
        0 => sign * fraction * 2f32.powi(1 - bias),
        _ => sign * (1.0 + fraction) * 2f32.powi(exponent - bias),
    })
}

/// Returns the number of bit patterns of a small float type.
pub(crate) fn patterns(ty: ElementType) -> u16 {
    1 << ty.bits()
}

/// Returns whether `found` is close enough to the exact value. The error may be at most `ulps` units in the last place
/// of a type whose mantissa has `mantissa_bits` explicit bits. If the exact value is below `smallest_normal`, the
/// type's smallest normal number, `found` may also be 0. A NaN is close only to a NaN, and an infinity only to itself.
pub(crate) fn within(found: f64, exact: f64, ulps: f64, mantissa_bits: i32, smallest_normal: f64) -> bool {
    if exact.is_nan() || found.is_nan() {
        return exact.is_nan() && found.is_nan();
    }
    if found.is_infinite() || exact.is_infinite() {
        return found == exact;
    }
    let exponent = if exact == 0.0 { 0.0 } else { exact.abs().log2().floor() };
    let unit = if exact.abs() < smallest_normal {
        smallest_normal * 2f64.powi(-mantissa_bits)
    } else {
        (exponent - f64::from(mantissa_bits)).exp2()
    };
    // A device may flush subnormal numbers to zero.
    let flushed = found == 0.0 && exact.abs() < smallest_normal;
    flushed || (found - exact).abs() <= ulps * unit
}

#[cfg(test)]
mod tests {
    use pjrt::ElementType;

    use super::{decode, within};

    #[test]
    fn small_floats() {
        assert_eq!(decode(ElementType::F8E4M3FN, 0x7e), Some(448.0));
        assert!(decode(ElementType::F8E4M3FN, 0x7f).unwrap().is_nan());
        assert_eq!(decode(ElementType::F8E5M2, 0x7c), Some(f32::INFINITY));
        assert_eq!(decode(ElementType::F8E5M2, 0x7b), Some(57344.0));
        assert!(decode(ElementType::F8E4M3FNUZ, 0x80).unwrap().is_nan());
        assert_eq!(decode(ElementType::F8E4M3FNUZ, 0x7f), Some(240.0));
        assert_eq!(decode(ElementType::F4E2M1FN, 0x7), Some(6.0));
        assert_eq!(decode(ElementType::F6E3M2FN, 0x1f), Some(28.0));
        assert_eq!(decode(ElementType::F8E8M0FNU, 127), Some(1.0));
        assert_eq!(decode(ElementType::F32, 0), None);
    }

    #[test]
    fn intervals() {
        let normal = f64::from(f32::MIN_POSITIVE);
        assert!(within(1.0 + f64::from(f32::EPSILON), 1.0, 1.0, 23, normal));
        assert!(!within(1.0 + 3.0 * f64::from(f32::EPSILON), 1.0, 2.0, 23, normal));
        assert!(within(0.0, 1e-40, 1.0, 23, normal) && !within(0.0, 1e-30, 4.0, 23, normal));
        assert!(within(f64::NAN, f64::NAN, 0.0, 23, normal) && !within(1.0, f64::NAN, 9.0, 23, normal));
    }
}
