//! Searches for ops that compute a value.
//!
//! Dimensions of extent 1 do not matter. A *core dimension* of a tensor is one of its other dimensions, and its number
//! is its position among them.

use std::collections::HashSet;

use stablehlo::ir::{Binary, Func, Op, OpKind, TensorType, Unary, ValueId, ValueTypes};

use crate::effects::has_effects;
use crate::evaluate::{Number, uniform_number};
use crate::uses::Uses;

pub(super) struct Matcher<'f> {
    uses: Uses<'f>,
    types: &'f ValueTypes,
    /// The arguments of all regions, and values without a definition.
    body: &'f stablehlo::ir::Region,
}

/// A value that is broadcast.
pub(super) struct Spread {
    pub(super) value: ValueId,
    /// For each core dimension of the value, that of the result.
    pub(super) dimensions: Vec<usize>,
}

/// A reduction of some core dimensions.
pub(super) struct Reduced {
    pub(super) operand: ValueId,
    pub(super) reduced: Vec<usize>,
    pub(super) kept: Vec<usize>,
}

/// A dimension that a reshape may keep while it splits and merges others: its extent, and the number of elements within
/// each of its positions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Axis {
    extent: i64,
    inner: i64,
}

impl Axis {
    pub(super) fn of(ty: &TensorType, dimension: usize) -> Option<Self> {
        let (&extent, rest) = ty.shape.get(dimension..)?.split_first()?;
        let inner = rest.iter().try_fold(1i64, |product, &extent| product.checked_mul(extent))?;
        Some(Self { extent, inner })
    }

    /// Returns the dimension of a tensor that is this one.
    pub(super) fn find(self, ty: &TensorType) -> Option<usize> {
        (0..ty.rank()).find(|&d| Self::of(ty, d) == Some(self))
    }
}

impl<'f> Matcher<'f> {
    pub(super) fn new(func: &'f Func) -> Self {
        Self { uses: Uses::of(func), types: &func.values, body: &func.body }
    }

    pub(super) fn op(&self, value: ValueId) -> Option<&'f Op> {
        self.uses.definition(value)
    }

    /// Returns the type of a tensor of static shape.
    pub(super) fn ty(&self, value: ValueId) -> Option<&'f TensorType> {
        self.types.static_tensor(value)
    }

    pub(super) fn unary(&self, value: ValueId, op: Unary) -> Option<ValueId> {
        match self.op(value)? {
            Op { kind: OpKind::Unary(found), operands, .. } if *found == op => operands.first().copied(),
            _ => None,
        }
    }

    pub(super) fn binary(&self, value: ValueId, op: Binary) -> Option<(ValueId, ValueId)> {
        match self.op(value)? {
            Op { kind: OpKind::Binary(found), operands, .. } if *found == op => match operands[..] {
                [a, b] => Some((a, b)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the operands of a commutative op in both orders.
    pub(super) fn both(&self, value: ValueId, op: Binary) -> Vec<(ValueId, ValueId)> {
        self.binary(value, op).map_or(Vec::new(), |(a, b)| vec![(a, b), (b, a)])
    }

    /// Returns the operand of a conversion, or else the value.
    pub(super) fn unconverted(&self, value: ValueId) -> ValueId {
        match self.op(value) {
            Some(Op { kind: OpKind::Convert, operands, .. }) => operands.first().copied().unwrap_or(value),
            _ => value,
        }
    }

    /// Returns the number that all elements of a constant are equal to.
    pub(super) fn number(&self, value: ValueId) -> Option<f64> {
        match &self.op(value)?.kind {
            OpKind::Constant(literal) => uniform_number(literal).and_then(|number| match number {
                Number::Float(number) => Some(number),
                Number::Integer(_) => None,
            }),
            OpKind::BroadcastInDim { .. } | OpKind::Reshape => self.number(*self.op(value)?.operands.first()?),
            _ => None,
        }
    }

    /// Returns the other operand, if one operand of a commutative op is this number.
    pub(super) fn with_number(&self, value: ValueId, op: Binary, is_number: impl Fn(f64) -> bool) -> Option<ValueId> {
        let found = |(a, b): &(ValueId, ValueId)| self.number(*b).is_some_and(&is_number).then_some(*a);
        self.both(value, op).iter().find_map(found)
    }

    /// Returns the core dimensions.
    pub(super) fn core_dimensions(ty: &TensorType) -> Vec<usize> {
        (0..ty.rank()).filter(|&d| ty.shape[d] != 1).collect()
    }

    /// Returns the extents of the core dimensions.
    fn core_shape(ty: &TensorType) -> Vec<i64> {
        ty.shape.iter().copied().filter(|&extent| extent != 1).collect()
    }

    /// Removes reshapes that only add or remove dimensions of extent 1.
    pub(super) fn core(&self, mut value: ValueId) -> ValueId {
        while let Some(Op { kind: OpKind::Reshape, operands, .. }) = self.op(value)
            && let Some(&from) = operands.first()
            && let (Some(before), Some(after)) = (self.ty(from), self.ty(value))
            && Self::core_shape(before) == Self::core_shape(after)
        {
            value = from;
        }
        value
    }

    /// Removes reshapes that keep a dimension.
    pub(super) fn around(&self, axis: Axis, mut value: ValueId) -> ValueId {
        while let Some(Op { kind: OpKind::Reshape, operands, .. }) = self.op(value)
            && let Some(&from) = operands.first()
            && self.ty(from).is_some_and(|ty| axis.find(ty).is_some())
        {
            value = from;
        }
        value
    }

    /// Returns the value that is broadcast to this one.
    pub(super) fn spread(&self, value: ValueId) -> Option<Spread> {
        let mut value = self.core(value);
        let mut dimensions: Vec<usize> = (0..Self::core_dimensions(self.ty(value)?).len()).collect();
        while let Some(Op { kind: OpKind::BroadcastInDim { broadcast_dimensions }, operands, .. }) = self.op(value) {
            let &from = operands.first()?;
            let (before, after) = (self.ty(from)?, Self::core_dimensions(self.ty(value)?));
            let to = |d: usize| {
                let at = after.iter().position(|core| Some(core) == broadcast_dimensions.get(d))?;
                dimensions.get(at).copied()
            };
            dimensions = Self::core_dimensions(before).into_iter().map(to).collect::<Option<_>>()?;
            value = self.core(from);
        }
        Some(Spread { value, dimensions })
    }

    /// Returns the operand of a reduction with this op, whose initial value changes nothing.
    pub(super) fn reduced(&self, value: ValueId, op: Binary, init: f64) -> Option<Reduced> {
        let Op { kind: OpKind::Reduce { dimensions }, operands, regions, .. } = self.op(self.core(value))? else {
            return None;
        };
        let (&[operand, initial], [body]) = (&operands[..], &regions[..]) else { return None };
        let (&[a, b], [Op { kind: OpKind::Binary(found), operands, results, .. }, end]) =
            (&body.args[..], &body.ops[..])
        else {
            return None;
        };
        let is_simple = *found == op
            && (operands[..] == [a, b] || operands[..] == [b, a])
            && end.operands == *results
            // A sum that starts with 0.0 or -0.0 is the same sum, up to the sign of zero.
            && self.number(initial) == Some(init);
        let core = Self::core_dimensions(self.ty(operand)?);
        let (reduced, kept) = (0..core.len()).partition(|&at| dimensions.contains(&core[at]));
        is_simple.then_some(Reduced { operand, reduced, kept })
    }

    /// Returns the ops that compute a value from the inputs, in program order. Returns `None` if they also need other
    /// values, or if they have effects.
    pub(super) fn slice(&self, value: ValueId, inputs: &[ValueId]) -> Option<Vec<&'f Op>> {
        let mut needed: HashSet<*const Op> = HashSet::new();
        let mut open = vec![value];
        while let Some(value) = open.pop() {
            if inputs.contains(&value) {
                continue;
            }
            let op = self.op(value)?;
            if !needed.insert(std::ptr::from_ref(op)) {
                continue;
            }
            let is_chlo = |op: &Op| match &op.kind {
                OpKind::Composite { name, .. } | OpKind::Other { name, .. } => name.starts_with("chlo."),
                _ => false,
            };
            if has_effects(op, self.types) && !is_chlo(op) {
                return None;
            }
            open.extend(&op.operands);
            open.extend(op.captures());
        }
        Some(self.body.all_ops().filter(|op| needed.contains(&std::ptr::from_ref(*op))).collect())
    }
}
