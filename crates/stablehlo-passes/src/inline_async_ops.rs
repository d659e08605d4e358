//! The pass `inline_async_ops`.

use std::collections::HashMap;

use stablehlo::ir::{Module, Op, OpKind, Region, ValueId, ValueIds};
use stablehlo::{Error, ErrorKind, Patch, Result, rewrite};

use crate::apply::apply_all;

/// Returns whether the op only constrains the order of other ops.
fn is_order(op: &Op) -> bool {
    matches!(&op.kind, OpKind::CustomCall { call_target_name, .. } if call_target_name == "control_dep")
        && op.results.is_empty()
}

/// Replaces `async_start` and `async_done` with the op that `async_start` contains. Returns `None` if the program has
/// no such ops.
///
/// The op runs at `async_start`. The specification also allows it to run later, up to `async_done`.
///
/// The pass also removes `custom_call @control_dep`. JAX uses this call to request an order of ops. The operands of the
/// call may be futures, and the call does not change any value.
///
/// # Errors
///
/// Returns an error if another op than `async_done` uses a future, if the future comes from another function, or if an
/// `async_start` contains more than one op. The module must be verified.
pub fn inline_async_ops(module: &Module) -> Result<Option<Module>> {
    let is_concerned = |op: &Op| matches!(op.kind, OpKind::AsyncStart | OpKind::AsyncDone) || is_order(op);
    apply_all(
        module,
        |func| func.body.all_ops().any(is_concerned),
        |func, locations| {
            // The results of the op that each future stands for.
            let mut futures = HashMap::new();
            rewrite(func, locations, |op, patch| replace(op, patch, &mut futures))
        },
    )
}

fn replace(op: Op, patch: &mut Patch<'_>, futures: &mut HashMap<ValueId, ValueIds>) -> Result<()> {
    match op.kind {
        _ if is_order(&op) => {}
        OpKind::AsyncStart => {
            let wrong = || Error::new(ErrorKind::Structure, "must have one region of one op and a return");
            let [region] = <[Region; 1]>::try_from(op.regions).map_err(|_| wrong())?;
            let (&[future], 2) = (&op.results[..], region.ops.len()) else { return Err(wrong()) };
            futures.insert(future, patch.inline(region, &op.operands)?);
        }
        OpKind::AsyncDone => {
            let results = op.operands.first().and_then(|future| futures.get(future)).ok_or_else(|| {
                let message = "the future was not started in the same function";
                Error::new(ErrorKind::Unsupported, message)
            })?;
            for (&value, &by) in op.results.iter().zip(results) {
                patch.replace_uses(value, by);
            }
        }
        _ if op.operands.iter().any(|operand| futures.contains_key(operand)) => {
            return Err(Error::new(ErrorKind::Unsupported, "the op uses a future"));
        }
        _ => patch.push(op),
    }
    Ok(())
}
