//! Ops whose shapes are known only at run time, and quantized ops.

use std::fmt::Write;
use std::panic::Location;

use super::function::FunctionBuilder;
use super::options::{Convolution, Gather};
use super::state::Types;
use super::value::Value;
use crate::error::{ErrorKind, Result};
use crate::ir::*;

impl FunctionBuilder {
    /// Reshapes a tensor to the shape that the operand `shape` contains at run time. `result` is the type of the
    /// result, with [`DYNAMIC`] for each extent that is known only at run time.
    ///
    /// # Errors
    ///
    /// Returns an error if `shape` is not a one-dimensional tensor with one integer for each dimension of the result.
    #[track_caller]
    pub fn dynamic_reshape(&self, x: Value, shape: Value, result: impl Into<Type>) -> Result<Value> {
        self.one(Location::caller(), OpKind::DynamicReshape, &[x, shape], Types::one(result))
    }

    /// Works like [`Self::iota`], with the shape that the operand `shape` contains at run time.
    ///
    /// # Errors
    ///
    /// Returns an error if `shape` is not a one-dimensional tensor with one integer for each dimension of the result.
    #[track_caller]
    pub fn dynamic_iota(&self, shape: Value, dimension: usize, result: impl Into<Type>) -> Result<Value> {
        let kind = OpKind::DynamicIota { iota_dimension: dimension };
        self.one(Location::caller(), kind, &[shape], Types::one(result))
    }

    /// Works like [`Self::broadcast_in_dim`], with the shape that the operand `shape` contains at run time.
    ///
    /// # Errors
    ///
    /// Returns an error if the dimensions do not fit the operand and the result.
    #[track_caller]
    pub fn dynamic_broadcast_in_dim(
        &self,
        x: Value,
        shape: Value,
        broadcast_dimensions: &[usize],
        result: impl Into<Type>,
    ) -> Result<Value> {
        let kind = OpKind::DynamicBroadcastInDim {
            broadcast_dimensions: broadcast_dimensions.into(),
            known_expanding_dimensions: Dims::new(),
            known_nonexpanding_dimensions: Dims::new(),
        };
        self.one(Location::caller(), kind, &[x, shape], Types::one(result))
    }

    /// Works like [`Self::pad`], but `low`, `high` and `interior` are operands. Each of the three contains one integer
    /// for each dimension of `x`.
    ///
    /// # Errors
    ///
    /// Returns an error if `low`, `high` or `interior` does not have one integer for each dimension of `x`.
    #[track_caller]
    pub fn dynamic_pad(
        &self,
        x: Value,
        value: Value,
        [low, high, interior]: [Value; 3],
        result: impl Into<Type>,
    ) -> Result<Value> {
        self.one(Location::caller(), OpKind::DynamicPad, &[x, value, low, high, interior], Types::one(result))
    }

    /// Works like [`Self::slice`], but `start`, `limit` and `strides` are operands. Each of the three contains one
    /// integer for each dimension of `x`.
    ///
    /// # Errors
    ///
    /// Returns an error if `start`, `limit` or `strides` does not have one integer for each dimension of `x`.
    #[track_caller]
    pub fn real_dynamic_slice(
        &self,
        x: Value,
        [start, limit, strides]: [Value; 3],
        result: impl Into<Type>,
    ) -> Result<Value> {
        self.one(Location::caller(), OpKind::RealDynamicSlice, &[x, start, limit, strides], Types::one(result))
    }

    /// Works like [`Self::gather`], but the slice sizes are an operand. If this operand is not a constant, the extents
    /// that depend on the slice sizes are dynamic in the result type.
    ///
    /// # Errors
    ///
    /// Returns an error if the dimension numbers do not fit the operands.
    #[track_caller]
    pub fn dynamic_gather(
        &self,
        operand: Value,
        start_indices: Value,
        slice_sizes: Value,
        options: Gather,
    ) -> Result<Value> {
        let at = Location::caller();
        let operands = [operand, start_indices, slice_sizes];
        let kind = OpKind::DynamicGather {
            dimensions: Box::new(options.dimensions),
            indices_are_sorted: options.indices_are_sorted,
        };
        self.one(at, kind, &operands, Types::Inferred)
    }

    /// Works like [`Self::convolution`], but the padding is an operand with a pair of integers for each spatial
    /// dimension.
    ///
    /// # Errors
    ///
    /// Returns an error if the dimension numbers do not fit the operands.
    #[track_caller]
    pub fn dynamic_conv(&self, input: Value, kernel: Value, padding: Value, options: Convolution) -> Result<Value> {
        let at = Location::caller();
        let operands = [input, kernel, padding];
        let mut window = options.window;
        window.padding.clear();
        let kind = OpKind::DynamicConv {
            dimensions: Box::new(options.dimensions),
            window: Box::new(window),
            feature_group_count: options.feature_group_count,
            batch_group_count: options.batch_group_count,
            precision: options.precision,
        };
        self.one(at, kind, &operands, options.element.map_or(Types::Inferred, Types::Elements))
    }

    /// Quantizes floating-point numbers, or converts one quantized type to another.
    ///
    /// # Errors
    ///
    /// Returns an error if the expressed type of the result differs from the element type of the operand.
    #[track_caller]
    pub fn uniform_quantize(&self, x: Value, result: &QuantizedType) -> Result<Value> {
        let at = Location::caller();
        let element = format!("tensor<{}>", result.text());
        let shape = match self.types_of("stablehlo.uniform_quantize", at, &[x])?.remove(0) {
            Type::Tensor(tensor) => tensor.shape,
            other => self.quantized_shape(at, &other)?,
        };
        let ty = Type::Other(with_extents(&element, &shape));
        self.one(at, OpKind::UniformQuantize, &[x], Types::one(ty))
    }

    fn quantized_shape(&self, at: super::state::At, ty: &Type) -> Result<Vec<i64>> {
        crate::verify::expressed(ty).map(|tensor| tensor.shape).ok_or_else(|| {
            self.error(ErrorKind::Type, "uniform_quantize", at, format_args!("the operand must be a tensor, not {ty}"))
        })
    }

    /// Converts quantized numbers to their expressed type.
    ///
    /// # Errors
    ///
    /// Returns an error if the operand is not quantized.
    #[track_caller]
    pub fn uniform_dequantize(&self, x: Value) -> Result<Value> {
        self.one(Location::caller(), OpKind::UniformDequantize, &[x], Types::Inferred)
    }
}

/// Inserts the extents of `shape` into `scalar`, which is the text of a scalar tensor type, and returns the new text.
fn with_extents(scalar: &str, shape: &[i64]) -> String {
    let mut text = String::from("tensor<");
    for &extent in shape {
        let _ = if extent == DYNAMIC { write!(text, "?x") } else { write!(text, "{extent}x") };
    }
    text + scalar.strip_prefix("tensor<").unwrap_or(scalar)
}

/// A quantized element type. A stored `integer` represents the number `(integer - zero point) * scale`.
///
/// ```
/// use stablehlo::builder::QuantizedType;
/// use stablehlo::ir::ElementType;
///
/// let ty = QuantizedType::new(ElementType::I8, ElementType::F32, 0.5, -3);
/// assert_eq!(ty.tensor(&[2, 4]).to_string(), "tensor<2x4x!quant.uniform<i8:f32, 5.000000e-01:-3>>");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct QuantizedType {
    storage: ElementType,
    expressed: ElementType,
    axis: Option<usize>,
    steps: Vec<(f64, i64)>,
}

impl QuantizedType {
    /// Creates a type with one scale and zero point for all elements.
    #[must_use]
    pub fn new(storage: ElementType, expressed: ElementType, scale: f64, zero_point: i64) -> Self {
        Self { storage, expressed, axis: None, steps: vec![(scale, zero_point)] }
    }

    /// Creates a type with one scale and zero point for each index of the dimension `axis`. `steps` holds these pairs
    /// in the order of the indices.
    #[must_use]
    pub fn per_axis(
        storage: ElementType,
        expressed: ElementType,
        axis: usize,
        steps: impl Into<Vec<(f64, i64)>>,
    ) -> Self {
        Self { storage, expressed, axis: Some(axis), steps: steps.into() }
    }

    /// Returns the type of a tensor of this shape.
    #[must_use]
    pub fn tensor(&self, shape: &[i64]) -> Type {
        Type::Other(with_extents(&format!("tensor<{}>", self.text()), shape))
    }

    /// Returns the type as MLIR text.
    fn text(&self) -> String {
        let storage =
            self.storage.name().strip_prefix("ui").map_or(self.storage.name().to_owned(), |bits| format!("u{bits}"));
        let axis = self.axis.map_or(String::new(), |axis| format!(":{axis}"));
        let steps: Vec<String> = self
            .steps
            .iter()
            .map(|&(scale, zero)| {
                let scale = crate::print::float_text(scale.to_bits(), ElementType::F64);
                if zero == 0 { scale } else { format!("{scale}:{zero}") }
            })
            .collect();
        let steps = if self.axis.is_some() { format!("{{{}}}", steps.join(",")) } else { steps.join(",") };
        format!("!quant.uniform<{storage}:{}{axis}, {steps}>", self.expressed)
    }
}
