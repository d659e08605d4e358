//! Formats of the floating-point element types, and conversion between `f64` and their bit patterns.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "bit patterns: every cast is of a value this module just bounded"
)]

use crate::ir::ElementType;

/// Representation of infinities and NaN in a floating-point format. StableHLO's types use only these four
/// representations, so the enum is exhaustive and a device must handle all four.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NonFinite {
    /// Infinity and NaN as in IEEE 754.
    Ieee,
    /// No infinity. NaN has all bits of the exponent and the mantissa set.
    Fn,
    /// No infinity and no negative zero. The bit pattern of negative zero represents NaN.
    Fnuz,
    /// No infinity and no NaN.
    Finite,
}

/// A floating-point format, which consists of a sign bit, an exponent and a mantissa.
///
/// ```
/// use stablehlo::FloatFormat;
/// use stablehlo::ir::ElementType;
///
/// let format = FloatFormat::of(ElementType::Bf16).ok_or("bf16 is a floating-point type")?;
/// assert_eq!((format.exponent_bits, format.mantissa_bits, format.bias), (8, 7, 127));
/// assert_eq!(format.encode(1.00390637), Some(0x3F81));
/// assert_eq!(FloatFormat::of(ElementType::I32), None);
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct FloatFormat {
    /// Number of exponent bits.
    pub exponent_bits: u32,
    /// Number of mantissa bits, without the hidden bit.
    pub mantissa_bits: u32,
    /// Exponent bias, which is the exponent field of 1.0.
    pub bias: i32,
    /// Representation of infinity and NaN.
    pub non_finite: NonFinite,
}

impl FloatFormat {
    /// Returns the format of a floating-point type with at most 19 bits. Returns `None` for all other types, and for
    /// `f8E8M0FNU`, which has neither a sign bit nor mantissa bits.
    #[must_use]
    pub fn of(element: ElementType) -> Option<Self> {
        format(element)
    }

    /// Returns the bit pattern of `value` rounded to nearest, with ties to even. Returns `None` if `value` is NaN and
    /// the format has no NaN. A value that is too large becomes infinity. If the format lacks infinities, such a value
    /// becomes NaN, or the largest finite value if the format also lacks NaN.
    #[must_use]
    pub fn encode(self, value: f64) -> Option<u64> {
        let width = self.exponent_bits + self.mantissa_bits;
        let sign = u64::from(value.is_sign_negative()) << width;
        let ones = (1u64 << width) - 1;
        let infinity = ((1u64 << self.exponent_bits) - 1) << self.mantissa_bits;
        if value.is_nan() {
            return match self.non_finite {
                NonFinite::Ieee => Some(infinity | 1 << (self.mantissa_bits - 1)),
                NonFinite::Fn => Some(ones),
                NonFinite::Fnuz => Some(1 << width),
                NonFinite::Finite => None,
            };
        }
        let magnitude = value.abs();
        let largest = match self.non_finite {
            NonFinite::Ieee => infinity - 1,
            NonFinite::Fn => ones - 1,
            NonFinite::Fnuz | NonFinite::Finite => ones,
        };
        let smallest_exponent = 1 - self.bias;
        let bits = if magnitude.is_infinite() {
            largest + 1
        } else {
            let exponent = (((magnitude.to_bits() >> 52) as i32) - 1023).max(smallest_exponent);
            // Exponent of the unit in the last place. The division by this unit is exact, because the unit is a power
            // of two.
            let scale = exponent - self.mantissa_bits as i32;
            let quotient = magnitude * (2f64).powi(-(scale / 2)) * (2f64).powi(-(scale - scale / 2));
            let rounded = quotient.round_ties_even() as u64;
            // For normal numbers, `rounded` includes the hidden bit. Adding the hidden bit increments the exponent
            // field.
            (((exponent + self.bias - 1) as u64) << self.mantissa_bits) + rounded
        };
        if bits > largest {
            return Some(match self.non_finite {
                NonFinite::Ieee => sign | infinity,
                NonFinite::Fn => sign | ones,
                NonFinite::Fnuz => 1 << width,
                NonFinite::Finite => sign | largest,
            });
        }
        if bits == 0 && self.non_finite == NonFinite::Fnuz {
            return Some(0);
        }
        Some(sign | bits)
    }

    /// Returns the exact value of a bit pattern. Bits above the sign bit are ignored.
    #[must_use]
    pub fn decode(self, bits: u64) -> f64 {
        let width = self.exponent_bits + self.mantissa_bits;
        let negative = bits >> width & 1 == 1;
        let magnitude = bits & ((1 << width) - 1);
        let ones = (1u64 << width) - 1;
        let infinity = ((1u64 << self.exponent_bits) - 1) << self.mantissa_bits;
        let value = match self.non_finite {
            NonFinite::Ieee if magnitude == infinity => f64::INFINITY,
            NonFinite::Ieee if magnitude > infinity => f64::NAN,
            NonFinite::Fn if magnitude == ones => f64::NAN,
            NonFinite::Fnuz if negative && magnitude == 0 => f64::NAN,
            _ => {
                let exponent = (magnitude >> self.mantissa_bits) as i32;
                let fraction = (magnitude & ((1 << self.mantissa_bits) - 1)) as f64;
                let hidden = if exponent == 0 { 0.0 } else { (1u64 << self.mantissa_bits) as f64 };
                let scale = exponent.max(1) - self.bias - self.mantissa_bits as i32;
                // Apply the scale in two steps, as `encode` does. Both steps are exact, because they multiply by powers
                // of two.
                (hidden + fraction) * (2f64).powi(scale / 2) * (2f64).powi(scale - scale / 2)
            }
        };
        if negative { -value } else { value }
    }
}

fn format(element: ElementType) -> Option<FloatFormat> {
    use ElementType as E;
    use NonFinite::*;
    let (exponent_bits, mantissa_bits, bias, non_finite) = match element {
        E::F4E2M1FN => (2, 1, 1, Finite),
        E::F6E2M3FN => (2, 3, 1, Finite),
        E::F6E3M2FN => (3, 2, 3, Finite),
        E::F8E3M4 => (3, 4, 3, Ieee),
        E::F8E4M3 => (4, 3, 7, Ieee),
        E::F8E4M3FN => (4, 3, 7, Fn),
        E::F8E4M3FNUZ => (4, 3, 8, Fnuz),
        E::F8E4M3B11FNUZ => (4, 3, 11, Fnuz),
        E::F8E5M2 => (5, 2, 15, Ieee),
        E::F8E5M2FNUZ => (5, 2, 16, Fnuz),
        E::Bf16 => (8, 7, 127, Ieee),
        E::F16 => (5, 10, 15, Ieee),
        E::Tf32 => (8, 10, 127, Ieee),
        _ => return None,
    };
    Some(FloatFormat { exponent_bits, mantissa_bits, bias, non_finite })
}

/// Returns the bit pattern of `value` as [`FloatFormat::encode`] does. Returns `None` also if the type is not a real
/// floating-point type. For `f8E8M0FNU`, a value less than 0 becomes NaN, and 0.0 and -0.0 become 2^-127.
pub(crate) fn encode(value: f64, element: ElementType) -> Option<u64> {
    match element {
        ElementType::F64 => return Some(value.to_bits()),
        ElementType::F32 => return Some(u64::from((value as f32).to_bits())),
        ElementType::F8E8M0FNU => return Some(encode_e8m0(value)),
        _ => {}
    }
    format(element)?.encode(value)
}

/// Returns the exact value of a bit pattern. Returns `None` if the type is not a real floating-point type.
pub(crate) fn decode(bits: u64, element: ElementType) -> Option<f64> {
    match element {
        ElementType::F64 => return Some(f64::from_bits(bits)),
        ElementType::F32 => return Some(f64::from(f32::from_bits(bits as u32))),
        ElementType::F8E8M0FNU => {
            return Some(if bits == 0xFF { f64::NAN } else { (2f64).powi(bits as i32 - 127) });
        }
        _ => {}
    }
    Some(format(element)?.decode(bits))
}

/// Rounds a value to `f8E8M0FNU` as MLIR's parser does. The format represents only powers of two, stores only the
/// exponent, and uses 0xFF for NaN. Negative values and infinities become NaN.
fn encode_e8m0(value: f64) -> u64 {
    if value.is_nan() || value < 0.0 {
        return 0xFF;
    }
    if value.is_infinite() {
        return 0xFF;
    }
    // Remove the sign bit of -0, because the shift below must leave only the exponent.
    let value = value.abs();
    let exponent = ((value.to_bits() >> 52) as i32) - 1023;
    // The midpoint of two adjacent powers of two is 1.5 times the smaller power. It rounds up, except from the smallest
    // power.
    let mantissa = value.to_bits() & ((1 << 52) - 1);
    let half = 1u64 << 51;
    let floor = exponent + 127;
    let up = mantissa > half || (mantissa == half && floor > 0);
    let biased = floor + i32::from(up);
    if biased > 0xFE { 0xFF } else { biased.max(0) as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(element: ElementType, cases: &[(f64, u64)]) {
        for &(value, bits) in cases {
            assert_eq!(encode(value, element), Some(bits), "{value} as {element}");
        }
    }

    #[test]
    fn decoding_inverts_encoding() {
        for element in ElementType::all().filter(|e| e.is_float() && e.bit_width() <= 19) {
            for bits in 0..1u64 << element.bit_width() {
                let value = decode(bits, element).unwrap();
                if !value.is_nan() {
                    assert_eq!(encode(value, element), Some(bits), "{bits:#x} of {element} is {value}");
                }
            }
        }
        assert_eq!(decode(0x3F80_0000, ElementType::F32), Some(1.0));
        assert_eq!(decode(0, ElementType::I32), None);
    }

    #[test]
    fn known_patterns() {
        check(ElementType::F32, &[(1.0, 0x3F80_0000), (0.1, 0x3DCC_CCCD)]);
        check(ElementType::Bf16, &[(1.0, 0x3F80), (-2.0, 0xC000), (3.0e38, 0x7F62), (1e39, 0x7F80), (-0.0, 0x8000)]);
        check(
            ElementType::F16,
            &[(1.0, 0x3C00), (65504.0, 0x7BFF), (65520.0, 0x7C00), (5.96e-8, 1), (6.104e-5, 0x0400)],
        );
        check(ElementType::F16, &[(1.00048828125, 0x3C00), (1.00146484375, 0x3C02)]);
        check(ElementType::F8E4M3FN, &[(448.0, 0x7E), (1e9, 0x7F), (-1.0, 0xB8), (0.001953125, 1)]);
        check(ElementType::F8E5M2, &[(57344.0, 0x7B), (1e9, 0x7C), (1.0, 0x3C)]);
        check(ElementType::F8E4M3FNUZ, &[(-0.0, 0), (1.0, 0x40), (1e9, 0x80)]);
        check(ElementType::F8E4M3B11FNUZ, &[(1.0, 0x58)]);
        check(ElementType::F4E2M1FN, &[(6.0, 7), (100.0, 7), (-0.5, 9), (1.0, 2)]);
        check(ElementType::F6E3M2FN, &[(28.0, 0x1F)]);
        check(
            ElementType::F8E8M0FNU,
            &[(1.0, 127), (2.0, 128), (1.5, 128), (3.0, 129), (6.0, 130), (0.75, 127), (1.499, 127), (0.0, 0)],
        );
        // The values that MLIR's parser gives these literals.
        check(ElementType::F8E8M0FNU, &[(1e-40, 0), (8.816207631167156e-39, 0), (2.5521177519070385e38, 0xFF)]);
        assert_eq!(encode(f64::NAN, ElementType::F4E2M1FN), None);
        assert_eq!(encode(f64::NAN, ElementType::F8E4M3FN), Some(0x7F));
        assert_eq!(encode(1.0, ElementType::I32), None);
    }
}
