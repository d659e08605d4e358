//! `bessel_i1e`.

use stablehlo::ir::{Binary as B, ElementType, Unary as U, ValueId};
use stablehlo::{Patch, Result};

use super::functions::with_sign;
use crate::build::{Build, with};

/// Coefficients of Chebyshev polynomials of `(m - CENTER) / (m + CENTER)` for magnitudes `m`. Their sum is
/// `bessel_i1e(m) * (1 + m)^1.5 / m`. They are computed with mpmath. The first [`TERMS_F32`] suffice for `f32`.
#[rustfmt::skip]
const COEFFICIENTS: [f64; 42] = [
    0.4728951502290695,
    -0.08740559641946942,
    0.003697948851831192,
    0.022746620068845164,
    -0.021852144275425943,
    0.013040768598597572,
    -0.005464186180796994,
    0.0013824102026918266,
    5.611636508978022e-05,
    -0.00025838753083244745,
    0.00013629044542036128,
    -3.588684955788724e-05,
    1.713468137764799e-06,
    1.7156860169119398e-06,
    6.558144743202656e-08,
    -4.881460071879546e-07,
    1.8706084609377174e-07,
    -8.596584826965402e-09,
    -5.934148195649555e-09,
    -5.923674749676324e-09,
    4.556481669190765e-09,
    -7.239585865137451e-10,
    -9.340837260793371e-11,
    -1.3846084502692457e-10,
    1.236839054124141e-10,
    -2.0655706023693583e-11,
    -1.4553040475934848e-12,
    -5.596643733003959e-12,
    3.794888669419389e-12,
    -3.522131869925808e-13,
    2.9174249166381477e-14,
    -2.753662818743984e-13,
    1.0714604085718414e-13,
    3.4818369705724436e-15,
    9.686798862444262e-15,
    -1.2543926437959096e-14,
    1.5440988201003841e-15,
    2.2553342298970633e-16,
    9.618007278235918e-16,
    -3.7241839525305907e-16,
    -5.482485880077154e-17,
    -4.565138771137969e-17,
];
const TERMS_F32: usize = 20;
const CENTER: f64 = 8.0;

/// A sum of Chebyshev polynomials times `m / (1 + m)^1.5`, with the sign of `x`, for the magnitude `m`.
pub(super) fn bessel_i1e(patch: &mut Patch<'_>, x: ValueId) -> Result<ValueId> {
    let is_wide = patch.tensor(x)?.element == ElementType::F64;
    let coefficients = if is_wide { &COEFFICIENTS[..] } else { &COEFFICIENTS[..TERMS_F32] };
    let magnitude = patch.unary(U::Abs, x)?;
    // The fractions of larger numbers are 1, and that of an infinity must be 1.
    let most = patch.like(x, 1e30)?;
    let m = patch.binary(B::Minimum, magnitude, most)?;
    let (above, below) = (with(patch, B::Subtract, m, CENTER)?, with(patch, B::Add, m, CENTER)?);
    let t = patch.binary(B::Divide, above, below)?;
    let sum = chebyshev(patch, t, coefficients)?;
    let next = with(patch, B::Add, m, 1.0)?;
    let fraction = patch.binary(B::Divide, m, next)?;
    let next = with(patch, B::Add, magnitude, 1.0)?;
    let root = patch.unary(U::Sqrt, next)?;
    let factor = patch.binary(B::Divide, fraction, root)?;
    let y = patch.binary(B::Multiply, sum, factor)?;
    with_sign(patch, y, x)
}

/// Adds the sum of the Chebyshev polynomials with these coefficients, by Clenshaw's recurrence.
fn chebyshev(patch: &mut Patch<'_>, t: ValueId, coefficients: &[f64]) -> Result<ValueId> {
    let zero = patch.like(t, 0.0)?;
    let double = patch.binary(B::Add, t, t)?;
    let (mut last, mut sum) = (zero, zero);
    for (at, &coefficient) in coefficients.iter().enumerate().rev() {
        let product = patch.binary(B::Multiply, if at == 0 { t } else { double }, sum)?;
        let difference = patch.binary(B::Subtract, product, last)?;
        last = sum;
        sum = with(patch, B::Add, difference, coefficient)?;
    }
    Ok(sum)
}
