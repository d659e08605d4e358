//! The pass `expand_batch_norm`.

use stablehlo::ir::{Binary, DYNAMIC, ElementType, Module, Op, OpKind, TensorType, Type, Unary, ValueId};
use stablehlo::{Error, ErrorKind, Patch, Result, rewrite};

use crate::apply::apply_all;
use crate::build::{Build, of};
use crate::evaluate::Number;
use crate::loops::index;
use crate::sizes::{broadcast, shape, size};

fn is_batch_norm(op: &Op) -> bool {
    matches!(
        op.kind,
        OpKind::BatchNormInference { .. } | OpKind::BatchNormTraining { .. } | OpKind::BatchNormGrad { .. }
    )
}

/// Replaces `batch_norm_inference`, `batch_norm_training` and `batch_norm_grad` with the ops that define them in the
/// StableHLO specification. Returns `None` if the program has none of them.
///
/// ```text
/// %y = "stablehlo.batch_norm_inference"(%x, %scale, %offset, %mean, %variance) {epsilon = e, feature_index = f}
/// =>
/// %y = (%x - %mean) / sqrt(%variance + e) * %scale + %offset
/// ```
///
/// Each number of a feature is broadcast to the shape of the operand, with `dynamic_broadcast_in_dim` if a size of the
/// operand is `?`. Numbers of types narrower than `f32` are computed in `f32` and rounded at the end.
///
/// # Errors
///
/// Returns an error for quantized operands. The module must be verified.
pub fn expand_batch_norm(module: &Module) -> Result<Option<Module>> {
    apply_all(
        module,
        |func| func.body.all_ops().any(is_batch_norm),
        |func, locations| {
            rewrite(func, locations, |op, patch| {
                let values = match (&op.kind, &op.operands[..]) {
                    (&OpKind::BatchNormInference { epsilon, feature_index }, &[x, scale, offset, mean, variance]) => {
                        let norm = Norm::new(patch, x, epsilon, feature_index)?;
                        let x = norm.wide(patch, x)?;
                        vec![norm.normalized(patch, x, [scale, offset, mean, variance])?]
                    }
                    (&OpKind::BatchNormTraining { epsilon, feature_index }, &[x, scale, offset]) => {
                        Norm::new(patch, x, epsilon, feature_index)?.training(patch, x, scale, offset)?
                    }
                    (&OpKind::BatchNormGrad { epsilon, feature_index }, &[x, scale, mean, variance, gradient]) => {
                        let norm = Norm::new(patch, x, epsilon, feature_index)?;
                        norm.gradient(patch, x, [scale, mean, variance, gradient])?
                    }
                    _ => {
                        patch.push(op);
                        return Ok(());
                    }
                };
                // A result's declared sizes may be `?` where those of its value are known, and the other way round.
                let declared = |(value, &result)| {
                    let ty = patch.tensor(result)?.clone();
                    let value = patch.convert(value, ty.element)?;
                    patch.set_type(value, Type::Tensor(ty));
                    Ok(value)
                };
                let values = values.into_iter().zip(&op.results).map(declared).collect::<Result<Vec<_>>>()?;
                patch.replace(&op.results, &values)
            })
        },
    )
}

/// The parameters that all three ops need.
struct Norm {
    /// The operand's type with the element type of the computation.
    ty: TensorType,
    feature: usize,
    /// A scalar.
    epsilon: ValueId,
    /// Number of elements of each feature, as a scalar.
    count: ValueId,
    /// The dimensions other than that of the features.
    rest: Vec<usize>,
    /// The shape of the operand, and that of one number per feature, if a size is `?`.
    shapes: Option<[ValueId; 2]>,
}

impl Norm {
    fn new(patch: &mut Patch<'_>, x: ValueId, epsilon: f32, feature: usize) -> Result<Self> {
        let ty = patch.tensor(x).map_err(|error| Error::new(ErrorKind::Unsupported, error.message()))?.clone();
        if feature >= ty.rank() {
            return Err(Error::new(ErrorKind::Shape, "feature_index is too large"));
        }
        if !ty.element.is_float() {
            let message = format_args!("cannot normalize an operand of type {ty}, which is not a tensor of floats");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let element = if ty.element == ElementType::F64 { ElementType::F64 } else { ElementType::F32 };
        let rest: Vec<usize> = (0..ty.rank()).filter(|&d| d != feature).collect();
        let known = rest.iter().map(|&d| ty.shape[d]).filter(|&extent| extent != DYNAMIC);
        let mut count = index(patch, known.fold(1, i64::saturating_mul))?;
        let mut shapes = None;
        if ty.shape.contains(&DYNAMIC) {
            let sizes = (0..ty.rank()).map(|d| size(patch, x, ty.shape[d], d)).collect::<Result<Vec<_>>>()?;
            for &d in rest.iter().filter(|&&d| ty.shape[d] == DYNAMIC) {
                count = patch.binary(Binary::Multiply, count, sizes[d])?;
            }
            shapes = Some([shape(patch, &sizes), shape(patch, &sizes[feature..=feature])]);
        }
        let count = patch.convert(count, element)?;
        let epsilon = patch.splat(TensorType::new([], element), Number::Float(epsilon.into()))?;
        Ok(Self { ty: of(&ty, element), feature, epsilon, count, rest, shapes })
    }

    /// Returns an operand of the op's shape in the element type of the computation.
    fn wide(&self, patch: &mut Patch<'_>, x: ValueId) -> Result<ValueId> {
        let x = patch.convert(x, self.ty.element)?;
        with_known_shape(patch, x, &self.ty.shape)
    }

    /// Broadcasts one number per feature to the shape of the operand.
    fn spread(&self, patch: &mut Patch<'_>, features: ValueId) -> Result<ValueId> {
        let features = self.features(patch, features)?;
        let shape = self.shapes.map(|[shape, _]| shape);
        broadcast(patch, features, &[self.feature], &self.ty, shape)
    }

    /// Returns an operand with one number per feature in the element type of the computation.
    fn features(&self, patch: &mut Patch<'_>, features: ValueId) -> Result<ValueId> {
        let features = patch.convert(features, self.ty.element)?;
        with_known_shape(patch, features, &self.ty.shape[self.feature..=self.feature])
    }

    /// Returns a scalar as the number of each feature.
    fn each(&self, patch: &mut Patch<'_>, scalar: ValueId) -> Result<ValueId> {
        let ty = TensorType::new(&self.ty.shape[self.feature..=self.feature], self.ty.element);
        broadcast(patch, scalar, &[], &ty, self.shapes.map(|[_, shape]| shape))
    }

    /// Returns `sqrt(variance + epsilon)` for each feature.
    fn deviation(&self, patch: &mut Patch<'_>, variance: ValueId) -> Result<ValueId> {
        let (variance, epsilon) = (self.features(patch, variance)?, self.each(patch, self.epsilon)?);
        let sum = patch.binary(Binary::Add, variance, epsilon)?;
        patch.unary(Unary::Sqrt, sum)
    }

    /// Returns the sum of the elements of each feature.
    fn sum(&self, patch: &mut Patch<'_>, x: ValueId) -> Result<ValueId> {
        patch.reduce(Binary::Add, Number::Float(0.0), x, &self.rest)
    }

    fn mean(&self, patch: &mut Patch<'_>, sum: ValueId) -> Result<ValueId> {
        let count = self.each(patch, self.count)?;
        patch.binary(Binary::Divide, sum, count)
    }

    fn centered(&self, patch: &mut Patch<'_>, x: ValueId, mean: ValueId) -> Result<ValueId> {
        let mean = self.spread(patch, mean)?;
        patch.binary(Binary::Subtract, x, mean)
    }

    fn normalized(
        &self,
        patch: &mut Patch<'_>,
        x: ValueId,
        [scale, offset, mean, variance]: [ValueId; 4],
    ) -> Result<ValueId> {
        let deviation = self.deviation(patch, variance)?;
        let deviation = self.spread(patch, deviation)?;
        let (scale, offset) = (self.spread(patch, scale)?, self.spread(patch, offset)?);
        let centered = self.centered(patch, x, mean)?;
        let y = patch.binary(Binary::Divide, centered, deviation)?;
        let y = patch.binary(Binary::Multiply, y, scale)?;
        patch.binary(Binary::Add, y, offset)
    }

    fn training(&self, patch: &mut Patch<'_>, x: ValueId, scale: ValueId, offset: ValueId) -> Result<Vec<ValueId>> {
        let x = self.wide(patch, x)?;
        let sum = self.sum(patch, x)?;
        let mean = self.mean(patch, sum)?;
        let centered = self.centered(patch, x, mean)?;
        let squares = patch.binary(Binary::Multiply, centered, centered)?;
        let sum = self.sum(patch, squares)?;
        let variance = self.mean(patch, sum)?;
        Ok(vec![self.normalized(patch, x, [scale, offset, mean, variance])?, mean, variance])
    }

    fn gradient(
        &self,
        patch: &mut Patch<'_>,
        x: ValueId,
        [scale, mean, variance, gradient]: [ValueId; 4],
    ) -> Result<Vec<ValueId>> {
        let (x, gradient) = (self.wide(patch, x)?, self.wide(patch, gradient)?);
        let deviation = self.deviation(patch, variance)?;
        let (scale, deviation) = (self.spread(patch, scale)?, self.spread(patch, deviation)?);
        let centered = self.centered(patch, x, mean)?;
        let normalized = patch.binary(Binary::Divide, centered, deviation)?;
        let grad_offset = self.sum(patch, gradient)?;
        let weighted = patch.binary(Binary::Multiply, gradient, normalized)?;
        let grad_scale = self.sum(patch, weighted)?;
        // The gradient of the operand is scale / deviation * (gradient - mean(gradient) - normalized * mean(gradient *
        // normalized)).
        let mean_gradient = self.mean(patch, grad_offset)?;
        let mean_weighted = self.mean(patch, grad_scale)?;
        let mean_weighted = self.spread(patch, mean_weighted)?;
        let along = patch.binary(Binary::Multiply, normalized, mean_weighted)?;
        let inner = self.centered(patch, gradient, mean_gradient)?;
        let inner = patch.binary(Binary::Subtract, inner, along)?;
        let factor = patch.binary(Binary::Divide, scale, deviation)?;
        Ok(vec![patch.binary(Binary::Multiply, factor, inner)?, grad_scale, grad_offset])
    }
}

/// Gives a value with sizes `?` this shape, if all its sizes are known.
fn with_known_shape(patch: &mut Patch<'_>, x: ValueId, shape: &[i64]) -> Result<ValueId> {
    if shape.contains(&DYNAMIC) { Ok(x) } else { patch.reshape(x, shape) }
}
