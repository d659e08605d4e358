//! Converts types of StableHLO programs.

use ::stablehlo::ir::{self, Type};

use crate::{ElementType, Error, Result, Shape};

/// The shape of a buffer for a value of this type.
///
/// # Errors
///
/// `UNIMPLEMENTED` for tuples, dynamic extents and element types that buffers do not support.
pub fn shape(ty: &Type) -> Result<Shape> {
    match ty {
        Type::Tensor(tensor) if tensor.is_static() => {
            Ok(Shape::new(element_type(tensor.element)?, tensor.shape.as_slice()))
        }
        Type::Token => Ok(Shape::new(ElementType::Token, [])),
        _ => Err(Error::unimplemented(format!("a value of type {ty} cannot be stored in a buffer"))),
    }
}

/// Converts an element type of StableHLO to PJRT.
///
/// # Errors
///
/// `UNIMPLEMENTED` for `tf32` and `index`, which buffers do not support.
pub fn element_type(ty: ir::ElementType) -> Result<ElementType> {
    // Both crates use StableHLO's names. A test checks that they agree.
    ty.name()
        .parse()
        .map_err(|_| Error::unimplemented(format!("elements of type {} cannot be stored in a buffer", ty.name())))
}

/// Converts an element type of PJRT to StableHLO.
///
/// # Errors
///
/// `UNIMPLEMENTED` for types that StableHLO does not have: tokens, and integers of one bit.
pub fn ir_element_type(ty: ElementType) -> Result<ir::ElementType> {
    let lacking = || Error::unimplemented(format!("StableHLO does not have tensors of {ty}"));
    // PJRT's `si1` would be read as `i1`, which is a boolean.
    let name = Some(ty.stablehlo_name()).filter(|_| !matches!(ty, ElementType::S1 | ElementType::U1));
    name.and_then(ir::ElementType::from_name).ok_or_else(lacking)
}
