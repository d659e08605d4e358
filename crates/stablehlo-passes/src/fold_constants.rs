//! The pass `fold_constants`.

use std::collections::HashMap;

use stablehlo::ir::{DYNAMIC, Func, Literal, Module, Op, OpKind, ValueId, ValueTypes, is_sharding};
use stablehlo::{Result, rewrite};

use crate::apply::apply;
use crate::evaluate::{evaluate, zeros};

/// Replaces ops on constants with their results. Returns `None` if the program has no such op.
///
/// ```text
/// %0 = stablehlo.constant dense<2> : tensor<4xi32>       %0 = stablehlo.constant dense<2> : tensor<4xi32>
/// %1 = stablehlo.add %0, %0 : tensor<4xi32>          =>  %1 = stablehlo.constant dense<4> : tensor<4xi32>
/// ```
///
/// Folds ops that move elements, integer arithmetic, comparisons, conversions, and the floating-point ops whose results
/// IEEE 754 determines: sums, differences, products, quotients, remainders, square roots, and rounding to an integer.
/// Keeps an op whose result depends on the device, such as a division of an integer by zero or a NaN.
///
/// A result has equal elements, shares the bytes of an operand, or has at most 1024 elements. An `iota` stays an
/// `iota`, but an op that uses only constants and an `iota` of at most 64 elements is folded.
///
/// Call [`eliminate_dead_code`](crate::eliminate_dead_code) afterwards to remove constants that are not used any more.
///
/// # Errors
///
/// Returns no error for a verified module.
pub fn fold_constants(module: &Module) -> Result<Option<Module>> {
    let is_known =
        |op: &Op| matches!(op.kind, OpKind::Constant(_) | OpKind::Iota { .. } | OpKind::GetDimensionSize { .. });
    let applies = |func: &Func| is_concerned(func) && func.body.all_ops().any(is_known);
    apply(module, applies, |func, locations| {
        let mut changed = false;
        let mut known = HashMap::new();
        rewrite(func, locations, |mut op, patch| {
            if let Some(literal) = value(&op, &known, patch.types()) {
                let result = op.results[0];
                known.insert(result, literal.clone());
                if !matches!(op.kind, OpKind::Constant(_) | OpKind::Iota { .. }) || is_zero(&op, patch.types()) {
                    changed = true;
                    let attributes = op.attributes.into_iter().filter(|(name, _)| is_sharding(name)).collect();
                    let constant = Op::new(OpKind::Constant(literal), &[][..], &[result][..]);
                    op = Op { location: op.location, attributes, ..constant };
                }
            }
            patch.push(op);
            Ok(())
        })?;
        Ok(changed)
    })
}

/// A future's op must stay as it is, so [`inline_async_ops`](crate::inline_async_ops) must run before.
pub(crate) fn is_concerned(func: &Func) -> bool {
    !func.body.all_ops().any(|op| matches!(op.kind, OpKind::AsyncStart))
}

/// Returns whether the op is an `iota` of zeros.
fn is_zero(op: &Op, types: &ValueTypes) -> bool {
    match (&op.kind, op.results.first().and_then(|&result| types.tensor(result))) {
        (OpKind::Iota { iota_dimension }, Some(ty)) => ty.shape.get(*iota_dimension) == Some(&1),
        _ => false,
    }
}

/// Returns the value of a constant, or of an op on constants.
pub(crate) fn value(op: &Op, known: &HashMap<ValueId, Literal>, types: &ValueTypes) -> Option<Literal> {
    match (&op.kind, &op.results[..]) {
        (OpKind::Constant(literal), &[result]) => (types.tensor(result) == Some(&literal.ty)).then(|| literal.clone()),
        (OpKind::GetDimensionSize { dimension }, &[result]) => {
            let extent = *types.tensor(*op.operands.first()?)?.shape.get(*dimension)?;
            let bytes = i32::try_from(extent).ok().filter(|_| extent != DYNAMIC)?.to_le_bytes();
            Literal::new(types.tensor(result)?.clone(), bytes.to_vec()).ok()
        }
        (_, &[result]) if is_zero(op, types) => zeros(types.tensor(result)?),
        (_, [_]) if op.regions.is_empty() => {
            let operands = op.operands.iter().map(|operand| known.get(operand));
            evaluate(op, &operands.collect::<Option<Vec<_>>>()?, types)
        }
        _ => None,
    }
}
