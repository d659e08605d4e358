//! Ops on complex numbers as ops on their parts.

use stablehlo::ir::{Binary as B, ComparisonDirection as D, Op, OpKind, TensorType, Unary as U, ValueId};
use stablehlo::{Patch, Result};

use super::functions::{cosine, exponential, log, magnitude, quotient, sine, sqrt};
use super::pairs::{Pair, Pairs, is_complex, part, part_type, parts};
use crate::build::{Build, of};

/// What stands for the result of an op.
pub(super) enum Value {
    Real(ValueId),
    Complex(Pair),
}

/// Returns whether [`expand`] replaces ops of this kind.
pub(super) fn is_supported(kind: &OpKind) -> bool {
    match kind {
        OpKind::Unary(op) => matches!(
            op,
            U::Abs | U::Cosine | U::Exponential | U::Imag | U::Log | U::Negate | U::Real | U::Sine | U::Sqrt
        ),
        OpKind::Binary(op) => matches!(op, B::Add | B::Complex | B::Divide | B::Multiply | B::Subtract),
        OpKind::Compare { direction, .. } => matches!(direction, D::Eq | D::Ne),
        OpKind::Constant(_)
        | OpKind::Convert
        | OpKind::Convolution { .. }
        | OpKind::DotGeneral { .. }
        | OpKind::Iota { .. }
        | OpKind::Select => true,
        kind => moves(kind),
    }
}

/// Returns whether the op only moves elements.
fn moves(kind: &OpKind) -> bool {
    matches!(
        kind,
        OpKind::BroadcastInDim { .. }
            | OpKind::Concatenate { .. }
            | OpKind::DynamicSlice { .. }
            | OpKind::DynamicUpdateSlice
            | OpKind::Gather { .. }
            | OpKind::Pad { .. }
            | OpKind::Reshape
            | OpKind::Reverse { .. }
            | OpKind::Slice { .. }
            | OpKind::Transpose { .. }
    )
}

/// Adds the ops that compute the parts of an op's result. Returns `None` if the op is not supported.
pub(super) fn expand(op: &Op, pairs: &mut Pairs, patch: &mut Patch<'_>) -> Result<Option<Value>> {
    let (true, &[result]) = (is_supported(&op.kind), &op.results[..]) else { return Ok(None) };
    let ty = patch.tensor(result)?.clone();
    let part_ty = of(&ty, part(ty.element));
    // The parts of the operands. A real operand, such as an index, has no parts.
    let mut operands = Vec::with_capacity(op.operands.len());
    for &operand in &op.operands {
        operands.push(if is_complex(patch.types(), operand) { pairs.get(patch, operand)? } else { (operand, operand) });
    }
    let (res, ims): (Vec<ValueId>, Vec<ValueId>) = operands.iter().copied().unzip();
    let pair = match (&op.kind, &operands[..]) {
        (OpKind::Constant(literal), _) => {
            let Some([re, im]) = parts(literal) else { return Ok(None) };
            (patch.add(OpKind::Constant(re), &[], part_ty.clone()), patch.add(OpKind::Constant(im), &[], part_ty))
        }
        (OpKind::Iota { .. }, _) => {
            let re = patch.add(op.kind.clone(), &[], part_ty);
            (re, patch.like(re, 0.0)?)
        }
        (kind, _) if moves(kind) => {
            (patch.add(kind.clone(), &res, part_ty.clone()), patch.add(kind.clone(), &ims, part_ty))
        }
        (OpKind::Select, &[(on, _), yes, no]) => (patch.select(on, yes.0, no.0)?, patch.select(on, yes.1, no.1)?),
        (OpKind::Compare { direction, .. }, &[a, b]) => {
            let (re, im) = (patch.compare(*direction, a.0, b.0)?, patch.compare(*direction, a.1, b.1)?);
            let joined = if *direction == D::Eq { B::And } else { B::Or };
            return Ok(Some(Value::Real(patch.binary(joined, re, im)?)));
        }
        (OpKind::Convert, &[x]) => {
            let re = patch.convert(x.0, part_ty.element)?;
            match (ty.element.is_complex(), is_complex(patch.types(), op.operands[0])) {
                (false, _) => return Ok(Some(Value::Real(re))),
                (true, false) => (re, patch.like(re, 0.0)?),
                (true, true) => (re, patch.convert(x.1, part_ty.element)?),
            }
        }
        (OpKind::DotGeneral { .. } | OpKind::Convolution { .. }, &[a, b]) => product(&op.kind, patch, a, b, &part_ty),
        (OpKind::Unary(unary), &[x]) => return unary_op(*unary, patch, x, op),
        (OpKind::Binary(B::Complex), &[(re, _), (im, _)]) => (re, im),
        (OpKind::Binary(B::Multiply), &[a, b]) => product(&OpKind::Binary(B::Multiply), patch, a, b, &part_ty),
        (OpKind::Binary(B::Divide), &[a, b]) => quotient(patch, a, b)?,
        (OpKind::Binary(binary), &[a, b]) => (patch.binary(*binary, a.0, b.0)?, patch.binary(*binary, a.1, b.1)?),
        _ => return Ok(None),
    };
    Ok(Some(Value::Complex(pair)))
}

/// Adds a bilinear op of both parts: `a.re * b.re - a.im * b.im` and `a.re * b.im + a.im * b.re`.
fn product(kind: &OpKind, patch: &mut Patch<'_>, a: Pair, b: Pair, ty: &TensorType) -> Pair {
    let mut of = |a, b| patch.add(kind.clone(), &[a, b], ty.clone());
    let (re_re, im_im, re_im, im_re) = (of(a.0, b.0), of(a.1, b.1), of(a.0, b.1), of(a.1, b.0));
    let re = patch.add(OpKind::Binary(B::Subtract), &[re_re, im_im], ty.clone());
    (re, patch.add(OpKind::Binary(B::Add), &[re_im, im_re], ty.clone()))
}

fn unary_op(unary: U, patch: &mut Patch<'_>, x: Pair, op: &Op) -> Result<Option<Value>> {
    let is_pair = part_type(patch.types(), op.operands[0]).is_some();
    let pair = match unary {
        _ if !is_pair => return Ok(None),
        U::Real => return Ok(Some(Value::Real(x.0))),
        U::Imag => return Ok(Some(Value::Real(x.1))),
        U::Abs => return Ok(Some(Value::Real(magnitude(patch, x)?))),
        U::Negate => (patch.unary(U::Negate, x.0)?, patch.unary(U::Negate, x.1)?),
        U::Exponential => exponential(patch, x)?,
        U::Log => log(patch, x)?,
        U::Sine => sine(patch, x)?,
        U::Cosine => cosine(patch, x)?,
        U::Sqrt => sqrt(patch, x)?,
        _ => return Ok(None),
    };
    Ok(Some(Value::Complex(pair)))
}
