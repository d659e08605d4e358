//! The pass `remove_shardings`.

use stablehlo::ir::{Attributes, Func, Module, Op, OpKind, ValueTypes, is_sharding};
use stablehlo::{Result, rewrite};

use crate::apply::apply_all;

/// Ops whose results are their operands on one device. The names of custom calls may begin with `local_`.
const CONSTRAINTS: [&str; 10] = [
    "Sharding",
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
    "sdy.propagation_barrier",
    "sdy.reshard",
    "sdy.sharding_constraint",
    "xla.sdy.FuncResultSharding",
    "xla.sdy.GlobalToLocalShape",
    "xla.sdy.LocalToGlobalShape",
    "xla.sdy.PropagationBarrier",
];

/// Ops without results.
const ANNOTATIONS: [&str; 3] = ["sdy.sharding_group", "xla.sdy.PropagationBarrier", "xla.sdy.ShardingGroup"];

/// What an op means on one device.
#[derive(PartialEq)]
enum Meaning {
    Operands,
    Nothing,
    Itself,
}

fn meaning(op: &Op, types: &ValueTypes) -> Meaning {
    let name = match &op.kind {
        OpKind::CustomCall { call_target_name, .. } => {
            call_target_name.strip_prefix("local_").unwrap_or(call_target_name)
        }
        OpKind::Other { name, .. } => name,
        _ => return Meaning::Itself,
    };
    if op.results.is_empty() {
        return if ANNOTATIONS.contains(&name) { Meaning::Nothing } else { Meaning::Itself };
    }
    // With several devices, the shapes may differ.
    let operands = op.operands.iter().map(|&operand| &types[operand]);
    let is_same = operands.eq(op.results.iter().map(|&result| &types[result]));
    if is_same && CONSTRAINTS.contains(&name) { Meaning::Operands } else { Meaning::Itself }
}

/// Returns the attributes of an op, of which one kind also has some.
fn attributes(op: &mut Op) -> impl Iterator<Item = &mut Attributes> {
    let own = match &mut op.kind {
        OpKind::Other { attributes, .. } => Some(attributes),
        _ => None,
    };
    own.into_iter().chain([&mut op.attributes])
}

fn applies(func: &Func) -> bool {
    let is_concerned = |op: &Op| {
        let own = match &op.kind {
            OpKind::Other { attributes, .. } => attributes.as_slice(),
            _ => &[],
        };
        has_sharding(own) || has_sharding(&op.attributes) || meaning(op, &func.values) != Meaning::Itself
    };
    let mut outer = func.arg_attributes.iter().chain(&func.result_attributes);
    outer.any(|attributes| has_sharding(attributes)) || func.body.all_ops().any(is_concerned)
}

fn has_sharding(attributes: &[(String, stablehlo::ir::Attribute)]) -> bool {
    attributes.iter().any(|(name, _)| is_sharding(name))
}

/// Removes sharding constraints and sharding attributes, those of Shardy (`sdy.sharding`) and of GSPMD
/// (`mhlo.sharding`), for a device that runs the program alone. JAX adds constraints even to programs for one device,
/// for example in `jax.random.normal`. Returns `None` if the program has none of them.
///
/// Manual computations remain, because their bodies may contain collectives. The module must be verified.
///
/// # Errors
///
/// Returns no error for a verified module.
pub fn remove_shardings(module: &Module) -> Result<Option<Module>> {
    let remove = |attributes: &mut Attributes| attributes.retain(|(name, _)| !is_sharding(name));
    apply_all(module, applies, |func, locations| {
        func.arg_attributes.iter_mut().chain(&mut func.result_attributes).for_each(remove);
        rewrite(func, locations, |mut op, patch| {
            match meaning(&op, patch.types()) {
                Meaning::Operands => {
                    for (&value, &by) in op.results.iter().zip(&op.operands) {
                        patch.replace_uses(value, by);
                    }
                }
                Meaning::Nothing => {}
                Meaning::Itself => {
                    attributes(&mut op).for_each(remove);
                    patch.push(op);
                }
            }
            Ok(())
        })
    })
}
