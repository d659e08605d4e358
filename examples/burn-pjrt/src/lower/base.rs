//! Operations that move, slice, concatenate and select elements.

use burn_backend::Slice;
use burn_ir::{BaseOperationIr as B, SliceAssignOpIr, SliceOpIr, TensorIr};
use stablehlo::builder::Value;
use stablehlo::ir::{ComparisonDirection, ElementType};

use super::{Lower, Result};
use crate::dtype::extents;

/// A slice of a dimension: every `step`-th element of `start..end`, beginning with the first element. If `reversed` is
/// set, the slice begins with the last element and contains the elements in descending order.
struct Range {
    start: i64,
    end: i64,
    step: i64,
    reversed: bool,
}

fn ranges(slices: &[Slice], tensor: &TensorIr) -> Vec<Range> {
    let whole = Slice::new(0, None, 1);
    (0..tensor.shape.num_dims())
        .map(|d| {
            let slice = slices.get(d).unwrap_or(&whole);
            let range = slice.to_range(tensor.shape[d]);
            let (start, end) = (range.start as i64, range.end.max(range.start) as i64);
            Range { start, end, step: slice.step.unsigned_abs() as i64, reversed: slice.step < 0 }
        })
        .collect()
}

impl Range {
    /// Returns the positions of the slice's elements, in the order of the slice.
    fn positions(&self) -> Vec<i64> {
        let count = (self.end - self.start + self.step - 1) / self.step;
        let position = |i: i64| if self.reversed { self.end - 1 - i * self.step } else { self.start + i * self.step };
        (0..count).map(position).collect()
    }
}

impl Lower<'_> {
    pub(super) fn base(&mut self, op: &B) -> Result<()> {
        let f = self.f;
        match op {
            B::Reshape(op) => self.set_reshaped(&op.out, self.value(&op.input)?),
            B::SwapDims(op) => {
                let mut permutation: Vec<usize> = (0..op.input.shape.num_dims()).collect();
                permutation.swap(op.dim1, op.dim2);
                self.set(&op.out, f.transpose(self.value(&op.input)?, &permutation)?)
            }
            B::Permute(op) => self.set(&op.out, f.transpose(self.value(&op.input)?, &op.axes)?),
            B::Flip(op) => self.set(&op.out, f.reverse(self.value(&op.input)?, &op.axes)?),
            B::Expand(op) => self.set(&op.out, f.broadcast_to(self.value(&op.input)?, &extents(&op.out))?),
            B::Unfold(op) => {
                let windows = op.out.shape[op.dim];
                let positions: Vec<i64> =
                    (0..windows).flat_map(|w| (0..op.size).map(move |i| (w * op.step + i) as i64)).collect();
                let rows = self.f.constant_slice(&positions, &[positions.len() as i64])?;
                let taken = self.take(self.value(&op.input)?, op.dim, rows)?;
                let mut shape = extents(&op.input);
                shape.splice(op.dim..=op.dim, [windows as i64, op.size as i64]);
                let split = f.reshape(taken, &shape)?;
                // Move the elements of a window to the last dimension.
                let mut permutation: Vec<usize> = (0..shape.len()).filter(|&d| d != op.dim + 1).collect();
                permutation.push(op.dim + 1);
                self.set(&op.out, f.transpose(split, &permutation)?)
            }
            B::Slice(op) => self.slice(op),
            B::SliceAssign(op) => self.slice_assign(op),
            B::Select(op) => {
                let taken = self.take(self.value(&op.tensor)?, op.dim, self.value(&op.indices)?)?;
                self.set(&op.out, taken)
            }
            B::SelectAssign(op) => {
                let (x, rows, value) = (self.value(&op.tensor)?, self.value(&op.indices)?, self.value(&op.value)?);
                let result = self.scatter_rows(x, op.dim, rows, value, op.update)?;
                self.set(&op.out, result)
            }
            B::MaskWhere(op) => {
                let shape = extents(&op.out);
                let on = |t: &TensorIr| -> Result<Value> { Ok(f.broadcast_to(self.value(t)?, &shape)?) };
                let selected = f.select(on(&op.mask)?, on(&op.value)?, on(&op.tensor)?)?;
                self.set(&op.out, selected)
            }
            B::MaskFill(op) => {
                let x = self.value(&op.tensor)?;
                let fill = self.constant(op.value, self.element(x)?)?;
                let shape = extents(&op.out);
                let (mask, fill) = (f.broadcast_to(self.value(&op.mask)?, &shape)?, f.broadcast_to(fill, &shape)?);
                self.set(&op.out, f.select(mask, fill, f.broadcast_to(x, &shape)?)?)
            }
            B::Gather(op) => {
                let result = self.gather(self.value(&op.tensor)?, op.dim, self.value(&op.indices)?)?;
                self.set(&op.out, result)
            }
            B::Scatter(op) => {
                let (x, indices, value) = (self.value(&op.tensor)?, self.value(&op.indices)?, self.value(&op.value)?);
                let result = self.scatter(x, op.dim, indices, value, op.update)?;
                self.set(&op.out, result)
            }
            B::GatherNd(op) => {
                let result = self.gather_points(self.value(&op.data)?, self.value(&op.indices)?)?;
                self.set_reshaped(&op.out, result)
            }
            B::ScatterNd(op) => {
                let (x, indices, values) = (self.value(&op.data)?, self.value(&op.indices)?, self.value(&op.values)?);
                let result = self.scatter_points(x, indices, values, op.reduction)?;
                self.set(&op.out, result)
            }
            B::Equal(op) => {
                let equal = f.compare(self.value(&op.lhs)?, ComparisonDirection::Eq, self.value(&op.rhs)?)?;
                self.set(&op.out, equal)
            }
            B::EqualElem(op) => {
                let x = self.value(&op.lhs)?;
                let scalar = self.constant(op.rhs, self.element(x)?)?;
                self.set(&op.out, f.compare(x, ComparisonDirection::Eq, scalar)?)
            }
            B::RepeatDim(op) => {
                let mut shape = extents(&op.tensor);
                shape.insert(op.dim, 1);
                let split = f.reshape(self.value(&op.tensor)?, &shape)?;
                shape[op.dim] = op.times as i64;
                self.set_reshaped(&op.out, f.broadcast_to(split, &shape)?)
            }
            B::Cat(op) => {
                let values: Vec<Value> = op.tensors.iter().map(|tensor| self.value(tensor)).collect::<Result<_>>()?;
                self.set(&op.out, f.concatenate(&values, op.dim)?)
            }
            B::Cast(op) => {
                let x = self.value(&op.input)?;
                self.set(&op.out, x)
            }
            B::Empty(op) | B::Zeros(op) => self.set(&op.out, self.zeros(&op.out)?),
            B::Ones(op) => self.set(&op.out, f.full(1.0, self.types.tensor(&op.out)?)?),
        }
    }

    fn slice(&mut self, op: &SliceOpIr) -> Result<()> {
        let f = self.f;
        let ranges = ranges(&op.ranges, &op.tensor);
        let list = |of: &dyn Fn(&Range) -> i64| -> Vec<i64> { ranges.iter().map(of).collect() };
        let ones = vec![1; ranges.len()];
        let reversed: Vec<usize> = (0..ranges.len()).filter(|&d| ranges[d].reversed).collect();
        let mut x = self.value(&op.tensor)?;
        if reversed.is_empty() {
            x = f.slice(x, &list(&|r| r.start), &list(&|r| r.end), &list(&|r| r.step))?;
        } else {
            x = f.slice(x, &list(&|r| r.start), &list(&|r| r.end), &ones)?;
            x = f.reverse(x, &reversed)?;
            let zeros = vec![0; ranges.len()];
            x = f.slice(x, &zeros, &self.shape(x)?, &list(&|r| r.step))?;
        }
        self.set(&op.out, x)
    }

    fn slice_assign(&mut self, op: &SliceAssignOpIr) -> Result<()> {
        let f = self.f;
        let ranges = ranges(&op.ranges, &op.tensor);
        let x = self.value(&op.tensor)?;
        let sizes: Vec<i64> = ranges.iter().map(|range| range.positions().len() as i64).collect();
        let mut value = f.broadcast_to(self.value(&op.value)?, &sizes)?;
        if sizes.contains(&0) {
            return self.set(&op.out, x);
        }
        if ranges.iter().all(|range| range.step == 1 && !range.reversed) {
            let starts: Vec<Value> = ranges.iter().map(|range| Ok(f.constant(range.start)?)).collect::<Result<_>>()?;
            return self.set(&op.out, f.dynamic_update_slice(x, value, &starts)?);
        }
        // Copy each element of the value to its position in the tensor. The other elements of the tensor stay
        // unchanged.
        let shape = extents(&op.tensor);
        let mut mask = f.splat(true, &shape)?;
        for (d, range) in ranges.iter().enumerate() {
            let mut sources = vec![0i64; op.tensor.shape[d]];
            let mut hit = vec![false; op.tensor.shape[d]];
            for (source, position) in range.positions().into_iter().enumerate() {
                (sources[position as usize], hit[position as usize]) = (source as i64, true);
            }
            let rows = f.constant_slice(&sources, &[sources.len() as i64])?;
            value = self.take_sparse(value, d, rows)?;
            let hit = f.constant_slice(&hit, &[hit.len() as i64])?;
            mask = f.and(mask, f.broadcast_in_dim(hit, &[d], &shape)?)?;
        }
        self.set(&op.out, f.select(mask, value, x)?)
    }

    /// Compares indices with the positions along a dimension of the given extent. The result has the shape `[indices…,
    /// extent]`.
    pub(super) fn one_hot(&self, indices: Value, extent: i64) -> Result<Value> {
        let f = self.f;
        let indices = self.index(indices)?;
        let mut shape = self.shape(indices)?;
        let dims: Vec<usize> = (0..shape.len()).collect();
        shape.push(extent);
        let positions = self.positions(&shape, dims.len(), self.element(indices)?)?;
        let indices = f.broadcast_in_dim(indices, &dims, &shape)?;
        Ok(f.compare(indices, ComparisonDirection::Eq, positions)?)
    }

    /// Converts indices of fewer than 32 bits to `i32`, because a shorter type may not represent every position.
    pub(super) fn index(&self, indices: Value) -> Result<Value> {
        if self.element(indices)?.bit_width() < 32 { self.converted(indices, ElementType::I32) } else { Ok(indices) }
    }
}
