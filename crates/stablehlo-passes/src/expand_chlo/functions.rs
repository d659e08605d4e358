//! Functions of CHLO on `f32` and `f64`.

use std::f64::consts::LN_2;

use stablehlo::ir::{Binary as B, ComparisonDirection as D, ElementType, Unary as U, ValueId};
use stablehlo::{Patch, Result};

use super::erf_tables::{CENTER, INNER_F32, INNER_F64, OUTER_F32, OUTER_F64, SCALE, SHIFT};
use crate::build::{Build, is, with};

/// Adds the root of `(1 - x) * (1 + x)`, which is more exact than that of `1 - x * x`.
fn root(patch: &mut Patch<'_>, x: ValueId) -> Result<ValueId> {
    let one = patch.like(x, 1.0)?;
    let (less, more) = (patch.binary(B::Subtract, one, x)?, patch.binary(B::Add, one, x)?);
    let product = patch.binary(B::Multiply, less, more)?;
    patch.unary(U::Sqrt, product)
}

/// `atan2(x, root(x))`
pub(super) fn asin(patch: &mut Patch<'_>, x: ValueId) -> Result<ValueId> {
    let root = root(patch, x)?;
    patch.binary(B::Atan2, x, root)
}

/// `2 * atan2(sqrt(1 - x), sqrt(1 + x))`
pub(super) fn acos(patch: &mut Patch<'_>, x: ValueId) -> Result<ValueId> {
    let one = patch.like(x, 1.0)?;
    let (less, more) = (patch.binary(B::Subtract, one, x)?, patch.binary(B::Add, one, x)?);
    let (less, more) = (patch.unary(U::Sqrt, less)?, patch.unary(U::Sqrt, more)?);
    let half = patch.binary(B::Atan2, less, more)?;
    with(patch, B::Multiply, half, 2.0)
}

pub(super) fn atan(patch: &mut Patch<'_>, x: ValueId) -> Result<ValueId> {
    let one = patch.like(x, 1.0)?;
    patch.binary(B::Atan2, x, one)
}

/// A number from which on `x * x` dominates a sum with 1, and whose square is finite.
fn large(patch: &Patch<'_>, x: ValueId) -> Result<f64> {
    Ok(if patch.tensor(x)?.element == ElementType::F64 { 1e18 } else { 1e10 })
}

/// Adds `log(x) + log(2)`.
fn log_of_double(patch: &mut Patch<'_>, x: ValueId) -> Result<ValueId> {
    let log = patch.unary(U::Log, x)?;
    with(patch, B::Add, log, LN_2)
}

/// `log1p(m + m * m / (1 + sqrt(1 + m * m)))` with the sign of `x`, for the magnitude `m`.
pub(super) fn asinh(patch: &mut Patch<'_>, x: ValueId) -> Result<ValueId> {
    let magnitude = patch.unary(U::Abs, x)?;
    let square = patch.binary(B::Multiply, magnitude, magnitude)?;
    let sum = with(patch, B::Add, square, 1.0)?;
    let root = patch.unary(U::Sqrt, sum)?;
    let divisor = with(patch, B::Add, root, 1.0)?;
    let quotient = patch.binary(B::Divide, square, divisor)?;
    let sum = patch.binary(B::Add, magnitude, quotient)?;
    let small = patch.unary(U::LogPlusOne, sum)?;
    let limit = large(patch, x)?;
    let is_large = is(patch, D::Ge, magnitude, limit)?;
    let log = log_of_double(patch, magnitude)?;
    let y = patch.select(is_large, log, small)?;
    with_sign(patch, y, x)
}

/// Gives a positive number the sign of another number. Returns the other number if it is zero.
pub(super) fn with_sign(patch: &mut Patch<'_>, magnitude: ValueId, sign: ValueId) -> Result<ValueId> {
    let zero = patch.like(sign, 0.0)?;
    let negated = patch.unary(U::Negate, magnitude)?;
    let is_negative = patch.compare(D::Lt, sign, zero)?;
    let is_zero = patch.compare(D::Eq, sign, zero)?;
    let y = patch.select(is_negative, negated, magnitude)?;
    patch.select(is_zero, sign, y)
}

/// `log1p(t + sqrt(t * (x + 1)))` for `t = x - 1`. NaN for numbers below 1.
pub(super) fn acosh(patch: &mut Patch<'_>, x: ValueId) -> Result<ValueId> {
    let less = with(patch, B::Subtract, x, 1.0)?;
    let more = with(patch, B::Add, x, 1.0)?;
    let (roots, other) = (patch.unary(U::Sqrt, less)?, patch.unary(U::Sqrt, more)?);
    let product = patch.binary(B::Multiply, roots, other)?;
    let sum = patch.binary(B::Add, less, product)?;
    let small = patch.unary(U::LogPlusOne, sum)?;
    let limit = large(patch, x)?;
    let is_large = is(patch, D::Ge, x, limit)?;
    let log = log_of_double(patch, x)?;
    patch.select(is_large, log, small)
}

/// `log1p(2 * m / (1 - m)) / 2` with the sign of `x`, for the magnitude `m`.
pub(super) fn atanh(patch: &mut Patch<'_>, x: ValueId) -> Result<ValueId> {
    let magnitude = patch.unary(U::Abs, x)?;
    let one = patch.like(x, 1.0)?;
    let less = patch.binary(B::Subtract, one, magnitude)?;
    let double = with(patch, B::Multiply, magnitude, 2.0)?;
    let quotient = patch.binary(B::Divide, double, less)?;
    let log = patch.unary(U::LogPlusOne, quotient)?;
    let y = with(patch, B::Multiply, log, 0.5)?;
    with_sign(patch, y, x)
}

/// Half of `exp(x)`, computed from `exp(x / 2)` so that only results out of range overflow.
fn half_exponential(patch: &mut Patch<'_>, x: ValueId) -> Result<ValueId> {
    let half = with(patch, B::Multiply, x, 0.5)?;
    let root = patch.unary(U::Exponential, half)?;
    let first = with(patch, B::Multiply, root, 0.5)?;
    patch.binary(B::Multiply, first, root)
}

/// `(exp(m) + exp(-m)) / 2` for the magnitude `m`.
pub(crate) fn cosh(patch: &mut Patch<'_>, x: ValueId) -> Result<ValueId> {
    let magnitude = patch.unary(U::Abs, x)?;
    let grows = half_exponential(patch, magnitude)?;
    let negated = patch.unary(U::Negate, magnitude)?;
    let shrinks = patch.unary(U::Exponential, negated)?;
    let shrinks = with(patch, B::Multiply, shrinks, 0.5)?;
    patch.binary(B::Add, grows, shrinks)
}

/// `(e + e / (e + 1)) / 2` for `e = exp(m) - 1` with the sign of `x`, for a magnitude `m` below 1.
pub(crate) fn sinh(patch: &mut Patch<'_>, x: ValueId) -> Result<ValueId> {
    let magnitude = patch.unary(U::Abs, x)?;
    let e = patch.unary(U::ExponentialMinusOne, magnitude)?;
    let next = with(patch, B::Add, e, 1.0)?;
    let quotient = patch.binary(B::Divide, e, next)?;
    let sum = patch.binary(B::Add, e, quotient)?;
    let small = with(patch, B::Multiply, sum, 0.5)?;
    let grows = half_exponential(patch, magnitude)?;
    let negated = patch.unary(U::Negate, magnitude)?;
    let shrinks = patch.unary(U::Exponential, negated)?;
    let shrinks = with(patch, B::Multiply, shrinks, 0.5)?;
    let large = patch.binary(B::Subtract, grows, shrinks)?;
    let is_small = is(patch, D::Lt, magnitude, 1.0)?;
    let y = patch.select(is_small, small, large)?;
    with_sign(patch, y, x)
}

/// Adds the value of a polynomial.
pub(super) fn polynomial(patch: &mut Patch<'_>, x: ValueId, coefficients: &[f64]) -> Result<ValueId> {
    let Some((&last, rest)) = coefficients.split_last() else { return patch.like(x, 0.0) };
    let mut sum = patch.like(x, last)?;
    for &coefficient in rest.iter().rev() {
        let product = patch.binary(B::Multiply, sum, x)?;
        sum = with(patch, B::Add, product, coefficient)?;
    }
    Ok(sum)
}

/// A polynomial of `x * x` times `x` for magnitudes up to 1. Otherwise `1 - exp(-m * m) * p`, with the sign of `x`, for
/// a polynomial `p` of a fraction of `m`, which is the magnitude or 6.
pub(super) fn erf(patch: &mut Patch<'_>, x: ValueId) -> Result<ValueId> {
    let inner: &[f64] = if patch.tensor(x)?.element == ElementType::F64 { &INNER_F64 } else { &INNER_F32 };
    let magnitude = patch.unary(U::Abs, x)?;
    let limit = patch.like(x, 6.0)?;
    let magnitude = patch.binary(B::Minimum, magnitude, limit)?;
    let square = patch.binary(B::Multiply, magnitude, magnitude)?;
    let double = with(patch, B::Multiply, square, 2.0)?;
    let t = with(patch, B::Subtract, double, 1.0)?;
    let near = polynomial(patch, t, inner)?;
    let near = patch.binary(B::Multiply, near, x)?;
    let rest = erf_tail(patch, magnitude)?;
    let negated = patch.unary(U::Negate, square)?;
    let exponential = patch.unary(U::Exponential, negated)?;
    let rest = patch.binary(B::Multiply, exponential, rest)?;
    let one = patch.like(x, 1.0)?;
    let far = patch.binary(B::Subtract, one, rest)?;
    let far = with_sign(patch, far, x)?;
    let is_near = patch.compare(D::Lt, magnitude, one)?;
    patch.select(is_near, near, far)
}

/// `exp(m * m) * (1 - erf(m))` for magnitudes from 1 to 6.
pub(super) fn erf_tail(patch: &mut Patch<'_>, magnitude: ValueId) -> Result<ValueId> {
    let outer: &[f64] = if patch.tensor(magnitude)?.element == ElementType::F64 { &OUTER_F64 } else { &OUTER_F32 };
    let (above, below) = (with(patch, B::Subtract, magnitude, CENTER)?, with(patch, B::Add, magnitude, CENTER)?);
    let fraction = patch.binary(B::Divide, above, below)?;
    let scaled = with(patch, B::Multiply, fraction, SCALE)?;
    let t = with(patch, B::Add, scaled, SHIFT)?;
    polynomial(patch, t, outer)
}
