//! The pass `remove_shardings`.

use std::convert::Infallible;

use stablehlo::ir::{Attributes, Func, Module, Op, OpKind, Region, is_sharding};
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
const ANNOTATIONS: [&str; 3] = ["xla.sdy.ShardingGroup", "local_xla.sdy.ShardingGroup", "xla.sdy.PropagationBarrier"];

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
    } else if (ANNOTATIONS.contains(&name) || name == "sdy.sharding_group") && op.results.is_empty() {
        Meaning::Nothing
    } else {
        Meaning::Itself
    }
}

fn applies(region: &Region) -> bool {
    let has = |op: &Op| {
        let own = match &op.kind {
            OpKind::Other { attributes, .. } => attributes.as_slice(),
            _ => &[],
        };
        let mut attributes = op.attributes.iter().chain(own);
        !matches!(meaning(op), Meaning::Itself) || attributes.any(|(name, _)| is_sharding(name))
    };
    region.ops.iter().any(|op| has(op) || op.regions.iter().any(applies))
}

fn has_shardings(func: &Func) -> bool {
    let mut attributes = func.arg_attributes.iter().chain(&func.result_attributes).flatten();
    applies(&func.body) || attributes.any(|(name, _)| is_sharding(name))
}

/// Removes sharding constraints and sharding attributes, those of Shardy (`sdy.sharding`) and of GSPMD
/// (`mhlo.sharding`), for a device that runs the program alone. JAX adds constraints even to programs for one device,
/// for example in `jax.random.normal`. Returns `None` if the program has none of them.
///
/// Manual computations remain, because their bodies may contain collectives. The module must be verified.
#[must_use]
pub fn remove_shardings(module: &Module) -> Option<Module> {
    if !module.funcs.iter().any(has_shardings) {
        return None;
    }
    let mut module = module.clone();
    let mut changed = false;
    for func in &mut module.funcs {
        for attributes in func.arg_attributes.iter_mut().chain(&mut func.result_attributes) {
            changed |= remove(attributes);
        }
        let Ok(()) = rewrite::<Infallible>(func, |mut op, patch| {
            match meaning(&op) {
                Meaning::Operand => {
                    let types = patch.types();
                    if op.operands.iter().zip(&op.results).all(|(&x, &y)| types[x] == types[y]) {
                        for (&value, &by) in op.results.iter().zip(&op.operands) {
                            patch.replace_uses(value, by);
                        }
                        changed = true;
                        return Ok(());
                    }
                }
                Meaning::Nothing => {
                    changed = true;
                    return Ok(());
                }
                Meaning::Itself => {}
            }
            changed |= remove(&mut op.attributes);
            if let OpKind::Other { attributes, .. } = &mut op.kind {
                changed |= remove(attributes);
            }
            patch.push(op);
            Ok(())
        });
    }
    changed.then_some(module)
}

/// Removes sharding attributes. Returns whether there was one.
fn remove(attributes: &mut Attributes) -> bool {
    let before = attributes.len();
    attributes.retain(|(name, _)| !is_sharding(name));
    attributes.len() < before
}
