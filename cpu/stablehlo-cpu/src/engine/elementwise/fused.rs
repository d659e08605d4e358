//! `a * b + c`, rounded once.

/// Whether the C library of this platform rounds its functions `fma` and `fmaf` more than once. The standard library
/// calls them if the processor has no instruction.
const IS_C_LIBRARY_INEXACT: bool = cfg!(all(windows, target_env = "gnu"));

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the result is rounded here")]
pub(super) fn f32(a: f32, b: f32, c: f32) -> f32 {
    if IS_C_LIBRARY_INEXACT { sum_to_odd(a, b, c) as f32 } else { a.mul_add(b, c) }
}

#[inline(always)]
pub(super) fn f64(a: f64, b: f64, c: f64) -> f64 {
    if IS_C_LIBRARY_INEXACT { libm::fma(a, b, c) } else { a.mul_add(b, c) }
}

/// Returns `a * b + c` if it is an `f64`, and otherwise that of its two neighbors among the `f64`s whose last bit is 1.
/// Rounding the result to a type with at least two bits less is then the same as rounding the exact sum.
///
/// The function has no branches, so that loops over it are vectorized.
#[inline(always)]
pub(super) fn sum_to_odd(a: f32, b: f32, c: f32) -> f64 {
    // The product has at most 48 bits, and its exponent is far from the limits of `f64`, so it is exact. Its sum with
    // `c` does not overflow either.
    let (product, c) = (f64::from(a) * f64::from(b), f64::from(c));
    let nearest = product + c;
    // Knuth's two-sum: `nearest + rest` is exactly `product + c`. The rest is NaN if the sum is not finite.
    let rounded = nearest - product;
    let rest = (product - (nearest - rounded)) + (c - rounded);
    let is_inexact = (rest > 0.0) | (rest < 0.0);
    let is_even = nearest.to_bits() & 1 == 0;
    // If the rest has the sign of the sum, the odd neighbor is the next larger magnitude.
    let is_larger = (rest > 0.0) == (nearest > 0.0);
    let odd = nearest.to_bits().wrapping_add(if is_larger { 1 } else { u64::MAX });
    f64::from_bits(if is_inexact & is_even { odd } else { nearest.to_bits() })
}
