//! `zeta` and `polygamma`.

use stablehlo::ir::{Binary as B, ComparisonDirection as D, ElementType, Unary as U, ValueId};
use stablehlo::{Patch, Result};

use super::special::digamma;
use crate::build::{Build, is, nan, with};

/// The Hurwitz zeta function `zeta(s, q)`. For a `q` below 0, it is a sum of values for numbers above 0:
/// `zeta(s, q) = zeta(s, f) + (-1)^s * (zeta(s, 1 - f) - zeta(s, 1 - q))` for the fraction `f = q - floor(q)`.
pub(super) fn zeta(patch: &mut Patch<'_>, s: ValueId, q: ValueId) -> Result<ValueId> {
    let (floor, ceil) = (patch.unary(U::Floor, q)?, patch.unary(U::Ceil, q)?);
    let one = patch.like(q, 1.0)?;
    let (fraction, rest) = (patch.binary(B::Subtract, q, floor)?, patch.binary(B::Subtract, ceil, q)?);
    let is_low = is(patch, D::Le, q, 0.0)?;
    let mirrored = patch.binary(B::Subtract, one, q)?;
    let far = patch.select(is_low, mirrored, q)?;
    let far = zeta_of_positive(patch, s, far)?;
    let (near, other) = (zeta_of_positive(patch, s, fraction)?, zeta_of_positive(patch, s, rest)?);
    let difference = patch.binary(B::Subtract, other, far)?;
    let (sum, less) = (patch.binary(B::Add, near, difference)?, patch.binary(B::Subtract, near, difference)?);
    let is_even = is_multiple_of_two(patch, s)?;
    let low = patch.select(is_even, sum, less)?;
    // At the poles, and for exponents that have no sign.
    let (infinity, nan) = (patch.like(q, f64::INFINITY)?, nan(patch, q)?);
    let pole = patch.select(is_even, infinity, nan)?;
    let is_whole = patch.compare(D::Eq, q, floor)?;
    let low = patch.select(is_whole, pole, low)?;
    let of_s = patch.unary(U::Floor, s)?;
    let has_sign = patch.compare(D::Eq, s, of_s)?;
    let low = patch.select(has_sign, low, nan)?;
    let y = patch.select(is_low, low, far)?;
    let (is_infinite, zero) = (patch.compare(D::Eq, q, infinity)?, patch.like(q, 0.0)?);
    let y = patch.select(is_infinite, zero, y)?;
    let is_one = is(patch, D::Eq, s, 1.0)?;
    let y = patch.select(is_one, infinity, y)?;
    let is_outside = is(patch, D::Lt, s, 1.0)?;
    let y = patch.select(is_outside, nan, y)?;
    // The special values hide a NaN.
    let (s_is_nan, q_is_nan) = (patch.compare(D::Ne, s, s)?, patch.compare(D::Ne, q, q)?);
    let is_nan = patch.binary(B::Or, s_is_nan, q_is_nan)?;
    patch.select(is_nan, nan, y)
}

fn is_multiple_of_two(patch: &mut Patch<'_>, x: ValueId) -> Result<ValueId> {
    let rest = with(patch, B::Remainder, x, 2.0)?;
    is(patch, D::Eq, rest, 0.0)
}

/// The first terms of the series, and the rest by the Euler-Maclaurin formula.
fn zeta_of_positive(patch: &mut Patch<'_>, s: ValueId, q: ValueId) -> Result<ValueId> {
    /// `B(2k) / (2k)!` for the Bernoulli numbers `B(2k)`, each divided by the one before it.
    const RATIOS: [f64; 10] = [
        1.0 / 12.0,
        -1.0 / 60.0,
        -1.0 / 42.0,
        -1.0 / 40.0,
        -5.0 / 198.0,
        -691.0 / 27_300.0,
        -35.0 / 1382.0,
        -3617.0 / 142_800.0,
        -219_335.0 / 8_659_098.0,
        -1_222_277.0 / 48_253_700.0,
    ];
    let is_wide = patch.tensor(q)?.element == ElementType::F64;
    let (count, ratios) = if is_wide { (10, &RATIOS[..]) } else { (5, &RATIOS[..5]) };
    let negated = patch.unary(U::Negate, s)?;
    let mut sum = patch.binary(B::Power, q, negated)?;
    for term in 1..count {
        let number = with(patch, B::Add, q, f64::from(term))?;
        let power = patch.binary(B::Power, number, negated)?;
        sum = patch.binary(B::Add, sum, power)?;
    }
    // With `a = q + count`, the rest is
    // `a^(1-s) * (1 / (s-1) + 1 / (2a) + B(2) / 2! * s / a^2 + B(4) / 4! * s * (s+1) * (s+2) / a^4 + ...)`.
    let a = with(patch, B::Add, q, f64::from(count))?;
    let one = patch.like(q, 1.0)?;
    let inverse = patch.binary(B::Divide, one, a)?;
    // `(s + j) / a`. If it is large, the power below is negligible, but an infinite factor would make it a NaN.
    let factor = |patch: &mut Patch<'_>, j: usize| {
        let sum = with(patch, B::Add, s, j as f64)?;
        let product = patch.binary(B::Multiply, sum, inverse)?;
        let most = patch.like(q, 100.0)?;
        patch.binary(B::Minimum, product, most)
    };
    let mut series = one;
    for (at, &ratio) in ratios.iter().enumerate().rev() {
        let mut term = with(patch, B::Multiply, series, ratio)?;
        for j in if at == 0 { 0..1 } else { 2 * at - 1..2 * at + 1 } {
            let factor = factor(patch, j)?;
            term = patch.binary(B::Multiply, term, factor)?;
        }
        series = if at == 0 { term } else { with(patch, B::Add, term, 1.0)? };
    }
    let series = with(patch, B::Add, series, 0.5)?;
    let series = patch.binary(B::Multiply, series, inverse)?;
    let less = with(patch, B::Subtract, s, 1.0)?;
    let quotient = patch.binary(B::Divide, one, less)?;
    let series = patch.binary(B::Add, series, quotient)?;
    let exponent = patch.unary(U::Negate, less)?;
    let power = patch.binary(B::Power, a, exponent)?;
    let rest = patch.binary(B::Multiply, power, series)?;
    patch.binary(B::Add, sum, rest)
}

/// `(-1)^(n + 1) * n! * zeta(n + 1, x)`, or `digamma(x)` if `n` is 0.
pub(super) fn polygamma(patch: &mut Patch<'_>, n: ValueId, x: ValueId) -> Result<ValueId> {
    let s = with(patch, B::Add, n, 1.0)?;
    let (zeta, factorial) = (zeta(patch, s, x)?, factorial(patch, n)?);
    let product = patch.binary(B::Multiply, factorial, zeta)?;
    let negated = patch.unary(U::Negate, product)?;
    let is_even = is_multiple_of_two(patch, n)?;
    let y = patch.select(is_even, negated, product)?;
    let of_zero = digamma(patch, x)?;
    let is_zero = is(patch, D::Eq, n, 0.0)?;
    let y = patch.select(is_zero, of_zero, y)?;
    let (floor, zero, nan) = (patch.unary(U::Floor, n)?, patch.like(n, 0.0)?, nan(patch, x)?);
    let (is_whole, is_positive) = (patch.compare(D::Eq, n, floor)?, patch.compare(D::Ge, n, zero)?);
    let is_order = patch.binary(B::And, is_whole, is_positive)?;
    patch.select(is_order, y, nan)
}

/// The factorial of a whole number, from a multiple of 8 and at most 7 products. An infinity if it is out of range.
fn factorial(patch: &mut Patch<'_>, n: ValueId) -> Result<ValueId> {
    const STEP: usize = 8;
    let largest = if patch.tensor(n)?.element == ElementType::F64 { f64::MAX } else { f64::from(f32::MAX) };
    let mut product = patch.like(n, 1.0)?;
    let mut base = patch.like(n, 0.0)?;
    let (mut number, mut known) = (0, 1.0);
    while known <= largest {
        for _ in 0..STEP {
            number += 1;
            known *= number as f64;
        }
        let is_reached = is(patch, D::Ge, n, number as f64)?;
        let (value, at) =
            (patch.like(n, if known <= largest { known } else { f64::INFINITY })?, patch.like(n, number as f64)?);
        product = patch.select(is_reached, value, product)?;
        base = patch.select(is_reached, at, base)?;
    }
    for j in 1..STEP {
        let next = with(patch, B::Add, base, j as f64)?;
        let is_factor = patch.compare(D::Le, next, n)?;
        let more = patch.binary(B::Multiply, product, next)?;
        product = patch.select(is_factor, more, product)?;
    }
    Ok(product)
}
