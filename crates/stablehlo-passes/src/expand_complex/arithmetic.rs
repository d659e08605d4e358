//! Ops on complex numbers as ops on their parts.

use stablehlo::ir::{Binary as B, ComparisonDirection as D, Op, OpKind, TensorType, Unary as U, ValueId};
use stablehlo::{Patch, Result};

use super::pairs::{Pair, Pairs, is_complex, part, part_type, parts};
use crate::build::{Build, of};
use crate::expand_chlo::functions::{cosh, sinh};

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

fn maximum_of_magnitudes(patch: &mut Patch<'_>, x: Pair) -> Result<(ValueId, ValueId, ValueId)> {
    let (re, im) = (patch.unary(U::Abs, x.0)?, patch.unary(U::Abs, x.1)?);
    Ok((re, im, patch.binary(B::Maximum, re, im)?))
}

/// Divides the divisor by its larger part first, so that its square does not overflow.
fn quotient(patch: &mut Patch<'_>, a: Pair, b: Pair) -> Result<Pair> {
    let (_, _, scale) = maximum_of_magnitudes(patch, b)?;
    let (re, im) = (patch.binary(B::Divide, b.0, scale)?, patch.binary(B::Divide, b.1, scale)?);
    let mut times = |a, b| patch.binary(B::Multiply, a, b);
    let (square_re, square_im) = (times(b.0, re)?, times(b.1, im)?);
    let (re_re, im_im, im_re, re_im) = (times(a.0, re)?, times(a.1, im)?, times(a.1, re)?, times(a.0, im)?);
    let divisor = patch.binary(B::Add, square_re, square_im)?;
    let (re, im) = (patch.binary(B::Add, re_re, im_im)?, patch.binary(B::Subtract, im_re, re_im)?);
    Ok((patch.binary(B::Divide, re, divisor)?, patch.binary(B::Divide, im, divisor)?))
}

/// Adds the magnitude, without an overflow of the squares.
fn magnitude(patch: &mut Patch<'_>, x: Pair) -> Result<ValueId> {
    let (re, im, larger) = maximum_of_magnitudes(patch, x)?;
    let smaller = patch.binary(B::Minimum, re, im)?;
    let ratio = patch.binary(B::Divide, smaller, larger)?;
    let square = patch.binary(B::Multiply, ratio, ratio)?;
    let one = patch.like(square, 1.0)?;
    let sum = patch.binary(B::Add, one, square)?;
    let root = patch.unary(U::Sqrt, sum)?;
    let product = patch.binary(B::Multiply, larger, root)?;
    // The ratio is NaN if both parts are zero, or if both are infinite.
    let (zero, infinity) = (patch.like(square, 0.0)?, patch.like(square, f64::INFINITY)?);
    let equals = |patch: &mut Patch<'_>, x, limit| patch.compare(D::Eq, x, limit);
    let (is_zero, re_infinite, im_infinite) =
        (equals(patch, larger, zero)?, equals(patch, re, infinity)?, equals(patch, im, infinity)?);
    let is_infinite = patch.binary(B::Or, re_infinite, im_infinite)?;
    let y = patch.select(is_zero, zero, product)?;
    patch.select(is_infinite, infinity, y)
}

fn unary_op(unary: U, patch: &mut Patch<'_>, x: Pair, op: &Op) -> Result<Option<Value>> {
    let is_pair = part_type(patch.types(), op.operands[0]).is_some();
    let pair = match unary {
        _ if !is_pair => return Ok(None),
        U::Real => return Ok(Some(Value::Real(x.0))),
        U::Imag => return Ok(Some(Value::Real(x.1))),
        U::Abs => return Ok(Some(Value::Real(magnitude(patch, x)?))),
        U::Negate => (patch.unary(U::Negate, x.0)?, patch.unary(U::Negate, x.1)?),
        U::Exponential => {
            let scale = patch.unary(U::Exponential, x.0)?;
            let (cosine, sine) = (patch.unary(U::Cosine, x.1)?, patch.unary(U::Sine, x.1)?);
            (patch.binary(B::Multiply, scale, cosine)?, patch.binary(B::Multiply, scale, sine)?)
        }
        U::Log => {
            let magnitude = magnitude(patch, x)?;
            (patch.unary(U::Log, magnitude)?, patch.binary(B::Atan2, x.1, x.0)?)
        }
        U::Sine | U::Cosine => {
            let (sine, cosine) = (patch.unary(U::Sine, x.0)?, patch.unary(U::Cosine, x.0)?);
            let (grows, odd) = (cosh(patch, x.1)?, sinh(patch, x.1)?);
            let mut times = |a, b| patch.binary(B::Multiply, a, b);
            if unary == U::Sine {
                (times(sine, grows)?, times(cosine, odd)?)
            } else {
                let im = times(sine, odd)?;
                (times(cosine, grows)?, patch.unary(U::Negate, im)?)
            }
        }
        U::Sqrt => {
            // The larger part of the root is `sqrt((|x| + |re|) / 2)`, and `im` is twice the product of the parts.
            let size = magnitude(patch, x)?;
            let re = patch.unary(U::Abs, x.0)?;
            let (half, zero) = (patch.like(re, 0.5)?, patch.like(re, 0.0)?);
            let (size, re) = (patch.binary(B::Multiply, size, half)?, patch.binary(B::Multiply, re, half)?);
            let sum = patch.binary(B::Add, size, re)?;
            let larger = patch.unary(U::Sqrt, sum)?;
            let quotient = patch.binary(B::Divide, x.1, larger)?;
            let smaller = patch.binary(B::Multiply, quotient, half)?;
            let is_zero = patch.compare(D::Eq, larger, zero)?;
            let smaller = patch.select(is_zero, x.1, smaller)?;
            let is_left = patch.compare(D::Lt, x.0, zero)?;
            let is_below = patch.compare(D::Lt, x.1, zero)?;
            let magnitude = patch.unary(U::Abs, smaller)?;
            let negated = patch.unary(U::Negate, larger)?;
            let left = patch.select(is_below, negated, larger)?;
            (patch.select(is_left, magnitude, larger)?, patch.select(is_left, left, smaller)?)
        }
        _ => return Ok(None),
    };
    Ok(Some(Value::Complex(pair)))
}
