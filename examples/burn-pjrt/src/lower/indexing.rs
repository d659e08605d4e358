//! Gathers and scatters, in the usual sparse form and in the dense form that some plugins request.

use burn_backend::tensor::IndexingUpdateOp as Update;
use stablehlo::builder::{DotGeneral, Gather, Scatter, Value};
use stablehlo::ir::{ElementType, Precision};

use super::{Lower, Result};

/// Returns the number of elements of a tensor with this shape.
fn count(shape: &[i64]) -> u64 {
    shape.iter().product::<i64>().unsigned_abs()
}

impl Lower<'_> {
    /// Selects slices along `dimension`. `rows` is a vector with the positions of the slices along this dimension.
    ///
    /// If the plugin requests dense gathers, the result is computed as the product of a one-hot matrix and the operand.
    /// This form requires finite operands, because the product of 0 and an infinity or a NaN is NaN.
    pub(super) fn take(&self, x: Value, dimension: usize, rows: Value) -> Result<Value> {
        let (shape, element) = (self.shape(x)?, self.element(x)?);
        let extent = shape[dimension];
        if !self.types.capabilities().gathers_densely(extent.unsigned_abs()) || element == ElementType::Bool {
            return self.take_sparse(x, dimension, rows);
        }
        let mask = self.converted(self.one_hot(rows, extent)?, element)?;
        let options =
            DotGeneral::new().contracting([1], [dimension]).precision([Precision::Highest, Precision::Highest]);
        let product = self.f.dot_general(mask, x, options)?;
        // The first dimension of the product corresponds to the positions. Move it to `dimension`.
        let mut permutation: Vec<usize> = (1..shape.len()).collect();
        permutation.insert(dimension, 0);
        Ok(self.f.transpose(product, &permutation)?)
    }

    /// Selects the same slices as [`Self::take`], always with a gather op.
    pub(super) fn take_sparse(&self, x: Value, dimension: usize, rows: Value) -> Result<Value> {
        let shape = self.shape(x)?;
        let mut sizes = shape.clone();
        sizes[dimension] = 1;
        let offsets: Vec<usize> = (0..shape.len()).filter(|&d| d != dimension).collect();
        let options = Gather::new(sizes)
            .offset_dims(offsets)
            .collapsed_slice_dims([dimension])
            .start_index_map([dimension])
            .index_vector_dim(1usize);
        Ok(self.f.gather(x, rows, options)?)
    }

    /// Selects one element of the operand for each element of `indices`. The element of `indices` is the position along
    /// `dimension`. The positions along the other dimensions are those of the element in `indices`.
    pub(super) fn gather(&self, x: Value, dimension: usize, indices: Value) -> Result<Value> {
        let f = self.f;
        let (shape, chosen) = (self.shape(x)?, self.shape(indices)?);
        let others_match = (0..shape.len()).all(|d| d == dimension || shape[d] == chosen[d]);
        let dense = self.types.capabilities().gathers_densely(shape[dimension].unsigned_abs());
        if dense && others_match && self.element(x)? != ElementType::Bool {
            // Sum over the last dimension, in which only the operand's element at the index is not 0.
            let mask = self.one_hot(indices, shape[dimension])?;
            let all = self.shape(mask)?;
            let rank = shape.len();
            let dims: Vec<usize> = (0..rank).map(|d| if d == dimension { rank } else { d }).collect();
            let operand = f.broadcast_in_dim(x, &dims, &all)?;
            let zero = f.broadcast_to(self.number_like(0.0, x)?, &all)?;
            return self.sum(f.select(mask, operand, zero)?, &[rank]);
        }
        let points = self.points(indices, dimension)?;
        self.gather_points(x, points)
    }

    /// Selects the slices at `points`. The last dimension of `points` contains the positions along the leading
    /// dimensions of the operand.
    pub(super) fn gather_points(&self, x: Value, points: Value) -> Result<Value> {
        let (shape, form) = (self.shape(x)?, self.shape(points)?);
        let batch = form.len() - 1;
        let depth = form[batch] as usize;
        let mut sizes = shape.clone();
        sizes[..depth].fill(1);
        let leading: Vec<usize> = (0..depth).collect();
        let options = Gather::new(sizes)
            .offset_dims((batch..batch + shape.len() - depth).collect::<Vec<_>>())
            .collapsed_slice_dims(leading.clone())
            .start_index_map(leading)
            .index_vector_dim(batch);
        Ok(self.f.gather(x, points, options)?)
    }

    /// Returns the coordinates that each element of `indices` selects in the operand. They are the element's own
    /// coordinates, except that the coordinate along `dimension` is the element's value.
    fn points(&self, indices: Value, dimension: usize) -> Result<Value> {
        let f = self.f;
        let indices = self.index(indices)?;
        let (shape, element) = (self.shape(indices)?, self.element(indices)?);
        let mut column = shape.clone();
        column.push(1);
        let columns: Vec<Value> = (0..shape.len())
            .map(|d| {
                let position = if d == dimension { indices } else { self.positions(&shape, d, element)? };
                Ok(f.reshape(position, &column)?)
            })
            .collect::<Result<_>>()?;
        Ok(f.concatenate(&columns, shape.len())?)
    }

    /// Returns `x` with updated elements. `update` combines each element that [`Self::gather`] would select with the
    /// corresponding element of `values`.
    pub(super) fn scatter(
        &self,
        x: Value,
        dimension: usize,
        indices: Value,
        values: Value,
        update: Update,
    ) -> Result<Value> {
        let f = self.f;
        let (shape, chosen) = (self.shape(x)?, self.shape(indices)?);
        let others_match = (0..shape.len()).all(|d| d == dimension || shape[d] == chosen[d]);
        let dense = self.types.capabilities().scatters_densely(count(&chosen), count(&shape));
        if dense && others_match && update == Update::Add && self.element(x)? != ElementType::Bool {
            // For each position of the result, sum the values whose index equals this position.
            let mask = self.one_hot(indices, shape[dimension])?;
            let all = self.shape(mask)?;
            let rank = shape.len();
            let dims: Vec<usize> = (0..rank).collect();
            let zero = f.broadcast_to(self.number_like(0.0, x)?, &all)?;
            let spread = f.select(mask, f.broadcast_in_dim(values, &dims, &all)?, zero)?;
            let sums = self.sum(spread, &[dimension])?;
            // The last dimension of the sums corresponds to the position along `dimension`, so move it there.
            let mut permutation: Vec<usize> = (0..rank - 1).collect();
            permutation.insert(dimension, rank - 1);
            return Ok(f.add(x, f.transpose(sums, &permutation)?)?);
        }
        let points = self.points(indices, dimension)?;
        self.scatter_points(x, points, values, update)
    }

    /// Returns `x` with updated slices. `update` combines each slice that [`Self::take`] would select with the
    /// corresponding slice of `values`.
    pub(super) fn scatter_rows(
        &self,
        x: Value,
        dimension: usize,
        rows: Value,
        values: Value,
        update: Update,
    ) -> Result<Value> {
        let f = self.f;
        let shape = self.shape(x)?;
        let element = self.element(x)?;
        let dense = self.types.capabilities().scatters_densely(count(&self.shape(values)?), count(&shape));
        if dense && update == Update::Add && element != ElementType::Bool {
            let mask = self.converted(self.one_hot(rows, shape[dimension])?, element)?;
            let options =
                DotGeneral::new().contracting([0], [dimension]).precision([Precision::Highest, Precision::Highest]);
            let product = f.dot_general(mask, values, options)?;
            let mut permutation: Vec<usize> = (1..shape.len()).collect();
            permutation.insert(dimension, 0);
            return Ok(f.add(x, f.transpose(product, &permutation)?)?);
        }
        let windows: Vec<usize> = (0..shape.len()).filter(|&d| d != dimension).collect();
        let options = Scatter::new()
            .update_window_dims(windows)
            .inserted_window_dims([dimension])
            .scatter_dims_to_operand_dims([dimension])
            .index_vector_dim(1usize);
        Ok(f.scatter(x, rows, values, options, |old, new| self.updated(old, new, update))?)
    }

    /// Returns `x` with updated slices. `update` combines each slice that [`Self::gather_points`] would select with the
    /// corresponding slice of `values`.
    pub(super) fn scatter_points(&self, x: Value, points: Value, values: Value, update: Update) -> Result<Value> {
        let (shape, form) = (self.shape(x)?, self.shape(points)?);
        let batch = form.len() - 1;
        let depth = form[batch] as usize;
        let leading: Vec<usize> = (0..depth).collect();
        let options = Scatter::new()
            .update_window_dims((batch..batch + shape.len() - depth).collect::<Vec<_>>())
            .inserted_window_dims(leading.clone())
            .scatter_dims_to_operand_dims(leading)
            .index_vector_dim(batch);
        Ok(self.f.scatter(x, points, values, options, |old, new| self.updated(old, new, update))?)
    }

    fn updated(&self, old: Value, new: Value, update: Update) -> stablehlo::Result<Value> {
        match update {
            Update::Assign => Ok(new),
            Update::Add => self.f.add(old, new),
            Update::Mul => self.f.multiply(old, new),
            Update::Min => self.f.minimum(old, new),
            Update::Max => self.f.maximum(old, new),
        }
    }
}
