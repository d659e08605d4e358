//! The pass `remove_shardings`.

use std::convert::Infallible;

use stablehlo::ir::{Func, Module, Op, OpKind, Region, is_sharding};
use stablehlo::rewrite;

/// Custom calls whose result is their operand on one device.
const CONSTRAINTS: [&str; 6] = [
    "Sharding",
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
    "xla.sdy.FuncResultSharding",
    "xla.sdy.GlobalToLocalShape",
    "xla.sdy.LocalToGlobalShape",
];

/// Custom calls without a result.
const NOTES: [&str; 3] = ["xla.sdy.ShardingGroup", "local_xla.sdy.ShardingGroup", "xla.sdy.PropagationBarrier"];

/// What an op means on one device.
enum Meaning {
    /// Its operand.
    Operand,
    Nothing,
    /// The op itself.
    Itself,
}

fn meaning(op: &Op) -> Meaning {
    let name = match &op.kind {
        OpKind::CustomCall { call_target_name, .. } => call_target_name.as_str(),
        OpKind::Other { name, .. } => name.as_str(),
        _ => return Meaning::Itself,
    };
    let is_constraint = CONSTRAINTS.contains(&name)
        || matches!(name, "sdy.sharding_constraint" | "sdy.reshard" | "sdy.propagation_barrier")
        || name == "xla.sdy.PropagationBarrier";
    if is_constraint && op.operands.len() == op.results.len() && !op.results.is_empty() {
        Meaning::Operand
    } else if (NOTES.contains(&name) || name == "sdy.sharding_group") && op.results.is_empty() {
        Meaning::Nothing
    } else {
        Meaning::Itself
    }
}

fn applies(region: &Region) -> bool {
    let has =
        |op: &Op| !matches!(meaning(op), Meaning::Itself) || op.attributes.iter().any(|(name, _)| is_sharding(name));
    region.ops.iter().any(|op| has(op) || op.regions.iter().any(applies))
}

fn has_shardings(func: &Func) -> bool {
    let mut attributes = func.arg_attributes.iter().chain(&func.result_attributes).flatten();
    applies(&func.body) || attributes.any(|(name, _)| is_sharding(name))
}

/// Removes what describes how a program is divided among devices, for a device that runs it alone. These are sharding
/// constraints, and the sharding attributes of Shardy (`sdy.sharding`) and GSPMD (`mhlo.sharding`). JAX adds
/// constraints even to programs for one device, for example in `jax.random.normal`. Returns `None` if the program has
/// none of them.
///
/// Manual computations remain, because their bodies may contain collectives. The module must be verified.
#[must_use]
pub fn remove_shardings(module: &Module) -> Option<Module> {
    if !module.funcs.iter().any(has_shardings) {
        return None;
    }
    let mut module = module.clone();
    for func in &mut module.funcs {
        for attributes in func.arg_attributes.iter_mut().chain(&mut func.result_attributes) {
            attributes.retain(|(name, _)| !is_sharding(name));
        }
        let Ok(()) = rewrite::<Infallible>(func, |mut op, patch| {
            match meaning(&op) {
                Meaning::Operand => {
                    let types = patch.types();
                    if op.operands.iter().zip(&op.results).all(|(&x, &y)| types[x] == types[y]) {
                        for (&value, &by) in op.results.iter().zip(&op.operands) {
                            patch.replace(value, by);
                        }
                        return Ok(());
                    }
                }
                Meaning::Nothing => return Ok(()),
                Meaning::Itself => {}
            }
            op.attributes.retain(|(name, _)| !is_sharding(name));
            patch.push(op);
            Ok(())
        });
    }
    Some(module)
}
