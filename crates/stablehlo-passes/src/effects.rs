//! Effects of ops beside their results.

use stablehlo::ir::{Op, OpKind, Region, Type, ValueTypes};

/// Returns whether the op must keep its position: it may have side effects, or draws random numbers.
pub(crate) fn has_effects(op: &Op, types: &ValueTypes) -> bool {
    let is_one = |op: &Op| {
        let kind = matches!(
            op.kind,
            OpKind::CustomCall { .. }
                | OpKind::Call { .. }
                | OpKind::Composite { .. }
                | OpKind::Rng { .. }
                | OpKind::Other { .. }
        );
        kind || op.operands.iter().chain(&op.results).any(|&id| types[id] == Type::Token)
    };
    is_one(op) || op.regions.iter().flat_map(Region::all_ops).any(is_one)
}
