//! Ops that read or write at computed indices.

use std::collections::HashMap;

use stablehlo::ir::{Op, OpKind, ScatterDimensions, TensorType, ValueId};

use super::builder::{Rewrite, Sizes};
use super::elementwise::merged;
use super::types::Result;
use crate::error::CompileError;

impl Rewrite<'_> {
    /// Returns the sizes of the result of a gather. A slice that covers a bounded dimension has the size of this
    /// dimension. Any other slice contains elements that the program promises to be valid.
    pub(super) fn gather(&mut self, op: &mut Op, sizes: &[Sizes]) -> Result<Sizes> {
        let OpKind::Gather { dimensions, slice_sizes, .. } = &op.kind else { return Ok(Sizes::new()) };
        let (operand, result) = (self.tensor(op.operands[0])?, self.tensor(op.results[0])?);
        let batch: Vec<usize> = (0..result.rank()).filter(|d| !dimensions.offset_dims.contains(d)).collect();
        let mut new = Sizes::new();
        for &(d, size) in &sizes[1] {
            if d == dimensions.index_vector_dim {
                return Err(CompileError::unsupported("a gather by index vectors of bounded size"));
            }
            let place = d - usize::from(d > dimensions.index_vector_dim);
            new.extend(batch.get(place).map(|place| (*place, size)));
        }
        let is_offset =
            |d: &usize| !dimensions.collapsed_slice_dims.contains(d) && !dimensions.operand_batching_dims.contains(d);
        let offsets: Vec<usize> = (0..operand.rank()).filter(is_offset).collect();
        for &(d, size) in &sizes[0] {
            let place = offsets.iter().position(|offset| *offset == d);
            let place = place.and_then(|place| dimensions.offset_dims.get(place));
            if slice_sizes.get(d) == operand.shape.get(d) {
                new.extend(place.map(|place| (*place, size)));
            }
        }
        Ok(merged(&[new]))
    }

    /// Rewrites `scatter`. Gives invalid updates an index outside the array, so that they are skipped.
    pub(super) fn scatter(&mut self, op: &mut Op, dimensions: &ScatterDimensions, sizes: &[Sizes]) -> Result<Sizes> {
        let inputs = op.operands.len() / 2;
        let unsupported = |what: &str| CompileError::unsupported(format!("a scatter {what} of bounded size"));
        let own = merged(&sizes[..inputs]);
        let indices = self.tensor(op.operands[inputs])?;
        let mut all = sizes[inputs].clone();
        // The dimensions of the updates that are not window dimensions are those of the indices, without the index
        // vector.
        let batch: Vec<usize> = (0..indices.rank()).filter(|&d| d != dimensions.index_vector_dim).collect();
        // `windows` lists the dimensions of the input that correspond to the window dimensions of the updates.
        let is_window =
            |d: &usize| !dimensions.inserted_window_dims.contains(d) && !dimensions.input_batching_dims.contains(d);
        let windows: Vec<usize> = (0..self.tensor(op.operands[0])?.rank()).filter(is_window).collect();
        for (i, sizes) in sizes.iter().enumerate().skip(inputs + 1) {
            let rank = self.tensor(op.operands[i])?.rank();
            let others = (0..rank).filter(|d| !dimensions.update_window_dims.contains(d));
            let places: HashMap<usize, usize> = others.zip(batch.iter().copied()).collect();
            for (dimension, size) in sizes {
                if let Some(place) = dimensions.update_window_dims.iter().position(|d| d == dimension) {
                    // Invalid elements of the updates may overwrite only invalid elements of the input. The input must
                    // therefore also have a size in this dimension.
                    let input = windows.get(place);
                    if !own.iter().any(|(known, _)| Some(known) == input) {
                        return Err(unsupported("of windows"));
                    }
                    continue;
                }
                let place = places.get(dimension).ok_or_else(|| unsupported("of windows"))?;
                if !all.contains(&(*place, *size)) {
                    all.push((*place, *size));
                }
            }
        }
        for (dimension, size) in all {
            if dimension == dimensions.index_vector_dim {
                return Err(unsupported("by index vectors"));
            }
            let at = op.operands[inputs];
            let mask = self.mask(&indices.shape, dimension, size)?;
            let outside = self.outside(&indices)?;
            op.operands[inputs] = self.add(OpKind::Select, &[mask, at, outside], indices.clone())?;
        }
        Ok(own)
    }

    /// Creates indices outside of every array: -1, or the largest number of an unsigned type.
    fn outside(&mut self, ty: &TensorType) -> Result<ValueId> {
        let outside = self.constant(TensorType::new([], ty.element), vec![0xff; ty.element.byte_size()])?;
        self.filled(outside, ty.clone())
    }

    pub(super) fn dynamic_slice(&mut self, op: &mut Op, sizes: &Sizes) -> Result<Sizes> {
        let OpKind::DynamicSlice { slice_sizes } = &op.kind else { return Ok(Sizes::new()) };
        let shape = self.tensor(op.operands[0])?.shape;
        let is_whole = |(d, _): &&(usize, ValueId)| slice_sizes.get(*d) == shape.get(*d);
        Ok(sizes.iter().filter(is_whole).copied().collect())
    }

    /// Rewrites `dynamic_update_slice`. Replaces invalid elements of the update with the elements that they would
    /// overwrite.
    pub(super) fn dynamic_update_slice(&mut self, op: &mut Op, sizes: &[Sizes]) -> Result<Sizes> {
        let update = self.tensor(op.operands[1])?;
        for &(dimension, size) in &sizes[1] {
            let operands: Vec<ValueId> =
                op.operands.iter().enumerate().filter(|(at, _)| *at != 1).map(|(_, operand)| *operand).collect();
            let slice = OpKind::DynamicSlice { slice_sizes: update.shape.clone() };
            let old = self.add(slice, &operands, update.clone())?;
            let mask = self.mask(&update.shape, dimension, size)?;
            op.operands[1] = self.add(OpKind::Select, &[mask, op.operands[1], old], update.clone())?;
        }
        Ok(sizes[0].clone())
    }
}
