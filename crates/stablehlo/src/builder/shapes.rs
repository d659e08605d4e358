//! Ops that create, reshape, slice and concatenate tensors.

use std::panic::Location;

use super::function::FunctionBuilder;
use super::state::Types;
use super::value::Value;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::*;

impl FunctionBuilder {
    /// Creates a tensor of this type. Each element equals its index along `dimension`.
    ///
    /// # Errors
    ///
    /// Returns an error if the type does not have the dimension or if its elements are not numbers.
    #[track_caller]
    pub fn iota(&self, ty: TensorType, dimension: usize) -> Result<Value> {
        self.one(Location::caller(), OpKind::Iota { iota_dimension: dimension }, &[], Types::one(ty))
    }

    /// Returns the partition id of the device that runs the op, as a scalar of type `ui32`.
    ///
    /// # Errors
    ///
    /// Returns an error if the function has too many values.
    #[track_caller]
    pub fn partition_id(&self) -> Result<Value> {
        self.one(Location::caller(), OpKind::PartitionId, &[], Types::Inferred)
    }

    /// Returns the replica id of the device that runs the op, as a scalar of type `ui32`.
    ///
    /// # Errors
    ///
    /// Returns an error if the function has too many values.
    #[track_caller]
    pub fn replica_id(&self) -> Result<Value> {
        self.one(Location::caller(), OpKind::ReplicaId, &[], Types::Inferred)
    }

    /// Reinterprets the bits of the elements as another type. If the new type is narrower, the result has an additional
    /// last dimension. If the new type is wider, the last dimension is merged into the elements.
    ///
    /// # Errors
    ///
    /// Returns an error if neither bit width divides the other, or if the last dimension does not have the extent that
    /// a wider type requires.
    #[track_caller]
    pub fn bitcast_convert(&self, x: Value, element: ElementType) -> Result<Value> {
        let at = Location::caller();
        let TensorType { mut shape, element: from } = self.tensor_of("stablehlo.bitcast_convert", at, x)?;
        let (from, to) = (from.bit_width(), element.bit_width());
        if to < from {
            shape.push((from / to).into());
        } else if to > from {
            shape.pop();
        }
        self.one(at, OpKind::BitcastConvert, &[x], Types::one(TensorType { shape, element }))
    }

    /// Broadcasts a tensor to this shape. `broadcast_dimensions` maps each dimension of the operand to a dimension of
    /// the result. To broadcast by NumPy's rules, use [`Self::broadcast_to`].
    ///
    /// # Errors
    ///
    /// Returns an error if the dimensions do not fit the operand and the shape.
    #[track_caller]
    pub fn broadcast_in_dim(&self, x: Value, broadcast_dimensions: &[usize], shape: &[i64]) -> Result<Value> {
        let at = Location::caller();
        let ty = self.with_shape("stablehlo.broadcast_in_dim", at, x, shape)?;
        let kind = OpKind::BroadcastInDim { broadcast_dimensions: broadcast_dimensions.into() };
        self.one(at, kind, &[x], Types::one(ty))
    }

    /// Adds dimensions of these extents before the operand's dimensions. The new op is a `broadcast_in_dim`, which
    /// replaces the op `broadcast` of earlier StableHLO versions.
    ///
    /// # Errors
    ///
    /// Returns an error if an extent is negative.
    #[track_caller]
    pub fn broadcast(&self, x: Value, sizes: &[i64]) -> Result<Value> {
        let at = Location::caller();
        let ty = self.tensor_of("stablehlo.broadcast_in_dim", at, x)?;
        let shape = [sizes, &ty.shape].concat();
        let kind = OpKind::BroadcastInDim { broadcast_dimensions: (sizes.len()..shape.len()).collect() };
        self.one(at, kind, &[x], Types::one(TensorType { shape, element: ty.element }))
    }

    /// Changes the shape of a tensor, and keeps the elements in row-major order.
    ///
    /// # Errors
    ///
    /// Returns an error if the new shape has a different number of elements.
    #[track_caller]
    pub fn reshape(&self, x: Value, shape: &[i64]) -> Result<Value> {
        let at = Location::caller();
        let ty = self.with_shape("stablehlo.reshape", at, x, shape)?;
        self.one(at, OpKind::Reshape, &[x], Types::one(ty))
    }

    /// Permutes the dimensions. Dimension `d` of the result is dimension `permutation[d]` of the operand.
    ///
    /// # Errors
    ///
    /// Returns an error if `permutation` is not a permutation of the dimensions.
    #[track_caller]
    pub fn transpose(&self, x: Value, permutation: &[usize]) -> Result<Value> {
        let kind = OpKind::Transpose { permutation: permutation.into() };
        self.one(Location::caller(), kind, &[x], Types::Inferred)
    }

    /// Extracts the elements from `start` (inclusive) to `limit` (exclusive). In each dimension, takes every element
    /// whose distance from `start` is a multiple of the stride.
    ///
    /// # Errors
    ///
    /// Returns an error if a list does not have one element for each dimension, or if a range exceeds the operand.
    #[track_caller]
    pub fn slice(&self, x: Value, start: &[i64], limit: &[i64], strides: &[i64]) -> Result<Value> {
        let kind =
            OpKind::Slice { limit_indices: limit.to_vec(), start_indices: start.to_vec(), strides: strides.to_vec() };
        self.one(Location::caller(), kind, &[x], Types::Inferred)
    }

    /// Extracts a slice of these sizes. The slice starts at the indices in `start`, which are known only at run time.
    /// `start` contains one scalar for each dimension.
    ///
    /// # Errors
    ///
    /// Returns an error if there is not one index and one size for each dimension, or if a size is larger than the
    /// operand.
    #[track_caller]
    pub fn dynamic_slice(&self, x: Value, start: &[Value], sizes: &[i64]) -> Result<Value> {
        let operands = [&[x], start].concat();
        let kind = OpKind::DynamicSlice { slice_sizes: sizes.to_vec() };
        self.one(Location::caller(), kind, &operands, Types::Inferred)
    }

    /// Replaces a slice of `x` with `update`. The slice starts at the indices in `start`, which are known only at run
    /// time. `start` contains one scalar for each dimension.
    ///
    /// # Errors
    ///
    /// Returns an error if there is not one index for each dimension, or if the update is larger than the operand.
    #[track_caller]
    pub fn dynamic_update_slice(&self, x: Value, update: Value, start: &[Value]) -> Result<Value> {
        let operands = [&[x, update], start].concat();
        self.one(Location::caller(), OpKind::DynamicUpdateSlice, &operands, Types::Inferred)
    }

    /// Concatenates tensors along a dimension.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no operand, or if the operands differ in element type or in an extent of another
    /// dimension.
    #[track_caller]
    pub fn concatenate(&self, operands: &[Value], dimension: usize) -> Result<Value> {
        self.one(Location::caller(), OpKind::Concatenate { dimension }, operands, Types::Inferred)
    }

    /// Pads a tensor with the scalar `value`. For each dimension, `low` and `high` are the numbers of elements to
    /// insert before and after the tensor's elements, and `interior` is the number to insert between two adjacent
    /// elements. A negative `low` or `high` removes elements.
    ///
    /// # Errors
    ///
    /// Returns an error if a list does not have one element for each dimension, or if interior padding is negative.
    #[track_caller]
    pub fn pad(&self, x: Value, value: Value, low: &[i64], high: &[i64], interior: &[i64]) -> Result<Value> {
        let kind = OpKind::Pad {
            edge_padding_high: high.to_vec(),
            edge_padding_low: low.to_vec(),
            interior_padding: interior.to_vec(),
        };
        self.one(Location::caller(), kind, &[x, value], Types::Inferred)
    }

    /// Reverses the order of the elements along these dimensions.
    ///
    /// # Errors
    ///
    /// Returns an error if the operand does not have one of the dimensions.
    #[track_caller]
    pub fn reverse(&self, x: Value, dimensions: &[usize]) -> Result<Value> {
        let kind = OpKind::Reverse { dimensions: dimensions.into() };
        self.one(Location::caller(), kind, &[x], Types::Inferred)
    }

    /// Returns the type of `x` with its shape replaced by `shape`. Keeps the element type, which may be quantized.
    pub(super) fn with_shape(&self, op: &str, at: super::state::At, x: Value, shape: &[i64]) -> Result<Type> {
        let ty = self.types_of(op, at, &[x])?.remove(0);
        match ty {
            Type::Tensor(tensor) => Ok(TensorType::new(shape, tensor.element).into()),
            Type::Other(text) if text.starts_with("tensor<") => Ok(Type::Other(reshaped(&text, shape))),
            other => Err(self.place(
                Error::new(ErrorKind::Type, format_args!("the operand must be a tensor, not {other}")),
                op,
                at,
            )),
        }
    }
}

/// Returns the text of a tensor type with its shape replaced by `shape` and without bounds.
fn reshaped(text: &str, shape: &[i64]) -> String {
    let mut rest = &text["tensor<".len()..];
    while let Some((extent, after)) = rest.split_once('x')
        && !extent.is_empty()
        && extent.bytes().all(|byte| byte.is_ascii_digit() || byte == b'?')
    {
        rest = after;
    }
    let element = rest.split_once(", #stablehlo.bounds").map_or(rest.trim_end_matches('>'), |(element, _)| element);
    let mut new = String::from("tensor<");
    for &extent in shape {
        new.push_str(&if extent == DYNAMIC { "?x".to_owned() } else { format!("{extent}x") });
    }
    // Trimming the text also removed the closing angle brackets of the element type, for example of a quantized type.
    // Append them again, and close the tensor type.
    let brackets = 1 + element.matches('<').count() - element.matches('>').count();
    new + element + &">".repeat(brackets)
}
