//! The pass `inline_async_ops`: replaces `async_start` and `async_done` with the op that `async_start` contains, before
//! a program is partitioned or lowered.
//!
//! The op runs at `async_start`. The specification also allows it to run later, up to `async_done`.
//!
//! The pass also removes `custom_call @control_dep`. JAX uses this call to request an order of ops. The operands of the
//! call may be futures, and the call does not change any value.

use std::collections::HashMap;

use stablehlo::ir::{Module, Op, OpKind, Region, ValueId};

use crate::error::CompileError;

type Result<T> = std::result::Result<T, CompileError>;

/// Returns whether the op only constrains the order of other ops.
fn is_order(op: &Op) -> bool {
    matches!(&op.kind, OpKind::CustomCall { call_target_name, .. } if call_target_name == "control_dep")
        && op.results.is_empty()
}

fn applies(region: &Region) -> bool {
    region.ops.iter().any(|op| matches!(op.kind, OpKind::AsyncStart) || is_order(op) || op.regions.iter().any(applies))
}

/// Returns the program without asynchronous ops and calls of `control_dep`, or `None` if it contains neither. The
/// verifier must have accepted the module.
pub(crate) fn inline_async_ops(module: &Module) -> Result<Option<Module>> {
    if !module.funcs.iter().any(|f| applies(&f.body)) {
        return Ok(None);
    }
    let mut module = module.clone();
    for func in module.funcs.iter_mut().filter(|f| applies(&f.body)) {
        Rewrite::default().region(&mut func.body)?;
    }
    Ok(Some(module))
}

#[derive(Default)]
struct Rewrite {
    /// The replacement of each replaced value.
    same: HashMap<ValueId, ValueId>,
    /// The results of the op that each future stands for.
    futures: HashMap<ValueId, Vec<ValueId>>,
}

impl Rewrite {
    fn region(&mut self, region: &mut Region) -> Result<()> {
        for mut op in std::mem::take(&mut region.ops) {
            if is_order(&op) {
                continue;
            }
            for operand in &mut op.operands {
                *operand = self.same.get(operand).copied().unwrap_or(*operand);
            }
            if matches!(op.kind, OpKind::AsyncStart) {
                region.ops.push(self.started(op)?);
                continue;
            }
            if matches!(op.kind, OpKind::AsyncDone) {
                let made = op.operands.first().and_then(|future| self.futures.get(future));
                let made = made.ok_or_else(|| {
                    CompileError::unsupported(
                        "stablehlo.async_done of a future that was not started in the same function",
                    )
                })?;
                self.same.extend(op.results.iter().copied().zip(made.iter().copied()));
                continue;
            }
            op.regions.iter_mut().try_for_each(|region| self.region(region))?;
            region.ops.push(op);
        }
        Ok(())
    }

    /// Returns the op inside an `async_start`, after replacing its operands.
    fn started(&mut self, op: Op) -> Result<Op> {
        let wrong = || CompileError::invalid("stablehlo.async_start has one region of one op and a return");
        let [mut region] = <[Region; 1]>::try_from(op.regions).map_err(|_| wrong())?;
        self.same.extend(region.args.iter().copied().zip(op.operands.iter().copied()));
        self.region(&mut region)?;
        let [inner, end] = <[Op; 2]>::try_from(region.ops).map_err(|_| wrong())?;
        let &[future] = &op.results[..] else { return Err(wrong()) };
        self.futures.insert(future, end.operands.to_vec());
        Ok(inner)
    }
}
