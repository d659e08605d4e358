//! Attributes of CHLO as numbers, and constants.

use stablehlo::ir::{Attribute, ElementType, TensorType, ValueId};
use stablehlo::{Patch, Result};

use crate::build::{Build, of};
use crate::evaluate::{Number, encode, is_integer};

/// Returns whether the elements are numbers, which can be zero.
pub(super) fn can_be_zero(element: ElementType) -> bool {
    element.is_float() || is_integer(element) || element.is_complex()
}

pub(super) fn number(attribute: &Attribute) -> Option<Number> {
    match attribute {
        Attribute::Float(number, _) => Some(Number::Float(*number)),
        Attribute::Integer(number, _) => Some(Number::Integer((*number).into())),
        _ => None,
    }
}

/// Adds a constant of equal elements. Numbers of other types than those with which the passes compute are converted.
pub(super) fn filled(patch: &mut Patch<'_>, number: Number, ty: &TensorType) -> Result<ValueId> {
    if encode(ty.element, number).is_some() {
        return patch.splat(ty.clone(), number);
    }
    let element = match number {
        Number::Integer(_) => ElementType::I64,
        Number::Float(_) if ty.element == ElementType::ComplexF64 => ElementType::F64,
        Number::Float(_) => ElementType::F32,
    };
    let x = match number {
        // The bits of the NaN are those that every parser gives it.
        Number::Float(number) if number.is_nan() => {
            let bits = f32::NAN.to_le_bytes().to_vec();
            let data = if ty.num_elements() == Some(0) { Vec::new() } else { bits };
            patch.constant(of(ty, ElementType::F32), data)?
        }
        _ => patch.splat(of(ty, element), number)?,
    };
    patch.convert(x, ty.element)
}
