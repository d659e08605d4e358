//! State of the function that is being rewritten.

use super::rules::DeviceRules;
use crate::ir::*;

/// Rewrites one function.
pub(super) struct Rewrite<'f> {
    pub(super) rules: &'f DeviceRules,
    pub(super) values: &'f mut ValueTypes,
    pub(super) module: &'f Module,
}

impl Rewrite<'_> {
    /// Adds a value of the type `ty`, appends an op with this result to `ops`, and returns the result.
    pub(super) fn add(
        &mut self,
        kind: OpKind,
        operands: &[ValueId],
        ty: TensorType,
        location: LocationId,
        ops: &mut Vec<Op>,
    ) -> ValueId {
        let result = ValueId(u32::try_from(self.values.len()).unwrap_or(u32::MAX));
        self.values.push(Type::Tensor(ty));
        let mut op = Op::new(kind, operands, vec![result]);
        op.location = location;
        ops.push(op);
        result
    }
}
