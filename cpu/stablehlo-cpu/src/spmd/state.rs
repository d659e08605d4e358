//! The sharding of a value during planning.

use stablehlo::ir::Type;

use crate::sharding::grid::{AxisSet, Spec};

/// The sharding of one value.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) dims: Spec,
    pub(super) open: Vec<bool>,
    /// Manual axes, along which each device has its own value.
    pub(super) manual: AxisSet,
    /// Axes along which devices hold summands of the value.
    pub(super) unreduced: AxisSet,
    /// Axes along which a constraint requires the value to be unreduced.
    pub(super) summed: AxisSet,
    pub(super) extents: Vec<usize>,
    /// Whether only annotations may shard the value unevenly. This applies to arguments, results and values at the
    /// boundary of a manual computation. Code that sees these values does not expect padding.
    pub(super) even: bool,
}

impl State {
    /// Returns the state of a value of this type before its sharding is known.
    pub(super) fn of(ty: &Type) -> Self {
        let extents: Vec<usize> = match ty {
            Type::Tensor(ty) => ty.shape.iter().map(|&d| usize::try_from(d).unwrap_or(0)).collect(),
            _ => Vec::new(),
        };
        let rank = extents.len();
        Self { dims: vec![Vec::new(); rank], open: vec![true; rank], extents, ..Self::default() }
    }
}
