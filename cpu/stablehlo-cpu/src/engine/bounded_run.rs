//! Runs of programs whose parameters or outputs have bounded dynamic dimensions.
//!
//! The compiled program computes with arrays of the maximum shape. Additional parameters contain the actual sizes of
//! bounded parameters, and additional outputs those of bounded outputs. A tensor holds only its valid elements,
//! densely. A run therefore copies the elements between the two representations, unless each element has the same
//! offset in both.

use super::bounded_arrays::BoundedArrays;
use super::dtype::{DType, TensorType};
use super::pool::Pool;
use super::program::Program;
use super::tensor::Tensor;
use crate::error::RunError;

impl Program {
    /// Runs the program on tensors with dynamic dimensions. `run` takes and returns arrays of the maximum shape,
    /// followed by scalar tensors with the actual sizes.
    #[cold]
    pub(crate) fn run_bounded(
        &self,
        bounded: &BoundedArrays,
        mut inputs: Vec<Tensor>,
        pool: &Pool,
        run: impl FnOnce(Vec<Tensor>) -> Result<Vec<Tensor>, RunError>,
    ) -> Result<Vec<Tensor>, RunError> {
        if inputs.len() != self.parameters().len() {
            return Err(self.takes(inputs.len()));
        }
        for array in &bounded.parameters {
            let Some(input) = inputs.get_mut(array.index) else { break };
            let ty = &self.parameters()[array.index].ty;
            // An input of one size has the maximum size, also if it has other dimensions of extent 1.
            let extents = if input.is_dynamic() { input.extents() } else { ty.dims.to_vec() };
            let is_bounded = |(dimension, _): &(usize, usize)| array.dimensions.contains(dimension);
            if input.is_dynamic() && !(input.ty() == ty && input.dynamic_dimensions().iter().all(is_bounded)) {
                return Err(RunError::Input(format!(
                    "input {} of program `{}` is a {} of dynamic extents {extents:?}, but the parameter is a {ty} with \
                     sizes in the dimensions {:?} only",
                    array.index,
                    self.name(),
                    input.ty(),
                    array.dimensions
                )));
            }
            *input = padded(input, pool)?;
            for &dimension in &array.dimensions {
                let size = extents.get(dimension).copied().and_then(|extent| i32::try_from(extent).ok());
                let size = size.ok_or_else(|| self.too_long("input", array.index))?;
                inputs.push(Tensor::from_bytes(pool, DType::I32, &[], &size.to_ne_bytes())?);
            }
        }
        let mut outputs = run(inputs)?;
        let sizes = outputs.split_off(outputs.len().saturating_sub(bounded.output_sizes()));
        let mut sizes =
            sizes.iter().map(|size| size.bytes().first_chunk().map_or(-1, |bytes| i32::from_ne_bytes(*bytes)));
        for array in &bounded.outputs {
            let Some(output) = outputs.get_mut(array.index) else { break };
            let mut dynamic = Vec::with_capacity(array.dimensions.len());
            for &dimension in &array.dimensions {
                let (size, bound) = (sizes.next().unwrap_or(-1), output.dims()[dimension]);
                let extent = usize::try_from(size).ok().filter(|size| *size <= bound);
                let extent = extent.ok_or_else(|| {
                    RunError::Size(format!(
                        "output {} of program `{}` has the size {size} in dimension {dimension}, but the size must be \
                         from 0 to {bound}; correct the operand of set_dimension_size",
                        array.index,
                        self.name()
                    ))
                })?;
                dynamic.push((dimension, extent));
            }
            *output = dense(output, dynamic, pool)?;
        }
        Ok(outputs)
    }

    /// Returns the error for an input with dynamic dimensions that is passed to a parameter with a static shape.
    #[cold]
    pub(crate) fn takes_one_size(&self, index: usize, input: &Tensor) -> RunError {
        RunError::Input(format!(
            "input {index} of program `{}` is a {} of dynamic extents {:?}, but the parameter has one size; copy the \
             array to the host, or compile the program for an argument of bounded size",
            self.name(),
            input.ty(),
            input.extents()
        ))
    }

    fn too_long(&self, what: &str, index: usize) -> RunError {
        RunError::Size(format!("{what} {index} of program `{}` has more than 2^31 - 1 elements in a row", self.name()))
    }
}

/// Copies the elements of a tensor with dynamic dimensions to their offsets in an array of the maximum shape.
fn padded(tensor: &Tensor, pool: &Pool) -> Result<Tensor, RunError> {
    let (ty, extents) = (tensor.ty(), tensor.extents());
    if are_in_place(&ty.dims, &extents) {
        return Ok(Tensor::from_parts(ty.clone(), tensor.clone().into_buffer()));
    }
    moved(tensor, &extents, &ty.dims, &extents, pool)
}

/// Packs the valid elements of an array of the maximum shape into a dense tensor. `dynamic` contains each bounded
/// dimension and its number of valid elements.
fn dense(tensor: &Tensor, dynamic: Vec<(usize, usize)>, pool: &Pool) -> Result<Tensor, RunError> {
    let mut extents = tensor.dims().to_vec();
    for &(dimension, extent) in &dynamic {
        extents[dimension] = extent;
    }
    let dense = match are_in_place(tensor.dims(), &extents) {
        true => tensor.clone(),
        false => moved(tensor, tensor.dims(), &extents, &extents, pool)?,
    };
    Ok(dense.with_dynamic_dimensions(dynamic))
}

/// Returns whether the elements of a dense array of shape `extents` have the same offsets in an array of shape
/// `bounds`.
fn are_in_place(bounds: &[usize], extents: &[usize]) -> bool {
    extents.contains(&0)
        || bounds
            .iter()
            .zip(extents)
            .enumerate()
            .all(|(d, (bound, extent))| bound == extent || extents[..d].iter().all(|outer| *outer == 1))
}

/// Copies the first `extents` elements of each dimension from an array of shape `from` to an array of shape `to`.
fn moved(tensor: &Tensor, from: &[usize], to: &[usize], extents: &[usize], pool: &Pool) -> Result<Tensor, RunError> {
    let ty: &TensorType = tensor.ty();
    let mut new = pool.alloc(ty.bytes())?;
    let element = ty.dtype.size();
    let Some((&last, outer)) = extents.split_last() else { return Ok(tensor.clone()) };
    let row = last * element;
    let rows: usize = outer.iter().product();
    let (source, target) = (tensor.bytes(), new.write()?);
    let offset = |shape: &[usize], mut row: usize| {
        let (mut offset, mut stride) = (0, shape.last().copied().unwrap_or(1) * element);
        for (extent, length) in outer.iter().zip(shape).rev() {
            offset += row % extent * stride;
            row /= extent;
            stride *= length;
        }
        offset
    };
    for index in 0..rows {
        let (from, to) = (offset(from, index), offset(to, index));
        let places = target.get_mut(to..to + row).zip(source.get(from..from + row));
        let (target, source) =
            places.ok_or_else(|| RunError::Internal(format!("{extents:?} elements do not fit a {ty}")))?;
        target.copy_from_slice(source);
    }
    Ok(Tensor::from_parts(ty.clone(), new))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(pool: &Pool, dims: &[usize]) -> Tensor {
        let count = u8::try_from(dims.iter().product::<usize>()).unwrap();
        Tensor::from_bytes(pool, DType::U8, dims, &(0..count).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn elements_move_and_return() {
        let pool = Pool::new(usize::MAX);
        let made = dense(&numbers(&pool, &[2, 3, 2]), vec![(1, 2), (2, 1)], &pool).unwrap();
        assert_eq!((made.extents(), &made.bytes()[..4]), (vec![2, 2, 1], &[0, 2, 6, 8][..]));
        let back = padded(&made, &pool).unwrap();
        let bytes = back.bytes();
        assert_eq!([bytes[0], bytes[2], bytes[6], bytes[8]], [0, 2, 6, 8]);
        assert!(!back.is_dynamic());
    }

    #[test]
    fn first_rows_stay_in_place() {
        let pool = Pool::new(usize::MAX);
        let array = numbers(&pool, &[4, 2]);
        let made = dense(&array, vec![(0, 3)], &pool).unwrap();
        assert!(made.shares_elements_with(&array));
        assert!(padded(&made, &pool).unwrap().shares_elements_with(&array));
        assert!(dense(&array, vec![(1, 1)], &pool).is_ok_and(|made| !made.shares_elements_with(&array)));
        assert!(dense(&array, vec![(1, 0)], &pool).is_ok_and(|made| made.shares_elements_with(&array)));
    }
}
