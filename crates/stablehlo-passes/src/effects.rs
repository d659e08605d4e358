//! Effects of ops beside their results.

use stablehlo::ir::{Op, OpKind, Type, ValueTypes};

/// Returns whether the op must keep its position: it may have side effects, or draws random numbers.
pub(crate) fn has_effects(op: &Op, types: &ValueTypes) -> bool {
    let may_have_effects = matches!(
        op.kind,
        OpKind::CustomCall { .. }
            | OpKind::Call { .. }
            | OpKind::Composite { .. }
            | OpKind::Rng { .. }
            | OpKind::Other { .. }
    );
    may_have_effects
        || op.operands.iter().chain(&op.results).any(|&id| types[id] == Type::Token)
        || op.regions.iter().flat_map(|region| &region.ops).any(|op| has_effects(op, types))
}
