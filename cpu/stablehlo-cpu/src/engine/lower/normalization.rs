//! Lowers `batch_norm_*` to the ops that define them in the StableHLO specification.

use stablehlo::ir::{Binary, Unary};

use super::linear::rest;
use super::{LoweringContext, Result, TypedValue};
use crate::engine::dtype::{DType, TensorType};
use crate::engine::view::{View, strides_of};

/// The operand in the type of the computation, and the parameters that all three ops need.
struct Norm {
    x: TypedValue,
    feature: usize,
    epsilon: f64,
    /// Number of elements of each feature.
    count: usize,
    dtype: DType,
}

impl LoweringContext<'_, '_> {
    fn norm(&mut self, x: TypedValue, epsilon: f32, feature: usize) -> Result<Norm> {
        self.ensure(feature < x.ty.rank(), || format!("feature_index = {feature} of {}", x.ty))?;
        let dtype = x.ty.dtype;
        let wide = match dtype {
            DType::F64 => DType::F64,
            _ if dtype == DType::F32 || dtype.is_float() || dtype.is_narrow_float() => DType::F32,
            _ => return Err(self.unsupported()),
        };
        let count = x.ty.elements().checked_div(x.ty.dims[feature]).unwrap_or(0);
        Ok(Norm { x: self.converted(x, wide)?, feature, epsilon: epsilon.into(), count, dtype })
    }

    /// Broadcasts `features`, which contains one number per feature, to the shape of the operand.
    fn spread(&mut self, n: &Norm, features: &TypedValue) -> Result<TypedValue> {
        let extent = n.x.ty.dims[n.feature];
        self.ensure(features.ty.dims[..] == [extent], || format!("{} for {extent} features", features.ty))?;
        let features = self.converted(features.clone(), n.x.ty.dtype)?;
        let mut strides = vec![0; n.x.ty.rank()];
        strides[n.feature] = strides_of(&features.ty.dims)[0];
        let v = self.load(features.value, View::new(&n.x.ty.dims, &strides, 0));
        Ok(TypedValue { value: v, ty: n.x.ty.clone() })
    }

    /// Sums `x` over all dimensions except the feature dimension.
    fn per_feature(&mut self, n: &Norm, x: &TypedValue) -> Result<TypedValue> {
        let zero = self.filled(0.0, x.ty.dtype, &[])?;
        let reduced = rest(x.ty.rank(), &[n.feature], &[]);
        self.reduced(Binary::Add, x, &zero, &reduced)?.ok_or_else(|| self.unsupported())
    }

    /// Creates a tensor of equal floats.
    pub(super) fn filled(&mut self, x: f64, dtype: DType, dims: &[usize]) -> Result<TypedValue> {
        let ty = self.typed(DType::F64, dims)?;
        let v = self.graph.splat_value(&x.to_ne_bytes(), ty.elements());
        self.converted(TypedValue { value: v, ty }, dtype)
    }

    fn like(&mut self, x: f64, ty: &TensorType) -> Result<TypedValue> {
        let dims = ty.dims.clone();
        self.filled(x, ty.dtype, &dims)
    }

    /// Returns `sqrt(variance + epsilon)` for each feature.
    fn deviation(&mut self, n: &Norm, variance: &TypedValue) -> Result<TypedValue> {
        let variance = self.converted(variance.clone(), n.x.ty.dtype)?;
        let epsilon = self.like(n.epsilon, &variance.ty)?;
        let sum = self.bin(Binary::Add, &variance, &epsilon)?;
        self.un(Unary::Sqrt, &sum)
    }

    fn normalized(
        &mut self,
        n: &Norm,
        scale: &TypedValue,
        offset: &TypedValue,
        mean: &TypedValue,
        variance: &TypedValue,
    ) -> Result<TypedValue> {
        let deviation = self.deviation(n, variance)?;
        let [scale, offset, mean, deviation] =
            [self.spread(n, scale)?, self.spread(n, offset)?, self.spread(n, mean)?, self.spread(n, &deviation)?];
        let centered = self.bin(Binary::Subtract, &n.x, &mean)?;
        let y = self.bin(Binary::Divide, &centered, &deviation)?;
        let y = self.bin(Binary::Multiply, &y, &scale)?;
        self.bin(Binary::Add, &y, &offset)
    }

    pub(super) fn batch_norm_inference(&mut self, epsilon: f32, feature: usize) -> Result<()> {
        let [x, scale, offset, mean, variance] = self.take()?;
        let n = self.norm(x, epsilon, feature)?;
        let y = self.normalized(&n, &scale, &offset, &mean, &variance)?;
        let y = self.converted(y, n.dtype)?;
        self.finish(vec![y])
    }

    pub(super) fn batch_norm_training(&mut self, epsilon: f32, feature: usize) -> Result<()> {
        let [x, scale, offset] = self.take()?;
        let n = self.norm(x, epsilon, feature)?;
        let sum = self.per_feature(&n, &n.x)?;
        let count = self.like(n.count as f64, &sum.ty)?;
        let mean = self.bin(Binary::Divide, &sum, &count)?;
        let spread = self.spread(&n, &mean)?;
        let centered = self.bin(Binary::Subtract, &n.x, &spread)?;
        let squares = self.bin(Binary::Multiply, &centered, &centered)?;
        let sum = self.per_feature(&n, &squares)?;
        let variance = self.bin(Binary::Divide, &sum, &count)?;
        let y = self.normalized(&n, &scale, &offset, &mean, &variance)?;
        let results = [y, mean, variance].map(|t| self.converted(t, n.dtype));
        self.finish(results.into_iter().collect::<Result<_>>()?)
    }

    pub(super) fn batch_norm_grad(&mut self, epsilon: f32, feature: usize) -> Result<()> {
        let [x, scale, mean, variance, gradient] = self.take()?;
        self.same(&x, &gradient)?;
        let n = self.norm(x, epsilon, feature)?;
        let gradient = self.converted(gradient, n.x.ty.dtype)?;
        let deviation = self.deviation(&n, &variance)?;
        let [scale, mean, deviation] =
            [self.spread(&n, &scale)?, self.spread(&n, &mean)?, self.spread(&n, &deviation)?];
        let centered = self.bin(Binary::Subtract, &n.x, &mean)?;
        let normalized = self.bin(Binary::Divide, &centered, &deviation)?;
        let grad_offset = self.per_feature(&n, &gradient)?;
        let weighted = self.bin(Binary::Multiply, &gradient, &normalized)?;
        let grad_scale = self.per_feature(&n, &weighted)?;
        // The gradient of the operand is scale / deviation * (gradient - mean(gradient) - normalized * mean(gradient *
        // normalized)).
        let count = self.like(n.count as f64, &grad_offset.ty)?;
        let mean_gradient = self.bin(Binary::Divide, &grad_offset, &count)?;
        let mean_weighted = self.bin(Binary::Divide, &grad_scale, &count)?;
        let [mean_gradient, mean_weighted] = [self.spread(&n, &mean_gradient)?, self.spread(&n, &mean_weighted)?];
        let along = self.bin(Binary::Multiply, &normalized, &mean_weighted)?;
        let inner = self.bin(Binary::Subtract, &gradient, &mean_gradient)?;
        let inner = self.bin(Binary::Subtract, &inner, &along)?;
        let factor = self.bin(Binary::Divide, &scale, &deviation)?;
        let grad_operand = self.bin(Binary::Multiply, &factor, &inner)?;
        let results = [grad_operand, grad_scale, grad_offset].map(|t| self.converted(t, n.dtype));
        self.finish(results.into_iter().collect::<Result<_>>()?)
    }
}
