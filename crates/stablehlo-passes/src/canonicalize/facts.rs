//! What is known about the values of a function, and what replaces an op.

use std::collections::HashMap;

use stablehlo::ir::{Literal, Op, OpKind, ValueId, ValueIds};

use crate::evaluate::{Number, uniform_number};

/// What replaces an op with one result.
pub(super) enum Simpler {
    /// A value of the same type.
    Value(ValueId),
    /// An op with the same result type.
    Op(OpKind, ValueIds),
}

impl Simpler {
    pub(super) fn op(kind: OpKind, operands: &[ValueId]) -> Option<Self> {
        Some(Self::Op(kind, operands.into()))
    }

    pub(super) fn constant(literal: Option<Literal>) -> Option<Self> {
        Self::op(OpKind::Constant(literal?), &[])
    }
}

/// The ops that define values, without their regions.
#[derive(Default)]
pub(crate) struct Known {
    ops: HashMap<ValueId, (OpKind, ValueIds)>,
}

impl Known {
    pub(crate) fn definition(&self, value: ValueId) -> Option<(&OpKind, &[ValueId])> {
        self.ops.get(&value).map(|(kind, operands)| (kind, &operands[..]))
    }

    pub(super) fn literal(&self, value: ValueId) -> Option<&Literal> {
        match self.definition(value) {
            Some((OpKind::Constant(literal), _)) => Some(literal),
            _ => None,
        }
    }

    /// Returns the number that all elements are equal to.
    pub(super) fn number(&self, value: ValueId) -> Option<Number> {
        uniform_number(self.literal(value)?)
    }

    pub(super) fn is_true(&self, value: ValueId) -> Option<bool> {
        Some(self.number(value)?.integer()? != 0)
    }

    pub(crate) fn add(&mut self, op: &Op) {
        let is_useful = matches!(
            op.kind,
            OpKind::BroadcastInDim { .. }
                | OpKind::Binary(stablehlo::ir::Binary::Complex)
                | OpKind::Constant(_)
                | OpKind::Convert
                | OpKind::Iota { .. }
                | OpKind::Reshape
                | OpKind::Transpose { .. }
                | OpKind::Tuple
                | OpKind::Unary(_)
        );
        if let (&[result], true) = (&op.results[..], is_useful) {
            self.ops.insert(result, (op.kind.clone(), op.operands.clone()));
        }
    }
}
