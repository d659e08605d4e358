//! Converts types of StableHLO programs.

use ::stablehlo::ir::{self, Type};

use crate::{ElementType, Error, Result, Shape};

/// Returns the shape of a buffer for a value of this type.
///
/// # Errors
///
/// Returns `UNIMPLEMENTED` if the type is a tuple, has a dynamic extent, or has an element type that buffers do not
/// support.
pub fn shape(ty: &Type) -> Result<Shape> {
    Shape::try_from(ty).map_err(|error| Error::unimplemented(error.to_string()))
}

/// Converts an element type of StableHLO to PJRT.
///
/// # Errors
///
/// Returns `UNIMPLEMENTED` for `tf32` and `index`, which buffers do not support.
pub fn element_type(ty: ir::ElementType) -> Result<ElementType> {
    ty.try_into().map_err(|error: pjrt_types::Unconvertible| Error::unimplemented(error.to_string()))
}

/// Converts an element type of PJRT to StableHLO.
///
/// # Errors
///
/// Returns `UNIMPLEMENTED` for types that StableHLO does not have: tokens, and integers of one bit.
pub fn ir_element_type(ty: ElementType) -> Result<ir::ElementType> {
    ty.try_into().map_err(|error: pjrt_types::Unconvertible| Error::unimplemented(error.to_string()))
}
