//! Functions of complex numbers as ops on their parts. Special points follow C99, Annex G, as on the CPU device.

use stablehlo::ir::{Binary as B, ComparisonDirection as D, OpKind, Unary as U, ValueId};
use stablehlo::{Patch, Result};

use super::pairs::Pair;
use crate::build::{Build, bits_of, is, of, with};
use crate::evaluate::Number;
use crate::expand_chlo::functions::{cosh, sinh};

fn is_infinite(patch: &mut Patch<'_>, x: ValueId) -> Result<ValueId> {
    let magnitude = patch.unary(U::Abs, x)?;
    is(patch, D::Eq, magnitude, f64::INFINITY)
}

/// Returns whether a number is infinite or NaN.
fn is_not_finite(patch: &mut Patch<'_>, x: ValueId) -> Result<ValueId> {
    let finite = patch.unary(U::IsFinite, x)?;
    patch.unary(U::Not, finite)
}

/// Gives a number without sign the sign of another number, also that of a zero.
fn with_sign(patch: &mut Patch<'_>, magnitude: ValueId, sign: ValueId) -> Result<ValueId> {
    let ty = patch.tensor(sign)?;
    let ty = of(ty, bits_of(ty.element)?);
    let bits = patch.add(OpKind::BitcastConvert, &[sign], ty.clone());
    let zero = patch.splat(ty, Number::Integer(0))?;
    let is_negative = patch.compare(D::Lt, bits, zero)?;
    let negated = patch.unary(U::Negate, magnitude)?;
    patch.select(is_negative, negated, magnitude)
}

/// The larger and the smaller magnitude of the parts, and what both functions of the magnitude need.
struct Magnitudes {
    re: ValueId,
    larger: ValueId,
    smaller: ValueId,
    /// The smaller magnitude divided by the larger one, squared. NaN if both are zero or infinite.
    square: ValueId,
    is_zero: ValueId,
    /// Whether a part is infinite. The other one may be NaN.
    is_infinite: ValueId,
}

impl Magnitudes {
    fn new(patch: &mut Patch<'_>, x: Pair) -> Result<Self> {
        let (re, im) = (patch.unary(U::Abs, x.0)?, patch.unary(U::Abs, x.1)?);
        let (larger, smaller) = (patch.binary(B::Maximum, re, im)?, patch.binary(B::Minimum, re, im)?);
        let ratio = patch.binary(B::Divide, smaller, larger)?;
        let square = patch.binary(B::Multiply, ratio, ratio)?;
        let (re_infinite, im_infinite) = (is(patch, D::Eq, re, f64::INFINITY)?, is(patch, D::Eq, im, f64::INFINITY)?);
        let is_infinite = patch.binary(B::Or, re_infinite, im_infinite)?;
        Ok(Self { re, larger, smaller, square, is_zero: is(patch, D::Eq, larger, 0.0)?, is_infinite })
    }

    /// Returns the magnitude divided by the larger part.
    fn root(&self, patch: &mut Patch<'_>) -> Result<ValueId> {
        let one = patch.like(self.square, 1.0)?;
        let sum = patch.binary(B::Add, one, self.square)?;
        patch.unary(U::Sqrt, sum)
    }
}

/// Adds the magnitude, without an overflow of the squares.
pub(super) fn magnitude(patch: &mut Patch<'_>, x: Pair) -> Result<ValueId> {
    let parts = Magnitudes::new(patch, x)?;
    let root = parts.root(patch)?;
    let product = patch.binary(B::Multiply, parts.larger, root)?;
    let y = patch.select(parts.is_zero, parts.larger, product)?;
    let infinity = patch.like(y, f64::INFINITY)?;
    patch.select(parts.is_infinite, infinity, y)
}

/// The logarithm of the magnitude and the angle.
pub(super) fn log(patch: &mut Patch<'_>, x: Pair) -> Result<Pair> {
    let parts = Magnitudes::new(patch, x)?;
    // The logarithm of a magnitude near 1 from the difference to 1, which is more exact than the magnitude.
    let one = patch.like(parts.larger, 1.0)?;
    let (less, more) = (patch.binary(B::Subtract, parts.larger, one)?, patch.binary(B::Add, parts.larger, one)?);
    let product = patch.binary(B::Multiply, less, more)?;
    let square = patch.binary(B::Multiply, parts.smaller, parts.smaller)?;
    let sum = patch.binary(B::Add, product, square)?;
    let near = patch.unary(U::LogPlusOne, sum)?;
    let near = with(patch, B::Multiply, near, 0.5)?;
    let log = patch.unary(U::Log, parts.larger)?;
    let rest = patch.unary(U::LogPlusOne, parts.square)?;
    let rest = with(patch, B::Multiply, rest, 0.5)?;
    let far = patch.binary(B::Add, log, rest)?;
    let far = patch.select(parts.is_zero, log, far)?;
    let (low, high) = (patch.like(log, 0.5)?, patch.like(log, 2.0)?);
    let (above, below) = (patch.compare(D::Gt, parts.larger, low)?, patch.compare(D::Lt, parts.larger, high)?);
    let is_near = patch.binary(B::And, above, below)?;
    let re = patch.select(is_near, near, far)?;
    let infinity = patch.like(re, f64::INFINITY)?;
    Ok((patch.select(parts.is_infinite, infinity, re)?, patch.binary(B::Atan2, x.1, x.0)?))
}

/// `exp(re)` times the cosine and the sine of the imaginary part.
pub(super) fn exponential(patch: &mut Patch<'_>, x: Pair) -> Result<Pair> {
    // Multiplies by the root twice, because the exponential may overflow even if the product does not.
    let half = with(patch, B::Multiply, x.0, 0.5)?;
    let root = patch.unary(U::Exponential, half)?;
    let scaled = |patch: &mut Patch<'_>, function| {
        let y = patch.unary(function, x.1)?;
        let y = patch.binary(B::Multiply, root, y)?;
        patch.binary(B::Multiply, y, root)
    };
    let (re, im) = (scaled(patch, U::Cosine)?, scaled(patch, U::Sine)?);
    // The factor of an infinite angle is a zero or an infinity.
    let (is_extreme, is_undefined) = (is_infinite(patch, x.0)?, is_not_finite(patch, x.1)?);
    let takes_scale = patch.binary(B::And, is_extreme, is_undefined)?;
    let vanishes = is(patch, D::Eq, x.0, f64::NEG_INFINITY)?;
    let vanishes = patch.binary(B::And, vanishes, is_undefined)?;
    let (re, im) = (patch.select(takes_scale, root, re)?, patch.select(vanishes, root, im)?);
    let is_real = is(patch, D::Eq, x.1, 0.0)?;
    Ok((re, patch.select(is_real, x.1, im)?))
}

/// The hyperbolic functions of a number, divided by a factor, because they may overflow even if their product with a
/// sine or cosine does not.
struct Hyperbolic {
    factor: ValueId,
    cosh: ValueId,
    sinh: ValueId,
}

impl Hyperbolic {
    fn new(patch: &mut Patch<'_>, x: ValueId) -> Result<Self> {
        let (cosh, sinh) = (cosh(patch, x)?, sinh(patch, x)?);
        let magnitude = patch.unary(U::Abs, x)?;
        // The magnitudes of both functions of larger numbers are half of the exponential.
        let is_large = is(patch, D::Gt, magnitude, 20.0)?;
        let half = with(patch, B::Multiply, magnitude, 0.5)?;
        let root = patch.unary(U::Exponential, half)?;
        let (one, even) = (patch.like(x, 1.0)?, with(patch, B::Multiply, root, 0.5)?);
        let odd = with_sign(patch, even, x)?;
        Ok(Self {
            factor: patch.select(is_large, root, one)?,
            cosh: patch.select(is_large, even, cosh)?,
            sinh: patch.select(is_large, odd, sinh)?,
        })
    }

    /// Multiplies a sine or cosine with a hyperbolic function.
    fn product(&self, patch: &mut Patch<'_>, circular: ValueId, hyperbolic: ValueId) -> Result<ValueId> {
        let product = patch.binary(B::Multiply, circular, self.factor)?;
        patch.binary(B::Multiply, product, hyperbolic)
    }
}

/// `sin(re) * cosh(im)` and `cos(re) * sinh(im)`.
pub(super) fn sine(patch: &mut Patch<'_>, x: Pair) -> Result<Pair> {
    let (sine, cosine) = (patch.unary(U::Sine, x.0)?, patch.unary(U::Cosine, x.0)?);
    let of_im = Hyperbolic::new(patch, x.1)?;
    let (re, im) = (of_im.product(patch, sine, of_im.cosh)?, of_im.product(patch, cosine, of_im.sinh)?);
    // A zero stays a zero, and the sine of an infinite angle times an infinity is an infinity.
    let is_zero = is(patch, D::Eq, x.0, 0.0)?;
    let keeps = keeps_imaginary(patch, x, true)?;
    Ok((patch.select(is_zero, x.0, re)?, patch.select(keeps, x.1, im)?))
}

/// `cos(re) * cosh(im)` and `-sin(re) * sinh(im)`.
pub(super) fn cosine(patch: &mut Patch<'_>, x: Pair) -> Result<Pair> {
    let (sine, cosine) = (patch.unary(U::Sine, x.0)?, patch.unary(U::Cosine, x.0)?);
    let of_im = Hyperbolic::new(patch, x.1)?;
    let (re, im) = (of_im.product(patch, cosine, of_im.cosh)?, of_im.product(patch, sine, of_im.sinh)?);
    // The product of a zero and an infinity is a zero with the signs of both.
    let is_zero = is(patch, D::Eq, x.0, 0.0)?;
    let one = patch.like(im, 1.0)?;
    let one = with_sign(patch, one, x.1)?;
    let zero = patch.binary(B::Multiply, sine, one)?;
    let im = patch.select(is_zero, zero, im)?;
    let im = patch.unary(U::Negate, im)?;
    let (is_undefined, is_infinite) = (is_not_finite(patch, x.0)?, is_infinite(patch, x.1)?);
    let is_large = patch.binary(B::And, is_undefined, is_infinite)?;
    let infinity = patch.like(re, f64::INFINITY)?;
    let keeps = keeps_imaginary(patch, x, false)?;
    Ok((patch.select(is_large, infinity, re)?, patch.select(keeps, x.1, im)?))
}

/// Returns whether the imaginary part of a sine or cosine is that of the operand: it is zero, or infinite if
/// `or_infinite` is set, and the angle is infinite or NaN.
fn keeps_imaginary(patch: &mut Patch<'_>, x: Pair, or_infinite: bool) -> Result<ValueId> {
    let is_undefined = is_not_finite(patch, x.0)?;
    let mut fixed = is(patch, D::Eq, x.1, 0.0)?;
    if or_infinite {
        let infinite = is_infinite(patch, x.1)?;
        fixed = patch.binary(B::Or, fixed, infinite)?;
    }
    patch.binary(B::And, is_undefined, fixed)
}

/// The larger part of the root is `sqrt((|x| + |re|) / 2)`, and `im` is twice the product of the parts.
pub(super) fn sqrt(patch: &mut Patch<'_>, x: Pair) -> Result<Pair> {
    let parts = Magnitudes::new(patch, x)?;
    // Both magnitudes are divided by the larger part, so that their sum does not overflow.
    let (root, share) = (parts.root(patch)?, patch.binary(B::Divide, parts.re, parts.larger)?);
    let sum = patch.binary(B::Add, root, share)?;
    let half = with(patch, B::Multiply, sum, 0.5)?;
    let (factor, scale) = (patch.unary(U::Sqrt, half)?, patch.unary(U::Sqrt, parts.larger)?);
    let larger = patch.binary(B::Multiply, scale, factor)?;
    let quotient = patch.binary(B::Divide, x.1, larger)?;
    let smaller = with(patch, B::Multiply, quotient, 0.5)?;
    // An infinite real part makes the smaller part a zero, or NaN if the imaginary part is NaN.
    let re_infinite = is(patch, D::Eq, parts.re, f64::INFINITY)?;
    let flat = with(patch, B::Multiply, x.1, 0.0)?;
    let (larger, smaller) = (patch.select(re_infinite, parts.re, larger)?, patch.select(re_infinite, flat, smaller)?);
    let (larger, smaller) =
        (patch.select(parts.is_zero, parts.larger, larger)?, patch.select(parts.is_zero, x.1, smaller)?);
    let zero = patch.like(x.0, 0.0)?;
    let is_left = patch.compare(D::Lt, x.0, zero)?;
    let (magnitude, signed) = (patch.unary(U::Abs, smaller)?, with_sign(patch, larger, x.1)?);
    let (re, im) = (patch.select(is_left, magnitude, larger)?, patch.select(is_left, signed, smaller)?);
    // An infinite imaginary part stays, whatever the real part is.
    let im_infinite = is_infinite(patch, x.1)?;
    let infinity = patch.like(re, f64::INFINITY)?;
    Ok((patch.select(im_infinite, infinity, re)?, patch.select(im_infinite, x.1, im)?))
}

/// Replaces the parts of an infinite number by 1 or 0 with their signs.
fn direction(patch: &mut Patch<'_>, x: Pair, otherwise: Pair, is_infinite: ValueId) -> Result<Pair> {
    let part = |patch: &mut Patch<'_>, x, otherwise| {
        let (one, zero) = (patch.like(x, 1.0)?, patch.like(x, 0.0)?);
        let infinite = self::is_infinite(patch, x)?;
        let unit = patch.select(infinite, one, zero)?;
        let unit = with_sign(patch, unit, x)?;
        patch.select(is_infinite, unit, otherwise)
    };
    Ok((part(patch, x.0, otherwise.0)?, part(patch, x.1, otherwise.1)?))
}

/// `a * conj(b) / |b|^2`, computed from `b` divided by its larger part, so that the square does not overflow. The
/// quotient of a number by zero has the dividend's parts divided by the real part of the divisor.
pub(super) fn quotient(patch: &mut Patch<'_>, a: Pair, b: Pair) -> Result<Pair> {
    let (of_a, of_b) = (Magnitudes::new(patch, a)?, Magnitudes::new(patch, b)?);
    // The other part of an infinite divisor may be NaN.
    let infinity = patch.like(of_b.larger, f64::INFINITY)?;
    let scale = patch.select(of_b.is_infinite, infinity, of_b.larger)?;
    let scaled = (patch.binary(B::Divide, b.0, scale)?, patch.binary(B::Divide, b.1, scale)?);
    let unit = direction(patch, b, scaled, of_b.is_infinite)?;
    let mut product = |a, b| patch.binary(B::Multiply, a, b);
    let (re_square, im_square) = (product(unit.0, unit.0)?, product(unit.1, unit.1)?);
    let square = patch.binary(B::Add, re_square, im_square)?;
    let (re, im) = (patch.binary(B::Divide, unit.0, square)?, patch.binary(B::Divide, unit.1, square)?);
    // The quotient of an infinity needs only the signs of the parts, of which the smaller one can become zero here.
    let (re, im) = (patch.select(of_a.is_infinite, b.0, re)?, patch.select(of_a.is_infinite, b.1, im)?);
    // Divides a large dividend by a small divisor last, and other ones first, so that only a quotient overflows.
    let one = patch.like(scale, 1.0)?;
    let (is_small, is_long) = (patch.compare(D::Le, of_a.larger, one)?, patch.compare(D::Ge, scale, one)?);
    let is_first = patch.binary(B::Or, is_small, is_long)?;
    let (first, last) = (patch.select(is_first, scale, one)?, patch.select(is_first, one, scale)?);
    let dividend = (patch.binary(B::Divide, a.0, first)?, patch.binary(B::Divide, a.1, first)?);
    let dividend = direction(patch, a, dividend, of_a.is_infinite)?;
    let infinity = patch.binary(B::Divide, infinity, scale)?;
    let part = |patch: &mut Patch<'_>, op, [one, other]: [Pair; 2], own| {
        let (one, other) = (patch.binary(B::Multiply, one.0, one.1)?, patch.binary(B::Multiply, other.0, other.1)?);
        let sum = patch.binary(op, one, other)?;
        let (large, quotient) = (patch.binary(B::Multiply, sum, infinity)?, patch.binary(B::Divide, sum, last)?);
        let y = patch.select(of_a.is_infinite, large, quotient)?;
        let by_zero = patch.binary(B::Divide, own, b.0)?;
        patch.select(of_b.is_zero, by_zero, y)
    };
    Ok((
        part(patch, B::Add, [(dividend.0, re), (dividend.1, im)], a.0)?,
        part(patch, B::Subtract, [(dividend.1, re), (dividend.0, im)], a.1)?,
    ))
}
