//! Elementary functions of `f32` without branches or calls, so that loops over them are vectorized.
//!
//! Each function is accurate to a few units in the last place. Functions of `f64` and rarely used functions of `f32`
//! call the standard library instead.
#![expect(clippy::cast_sign_loss, reason = "bit patterns of floats are assembled from signed exponents")]

const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// Upper part of ln 2, with so few bits that `n * LN2_HI` is exact for every exponent `n`.
const LN2_HI: f32 = 0.693_359_4;
const LN2_LO: f32 = -2.121_944_4e-4;

/// Returns `2^n` for -126 <= n <= 127.
#[inline(always)]
fn exp2i(n: i32) -> f32 {
    f32::from_bits(((n + 127) as u32) << 23)
}

/// Returns the nearest integer to `x`, as a float and as an integer, for |x| < 2^21. Adding 1.5 * 2^23 moves the
/// integer to the low bits of the mantissa. (A cast would also have to handle numbers out of range.)
#[inline(always)]
fn round_small(x: f32) -> (f32, i32) {
    const MAGIC: f32 = 12_582_912.0;
    let shifted = x + MAGIC;
    (shifted - MAGIC, (shifted.to_bits() as i32).wrapping_sub(MAGIC.to_bits() as i32))
}

/// Returns `(p, n)` with exp(x) = (1 + p) * 2^n and |ln(1 + p)| <= ln(2)/2. The caller clamps `x` and excludes NaN.
#[inline(always)]
fn exp_parts(x: f32) -> (f32, i32) {
    let (n, exponent) = round_small(x * LOG2_E);
    (exp_m1_of_rest(n.mul_add(-LN2_LO, n.mul_add(-LN2_HI, x))), exponent)
}

/// Returns exp(r) - 1 for |r| <= ln(2)/2.
#[inline(always)]
fn exp_m1_of_rest(r: f32) -> f32 {
    // Taylor series. The first omitted term is below 0.1 units in the last place.
    let q = 1.0f32 / 5040.0;
    let q = q.mul_add(r, 1.0 / 720.0);
    let q = q.mul_add(r, 1.0 / 120.0);
    let q = q.mul_add(r, 1.0 / 24.0);
    let q = q.mul_add(r, 1.0 / 6.0);
    let q = q.mul_add(r, 0.5);
    (q * r).mul_add(r, r)
}

/// Returns 2^x. The result is exact if `x` is an integer.
#[inline(always)]
pub(super) fn exp2(x: f32) -> f32 {
    // Limit `x` as in `exp`.
    let low = if x > -151.0 { x } else { -151.0 };
    let limited = if low < 129.0 { low } else { 129.0 };
    let (n, exponent) = round_small(limited);
    let p = exp_m1_of_rest((limited - n) * std::f32::consts::LN_2);
    let half = exponent >> 1;
    let y = (1.0 + p) * exp2i(half) * exp2i(exponent - half);
    if x.is_nan() { x } else { y }
}

/// Returns e^x.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    // Limit `x` to the range from -104 to 89, so that both factors below are normal numbers. Outside this range, the
    // result is 0 or infinite anyway. Use comparisons rather than `clamp`, because each comparison takes one
    // instruction and also replaces NaN by a number.
    let low = if x > -104.0 { x } else { -104.0 };
    let (p, n) = exp_parts(if low < 89.0 { low } else { 89.0 });
    // Multiply by two factors, because 2^n itself is not a normal number for the smallest results and for n = 128.
    let half = n >> 1;
    let y = (1.0 + p) * exp2i(half) * exp2i(n - half);
    if x.is_nan() { x } else { y }
}

/// Returns e^x - 1, accurate near 0.
#[inline(always)]
pub(super) fn exp_m1(x: f32) -> f32 {
    let clamped = x.clamp(-20.0, 89.0);
    let (p, n) = exp_parts(if x.is_nan() { 0.0 } else { clamped });
    let half = n >> 1;
    let (a, b) = (exp2i(half), exp2i(n - half));
    // `a * b` is infinite for n = 128, so `large` multiplies by `a` and `b` one after the other. The -1 is negligible
    // in `large`.
    let small = p * (a * b) + (a * b - 1.0);
    let large = (1.0 + p) * a * b;
    let y = if n > 64 { large } else { small };
    // Return x itself if |x| is so small that e^x - 1 rounds to x. This preserves -0.0 and subnormal numbers.
    if x.is_nan() || x.abs() < 1e-8 { x } else { y }
}

/// Returns the hyperbolic tangent, computed as `x` times a quotient of polynomials in `x * x`. Both polynomials are 1
/// at 0, so small numbers, signs and NaN are preserved. Their coefficients minimize the largest relative error for |x|
/// up to 9, which is 2.2e-8. For larger |x|, the result is 1 or -1. The quotient takes half as many instructions as a
/// formula with `exp`.
#[inline(always)]
pub(super) fn tanh(x: f32) -> f32 {
    let x = if x > 9.0 { 9.0 } else { x };
    let x = if x < -9.0 { -9.0 } else { x };
    let u = x * x;
    let p = u.mul_add(1.341_981_3e-8, 2.066_125_7e-5);
    let p = u.mul_add(p, 3.498_995_7e-3);
    let p = u.mul_add(p, 1.338_398e-1);
    let p = u.mul_add(p, 1.0);
    let q = u.mul_add(7.804_726e-7, 3.291_038e-4);
    let q = u.mul_add(q, 2.589_020_5e-2);
    let q = u.mul_add(q, 4.671_73e-1);
    let q = u.mul_add(q, 1.0);
    let y = x * p / q;
    // Rounding may produce a number above 1.
    let y = if y > 1.0 { 1.0 } else { y };
    if y < -1.0 { -1.0 } else { y }
}

/// Returns the error function of `x`, computed in the same way as [`tanh`] for |x| up to 4. The largest relative error
/// of the quotient is 2.6e-8.
#[inline(always)]
pub(super) fn erf(x: f32) -> f32 {
    let x = if x > 4.0 { 4.0 } else { x };
    let x = if x < -4.0 { -4.0 } else { x };
    let u = x * x;
    let p = u.mul_add(1.989_879_1e-6, 2.838_239_3e-4);
    let p = u.mul_add(p, 3.856_412_6e-3);
    let p = u.mul_add(p, 5.301_946_4e-2);
    let p = u.mul_add(p, 1.929_352_1e-1);
    let p = u.mul_add(p, std::f32::consts::FRAC_2_SQRT_PI);
    let q = u.mul_add(3.741_303_2e-5, 1.178_757_9e-3);
    let q = u.mul_add(q, 1.515_392_5e-2);
    let q = u.mul_add(q, 1.150_962_2e-1);
    let q = u.mul_add(q, 5.043_172e-1);
    let q = u.mul_add(q, 1.0);
    let y = x * p / q;
    let y = if y > 1.0 { 1.0 } else { y };
    if y < -1.0 { -1.0 } else { y }
}

/// Returns 1 / (1 + e^-x).
#[inline(always)]
pub(super) fn logistic(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// Angles of at least this magnitude, infinities and NaN are left to [`f32::sin`] and [`f32::cos`].
const LARGE_ANGLE: f32 = 268_435_456.0;

/// Returns whether [`small_sin`] and [`small_cos`] cannot compute with this angle.
#[inline(always)]
pub(super) fn is_large_angle(x: f32) -> bool {
    x.is_nan() || x.abs() >= LARGE_ANGLE
}

/// Returns the sine of `x + turns * pi / 2`, for `|x|` below [`LARGE_ANGLE`]. Other arguments give any number.
///
/// Computes in `f64`, because the difference of an `f32` and the nearest multiple of pi / 2 has few correct bits in
/// `f32`.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the result is rounded once")]
fn sin_of_quarters(x: f32, turns: u64) -> f32 {
    const HALF_PI: f64 = std::f64::consts::FRAC_PI_2;
    /// The part of pi / 2 that `HALF_PI` lacks.
    const HALF_PI_LOW: f64 = 6.123_233_995_736_766e-17;
    /// Adding 1.5 * 2^52 moves the integer to the low bits of the mantissa.
    const MAGIC: f64 = 6_755_399_441_055_744.0;
    let x = f64::from(x);
    let shifted = x.mul_add(std::f64::consts::FRAC_2_PI, MAGIC);
    let n = shifted - MAGIC;
    let r = n.mul_add(-HALF_PI_LOW, n.mul_add(-HALF_PI, x));
    let turns = shifted.to_bits().wrapping_add(turns);
    // Taylor series. The first omitted terms are below 0.01 units in the last place of an `f32`.
    let z = r * r;
    let sin = z.mul_add(-1.0 / 39_916_800.0, 1.0 / 362_880.0);
    let sin = z.mul_add(sin, -1.0 / 5040.0);
    let sin = z.mul_add(sin, 1.0 / 120.0);
    let sin = z.mul_add(sin, -1.0 / 6.0);
    let sin = (r * z).mul_add(sin, r);
    let cos = z.mul_add(-1.0 / 3_628_800.0, 1.0 / 40_320.0);
    let cos = z.mul_add(cos, -1.0 / 720.0);
    let cos = z.mul_add(cos, 1.0 / 24.0);
    let cos = z.mul_add(cos, -0.5);
    let cos = z.mul_add(cos, 1.0);
    let y = if turns & 1 == 0 { sin } else { cos };
    f64::from_bits(y.to_bits() ^ ((turns & 2) << 62)) as f32
}

/// Returns the sine of an angle that is not [large](is_large_angle).
#[inline(always)]
pub(super) fn small_sin(x: f32) -> f32 {
    // Compute with the absolute value, so that the sign of a zero is kept.
    let y = sin_of_quarters(x.abs(), 0);
    f32::from_bits(y.to_bits() ^ (x.to_bits() & 0x8000_0000))
}

/// Returns the cosine of an angle that is not [large](is_large_angle).
#[inline(always)]
pub(super) fn small_cos(x: f32) -> f32 {
    sin_of_quarters(x, 1)
}

/// Returns the sine of any angle.
#[inline(always)]
pub(super) fn sin(x: f32) -> f32 {
    if is_large_angle(x) { x.sin() } else { small_sin(x) }
}

/// Returns the cosine of any angle.
#[inline(always)]
pub(super) fn cos(x: f32) -> f32 {
    if is_large_angle(x) { x.cos() } else { small_cos(x) }
}

/// Returns `(e, f, d)` with x = (1 + f) * 2^e, f from sqrt(1/2) - 1 to sqrt(2) - 1, and ln(1 + f) = f - d, for a
/// positive and finite `x`. The form f - d keeps the leading term exact.
#[inline(always)]
fn ln_parts(x: f32) -> (f32, f32, f32) {
    const TINY: f32 = f32::MIN_POSITIVE;
    // Scale subnormal numbers into the normal range first.
    let (scaled, bias) = if x < TINY { (x * 8_388_608.0, -23) } else { (x, 0) };
    // Split the number so that the mantissa is in [sqrt(1/2), sqrt(2)).
    let bits = scaled.to_bits().wrapping_sub(0x3F35_04F3);
    let e = ((bits as i32) >> 23) + bias;
    let m = f32::from_bits((bits & 0x007F_FFFF).wrapping_add(0x3F35_04F3));
    // ln m = 2 atanh(s), with f = m - 1.
    let f = m - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let r = z * (2.0 / 3.0 + z * (2.0 / 5.0 + z * (2.0 / 7.0 + z * (2.0 / 9.0 + z * (2.0 / 11.0)))));
    let half = 0.5 * f * f;
    (e as f32, f, half - s * (half + r))
}

/// Returns `y`, the logarithm of a positive and finite `x`, or the logarithm of any other `x`.
#[inline(always)]
fn ln_special(x: f32, y: f32) -> f32 {
    let y = if x == 0.0 { f32::NEG_INFINITY } else { y };
    let y = if x < 0.0 { f32::NAN } else { y };
    if x == f32::INFINITY || x.is_nan() { x } else { y }
}

/// Returns ln x.
#[inline(always)]
pub(super) fn ln(x: f32) -> f32 {
    let (e, f, d) = ln_parts(x);
    ln_special(x, e * LN2_HI + ((f - d) + e * LN2_LO))
}

/// Returns the logarithm of x to the base 2. The result is exact if `x` is a power of two.
#[inline(always)]
pub(super) fn log2(x: f32) -> f32 {
    /// The part of log2(e) that `LOG2_E` lacks.
    const LOG2_E_LO: f32 = 1.925_963_e-8;
    let (e, f, d) = ln_parts(x);
    let y = f - d;
    ln_special(x, e + y.mul_add(LOG2_E, y * LOG2_E_LO))
}

/// Returns ln(1 + x), accurate near 0.
#[inline(always)]
pub(super) fn ln_1p(x: f32) -> f32 {
    let u = 1.0 + x;
    // The factor ln(u) * x / (u - 1) cancels the rounding error of `1 + x`.
    let y = ln(u) * (x / (u - 1.0));
    let y = if u == f32::INFINITY || u <= 0.0 { ln(u) } else { y };
    if u == 1.0 || x.is_nan() { x } else { y }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the largest error, in units in the last place, over a sample of all bit patterns. Checks results that
    /// are not normal numbers separately.
    fn worst(f: fn(f32) -> f32, exact: fn(f64) -> f64, domain: impl Fn(f32) -> bool) -> f64 {
        let mut worst = 0.0f64;
        for bits in (0..u32::MAX).step_by(9973) {
            let x = f32::from_bits(bits);
            if !domain(x) {
                continue;
            }
            let want = exact(f64::from(x));
            let got = f(x);
            #[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is the point")]
            let rounded = want as f32;
            if rounded.is_infinite() || rounded == 0.0 || !rounded.is_normal() {
                assert!((f64::from(got) - want).abs() < 1e-38 || got == rounded, "f({x:e}) = {got:e}, want {want:e}");
                continue;
            }
            let ulp = f64::from(rounded.abs()) * f64::from(f32::EPSILON);
            let error = (f64::from(got) - want).abs() / ulp;
            assert!(error.is_finite(), "f({x:e}) = {got:e}, want {want:e}");
            worst = worst.max(error);
        }
        worst
    }

    #[test]
    fn errors_within_ulp_limit() {
        let finite = |x: f32| x.is_finite();
        assert!(worst(exp, f64::exp, finite) < 1.5);
        assert!(worst(exp2, f64::exp2, finite) < 1.5);
        assert!(worst(exp_m1, f64::exp_m1, finite) < 2.5);
        assert!(worst(tanh, f64::tanh, finite) < 3.0);
        assert!(worst(erf, libm::erf, finite) < 3.0);
        assert!(worst(ln, f64::ln, |x| x > 0.0 && x.is_finite()) < 1.5);
        assert!(worst(log2, f64::log2, |x| x > 0.0 && x.is_finite()) < 2.0);
        assert!(worst(ln_1p, f64::ln_1p, |x| x > -1.0 && x.is_finite()) < 3.0);
        assert!(worst(logistic, |x| 1.0 / (1.0 + (-x).exp()), |x| x.is_finite() && x > -87.0) < 3.0);
    }

    #[test]
    fn edges() {
        for f in [exp, exp2, exp_m1, tanh, erf, ln, log2, ln_1p, logistic, sin, cos] {
            assert!(f(f32::NAN).is_nan());
        }
        assert_eq!(exp(f32::INFINITY), f32::INFINITY);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(0.0), 1.0);
        assert_eq!((exp2(f32::INFINITY), exp2(f32::NEG_INFINITY)), (f32::INFINITY, 0.0));
        assert_eq!((exp2(128.0), exp2(-150.0), exp2(-149.0)), (f32::INFINITY, 0.0, f32::from_bits(1)));
        for n in -126..=127i16 {
            let power = exp2i(n.into());
            assert_eq!((exp2(n.into()), log2(power)), (power, n.into()));
        }
        assert_eq!(log2(f32::from_bits(1)), -149.0);
        assert_eq!((log2(0.0), log2(f32::INFINITY)), (f32::NEG_INFINITY, f32::INFINITY));
        assert!(log2(-1.0).is_nan());
        assert_eq!(exp_m1(f32::NEG_INFINITY), -1.0);
        assert_eq!(exp_m1(f32::INFINITY), f32::INFINITY);
        assert!(exp_m1(-0.0).is_sign_negative());
        assert_eq!(tanh(f32::INFINITY), 1.0);
        assert_eq!(tanh(f32::NEG_INFINITY), -1.0);
        assert!(tanh(-0.0).is_sign_negative());
        assert_eq!((erf(f32::INFINITY), erf(f32::NEG_INFINITY)), (1.0, -1.0));
        assert!(erf(-0.0).is_sign_negative());
        assert_eq!(ln(0.0), f32::NEG_INFINITY);
        assert_eq!(ln(-0.0), f32::NEG_INFINITY);
        assert!(ln(-1.0).is_nan());
        assert_eq!(ln(f32::INFINITY), f32::INFINITY);
        assert_eq!(ln(1.0), 0.0);
        assert_eq!(ln_1p(-1.0), f32::NEG_INFINITY);
        assert!(ln_1p(-2.0).is_nan());
        assert!(ln_1p(-0.0).is_sign_negative());
        assert_eq!(ln_1p(f32::INFINITY), f32::INFINITY);
        assert!(sin(f32::INFINITY).is_nan() && cos(f32::NEG_INFINITY).is_nan());
        assert!(sin(-0.0).is_sign_negative() && sin(0.0).is_sign_positive());
        assert_eq!((cos(-0.0), sin(1e-45)), (1.0, 1e-45));
        assert_eq!(logistic(f32::NEG_INFINITY), 0.0);
        assert_eq!(logistic(f32::INFINITY), 1.0);
    }
}
