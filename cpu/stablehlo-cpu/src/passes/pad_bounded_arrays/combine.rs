//! Ops that combine elements: reductions, matrix products and sorts. Invalid elements must not change their results.

use stablehlo::ir::{Binary, ComparisonDirection, ElementType, Op, OpKind, TensorType, ValueId, Window};

use super::builder::{Rewrite, Sizes};
use super::elementwise::merged;
use super::types::Result;
use crate::error::CompileError;

fn invalid(what: &str) -> CompileError {
    CompileError::invalid(what)
}

impl Rewrite<'_> {
    /// Rewrites `reduce`. Replaces elements that are invalid in a reduced dimension with the initial value.
    pub(super) fn reduce(&mut self, op: &mut Op, reduced: &[usize], sizes: &[Sizes]) -> Result<Sizes> {
        let count = op.operands.len() / 2;
        if sizes.iter().skip(count).any(|sizes| !sizes.is_empty()) {
            return Err(invalid("the initial value of a reduction must not have a bounded size"));
        }
        let all = merged(&sizes[..count]);
        let (combined, kept): (Sizes, Sizes) = all.into_iter().partition(|(dimension, _)| reduced.contains(dimension));
        for i in 0..count {
            op.operands[i] = self.masked(op.operands[i], &combined, op.operands[count + i])?;
        }
        // The remaining dimensions are renumbered without the reduced dimensions.
        let before = |dimension: usize| reduced.iter().filter(|&&reduced| reduced < dimension).count();
        Ok(kept.into_iter().map(|(dimension, size)| (dimension - before(dimension), size)).collect())
    }

    /// Rewrites `reduce_window`. Replaces elements that are invalid in a dimension of the window with the initial
    /// value, as if they were padding.
    pub(super) fn reduce_window(&mut self, op: &mut Op, sizes: &[Sizes]) -> Result<Sizes> {
        let OpKind::ReduceWindow { window } = &op.kind else { return Ok(Sizes::new()) };
        let window = window.clone();
        let count = op.operands.len() / 2;
        let mut new = Sizes::new();
        for (d, size) in merged(&sizes[..count]) {
            if is_trivial(&window, d) {
                new.push((d, size));
                continue;
            }
            for i in 0..count {
                op.operands[i] = self.masked(op.operands[i], &[(d, size)], op.operands[count + i])?;
            }
            new.push((d, self.windows(&window, d, size)?));
        }
        Ok(new)
    }

    /// Computes the number of windows along dimension `d` with `size` valid elements.
    fn windows(&mut self, window: &Window, d: usize, size: ValueId) -> Result<ValueId> {
        let or_one = |list: &[i64]| list.get(d).copied().unwrap_or(1).max(1);
        let (low, high) = window.padding.get(d).copied().unwrap_or_default();
        let extent = (or_one(&window.dimensions) - 1).saturating_mul(or_one(&window.window_dilations)) + 1;
        let stride = or_one(&window.strides);
        let dilated = self.dilated(size, or_one(&window.base_dilations))?;
        // The number of windows is one more than the number of strides after the first window. Add one stride before
        // the division, so that the number is zero if no window fits.
        let rest = self.number(low.saturating_add(high).saturating_sub(extent).saturating_add(stride))?;
        let rest = self.binary(Binary::Add, dilated, rest)?;
        let (zero, stride) = (self.number(0)?, self.number(stride)?);
        let rest = self.binary(Binary::Maximum, rest, zero)?;
        self.binary(Binary::Divide, rest, stride)
    }

    /// Rewrites `dot_general`. Replaces elements that are invalid in a contracting dimension with zero.
    pub(super) fn dot(&mut self, op: &mut Op, sizes: &[Sizes]) -> Result<Sizes> {
        let OpKind::DotGeneral { dimensions, .. } = &op.kind else { return Ok(Sizes::new()) };
        let dimensions = dimensions.clone();
        let (batching, contracting) = (
            [&dimensions.lhs_batching, &dimensions.rhs_batching],
            [&dimensions.lhs_contracting, &dimensions.rhs_contracting],
        );
        // Each pair of contracting dimensions has one size. Mask both operands with this size, because an invalid
        // element of one operand may be infinite, and its product with zero would be NaN.
        for pair in contracting[0].iter().zip(contracting[1]) {
            let of = |side: usize, d: usize| sizes[side].iter().find(|(known, _)| *known == d).map(|(_, size)| *size);
            let Some(size) = of(0, *pair.0).or_else(|| of(1, *pair.1)) else { continue };
            for (side, dimension) in [(0, *pair.0), (1, *pair.1)] {
                let zero = self.tensor(op.operands[side])?.element;
                let zero = self.zero(zero)?;
                op.operands[side] = self.masked(op.operands[side], &[(dimension, size)], zero)?;
            }
        }
        let batches = dimensions.lhs_batching.len();
        let mut free = batches;
        let mut new = Sizes::new();
        for side in 0..2 {
            for d in 0..self.tensor(op.operands[side])?.rank() {
                let batch = batching[side].iter().position(|batch| *batch == d);
                if contracting[side].contains(&d) {
                    continue;
                }
                let place = batch.unwrap_or(free);
                free += usize::from(batch.is_none());
                new.extend(sizes[side].iter().filter(|(known, _)| *known == d).map(|(_, size)| (place, *size)));
            }
        }
        Ok(merged(&[new]))
    }

    /// Rewrites `sort`. Adds an operand that marks the valid elements, so that invalid elements are sorted behind them.
    pub(super) fn sort(&mut self, op: &mut Op, dimension: usize, sizes: &[Sizes]) -> Result<Sizes> {
        let all = merged(sizes);
        let Some(&(_, size)) = all.iter().find(|(known, _)| *known == dimension) else { return Ok(all) };
        let shape = self.tensor(op.operands[0])?.shape;
        let valid = self.mask(&shape, dimension, size)?;
        let truth = TensorType::new([], ElementType::Bool);
        let mark = [self.value(truth.clone()), self.value(truth.clone())];
        let Some(region) = op.regions.first_mut() else { return Err(invalid("a sort without a comparator")) };
        region.args.extend(mark);
        let outer = std::mem::replace(&mut self.ops, std::mem::take(&mut region.ops));
        let Some(mut end) = self.ops.pop().filter(|op| op.operands.len() == 1) else {
            return Err(invalid("a comparator that does not return one value"));
        };
        let compare = OpKind::Compare {
            direction: ComparisonDirection::Ne,
            compare_type: stablehlo::ir::ComparisonType::Unsigned,
        };
        let differ = self.add(compare, &mark, truth.clone())?;
        end.operands[0] = self.add(OpKind::Select, &[differ, mark[0], end.operands[0]], truth)?;
        self.ops.push(end);
        region.ops = std::mem::replace(&mut self.ops, outer);
        op.operands.push(valid);
        let sorted = self.value(TensorType::new(shape, ElementType::Bool));
        op.results.push(sorted);
        Ok(all)
    }
}

/// Returns whether each window along a dimension is one element, and the result has the same extent as the operand.
fn is_trivial(window: &Window, d: usize) -> bool {
    let is_one = |list: &[i64]| list.get(d).is_none_or(|value| *value == 1);
    is_one(&window.dimensions)
        && is_one(&window.strides)
        && is_one(&window.base_dilations)
        && window.padding.get(d).is_none_or(|padding| *padding == (0, 0))
}
