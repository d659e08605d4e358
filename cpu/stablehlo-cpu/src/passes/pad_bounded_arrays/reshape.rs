//! Reshapes of arrays of bounded size.

use stablehlo::ir::{Binary, Dims, GatherDimensions, Op, OpKind, TensorType, ValueId};

use super::builder::{Extent, Rewrite, Sizes};
use super::elementwise::merged;
use super::types::{Result, bounded};
use crate::error::CompileError;

/// Divides the dimensions of two shapes into groups. Each group contains the same number of elements in both shapes,
/// and is as small as possible.
fn groups(from: &[(usize, i64)], to: &[(usize, i64)]) -> Vec<(Vec<usize>, Vec<usize>)> {
    let whole = |list: &[(usize, i64)]| list.iter().map(|(dimension, _)| *dimension).collect();
    if from.iter().chain(to).any(|(_, extent)| *extent == 0) {
        return vec![(whole(from), whole(to))];
    }
    let (mut from, mut to) = (from.iter(), to.iter());
    let mut groups = Vec::new();
    loop {
        let (mut inner, mut outer) = (Vec::new(), Vec::new());
        let (mut left, mut right) = (1i64, 1i64);
        let grow = |list: &mut Vec<usize>, count: &mut i64, more: &mut std::slice::Iter<'_, (usize, i64)>| {
            let next = more.next();
            if let Some((dimension, extent)) = next {
                list.push(*dimension);
                *count = count.saturating_mul(*extent);
            }
            next.is_some()
        };
        let any = [grow(&mut inner, &mut left, &mut from), grow(&mut outer, &mut right, &mut to)];
        if any == [false, false] {
            return groups;
        }
        while left != right {
            let grown = match left < right {
                true => grow(&mut inner, &mut left, &mut from),
                false => grow(&mut outer, &mut right, &mut to),
            };
            if !grown {
                break;
            }
        }
        groups.push((inner, outer));
    }
}

fn without_units(shape: &[i64], dynamic: &[usize]) -> Vec<(usize, i64)> {
    let all = shape.iter().copied().enumerate();
    all.filter(|(dimension, extent)| *extent != 1 || dynamic.contains(dimension)).collect()
}

/// Returns the extents of the given dimensions of an array.
fn extents(dimensions: &[usize], shape: &[i64], sizes: &Sizes) -> Vec<Extent> {
    let extent = |d: &usize| match sizes.iter().find(|(known, _)| known == d) {
        Some((_, size)) => Extent::Computed(*size),
        None => Extent::Known(shape[*d]),
    };
    dimensions.iter().map(extent).collect()
}

/// Returns whether the valid elements of these dimensions are the first ones in memory. This is the case if no
/// dimension other than the first has a size.
fn are_first(dimensions: &[usize], sizes: &Sizes) -> bool {
    dimensions.iter().skip(1).all(|d| sizes.iter().all(|(known, _)| known != d))
}

impl Rewrite<'_> {
    pub(super) fn reshape(&mut self, op: &mut Op, sizes: &Sizes) -> Result<Sizes> {
        let new = self.reshaped_sizes(op, sizes)?;
        self.move_elements(op, sizes, &new)?;
        Ok(new)
    }

    /// Rewrites a reshape with an operand that contains the extents of the result.
    pub(super) fn dynamic_reshape(&mut self, op: &mut Op, sizes: &Sizes) -> Result<Sizes> {
        let new = self.given_sizes(op, 1)?;
        op.kind = OpKind::Reshape;
        op.operands.truncate(1);
        let (from, to) = (self.tensor(op.operands[0])?, self.tensor(op.results[0])?);
        if from.num_elements() != to.num_elements() {
            return Err(CompileError::unsupported(format!(
                "stablehlo.dynamic_reshape to a result whose bounds allow another number of elements than {from}"
            )));
        }
        self.move_elements(op, sizes, &new)?;
        Ok(merged(&[new]))
    }

    /// Returns the sizes of the result. In each group of dimensions, one dimension of the result may have a size. The
    /// other extents of the group determine this size.
    fn reshaped_sizes(&mut self, op: &Op, sizes: &Sizes) -> Result<Sizes> {
        let (from, to) = (self.tensor(op.operands[0])?, self.tensor(op.results[0])?);
        let own: Vec<usize> = sizes.iter().map(|(dimension, _)| *dimension).collect();
        let declared = bounded(self.declared(op.results[0])).map(|(_, dimensions)| dimensions).unwrap_or_default();
        let mut new = Sizes::new();
        for (inner, outer) in groups(&without_units(&from.shape, &own), &without_units(&to.shape, &declared)) {
            let has_size = inner.iter().any(|d| own.contains(d));
            let dynamic: Vec<usize> = outer.iter().copied().filter(|d| declared.contains(d)).collect();
            match &dynamic[..] {
                [] if !has_size => {}
                &[dimension] => {
                    let rest: i64 = outer.iter().filter(|d| **d != dimension).map(|d| to.shape[*d]).product();
                    let total = self.product(&extents(&inner, &from.shape, sizes))?;
                    let total = self.extent(total)?;
                    let size = if rest == 1 {
                        total
                    } else {
                        let rest = self.number(rest.max(1))?;
                        self.binary(Binary::Divide, total, rest)?
                    };
                    new.push((dimension, size));
                }
                dynamic => {
                    let count = dynamic.len();
                    return Err(CompileError::unsupported(format!(
                        "a reshape in which {count} dimensions of bounded size take the elements of dimensions \
                         {inner:?}; reshape so that one dimension does"
                    )));
                }
            }
        }
        Ok(new)
    }

    /// Moves the valid elements to their positions in the result, unless they are already there.
    fn move_elements(&mut self, op: &mut Op, sizes: &Sizes, new: &Sizes) -> Result<()> {
        let (from, to) = (self.tensor(op.operands[0])?, self.tensor(op.results[0])?);
        let dimensions = |sizes: &Sizes| sizes.iter().map(|(dimension, _)| *dimension).collect::<Vec<_>>();
        let groups =
            groups(&without_units(&from.shape, &dimensions(sizes)), &without_units(&to.shape, &dimensions(new)));
        if groups.iter().all(|(inner, outer)| are_first(inner, sizes) && are_first(outer, new)) {
            return Ok(());
        }
        let count = from.num_elements().and_then(|count| i64::try_from(count).ok()).unwrap_or(i64::MAX);
        // `number` contains, for each element of the result, its position among the valid elements in row-major order.
        let all: Vec<usize> = (0..to.rank()).collect();
        let mut number = None;
        for d in 0..to.rank() {
            let index = self.indices(&to.shape, d)?;
            let stride = self.product(&extents(&all[d + 1..], &to.shape, new))?;
            number = Some(self.weighted(number, index, stride)?);
        }
        // `place` contains the position of each element of the result in the operand.
        let all: Vec<usize> = (0..from.rank()).collect();
        let (mut place, one) = (None, self.number(1)?);
        for d in 0..from.rank() {
            let Some(number) = number else { break };
            let ty = self.tensor(number)?;
            let mut index = number;
            let inner = self.product(&extents(&all[d + 1..], &from.shape, sizes))?;
            for (divisor, op) in [(inner, Binary::Divide), (extents(&[d], &from.shape, sizes)[0], Binary::Remainder)] {
                if op == Binary::Remainder && d == 0 {
                    continue;
                }
                // An empty array has no valid elements, so every position is correct. Avoid a division by zero.
                let divisor = self.extent(divisor)?;
                let divisor = self.binary(Binary::Maximum, divisor, one)?;
                let divisor = self.filled(divisor, ty.clone())?;
                index = self.binary(op, index, divisor)?;
            }
            let stride = from.shape[d + 1..].iter().product();
            place = Some(self.weighted(place, index, Extent::Known(stride))?);
        }
        let Some(place) = place else { return Ok(()) };
        let flat = self.add(OpKind::Reshape, &[op.operands[0]], TensorType::new([count], from.element))?;
        let dimensions = GatherDimensions {
            offset_dims: Vec::new(),
            collapsed_slice_dims: vec![0],
            operand_batching_dims: Vec::new(),
            start_indices_batching_dims: Vec::new(),
            start_index_map: vec![0],
            index_vector_dim: to.rank(),
        };
        op.kind = OpKind::Gather { dimensions: dimensions.into(), slice_sizes: vec![1], indices_are_sorted: false };
        op.operands = [flat, place].into_iter().collect();
        Ok(())
    }

    /// Computes `sum + index * stride`.
    fn weighted(&mut self, sum: Option<ValueId>, index: ValueId, stride: Extent) -> Result<ValueId> {
        let ty = self.tensor(index)?;
        let stride = self.extent(stride)?;
        let stride = self.add(OpKind::BroadcastInDim { broadcast_dimensions: Dims::new() }, &[stride], ty)?;
        let product = self.binary(Binary::Multiply, index, stride)?;
        match sum {
            Some(sum) => self.binary(Binary::Add, sum, product),
            None => Ok(product),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smallest_groups() {
        let of = |from: &[i64], to: &[i64]| groups(&without_units(from, &[]), &without_units(to, &[]));
        assert_eq!(of(&[6, 2], &[6, 2]), [(vec![0], vec![0]), (vec![1], vec![1])]);
        assert_eq!(of(&[6, 2], &[1, 6, 2]), [(vec![0], vec![1]), (vec![1], vec![2])]);
        assert_eq!(of(&[6, 2], &[12]), [(vec![0, 1], vec![0])]);
        assert_eq!(of(&[2, 6, 4], &[3, 4, 4]), [(vec![0, 1], vec![0, 1]), (vec![2], vec![2])]);
        assert_eq!(of(&[3, 0], &[0]), [(vec![0, 1], vec![0])]);
        assert_eq!(of(&[1, 1], &[]), []);
    }

    #[test]
    fn unit_bounds_join_groups() {
        let from = without_units(&[1, 2], &[0]);
        assert_eq!(groups(&from, &without_units(&[2], &[0])), [(vec![0, 1], vec![0])]);
        assert_eq!(groups(&from, &without_units(&[1, 2], &[0])), [(vec![0], vec![0]), (vec![1], vec![1])]);
    }
}
