//! Computes the results of ops on constants, if they are exact.

mod elementwise;
mod number;
mod program;
mod shape;

pub(crate) use number::{Number, encode, is_float, is_integer, uniform_number, wraps};
pub(crate) use program::Interpreter;
pub(crate) use shape::zeros;
use stablehlo::ir::{Literal, Op, OpKind, TensorType, ValueTypes};

/// Maximum number of elements of a constant that is stored element by element. Constants of equal elements, and
/// constants that share the bytes of an operand, may be larger.
const MAX_ELEMENTS: usize = 1024;

/// Returns the result of an op on constants. Returns `None` if the op cannot be computed exactly, if its result depends
/// on the device, or if the result is too large.
///
/// Results that depend on the device are those of integer divisions by zero, of shifts by at least the width of the
/// type, of conversions of numbers out of range, and all NaN, whose bits are not specified.
pub(crate) fn evaluate(op: &Op, operands: &[&Literal], types: &ValueTypes) -> Option<Literal> {
    let &[result] = &op.results[..] else { return None };
    let ty = types.get(result.0 as usize)?.as_tensor().filter(|ty| ty.num_elements().is_some())?;
    match &op.kind {
        OpKind::Reshape => reshape(ty, operands),
        OpKind::Iota { iota_dimension } => shape::iota(ty, *iota_dimension),
        OpKind::BroadcastInDim { .. }
        | OpKind::Transpose { .. }
        | OpKind::Slice { .. }
        | OpKind::Reverse { .. }
        | OpKind::Pad { .. }
        | OpKind::Concatenate { .. }
        | OpKind::DynamicSlice { .. }
        | OpKind::DynamicUpdateSlice => shape::gathered(op, ty, operands, types),
        _ => elementwise::evaluate(&op.kind, ty, operands),
    }
}

fn reshape(ty: &TensorType, operands: &[&Literal]) -> Option<Literal> {
    let &[from] = operands else { return None };
    let is_same = from.ty.element == ty.element && from.ty.num_elements() == ty.num_elements();
    is_same.then(|| Literal { ty: ty.clone(), ..from.clone() })
}

/// Returns the bytes of an element of a constant.
fn element(literal: &Literal, index: usize) -> Option<&[u8]> {
    let size = literal.ty.element.byte_size();
    let at = if literal.splat { 0 } else { index };
    literal.data.get(at.checked_mul(size)?..)?.get(..size)
}

/// Returns the bytes of the only element, or of the element that all elements are equal to.
fn uniform(literal: &Literal) -> Option<&[u8]> {
    (literal.data.len() == literal.ty.element.byte_size()).then_some(&literal.data[..])
}

/// Returns a constant of equal elements.
fn splat(ty: &TensorType, element: Vec<u8>) -> Option<Literal> {
    let data = if ty.num_elements()? == 0 { Vec::new() } else { element };
    Literal::new(ty.clone(), data).ok()
}
