//! The result of an op on constants.

use stablehlo::ir::{Literal, Op, OpKind, TensorType, ValueTypes};

use super::{elementwise, shape};

/// Returns the result of an op on constants. Returns `None` if the op cannot be computed exactly, if its result depends
/// on the device, or if the result is too large.
///
/// Results that depend on the device are those of integer divisions by zero, of shifts by at least the width of the
/// type, of conversions of numbers out of range, and all NaN, whose bits are not specified.
pub(crate) fn evaluate(op: &Op, operands: &[&Literal], types: &ValueTypes) -> Option<Literal> {
    let &[result] = &op.results[..] else { return None };
    let ty = types.tensor(result).filter(|ty| ty.num_elements().is_some())?;
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
