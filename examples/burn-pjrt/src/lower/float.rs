//! Functions of floating-point values, and matrix multiplication.

use burn_ir::{FloatOperationIr as F, MatmulOpIr, TensorIr, UnaryOpIr};
use stablehlo::builder::{DotGeneral, Value};
use stablehlo::ir::{ComparisonDirection as Direction, ElementType};

use super::{Lower, Result};
use crate::dtype::extents;
use crate::error::Error;

impl Lower<'_> {
    pub(super) fn float(&mut self, op: &F) -> Result<()> {
        let f = self.f;
        match op {
            F::Exp(op) => self.unary(op, |x| Ok(f.exponential(x)?)),
            F::Log(op) => self.unary(op, |x| Ok(f.log(x)?)),
            F::Log1p(op) => self.unary(op, |x| Ok(f.log_plus_one(x)?)),
            F::Sqrt(op) => self.unary(op, |x| Ok(f.sqrt(x)?)),
            F::Cos(op) => self.unary(op, |x| Ok(f.cosine(x)?)),
            F::Sin(op) => self.unary(op, |x| Ok(f.sine(x)?)),
            F::Tan(op) => self.unary(op, |x| Ok(f.divide(f.sine(x)?, f.cosine(x)?)?)),
            F::Tanh(op) => self.unary(op, |x| Ok(f.tanh(x)?)),
            F::Round(op) => self.unary(op, |x| Ok(f.round_nearest_even(x)?)),
            F::Floor(op) => self.unary(op, |x| Ok(f.floor(x)?)),
            F::Ceil(op) => self.unary(op, |x| Ok(f.ceil(x)?)),
            F::Trunc(op) => {
                let x = self.value(&op.input)?;
                let negative = f.compare(x, Direction::Lt, self.number_like(0.0, x)?)?;
                self.set(&op.out, f.select(negative, f.ceil(x)?, f.floor(x)?)?)
            }
            F::Recip(op) => {
                let x = self.value(&op.input)?;
                self.set(&op.out, f.divide(self.number_like(1.0, x)?, x)?)
            }
            F::Cosh(op) => self.wide_unary(op, Self::cosh),
            F::Sinh(op) => self.wide_unary(op, Self::sinh),
            F::ArcCos(op) => self.wide_unary(op, |l, x| {
                // The arc cosine of x is the angle of the point (x, sqrt(1 - x²)).
                Ok(l.f.atan2(l.f.sqrt(l.one_minus_square(x)?)?, x)?)
            }),
            F::ArcSin(op) => self.wide_unary(op, |l, x| Ok(l.f.atan2(x, l.f.sqrt(l.one_minus_square(x)?)?)?)),
            F::ArcTan(op) => self.wide_unary(op, |l, x| Ok(l.f.atan2(x, l.number_like(1.0, x)?)?)),
            F::ArcCosh(op) => self.wide_unary(op, |l, x| {
                let (f, one) = (l.f, l.number_like(1.0, x)?);
                let root = f.multiply(f.sqrt(f.subtract(x, one)?)?, f.sqrt(f.add(x, one)?)?)?;
                Ok(f.log(f.add(x, root)?)?)
            }),
            F::ArcSinh(op) => self.wide_unary(op, Self::arcsinh),
            F::ArcTanh(op) => self.wide_unary(op, |l, x| {
                let f = l.f;
                let logs = f.subtract(f.log_plus_one(x)?, f.log_plus_one(f.negate(x)?)?)?;
                Ok(f.multiply(logs, l.number_like(0.5, x)?)?)
            }),
            F::ArcTan2(op) => self.set(&op.out, f.atan2(self.value(&op.lhs)?, self.value(&op.rhs)?)?),
            F::Erf(op) => self.wide_unary(op, Self::erf),
            F::PowfScalar(op) => {
                let x = self.value(&op.lhs)?;
                let exponent: f64 = op.rhs.elem();
                let result = if exponent.fract() == 0.0 && exponent.abs() <= 16.0 {
                    self.integer_power(x, exponent as i64)?
                } else {
                    f.power(x, self.number_like(exponent, x)?)?
                };
                self.set(&op.out, result)
            }
            F::Powf(op) => self.set(&op.out, f.power(self.value(&op.lhs)?, self.value(&op.rhs)?)?),
            F::IntoInt(op) => self.set(&op.out, self.value(&op.input)?),
            F::Matmul(op) => self.matmul(op),
            F::Cross(op) => {
                let result = self.cross(&op.lhs, &op.rhs, &op.out, op.dim)?;
                self.set(&op.out, result)
            }
            F::IsNan(op) => {
                let x = self.value(&op.input)?;
                self.set(&op.out, f.compare(x, Direction::Ne, x)?)
            }
            F::IsInf(op) => {
                let x = self.value(&op.input)?;
                let infinite = f.compare(f.abs(x)?, Direction::Eq, self.number_like(f64::INFINITY, x)?)?;
                self.set(&op.out, infinite)
            }
            F::Random(_) | F::Quantize(_) | F::Dequantize(_) | F::GridSample2d(_) => {
                Err(Error::unsupported("Float", "the operation is not lowered to StableHLO"))
            }
        }
    }

    fn unary(&mut self, op: &UnaryOpIr, function: impl FnOnce(Value) -> Result<Value>) -> Result<()> {
        let result = function(self.value(&op.input)?)?;
        self.set(&op.out, result)
    }

    /// Computes a function. If the operand has a type shorter than `f32`, the function is computed in `f32`.
    fn wide_unary(&mut self, op: &UnaryOpIr, function: impl FnOnce(&Self, Value) -> Result<Value>) -> Result<()> {
        let wide = self.wide(self.value(&op.input)?)?;
        let result = function(self, wide)?;
        self.set(&op.out, result)
    }

    /// Computes `1 - x²` as `(1 - x) * (1 + x)`, which is accurate near 1.
    fn one_minus_square(&self, x: Value) -> Result<Value> {
        let (f, one) = (self.f, self.number_like(1.0, x)?);
        Ok(f.multiply(f.subtract(one, x)?, f.add(one, x)?)?)
    }

    fn cosh(&self, x: Value) -> Result<Value> {
        let f = self.f;
        let sum = f.add(f.exponential(x)?, f.exponential(f.negate(x)?)?)?;
        Ok(f.multiply(sum, self.number_like(0.5, x)?)?)
    }

    /// Computes the hyperbolic sine from `exp(x) - 1`, because the difference of `exp(x)` and `exp(-x)` is not accurate
    /// near 0.
    fn sinh(&self, x: Value) -> Result<Value> {
        let f = self.f;
        let difference = f.subtract(f.exponential_minus_one(x)?, f.exponential_minus_one(f.negate(x)?)?)?;
        Ok(f.multiply(difference, self.number_like(0.5, x)?)?)
    }

    /// Computes `sign(x) * ln(1 + (|x| + x² / (1 + sqrt(x² + 1))))`, which is accurate near 0.
    fn arcsinh(&self, x: Value) -> Result<Value> {
        let (f, one) = (self.f, self.number_like(1.0, x)?);
        let (size, square) = (f.abs(x)?, f.multiply(x, x)?);
        let root = f.add(one, f.sqrt(f.add(square, one)?)?)?;
        let logarithm = f.log_plus_one(f.add(size, f.divide(square, root)?)?)?;
        Ok(f.multiply(f.sign(x)?, logarithm)?)
    }

    /// Computes the error function with Kummer's series, whose terms all have the same sign: `2x / sqrt(π) * exp(-x²) *
    /// Σ (2x²)^n / (1 * 3 * … * (2n + 1))`. Arguments are clamped to the range from `-limit` to `limit`. Outside this
    /// range, the result rounds to 1 or -1.
    pub(super) fn erf(&self, x: Value) -> Result<Value> {
        let f = self.f;
        let (limit, terms) = if self.element(x)? == ElementType::F64 { (6.0, 130) } else { (4.0, 56) };
        let bounded = f.clamp(self.number_like(-limit, x)?, x, self.number_like(limit, x)?)?;
        let square = f.multiply(bounded, bounded)?;
        let twice = f.add(square, square)?;
        let one = self.number_like(1.0, x)?;
        let mut sum = one;
        for n in (1..=terms).rev() {
            let factor = f.multiply(twice, self.number_like(1.0 / f64::from(2 * n + 1), x)?)?;
            sum = f.add(one, f.multiply(factor, sum)?)?;
        }
        let scale = f.multiply(bounded, self.number_like(std::f64::consts::FRAC_2_SQRT_PI, x)?)?;
        let product = f.multiply(f.multiply(scale, f.exponential(f.negate(square)?)?)?, sum)?;
        // Because of rounding, the product may exceed 1.
        Ok(f.clamp(self.number_like(-1.0, x)?, product, one)?)
    }

    /// Multiplies the matrices in the last two dimensions. The other dimensions are broadcast.
    pub(super) fn matmul(&mut self, op: &MatmulOpIr) -> Result<()> {
        let product = self.matrix_product(self.value(&op.lhs)?, self.value(&op.rhs)?)?;
        self.set(&op.out, product)
    }

    pub(super) fn matrix_product(&self, x: Value, y: Value) -> Result<Value> {
        let (mut left, mut right) = (self.shape(x)?, self.shape(y)?);
        let batch = left.len() - 2;
        for d in 0..batch {
            let extent = left[d].max(right[d]);
            let extent = if left[d] == 0 || right[d] == 0 { 0 } else { extent };
            (left[d], right[d]) = (extent, extent);
        }
        let (x, y) = (self.f.broadcast_to(x, &left)?, self.f.broadcast_to(y, &right)?);
        let dims: Vec<usize> = (0..batch).collect();
        self.dot(x, y, DotGeneral::new().batching(&dims, &dims).contracting([batch + 1], [batch]))
    }

    /// Computes the cross product of vectors along a dimension.
    fn cross(&self, lhs: &TensorIr, rhs: &TensorIr, out: &TensorIr, dimension: usize) -> Result<Value> {
        let f = self.f;
        let shape = extents(out);
        let (x, y) = (f.broadcast_to(self.value(lhs)?, &shape)?, f.broadcast_to(self.value(rhs)?, &shape)?);
        let part = |value: Value, i: i64| {
            let (mut start, mut limit) = (vec![0; shape.len()], shape.clone());
            (start[dimension], limit[dimension]) = (i, i + 1);
            f.slice(value, &start, &limit, &vec![1; shape.len()])
        };
        let parts: Vec<Value> = (0..3)
            .map(|i| {
                let (j, k) = ((i + 1) % 3, (i + 2) % 3);
                let first = f.multiply(part(x, j)?, part(y, k)?)?;
                f.subtract(first, f.multiply(part(x, k)?, part(y, j)?)?)
            })
            .collect::<stablehlo::Result<_>>()?;
        Ok(f.concatenate(&parts, dimension)?)
    }
}
