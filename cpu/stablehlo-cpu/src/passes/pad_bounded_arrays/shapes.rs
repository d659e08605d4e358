//! Ops that move elements: broadcast, transpose, slice, pad, concatenate and reverse.

use stablehlo::ir::{Binary, Dims, ElementType, Op, OpKind, TensorType, ValueId};

use super::builder::{Rewrite, Sizes};
use super::elementwise::merged;
use super::types::{Result, bounded};
use crate::error::CompileError;

/// Returns the sizes of the result of a transpose by `permutation`.
pub(super) fn transposed(permutation: &[usize], sizes: &Sizes) -> Sizes {
    let place = |&(dimension, size)| Some((permutation.iter().position(|from| *from == dimension)?, size));
    sizes.iter().filter_map(place).collect()
}

impl Rewrite<'_> {
    pub(super) fn broadcast(&mut self, op: &mut Op, sizes: &Sizes) -> Result<Sizes> {
        let OpKind::BroadcastInDim { broadcast_dimensions } = &op.kind else { return Ok(Sizes::new()) };
        let (from, to) = (self.tensor(op.operands[0])?, self.tensor(op.results[0])?);
        let place = |&(dimension, size): &(usize, ValueId)| {
            let place = broadcast_dimensions.get(dimension).copied().unwrap_or(usize::MAX);
            if from.shape.get(dimension) == to.shape.get(place) {
                return Ok((place, size));
            }
            Err(CompileError::unsupported("a broadcast along a dimension of bounded size"))
        };
        sizes.iter().map(place).collect()
    }

    /// Rewrites a broadcast with an operand that contains the extents of the result.
    pub(super) fn dynamic_broadcast(
        &mut self,
        op: &mut Op,
        broadcast_dimensions: Dims,
        sizes: &Sizes,
    ) -> Result<Sizes> {
        let given = self.given_sizes(op, 1)?;
        op.kind = OpKind::BroadcastInDim { broadcast_dimensions };
        op.operands.truncate(1);
        let own = self.broadcast(op, sizes)?;
        Ok(merged(&[given, own]))
    }

    /// Rewrites `dynamic_iota`, whose operand contains the extents of the result.
    pub(super) fn dynamic_iota(&mut self, op: &mut Op, iota_dimension: usize) -> Result<Sizes> {
        let given = self.given_sizes(op, 0)?;
        op.kind = OpKind::Iota { iota_dimension };
        op.operands.clear();
        Ok(given)
    }

    /// Returns the sizes of the result's bounded dimensions, read from an operand that contains all extents.
    pub(super) fn given_sizes(&mut self, op: &Op, operand: usize) -> Result<Sizes> {
        let Some((_, dimensions)) = bounded(self.declared(op.results[0])) else { return Ok(Sizes::new()) };
        let list = *op.operands.get(operand).ok_or_else(|| CompileError::invalid("an op without its shape operand"))?;
        let element = self.tensor(list)?.element;
        let mut sizes = Sizes::new();
        for dimension in dimensions {
            let start = i64::try_from(dimension).unwrap_or(i64::MAX);
            let one = OpKind::Slice { start_indices: vec![start], limit_indices: vec![start + 1], strides: vec![1] };
            let one = self.add(one, &[list], TensorType::new([1], element))?;
            let scalar = self.add(OpKind::Reshape, &[one], TensorType::new([], element))?;
            sizes.push((dimension, self.as_size(scalar)?));
        }
        Ok(sizes)
    }

    pub(super) fn slice(&mut self, op: &mut Op, sizes: &Sizes) -> Result<Sizes> {
        let OpKind::Slice { start_indices, limit_indices, strides } = &op.kind else { return Ok(Sizes::new()) };
        let shape = self.tensor(op.operands[0])?.shape;
        let (starts, limits, strides) = (start_indices.clone(), limit_indices.clone(), strides.clone());
        let mut new = Sizes::new();
        for &(d, size) in sizes {
            let (start, limit, stride) = (starts[d], limits[d], strides[d].max(1));
            if start == 0 && limit == shape[d] && stride == 1 {
                new.push((d, size));
                continue;
            }
            // Count the elements from `start` to the smaller of the limit and the size, in steps of the stride.
            let (limit, before, round) = (self.number(limit)?, self.number(start)?, self.number(stride - 1)?);
            let (zero, stride) = (self.number(0)?, self.number(stride)?);
            let end = self.binary(Binary::Minimum, size, limit)?;
            let count = self.binary(Binary::Subtract, end, before)?;
            let count = self.binary(Binary::Maximum, count, zero)?;
            let count = self.binary(Binary::Add, count, round)?;
            new.push((d, self.binary(Binary::Divide, count, stride)?));
        }
        Ok(new)
    }

    /// Rewrites `pad`. In a padded dimension, the invalid elements become padding after the valid elements.
    pub(super) fn pad(&mut self, op: &mut Op, sizes: &[Sizes]) -> Result<Sizes> {
        let OpKind::Pad { edge_padding_low, edge_padding_high, interior_padding } = &op.kind else {
            return Ok(Sizes::new());
        };
        let (low, high, interior) = (edge_padding_low.clone(), edge_padding_high.clone(), interior_padding.clone());
        let mut new = Sizes::new();
        for &(d, size) in &sizes[0] {
            if low[d] == 0 && high[d] == 0 && interior[d] == 0 {
                new.push((d, size));
                continue;
            }
            op.operands[0] = self.masked(op.operands[0], &[(d, size)], op.operands[1])?;
            let dilated = self.dilated(size, interior[d] + 1)?;
            let (edges, zero) = (self.number(low[d].saturating_add(high[d]))?, self.number(0)?);
            let all = self.binary(Binary::Add, dilated, edges)?;
            new.push((d, self.binary(Binary::Maximum, all, zero)?));
        }
        Ok(new)
    }

    /// Computes the number of elements after `dilation - 1` elements are inserted between any two neighbors.
    pub(super) fn dilated(&mut self, size: ValueId, dilation: i64) -> Result<ValueId> {
        if dilation == 1 {
            return Ok(size);
        }
        let (zero, one, dilation) = (self.number(0)?, self.number(1)?, self.number(dilation)?);
        let gaps = self.binary(Binary::Subtract, size, one)?;
        let gaps = self.binary(Binary::Multiply, gaps, dilation)?;
        let all = self.binary(Binary::Add, gaps, one)?;
        self.binary(Binary::Maximum, all, zero)
    }

    /// Rewrites `concatenate`. Writes the operands one after the other, each over the invalid elements of the operand
    /// before.
    pub(super) fn concatenate(&mut self, op: &mut Op, dimension: usize, sizes: &[Sizes]) -> Result<Sizes> {
        let mut of = merged(sizes);
        if of.iter().all(|(known, _)| *known != dimension) {
            return Ok(of);
        }
        of.retain(|(known, _)| *known != dimension);
        let ty = self.tensor(op.results[0])?;
        let operands: Vec<ValueId> = op.operands.to_vec();
        let zero = self.number(0)?;
        let mut all = self.add(OpKind::Concatenate { dimension }, &operands, ty.clone())?;
        let mut end = zero;
        for (at, (&operand, sizes)) in operands.iter().zip(sizes).enumerate() {
            if at > 0 {
                let starts = (0..ty.rank()).map(|d| if d == dimension { end } else { zero });
                let update: Vec<ValueId> = [all, operand].into_iter().chain(starts).collect();
                all = self.add(OpKind::DynamicUpdateSlice, &update, ty.clone())?;
            }
            let size = match sizes.iter().find(|(known, _)| *known == dimension) {
                Some(&(_, size)) => size,
                None => {
                    let extent = self.tensor(operand)?.shape[dimension];
                    self.number(extent)?
                }
            };
            end = self.binary(Binary::Add, end, size)?;
        }
        op.kind = OpKind::OptimizationBarrier;
        op.operands = [all].into_iter().collect();
        of.push((dimension, end));
        Ok(of)
    }

    /// Rewrites `reverse`. Reverses the whole array. The valid elements are then the last ones, and are moved to the
    /// front.
    pub(super) fn reverse(&mut self, op: &mut Op, dimensions: &[usize], sizes: &Sizes) -> Result<Sizes> {
        let ty = self.tensor(op.operands[0])?;
        let reversed: Vec<(usize, ValueId)> = sizes.iter().copied().filter(|(d, _)| dimensions.contains(d)).collect();
        if reversed.is_empty() {
            return Ok(sizes.clone());
        }
        let mut array = self.add(op.kind.clone(), &[op.operands[0]], ty.clone())?;
        let zero = self.number(0)?;
        for (d, size) in reversed {
            let mut twice = ty.shape.clone();
            twice[d] = twice[d].saturating_mul(2);
            let kind = OpKind::Concatenate { dimension: d };
            let doubled = self.add(kind, &[array, array], TensorType::new(twice, ty.element))?;
            let extent = self.number(ty.shape[d])?;
            let start = self.binary(Binary::Subtract, extent, size)?;
            let starts = (0..ty.rank()).map(|other| if other == d { start } else { zero });
            let operands: Vec<ValueId> = [doubled].into_iter().chain(starts).collect();
            array = self.add(OpKind::DynamicSlice { slice_sizes: ty.shape.clone() }, &operands, ty.clone())?;
        }
        op.kind = OpKind::OptimizationBarrier;
        op.operands = [array].into_iter().collect();
        Ok(sizes.clone())
    }

    /// Creates an `i32` array in which each element is its own index along `dimension`.
    pub(super) fn indices(&mut self, shape: &[i64], dimension: usize) -> Result<ValueId> {
        let ty = TensorType::new(shape, ElementType::I32);
        self.add(OpKind::Iota { iota_dimension: dimension }, &[], ty)
    }
}
