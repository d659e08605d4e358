//! The roles of ops in partitioning.

use stablehlo::ir::{Op, OpKind};

/// The role of an op in partitioning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Returns the operand, with the sharding that the op specifies.
    Constraint,
    /// Enters a manual computation of GSPMD. Converts a value to the part that each device holds.
    FullToShard,
    ShardToFull,
    ManualComputation,
    /// Returns the operands unchanged, and does not itself specify a sharding.
    Nothing,
    Plain,
}

/// Returns the role of an op.
pub(super) fn role(op: &Op) -> Role {
    match &op.kind {
        OpKind::CustomCall { call_target_name, .. } => match call_target_name.as_str() {
            "Sharding" => Role::Constraint,
            "SPMDFullToShardShape" => Role::FullToShard,
            "SPMDShardToFullShape" => Role::ShardToFull,
            "annotate_device_placement" | "LayoutConstraint" | "MoveToHost" | "MoveToDevice" => Role::Nothing,
            _ => Role::Plain,
        },
        OpKind::OptimizationBarrier => Role::Nothing,
        OpKind::Other { name, .. } => match name.as_str() {
            "sdy.sharding_constraint" | "sdy.reshard" => Role::Constraint,
            "sdy.propagation_barrier" => Role::Nothing,
            "sdy.manual_computation" => Role::ManualComputation,
            _ => Role::Plain,
        },
        _ => Role::Plain,
    }
}

/// Returns whether the op is a collective between partitions. A collective without a channel is between replicas, and
/// each partition runs it on its own parts.
pub(super) fn is_cross_partition(op: &Op) -> bool {
    let transfers = matches!(op.kind, OpKind::Send { .. } | OpKind::Recv { .. });
    !transfers && op.kind.channel().is_some_and(|channel| channel.id > 0)
}
