//! Finds ops that are linear. A linear op that runs on each summand of an operand produces the summands of the result.
//! A value is unreduced along an axis if each device along the axis holds a summand of the value. Names in the code
//! call an unreduced value a sum.

use stablehlo::ir::{Binary, ElementType, Func, Op, OpKind, Region, Type, Unary, ValueId};

use super::annotations::of_op;
use super::plan::Plan;
use super::role::{Role, role};
use super::rules::{Constants, is_scatter_add, reducer};
use super::split::Splitter;
use crate::error::CompileError;
use crate::sharding::grid::{Axis, AxisSet};

type Result<T> = std::result::Result<T, CompileError>;

/// The operands in which an op is linear.
pub(super) enum Linear {
    /// Linear in all of these operands together, like `add`. The other operands must not be unreduced.
    Together(Vec<usize>),
    /// Linear in each of these operands if no other operand is unreduced, like `multiply`.
    Apart(Vec<usize>),
    None,
}

/// Returns the operands in which `op` is linear. Ignores differences in rounding and overflow, because any change to
/// the order of a summation causes them.
pub(super) fn linear(func: &Func, op: &Op, constants: &impl Constants) -> Linear {
    let element = |value: Option<&ValueId>| match value.and_then(|v| func.values.get(v.0 as usize)) {
        Some(Type::Tensor(ty)) => Some(ty.element),
        _ => None,
    };
    let adds = || reducer(op) == Some(Binary::Add);
    match &op.kind {
        OpKind::Unary(Unary::Negate | Unary::Real | Unary::Imag)
        | OpKind::BroadcastInDim { .. }
        | OpKind::Reshape
        | OpKind::Transpose { .. }
        | OpKind::Slice { .. }
        | OpKind::DynamicSlice { .. }
        | OpKind::Gather { .. }
        | OpKind::Reverse { .. }
        | OpKind::ReducePrecision { .. } => Linear::Together(vec![0]),
        OpKind::Convert => match (element(op.operands.first()), element(op.results.first())) {
            (Some(from), Some(to)) if keeps_sums(from, to) => Linear::Together(vec![0]),
            _ => Linear::None,
        },
        OpKind::Binary(Binary::Add | Binary::Subtract | Binary::Complex)
        | OpKind::DynamicUpdateSlice
        | OpKind::Pad { .. } => Linear::Together(vec![0, 1]),
        OpKind::Concatenate { .. } => Linear::Together((0..op.operands.len()).collect()),
        OpKind::Select => Linear::Together(vec![1, 2]),
        OpKind::Binary(Binary::Multiply) | OpKind::DotGeneral { .. } | OpKind::Convolution { .. } => {
            Linear::Apart(vec![0, 1])
        }
        OpKind::Binary(Binary::Divide) => match element(op.results.first()) {
            Some(element) if !is_exact(element) => Linear::Together(vec![0]),
            _ => Linear::None,
        },
        OpKind::Reduce { .. } | OpKind::ReduceWindow { .. }
            if op.operands.len() == 2 && adds() && is_zero(constants, op.operands[1]) =>
        {
            Linear::Together(vec![0])
        }
        OpKind::Scatter { .. } if is_scatter_add(op) => Linear::Together(vec![0, 2]),
        _ => Linear::None,
    }
}

/// Returns whether the value is a constant zero. The summands of such a value may all be zero.
pub(super) fn is_zero(constants: &impl Constants, value: ValueId) -> bool {
    constants.constant(value).is_some_and(|literal| literal.data.iter().all(|&byte| byte == 0))
}

fn is_exact(element: ElementType) -> bool {
    element == ElementType::Bool || element.is_integer()
}

fn keeps_sums(from: ElementType, to: ElementType) -> bool {
    to != ElementType::Bool && from != ElementType::Bool && (!is_exact(to) || is_exact(from))
}

impl<'m> Plan<'m> {
    /// Records the axes along which the annotations of constraints require the operands to be unreduced. The
    /// propagation does not shard these operands along these axes.
    pub(super) fn note_wanted_sums(&mut self, region: &'m Region) -> Result<()> {
        for op in region.all_ops() {
            if let (Role::Constraint, [annotation, ..], &[operand]) = (role(op), &of_op(op)?[..], &op.operands[..]) {
                let state = &mut self.states[operand.0 as usize];
                let axes = self.grid.sharding(annotation, state.dims.len())?.unreduced;
                state.summed = state.summed.union(axes);
            }
        }
        Ok(())
    }

    /// Marks the results of an op as unreduced if its operands are unreduced, and the op is linear in these operands or
    /// returns them unchanged. An annotation of the op is applied later and takes precedence.
    pub(super) fn pass_sums(&mut self, op: &Op, role: Role) {
        let sums = match (role, &op.kind) {
            (Role::Nothing, _) => {
                for (&x, &y) in op.operands.iter().zip(&op.results) {
                    self.states[y.0 as usize].unreduced = self.state(x).unreduced;
                }
                return;
            }
            (Role::Plain, OpKind::While | OpKind::If | OpKind::Case) => return,
            (Role::Plain, _) => match linear(self.func, op, self) {
                Linear::Together(operands) => {
                    let values = operands.iter().map(|&i| op.operands[i]);
                    self.common_sums(&values.collect::<Vec<_>>())
                }
                Linear::Apart(operands) => {
                    let sums = operands.iter().map(|&i| self.state(op.operands[i]).unreduced);
                    let mut sums = sums.filter(|sum| !sum.is_empty());
                    match (sums.next(), sums.next()) {
                        (Some(only), None) => only,
                        _ => AxisSet::default(),
                    }
                }
                Linear::None => AxisSet::default(),
            },
            _ => return,
        };
        if let &[result] = &op.results[..] {
            self.states[result.0 as usize].unreduced = sums;
        }
    }

    /// Returns the axes along which all values are unreduced. Ignores constant zeros, because they may be unreduced
    /// along any axis.
    pub(super) fn common_sums(&self, values: &[ValueId]) -> AxisSet {
        let sums = values.iter().filter(|&&value| !is_zero(self, value)).map(|&value| self.state(value).unreduced);
        sums.reduce(AxisSet::intersection).unwrap_or_default()
    }
}

/// The axes along which the operands and results of an op are unreduced.
pub(super) struct Sums {
    /// The axes along which the result is unreduced because operands are unreduced.
    pub(super) partial: AxisSet,
    /// The axes along which each operand must be unreduced.
    operands: Vec<AxisSet>,
    /// For a scatter that adds, the operand that receives the updates, and the axes along which the result may be
    /// unreduced.
    added_to: Option<(usize, AxisSet)>,
}

impl Sums {
    pub(super) fn of(&self, operand: usize) -> AxisSet {
        self.operands.get(operand).copied().unwrap_or_default()
    }

    /// Completes the axes of a scatter that adds, after the axes `cut` of its factors are chosen. Leaves the axes of
    /// other ops unchanged. `summed` contains the axes along which devices hold different updates. The operand that
    /// receives the updates must be unreduced along the same axes, so that its elements are counted only once.
    pub(super) fn leave_to(&mut self, cut: &[Vec<Axis>], summed: AxisSet) {
        let Some((operand, wanted)) = self.added_to else { return };
        let cut = cut.iter().fold(AxisSet::default(), |set, axes| set.union(AxisSet::of(axes)));
        self.partial = self.partial.union(wanted.difference(cut));
        self.operands = vec![self.partial; 3];
        self.operands[1] = AxisSet::default();
        self.operands[operand] = self.partial.union(summed);
    }
}

impl Splitter<'_, '_> {
    /// Finds the axes along which an op may run on summands of its operands.
    pub(super) fn sums(&self, op: &Op) -> Result<Sums> {
        let mut sums = Sums { partial: AxisSet::default(), operands: Vec::new(), added_to: None };
        let &[result] = &op.results[..] else { return Ok(sums) };
        let wanted = self.plan.wanted_sums(result);
        if wanted.is_empty() {
            return Ok(sums);
        }
        let partial = |i: &usize| Ok::<_, CompileError>(self.form(op.operands[*i])?.partial);
        let (linear, together) = match linear(self.func(), op, self.plan) {
            Linear::Together(operands) => (operands, true),
            Linear::Apart(operands) => (operands, false),
            Linear::None => return Ok(sums),
        };
        let all = linear.iter().map(partial).collect::<Result<Vec<_>>>()?;
        let any = all.iter().copied().fold(AxisSet::default(), AxisSet::union).intersection(wanted);
        if is_scatter_add(op) {
            // Take only axes along which the updates are unreduced. If only the operand that receives the updates is
            // unreduced along an axis, factors may be sharded along this axis.
            sums.partial = all[1].intersection(wanted);
            sums.added_to = Some((0, any));
            return Ok(sums);
        }
        if !together && all.iter().filter(|sum| !sum.is_empty()).count() > 1 {
            return Ok(sums);
        }
        sums.partial = any;
        sums.operands = vec![AxisSet::default(); op.operands.len()];
        for (&i, own) in linear.iter().zip(all) {
            let as_is = !together || is_zero(self.plan, op.operands[i]);
            sums.operands[i] = if as_is { own.intersection(any) } else { any };
        }
        Ok(sums)
    }
}
