//! Special functions of CHLO on `f32` and `f64`, and functions of bits.

use std::f64::consts::{FRAC_2_SQRT_PI, PI};

use stablehlo::ir::{Binary as B, ComparisonDirection as D, ElementType, OpKind, Unary as U, ValueId};
use stablehlo::{Patch, Result};

use super::functions::{erf, erf_tail, polynomial, with_sign};
use crate::build::{Build, bits_of, is, nan, of, with};
use crate::evaluate::Number;

fn is_wide(patch: &Patch<'_>, x: ValueId) -> Result<bool> {
    Ok(patch.tensor(x)?.element == ElementType::F64)
}

/// `exp(-x * x)`. The square of the high bits of `x` is exact, so that the error does not grow with `x`.
fn exponential_of_square(patch: &mut Patch<'_>, x: ValueId) -> Result<ValueId> {
    // Magnitudes are at most 32, so that the square of the high bits fits the mantissa.
    let scale = if is_wide(patch, x)? { f64::from(1 << 20) } else { f64::from(1 << 6) };
    let scaled = with(patch, B::Multiply, x, scale)?;
    let floor = patch.unary(U::Floor, scaled)?;
    let high = with(patch, B::Multiply, floor, 1.0 / scale)?;
    let (low, sum) = (patch.binary(B::Subtract, x, high)?, patch.binary(B::Add, x, high)?);
    let factor = |patch: &mut Patch<'_>, a, b| {
        let product = patch.binary(B::Multiply, a, b)?;
        let negated = patch.unary(U::Negate, product)?;
        patch.unary(U::Exponential, negated)
    };
    let (first, second) = (factor(patch, high, high)?, factor(patch, low, sum)?);
    patch.binary(B::Multiply, first, second)
}

/// `1 - erf(x)` for magnitudes below 1. Otherwise `exp(-m * m)` times the function of `m` that `erf` uses, or times a
/// continued fraction for magnitudes above 6, which is taken from 2 for negative numbers.
pub(super) fn erfc(patch: &mut Patch<'_>, x: ValueId) -> Result<ValueId> {
    let magnitude = patch.unary(U::Abs, x)?;
    let limit = patch.like(x, if is_wide(patch, x)? { 30.0 } else { 12.0 })?;
    let m = patch.binary(B::Minimum, magnitude, limit)?;
    let six = patch.like(x, 6.0)?;
    let middle = patch.binary(B::Minimum, m, six)?;
    let middle = erf_tail(patch, middle)?;
    // m + 1/2 / (m + 2/2 / (m + 3/2 / ...))
    let mut fraction = m;
    for term in (1..=24).rev() {
        let numerator = patch.like(m, f64::from(term) / 2.0)?;
        let quotient = patch.binary(B::Divide, numerator, fraction)?;
        fraction = patch.binary(B::Add, m, quotient)?;
    }
    let factor = patch.like(m, FRAC_2_SQRT_PI / 2.0)?;
    let far = patch.binary(B::Divide, factor, fraction)?;
    let is_far = is(patch, D::Gt, m, 6.0)?;
    let factor = patch.select(is_far, far, middle)?;
    let exponential = exponential_of_square(patch, m)?;
    let tail = patch.binary(B::Multiply, exponential, factor)?;
    let two = patch.like(x, 2.0)?;
    let other = patch.binary(B::Subtract, two, tail)?;
    let is_negative = is(patch, D::Lt, x, 0.0)?;
    let tail = patch.select(is_negative, other, tail)?;
    let (one, near) = (patch.like(x, 1.0)?, erf(patch, x)?);
    let near = patch.binary(B::Subtract, one, near)?;
    let is_near = is(patch, D::Lt, m, 1.0)?;
    patch.select(is_near, near, tail)
}

/// Winitzki's closed form, and steps of Halley's method.
pub(super) fn erf_inv(patch: &mut Patch<'_>, x: ValueId) -> Result<ValueId> {
    const A: f64 = 0.147;
    let magnitude = patch.unary(U::Abs, x)?;
    let one = patch.like(x, 1.0)?;
    let (rest, more) = (patch.binary(B::Subtract, one, magnitude)?, patch.binary(B::Add, one, magnitude)?);
    let product = patch.binary(B::Multiply, rest, more)?;
    let log = patch.unary(U::Log, product)?;
    let half = with(patch, B::Multiply, log, 0.5)?;
    let b = with(patch, B::Add, half, 2.0 / (PI * A))?;
    let (square, quotient) = (patch.binary(B::Multiply, b, b)?, with(patch, B::Multiply, log, 1.0 / A)?);
    let difference = patch.binary(B::Subtract, square, quotient)?;
    let root = patch.unary(U::Sqrt, difference)?;
    // `root - b`, or `(root * root - b * b) / (root + b)` for a positive `b`, because the difference would only be the
    // error of the root if the number is small.
    let (difference, sum) = (patch.binary(B::Subtract, root, b)?, patch.binary(B::Add, root, b)?);
    let quotient = with(patch, B::Multiply, log, -1.0 / A)?;
    let quotient = patch.binary(B::Divide, quotient, sum)?;
    let zero = patch.like(x, 0.0)?;
    let is_positive = patch.compare(D::Gt, b, zero)?;
    let difference = patch.select(is_positive, quotient, difference)?;
    let difference = patch.binary(B::Maximum, difference, zero)?;
    let mut y = patch.unary(U::Sqrt, difference)?;
    let is_tail = is(patch, D::Lt, rest, 0.5)?;
    for _ in 0..if is_wide(patch, x)? { 3 } else { 2 } {
        // In the tail, the complement keeps more digits than the number.
        let (complement, value) = (erfc(patch, y)?, erf(patch, y)?);
        let error = patch.binary(B::Subtract, value, magnitude)?;
        let in_tail = patch.binary(B::Subtract, rest, complement)?;
        let error = patch.select(is_tail, in_tail, error)?;
        let slope = exponential_of_square(patch, y)?;
        let slope = with(patch, B::Multiply, slope, FRAC_2_SQRT_PI)?;
        let step = patch.binary(B::Divide, error, slope)?;
        let product = patch.binary(B::Multiply, y, step)?;
        let divisor = with(patch, B::Add, product, 1.0)?;
        let step = patch.binary(B::Divide, step, divisor)?;
        y = patch.binary(B::Subtract, y, step)?;
    }
    let (is_end, is_outside) = (is(patch, D::Eq, rest, 0.0)?, is(patch, D::Lt, rest, 0.0)?);
    let (infinity, nan) = (patch.like(x, f64::INFINITY)?, nan(patch, x)?);
    let y = patch.select(is_end, infinity, y)?;
    let y = patch.select(is_outside, nan, y)?;
    with_sign(patch, y, x)
}

/// Numbers from which on the asymptotic series are exact.
const LARGE: f64 = 10.0;

/// Adds 1 to numbers below [`LARGE`] until they are not. `term` adds the ops for each number before the addition, which
/// do not apply to numbers that are already large.
fn shifted(
    patch: &mut Patch<'_>,
    mut x: ValueId,
    mut term: impl FnMut(&mut Patch<'_>, ValueId, ValueId) -> Result<()>,
) -> Result<ValueId> {
    for _ in 0..10 {
        let is_small = is(patch, D::Lt, x, LARGE)?;
        term(patch, x, is_small)?;
        let next = with(patch, B::Add, x, 1.0)?;
        x = patch.select(is_small, next, x)?;
    }
    Ok(x)
}

/// The difference to the nearest integer, times pi.
fn angle(patch: &mut Patch<'_>, x: ValueId) -> Result<ValueId> {
    let round = patch.unary(U::RoundNearestEven, x)?;
    let fraction = patch.binary(B::Subtract, x, round)?;
    with(patch, B::Multiply, fraction, PI)
}

/// Stirling's series for numbers from 10 on, to which smaller ones are moved, and the reflection of numbers below 0.
pub(super) fn lgamma(patch: &mut Patch<'_>, x: ValueId) -> Result<ValueId> {
    /// The coefficients of odd powers of `1 / x`.
    const SERIES: [f64; 7] =
        [1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0, -1.0 / 1680.0, 1.0 / 1188.0, -691.0 / 360_360.0, 1.0 / 156.0];
    let (is_negative, one) = (is(patch, D::Lt, x, 0.0)?, patch.like(x, 1.0)?);
    let reflected = patch.binary(B::Subtract, one, x)?;
    let positive = patch.select(is_negative, reflected, x)?;
    let mut product = one;
    let large = shifted(patch, positive, |patch, x, is_small| {
        let next = patch.binary(B::Multiply, product, x)?;
        product = patch.select(is_small, next, product)?;
        Ok(())
    })?;
    let inverse = patch.binary(B::Divide, one, large)?;
    let square = patch.binary(B::Multiply, inverse, inverse)?;
    let series = polynomial(patch, square, &SERIES)?;
    let series = patch.binary(B::Multiply, series, inverse)?;
    let (factor, log) = (with(patch, B::Subtract, large, 0.5)?, patch.unary(U::Log, large)?);
    // `(large - 1/2) * log(large) - large + 1/2` as a product, which overflows only if the result does.
    let log = with(patch, B::Subtract, log, 1.0)?;
    let main = patch.binary(B::Multiply, factor, log)?;
    let sum = with(patch, B::Add, series, ((2.0 * PI).ln() - 1.0) / 2.0)?;
    let sum = patch.binary(B::Add, main, sum)?;
    let log = patch.unary(U::Log, product)?;
    let y = patch.binary(B::Subtract, sum, log)?;
    // log(pi / |sin(pi x)|) - y
    let angle = angle(patch, x)?;
    let sine = patch.unary(U::Sine, angle)?;
    let sine = patch.unary(U::Abs, sine)?;
    let pi = patch.like(x, PI)?;
    let quotient = patch.binary(B::Divide, pi, sine)?;
    let log = patch.unary(U::Log, quotient)?;
    let other = patch.binary(B::Subtract, log, y)?;
    let y = patch.select(is_negative, other, y)?;
    // The poles. Large negative numbers are all integers.
    let floor = patch.unary(U::Floor, x)?;
    let (is_whole, infinity) = (patch.compare(D::Eq, x, floor)?, patch.like(x, f64::INFINITY)?);
    let is_pole = patch.binary(B::And, is_whole, is_negative)?;
    patch.select(is_pole, infinity, y)
}

/// The derivative of [`lgamma`]. NaN at its poles.
pub(super) fn digamma(patch: &mut Patch<'_>, x: ValueId) -> Result<ValueId> {
    /// The coefficients of even powers of `1 / x`.
    const SERIES: [f64; 7] =
        [1.0 / 12.0, -1.0 / 120.0, 1.0 / 252.0, -1.0 / 240.0, 1.0 / 132.0, -691.0 / 32_760.0, 1.0 / 12.0];
    let (is_negative, one) = (is(patch, D::Lt, x, 0.0)?, patch.like(x, 1.0)?);
    let reflected = patch.binary(B::Subtract, one, x)?;
    let positive = patch.select(is_negative, reflected, x)?;
    let mut sum = patch.like(x, 0.0)?;
    let large = shifted(patch, positive, |patch, x, is_small| {
        let inverse = patch.binary(B::Divide, one, x)?;
        let next = patch.binary(B::Add, sum, inverse)?;
        sum = patch.select(is_small, next, sum)?;
        Ok(())
    })?;
    let inverse = patch.binary(B::Divide, one, large)?;
    let square = patch.binary(B::Multiply, inverse, inverse)?;
    let series = polynomial(patch, square, &SERIES)?;
    let series = patch.binary(B::Multiply, series, square)?;
    let half = with(patch, B::Multiply, inverse, 0.5)?;
    let rest = patch.binary(B::Add, half, series)?;
    let rest = patch.binary(B::Add, rest, sum)?;
    let log = patch.unary(U::Log, large)?;
    let y = patch.binary(B::Subtract, log, rest)?;
    // y - pi / tan(pi x)
    let angle = angle(patch, x)?;
    let tangent = patch.unary(U::Tan, angle)?;
    let pi = patch.like(x, PI)?;
    let quotient = patch.binary(B::Divide, pi, tangent)?;
    let other = patch.binary(B::Subtract, y, quotient)?;
    let y = patch.select(is_negative, other, y)?;
    let floor = patch.unary(U::Floor, x)?;
    let (is_whole, is_low) = (patch.compare(D::Eq, x, floor)?, is(patch, D::Le, x, 0.0)?);
    let is_pole = patch.binary(B::And, is_whole, is_low)?;
    let nan = nan(patch, x)?;
    patch.select(is_pole, nan, y)
}

/// Adds 1 to the bits of a number, or subtracts 1. Returns `None` for other types than `bf16`, `f16`, `f32` and `f64`.
pub(super) fn next_after(patch: &mut Patch<'_>, x: ValueId, y: ValueId) -> Result<Option<ValueId>> {
    let float = patch.tensor(x)?.clone();
    let Ok(element) = bits_of(float.element) else { return Ok(None) };
    let ty = of(&float, element);
    let bits = |patch: &mut Patch<'_>, x| patch.add(OpKind::BitcastConvert, &[x], ty.clone());
    let number = |patch: &mut Patch<'_>, number| patch.splat(ty.clone(), Number::Integer(number));
    let (of_x, of_y) = (bits(patch, x), bits(patch, y));
    let (zero, one) = (number(patch, 0)?, number(patch, 1)?);
    let (is_up, is_positive) = (patch.compare(D::Lt, x, y)?, patch.compare(D::Ge, of_x, zero)?);
    let shrinks = patch.binary(B::Xor, is_up, is_positive)?;
    let (more, less) = (patch.binary(B::Add, of_x, one)?, patch.binary(B::Subtract, of_x, one)?);
    let next = patch.select(shrinks, less, more)?;
    // From either zero, the next number is the least one with the sign of the other number.
    let sign = number(patch, -(1 << (element.bit_width() - 1)))?;
    let sign = patch.binary(B::And, of_y, sign)?;
    let least = patch.binary(B::Or, sign, one)?;
    let nothing = patch.splat(float.clone(), Number::Float(0.0))?;
    let is_zero = patch.compare(D::Eq, x, nothing)?;
    let next = patch.select(is_zero, least, next)?;
    let next = patch.add(OpKind::BitcastConvert, &[next], float);
    let is_there = patch.compare(D::Eq, x, y)?;
    let next = patch.select(is_there, y, next)?;
    // A NaN is not equal to itself.
    let sum = patch.binary(B::Add, x, y)?;
    let (x_is_nan, y_is_nan) = (patch.compare(D::Ne, x, x)?, patch.compare(D::Ne, y, y)?);
    let is_nan = patch.binary(B::Or, x_is_nan, y_is_nan)?;
    patch.select(is_nan, sum, next).map(Some)
}

/// The upper half of a product, computed in a type of twice the width, or from the halves of 64-bit integers. Returns
/// `None` for integers narrower than 8 bits.
pub(super) fn mulhi(patch: &mut Patch<'_>, x: ValueId, y: ValueId) -> Result<Option<ValueId>> {
    let ty = patch.tensor(x)?.clone();
    let (is_signed, width) = (ty.element.is_signed_integer(), ty.element.bit_width());
    let wide = match width {
        8 => [ElementType::I16, ElementType::Ui16],
        16 => [ElementType::I32, ElementType::Ui32],
        32 => [ElementType::I64, ElementType::Ui64],
        64 => return mulhi_of_halves(patch, x, y).map(Some),
        _ => return Ok(None),
    };
    let wide = wide[usize::from(!is_signed)];
    let (x, y) = (patch.convert(x, wide)?, patch.convert(y, wide)?);
    let product = patch.binary(B::Multiply, x, y)?;
    let by = patch.splat(of(&ty, wide), Number::Integer(width.into()))?;
    let shift = if is_signed { B::ShiftRightArithmetic } else { B::ShiftRightLogical };
    let high = patch.binary(shift, product, by)?;
    patch.convert(high, ty.element).map(Some)
}

fn mulhi_of_halves(patch: &mut Patch<'_>, x: ValueId, y: ValueId) -> Result<ValueId> {
    let ty = patch.tensor(x)?.clone();
    let number = |patch: &mut Patch<'_>, number| patch.splat(ty.clone(), Number::Integer(number));
    let (mask, by) = (number(patch, 0xFFFF_FFFF)?, number(patch, 32)?);
    let low = |patch: &mut Patch<'_>, x| patch.binary(B::And, x, mask);
    let high = |patch: &mut Patch<'_>, x| patch.binary(B::ShiftRightLogical, x, by);
    let (x_low, x_high, y_low, y_high) = (low(patch, x)?, high(patch, x)?, low(patch, y)?, high(patch, y)?);
    let mut times = |a, b| patch.binary(B::Multiply, a, b);
    let (lowest, one, other, highest) =
        (times(x_low, y_low)?, times(x_high, y_low)?, times(x_low, y_high)?, times(x_high, y_high)?);
    // The sum of the bits 32 to 63 has a carry.
    let mut middle = high(patch, lowest)?;
    let mut sum = highest;
    for part in [one, other] {
        let bits = low(patch, part)?;
        middle = patch.binary(B::Add, middle, bits)?;
        let bits = high(patch, part)?;
        sum = patch.binary(B::Add, sum, bits)?;
    }
    let carry = high(patch, middle)?;
    let mut sum = patch.binary(B::Add, sum, carry)?;
    if ty.element.is_signed_integer() {
        // As an unsigned number, a negative one is larger by 2^64.
        let zero = number(patch, 0)?;
        for (sign, other) in [(x, y), (y, x)] {
            let is_negative = patch.compare(D::Lt, sign, zero)?;
            let less = patch.binary(B::Subtract, sum, other)?;
            sum = patch.select(is_negative, less, sum)?;
        }
    }
    Ok(sum)
}
