//! Elements of constants as numbers.

use stablehlo::FloatFormat;
use stablehlo::ir::{ElementType, Literal};

use super::values::uniform;

/// An element of a constant. Booleans are 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Integer(i128),
    Float(f64),
}

impl Number {
    pub(crate) fn integer(self) -> Option<i128> {
        match self {
            Self::Integer(number) => Some(number),
            Self::Float(_) => None,
        }
    }
}

/// Returns the number that all elements of a constant are equal to. Returns `None` if the elements differ, or if they
/// are of a type that [`decode`] does not support.
pub(crate) fn uniform_number(literal: &Literal) -> Option<Number> {
    decode(literal.ty.element, uniform(literal)?)
}

/// Returns whether the type is an integer type with a size that does not depend on the device.
pub(crate) fn is_integer(element: ElementType) -> bool {
    element.is_integer() && element != ElementType::Index
}

/// Returns whether the type is one of the floating-point types with which the passes compute. Others are only copied.
pub(crate) fn is_float(element: ElementType) -> bool {
    matches!(element, ElementType::Bf16 | ElementType::F16 | ElementType::F32 | ElementType::F64)
}

/// Returns the number that the bytes of an element represent. Returns `None` for unsupported types.
pub(crate) fn decode(element: ElementType, bytes: &[u8]) -> Option<Number> {
    let mut wide = [0; 8];
    wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
    let bits = u64::from_le_bytes(wide);
    if element == ElementType::Bool {
        return Some(Number::Integer(i128::from(bits != 0)));
    }
    if is_integer(element) {
        return Some(Number::Integer(wrap(element, i128::from(bits))));
    }
    Some(Number::Float(match element {
        ElementType::F64 => f64::from_bits(bits),
        ElementType::F32 => f64::from(f32::from_le_bytes(*wide.first_chunk()?)),
        _ if is_float(element) => FloatFormat::of(element)?.decode(bits),
        _ => return None,
    }))
}

/// Returns the bytes of a number, which integers wrap to and floats are rounded to. Returns `None` for NaN, and if the
/// number is not of the kind of the type.
pub(crate) fn encode(element: ElementType, number: Number) -> Option<Vec<u8>> {
    let size = element.byte_size();
    match number {
        Number::Integer(number) if element == ElementType::Bool => Some(vec![u8::from(number != 0)]),
        Number::Integer(number) if is_integer(element) => Some(wrap(element, number).to_le_bytes()[..size].to_vec()),
        Number::Float(number) if is_float(element) && !number.is_nan() => Some(match element {
            ElementType::F64 => number.to_le_bytes().to_vec(),
            ElementType::F32 => single(number).to_le_bytes().to_vec(),
            _ => FloatFormat::of(element)?.encode(number)?.to_le_bytes()[..size].to_vec(),
        }),
        _ => None,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "rounds to nearest")]
pub(crate) fn single(number: f64) -> f32 {
    number as f32
}

/// Returns whether an integer is out of the range of the type.
pub(crate) fn wraps(element: ElementType, number: i128) -> bool {
    wrap(element, number) != number
}

/// Keeps the lowest bits of an integer, as many as the type has.
pub(crate) fn wrap(element: ElementType, number: i128) -> i128 {
    let unused = 128 - element.bit_width();
    let high = number << unused;
    if element.is_signed_integer() { high >> unused } else { (high.cast_unsigned() >> unused).cast_signed() }
}
