//! Functions with which passes add loops, and ops on arrays in place of regions of scalars.

use std::collections::HashMap;

use stablehlo::ir::{
    Binary, ComparisonDirection, Dims, ElementType, Literal, OpKind, Region, TensorType, Type, ValueId,
};
use stablehlo::{Patch, Result};

use crate::build::Build;
use crate::evaluate::Number;

/// Adds an index, which is a scalar of type `i64`.
pub(crate) fn index(patch: &mut Patch<'_>, number: i64) -> Result<ValueId> {
    patch.splat(TensorType::new([], ElementType::I64), Number::Integer(number.into()))
}

/// Adds `counter / inner % extent`, a coordinate of the element with this number.
pub(crate) fn digit(patch: &mut Patch<'_>, counter: ValueId, inner: i64, extent: i64) -> Result<ValueId> {
    let (inner, extent) = (index(patch, inner.max(1))?, index(patch, extent.max(1))?);
    let at = patch.binary(Binary::Divide, counter, inner)?;
    patch.binary(Binary::Remainder, at, extent)
}

/// Adds a loop that runs `count` times. `body` adds the ops of an iteration from the number of the iteration and the
/// carried values, and returns the next carried values. Returns the final carried values.
pub(crate) fn repeat(
    patch: &mut Patch<'_>,
    count: i64,
    carried: &[ValueId],
    body: impl FnOnce(&mut Patch<'_>, ValueId, &[ValueId]) -> Result<Vec<ValueId>>,
) -> Result<Vec<ValueId>> {
    let zero = index(patch, 0)?;
    let operands: Vec<ValueId> = [zero].into_iter().chain(carried.iter().copied()).collect();
    let fresh = |patch: &mut Patch<'_>| -> Result<Vec<ValueId>> {
        let mut values = Vec::with_capacity(operands.len());
        for &operand in &operands {
            let ty = Type::Tensor(patch.tensor(operand)?.clone());
            values.push(patch.value(ty));
        }
        Ok(values)
    };
    let args = fresh(patch)?;
    let counter = args[0];
    let condition = patch.region(args, |patch| {
        let end = index(patch, count)?;
        let less = patch.compare(ComparisonDirection::Lt, counter, end)?;
        patch.define(OpKind::Return, &[less], &[]);
        Ok(())
    })?;
    let args = fresh(patch)?;
    let (counter, inner) = (args[0], args[1..].to_vec());
    let turn = patch.region(args, |patch| {
        let one = index(patch, 1)?;
        let mut next = vec![patch.binary(Binary::Add, counter, one)?];
        next.extend(body(patch, counter, &inner)?);
        patch.define(OpKind::Return, &next, &[]);
        Ok(())
    })?;
    let results = fresh(patch)?;
    patch.define(OpKind::While, &operands, &results).regions = vec![condition, turn];
    Ok(results[1..].to_vec())
}

/// Returns whether the ops of a region of scalars can be applied to arrays.
pub(crate) fn is_elementwise(region: &Region, patch: &Patch<'_>) -> bool {
    let is_scalar = |value: &ValueId| patch.tensor(*value).is_ok_and(|ty| ty.rank() == 0);
    region.ops.last().is_some_and(|end| matches!(end.kind, OpKind::Return))
        && region.ops.iter().all(|op| {
            let is_known = matches!(
                op.kind,
                OpKind::Binary(_)
                    | OpKind::Clamp
                    | OpKind::Compare { .. }
                    | OpKind::Constant(_)
                    | OpKind::Convert
                    | OpKind::Return
                    | OpKind::Select
                    | OpKind::Unary(_)
            );
            is_known && op.operands.iter().chain(&op.results).all(is_scalar)
        })
}

/// Applies the ops of a region of scalars to arrays.
pub(crate) fn elementwise(
    region: &Region,
    args: &[ValueId],
    shape: &[i64],
    patch: &mut Patch<'_>,
) -> Result<Vec<ValueId>> {
    let mut arrays: HashMap<ValueId, ValueId> = region.args.iter().copied().zip(args.iter().copied()).collect();
    for op in &region.ops {
        let mut operands = Vec::with_capacity(op.operands.len());
        for &operand in &op.operands {
            operands.push(match arrays.get(&operand) {
                Some(&array) => array,
                None => {
                    // A scalar from outside.
                    let ty = TensorType::new(shape, patch.tensor(operand)?.element);
                    patch.add(OpKind::BroadcastInDim { broadcast_dimensions: Dims::new() }, &[operand], ty)
                }
            });
        }
        let &[result] = &op.results[..] else { return Ok(operands) };
        let scalar = patch.tensor(result)?.clone();
        let ty = TensorType::new(shape, scalar.element);
        let kind = match &op.kind {
            OpKind::Constant(literal) => OpKind::Constant(Literal::new(ty.clone(), literal.data.clone())?),
            kind => kind.clone(),
        };
        arrays.insert(result, patch.add(kind, &operands, ty));
    }
    Ok(Vec::new())
}
