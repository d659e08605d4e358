//! Convolutions over one to three spatial dimensions, transposed convolutions, and their gradients.

use burn_ir::{ModuleOperationIr as M, TensorIr};
use stablehlo::builder::{Convolution, Value};
use stablehlo::ir::{ConvDimensions, ElementType};

use super::{Lower, Result};
use crate::dtype::extents;
use crate::error::Error;

/// Stride, padding, dilation and groups of a convolution.
#[derive(Clone, Debug)]
struct Window {
    stride: Vec<i64>,
    padding: Vec<i64>,
    dilation: Vec<i64>,
    groups: i64,
}

/// Reads the options of a convolution with any number of spatial dimensions.
macro_rules! window {
    ($options:expr) => {{
        let list = |values: &[usize]| values.iter().map(|&value| value as i64).collect::<Vec<i64>>();
        let options = &$options;
        Window {
            stride: list(&options.stride),
            padding: list(&options.padding),
            dilation: list(&options.dilation),
            groups: options.groups as i64,
        }
    }};
}

/// Lowers a convolution or, with `transposed`, a transposed convolution. A macro is needed, because Burn has a separate
/// struct with the same fields for each number of spatial dimensions.
macro_rules! convolve {
    ($self:ident, $op:ident) => {
        $self.convolve(&$op.x, &$op.weight, $op.bias.as_ref(), &window!($op.options), &$op.out)
    };
    ($self:ident, $op:ident, transposed) => {
        $self.transposed(&$op.x, &$op.weight, $op.bias.as_ref(), &window!($op.options), &$op.out)
    };
    ($self:ident, $op:ident, input) => {
        $self.transposed(&$op.output_grad, &$op.weight, None, &window!($op.options), &$op.out)
    };
    ($self:ident, $op:ident, weight) => {
        $self.weight_gradient(&$op.x, &$op.weight, &$op.output_grad, &window!($op.options), &$op.out)
    };
    ($self:ident, $op:ident, bias) => {
        $self.bias_gradient(&$op.output_grad, &$op.out)
    };
}

impl Lower<'_> {
    pub(super) fn convolution_op(&mut self, op: &M) -> Result<()> {
        match op {
            M::Conv1d(op) => convolve!(self, op),
            M::Conv2d(op) => convolve!(self, op),
            M::Conv3d(op) => convolve!(self, op),
            M::ConvTranspose1d(op) => convolve!(self, op, transposed),
            M::ConvTranspose2d(op) => convolve!(self, op, transposed),
            M::ConvTranspose3d(op) => convolve!(self, op, transposed),
            M::Conv1dXBackward(op) => convolve!(self, op, input),
            M::Conv2dXBackward(op) => convolve!(self, op, input),
            M::Conv3dXBackward(op) => convolve!(self, op, input),
            M::Conv1dWeightBackward(op) => convolve!(self, op, weight),
            M::Conv2dWeightBackward(op) => convolve!(self, op, weight),
            M::Conv3dWeightBackward(op) => convolve!(self, op, weight),
            M::Conv1dBiasBackward(op) => convolve!(self, op, bias),
            M::Conv2dBiasBackward(op) => convolve!(self, op, bias),
            M::Conv3dBiasBackward(op) => convolve!(self, op, bias),
            _ => Err(Error::unsupported("Module", "the operation is not lowered to StableHLO")),
        }
    }

    fn convolve(
        &mut self,
        x: &TensorIr,
        weight: &TensorIr,
        bias: Option<&TensorIr>,
        window: &Window,
        out: &TensorIr,
    ) -> Result<()> {
        let spatial = window.stride.len();
        let options = Convolution::features_first(spatial)
            .strides(window.stride.clone())
            .padding(window.padding.iter().map(|&pad| (pad, pad)).collect::<Vec<_>>())
            .kernel_dilation(window.dilation.clone())
            .feature_group_count(window.groups);
        let result = self.convolution(self.value(x)?, self.value(weight)?, options)?;
        let result = self.biased(result, bias)?;
        self.set(out, result)
    }

    /// Adds the bias, if there is one, to each channel. The channels are the second dimension.
    fn biased(&self, x: Value, bias: Option<&TensorIr>) -> Result<Value> {
        let Some(bias) = bias else { return Ok(x) };
        let bias = self.f.broadcast_in_dim(self.value(bias)?, &[1], &self.shape(x)?)?;
        Ok(self.f.add(x, bias)?)
    }

    fn convolution(&self, x: Value, kernel: Value, options: Convolution) -> Result<Value> {
        let element = self.element(x)?;
        let (x, kernel) = (self.cast_down(x)?, self.cast_down(kernel)?);
        // The results of `f16` and `bf16` operands are accumulated in `f32`.
        let wide = matches!(self.element(x)?, ElementType::F16 | ElementType::Bf16);
        let options = options.result_element(wide.then_some(ElementType::F32));
        self.converted(self.f.convolution(x, kernel, options)?, element)
    }

    /// Computes a transposed convolution, which is also the gradient of a convolution with respect to its input. The
    /// first dimension of `weight` corresponds to the features of `x`.
    fn transposed(
        &mut self,
        x: &TensorIr,
        weight: &TensorIr,
        bias: Option<&TensorIr>,
        window: &Window,
        out: &TensorIr,
    ) -> Result<()> {
        let f = self.f;
        let (input, kernel, output) = (extents(x), extents(weight), extents(out));
        let spatial = window.stride.len();
        let mut weights = self.value(weight)?;
        if window.groups > 1 {
            // Reshape [groups * in, out, …] to [in, groups * out, …].
            let (inner, outer) = (kernel[0] / window.groups, kernel[1]);
            let mut split = vec![window.groups, inner, outer];
            split.extend(&kernel[2..]);
            let mut permutation: Vec<usize> = (0..split.len()).collect();
            permutation.swap(0, 1);
            let mut merged = vec![inner, window.groups * outer];
            merged.extend(&kernel[2..]);
            weights = f.reshape(f.transpose(f.reshape(weights, &split)?, &permutation)?, &merged)?;
        }
        let padding: Vec<(i64, i64)> = (0..spatial)
            .map(|d| {
                let reach = window.dilation[d] * (kernel[d + 2] - 1);
                let dilated = (input[d + 2] - 1) * window.stride[d] + 1;
                let low = reach - window.padding[d];
                (low, output[d + 2] + reach - low - dilated)
            })
            .collect();
        let mut dimensions = dimensions(spatial);
        (dimensions.kernel_input_feature, dimensions.kernel_output_feature) = (0, 1);
        let options = Convolution::with_dimensions(dimensions)
            .padding(padding)
            .input_dilation(window.stride.clone())
            .kernel_dilation(window.dilation.clone())
            .reversal(vec![true; spatial])
            .feature_group_count(window.groups);
        let result = self.convolution(self.value(x)?, weights, options)?;
        let result = self.biased(result, bias)?;
        self.set(out, result)
    }

    /// Computes the gradient of a convolution with respect to its weights. The gradient is the convolution of the input
    /// with the output's gradient, summed over the batch.
    fn weight_gradient(
        &mut self,
        x: &TensorIr,
        weight: &TensorIr,
        grad: &TensorIr,
        window: &Window,
        out: &TensorIr,
    ) -> Result<()> {
        let (input, kernel, output) = (extents(x), extents(weight), extents(grad));
        let spatial = window.stride.len();
        let padding: Vec<(i64, i64)> = (0..spatial)
            .map(|d| {
                let dilated = (output[d + 2] - 1) * window.stride[d] + 1;
                let needed = (kernel[d + 2] - 1) * window.dilation[d] + dilated;
                (window.padding[d], needed - input[d + 2] - window.padding[d])
            })
            .collect();
        let mut dimensions = dimensions(spatial);
        (dimensions.input_batch, dimensions.input_feature) = (1, 0);
        (dimensions.kernel_input_feature, dimensions.kernel_output_feature) = (0, 1);
        (dimensions.output_batch, dimensions.output_feature) = (1, 0);
        let options = Convolution::with_dimensions(dimensions)
            .padding(padding)
            .strides(window.dilation.clone())
            .kernel_dilation(window.stride.clone())
            .batch_group_count(window.groups);
        let result = self.convolution(self.value(x)?, self.value(grad)?, options)?;
        self.set(out, result)
    }

    fn bias_gradient(&mut self, grad: &TensorIr, out: &TensorIr) -> Result<()> {
        let others: Vec<usize> = (0..grad.shape.num_dims()).filter(|&d| d != 1).collect();
        let sum = self.sum(self.value(grad)?, &others)?;
        self.set(out, sum)
    }
}

/// Returns the dimension numbers of Burn's layout. The first two dimensions of inputs and outputs are the batch and the
/// features. Those of kernels are the output features and the input features.
fn dimensions(spatial: usize) -> ConvDimensions {
    let last: Vec<usize> = (2..spatial + 2).collect();
    ConvDimensions {
        input_batch: 0,
        input_feature: 1,
        input_spatial: last.clone(),
        kernel_input_feature: 1,
        kernel_output_feature: 0,
        kernel_spatial: last.clone(),
        output_batch: 0,
        output_feature: 1,
        output_spatial: last,
    }
}
