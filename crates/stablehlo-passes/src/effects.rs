//! Effects of ops beside their results.

use stablehlo::ir::{Op, OpKind, Region, Type, ValueTypes};

/// Returns whether the op must keep its position: it may have side effects, or draws random numbers.
pub(crate) fn has_effects(op: &Op, types: &ValueTypes) -> bool {
    any(op, |op| {
        let kind = matches!(
            op.kind,
            OpKind::CustomCall { .. }
                | OpKind::Call { .. }
                | OpKind::Composite { .. }
                | OpKind::Rng { .. }
                | OpKind::Other { .. }
        );
        kind || has_token(op, types)
    })
}

/// Returns whether the op must keep its order with other ops for which this function returns true. Unlike
/// [`has_effects`], returns false for custom calls that are declared free of side effects, and for ops of CHLO. Returns
/// true for collectives, because all devices must run them in the same order.
pub(crate) fn keeps_order(op: &Op, types: &ValueTypes) -> bool {
    let own = any(op, |op| match &op.kind {
        OpKind::CustomCall { has_side_effect, .. } => *has_side_effect || has_token(op, types),
        OpKind::Composite { name, .. } | OpKind::Other { name, .. } => !name.starts_with("chlo."),
        OpKind::Call { .. } | OpKind::Rng { .. } => true,
        _ => has_token(op, types),
    });
    own || is_collective(op)
}

/// Returns whether the op is a collective, or contains one.
pub fn is_collective(op: &Op) -> bool {
    any(op, |op| match &op.kind {
        OpKind::CollectivePermute { .. } | OpKind::AsyncStart | OpKind::AsyncDone => true,
        OpKind::CustomCall { call_target_name, .. } => call_target_name == "ragged_all_to_all",
        kind => kind.replica_groups().is_some(),
    })
}

fn has_token(op: &Op, types: &ValueTypes) -> bool {
    op.operands.iter().chain(&op.results).any(|&id| types.get(id.0 as usize) == Some(&Type::Token))
}

/// Returns whether `is_one` returns true for the op, or for an op of its regions.
fn any(op: &Op, is_one: impl Fn(&Op) -> bool) -> bool {
    is_one(op) || op.regions.iter().flat_map(Region::all_ops).any(is_one)
}
