//! CHLO functions, which frameworks call by name. They are not part of the StableHLO specification.
//!
//! Most functions are computed in `f64` and rounded once for narrower types. `next_after` and `mulhi` are computed in
//! the element type, and so is `erf` for `f32`.

use half::{bf16, f16};

use super::map::{scalar1, scalar2};
use super::{Chained, Loop, One, Two};
use crate::engine::dtype::DType;

/// Returns the loop of the unary function called `name`.
pub(crate) fn special(name: &str) -> Option<Loop> {
    macro_rules! one {
        ($f:expr) => {
            |a, o| scalar1::<f64, f64>(a, o, $f)
        };
    }
    let f: One = match name {
        "acos" => one!(f64::acos),
        "acosh" => one!(acosh),
        "asin" => one!(f64::asin),
        "asinh" => one!(asinh),
        "atan" => one!(f64::atan),
        "atanh" => one!(libm::atanh),
        "bessel_i1e" => one!(bessel_i1e),
        "cosh" => one!(f64::cosh),
        "digamma" => one!(digamma),
        "erf" => one!(libm::erf),
        "erf_inv" => one!(erf_inv),
        "erfc" => one!(libm::erfc),
        "lgamma" => one!(lgamma),
        "sinh" => one!(f64::sinh),
        "tan" => one!(f64::tan),
        _ => return None,
    };
    Some(Loop::One(f))
}

/// Returns the loop of the unary function called `name` if it has a separate loop for `f32`. Only `erf` has one,
/// because neural networks apply `erf` to every element of a layer.
pub(crate) fn special_f32(name: &str) -> Option<Loop> {
    (name == "erf").then_some(Loop::Chained(Chained::Erf))
}

/// Returns the loop of the binary function called `name`.
pub(crate) fn special2(name: &str) -> Option<Loop> {
    let f: Two = match name {
        "polygamma" => |a, b, o| scalar2::<f64, f64>(a, b, o, polygamma),
        "zeta" => |a, b, o| scalar2::<f64, f64>(a, b, o, zeta),
        _ => return None,
    };
    Some(Loop::Two(f))
}

/// Returns the loop that computes the next representable number after the first operand, toward the second operand.
pub(crate) fn next_after(dtype: DType) -> Option<Loop> {
    macro_rules! neighbour {
        ($t:ty) => {
            |a, b, o| {
                scalar2::<$t, $t>(a, b, o, |x, y| {
                    if x.is_nan() || y.is_nan() {
                        <$t>::NAN
                    } else if x == y {
                        y
                    } else if x.to_bits() << 1 == 0 {
                        // From either zero, the next number is the smallest subnormal number with the sign of `y`.
                        <$t>::from_bits(1).copysign(y)
                    } else if (x < y) == x.is_sign_positive() {
                        <$t>::from_bits(x.to_bits() + 1)
                    } else {
                        <$t>::from_bits(x.to_bits() - 1)
                    }
                })
            }
        };
    }
    let f: Two = match dtype {
        DType::F32 => neighbour!(f32),
        DType::F64 => neighbour!(f64),
        DType::F16 => neighbour!(f16),
        DType::Bf16 => neighbour!(bf16),
        _ => return None,
    };
    Some(Loop::Two(f))
}

/// Returns the loop that computes the upper half of the product of two integers.
pub(crate) fn multiply_high(dtype: DType) -> Option<Loop> {
    macro_rules! high {
        ($t:ty, $wide:ty) => {
            |a, b, o| {
                scalar2::<$t, $t>(a, b, o, |x, y| {
                    // The upper half of a product always fits `$t`.
                    <$t>::try_from((<$wide>::from(x) * <$wide>::from(y)) >> <$t>::BITS).unwrap_or_default()
                })
            }
        };
    }
    let f: Two = match dtype {
        DType::I8 => high!(i8, i16),
        DType::I16 => high!(i16, i32),
        DType::I32 => high!(i32, i64),
        DType::I64 => high!(i64, i128),
        DType::U8 => high!(u8, u16),
        DType::U16 => high!(u16, u32),
        DType::U32 => high!(u32, u64),
        DType::U64 => high!(u64, u128),
        _ => return None,
    };
    Some(Loop::Two(f))
}

/// Returns the inverse hyperbolic sine. Uses the absolute value, so that the function is exactly odd.
fn asinh(x: f64) -> f64 {
    libm::asinh(x.abs()).copysign(x)
}

/// Returns the inverse hyperbolic cosine. `libm::acosh` also returns numbers for arguments below 1, for which the
/// result must be NaN.
fn acosh(x: f64) -> f64 {
    if x < 1.0 { f64::NAN } else { libm::acosh(x) }
}

/// Returns `ln |gamma(x)|`.
fn lgamma(x: f64) -> f64 {
    if x.is_infinite() { f64::INFINITY } else { libm::lgamma(x) }
}

/// Returns the inverse of the error function.
fn erf_inv(x: f64) -> f64 {
    let rest = 1.0 - x.abs();
    if x.is_nan() || rest < 0.0 {
        return f64::NAN;
    }
    if rest == 0.0 {
        return f64::INFINITY.copysign(x);
    }
    if x.abs() < 1e-8 {
        // The next term of the series is smaller by a factor of x^2 pi / 12, which is negligible.
        return x * (std::f64::consts::PI.sqrt() / 2.0);
    }
    // Winitzki's closed form is accurate to about three digits. Each step of Halley's method triples the number of
    // correct digits.
    let l = (rest * (1.0 + x.abs())).ln();
    let a = 0.147;
    let b = 2.0 / (std::f64::consts::PI * a) + l / 2.0;
    let mut y = ((b * b - l / a).sqrt() - b).sqrt();
    for _ in 0..4 {
        // In the tail, the complement `rest` keeps more significant digits than `x`.
        let error = if rest < 0.5 { rest - libm::erfc(y) } else { libm::erf(y) - x.abs() };
        let step = error / (std::f64::consts::FRAC_2_SQRT_PI * (-y * y).exp());
        if !step.is_finite() {
            break;
        }
        y -= step / (1.0 + y * step);
    }
    y.copysign(x)
}

/// Returns digamma, the logarithmic derivative of the gamma function. The result is NaN at the poles of the gamma
/// function.
fn digamma(x: f64) -> f64 {
    if x.is_nan() || x == f64::NEG_INFINITY || (x <= 0.0 && x == x.floor()) {
        return f64::NAN;
    }
    if x < 0.0 {
        // Use the reflection formula. Reducing the tangent's argument first preserves precision.
        let fraction = x - x.round();
        return digamma(1.0 - x) - std::f64::consts::PI / (std::f64::consts::PI * fraction).tan();
    }
    let (mut x, mut sum) = (x, 0.0);
    while x < 10.0 {
        sum -= 1.0 / x;
        x += 1.0;
    }
    if x > 1e17 {
        return x.ln();
    }
    // The coefficients of x^-2k in the asymptotic series are the Bernoulli numbers B(2k) divided by 2k.
    const SERIES: [f64; 7] =
        [1.0 / 12.0, -1.0 / 120.0, 1.0 / 252.0, -1.0 / 240.0, 1.0 / 132.0, -691.0 / 32760.0, 1.0 / 12.0];
    let z = 1.0 / (x * x);
    let tail = SERIES.iter().rev().fold(0.0, |tail, c| (tail + c) * z);
    sum + x.ln() - 0.5 / x - tail
}

/// Returns the Hurwitz zeta function, computed by the Euler-Maclaurin formula.
fn zeta(x: f64, q: f64) -> f64 {
    /// Maximum number of terms to sum one by one. It limits the time if `q` is far below zero.
    const MOST: u32 = 1 << 16;
    if x.is_nan() || q.is_nan() || x < 1.0 {
        return f64::NAN;
    }
    if x == 1.0 {
        return f64::INFINITY;
    }
    if q <= 0.0 {
        let even = x == x.floor() && (x / 2.0).fract() == 0.0;
        if q == q.floor() {
            return if even { f64::INFINITY } else { f64::NAN };
        }
        if x != x.floor() {
            return f64::NAN;
        }
    }
    if q == f64::INFINITY {
        return 0.0;
    }
    let (mut a, mut sum, mut count) = (q, 0.0, 0);
    while (count < 10 || a < 10.0) && count < MOST {
        sum += a.powf(-x);
        a += 1.0;
        count += 1;
    }
    let power = a.powf(-x);
    if power == 0.0 || !sum.is_finite() {
        return sum;
    }
    sum += power * a / (x - 1.0) + 0.5 * power;
    // The coefficients are B(2k) / (2k)!, where B(2k) is a Bernoulli number.
    const SERIES: [f64; 10] = [
        1.0 / 12.0,
        -1.0 / 720.0,
        1.0 / 30_240.0,
        -1.0 / 1_209_600.0,
        1.0 / 47_900_160.0,
        -691.0 / 1_307_674_368_000.0,
        1.0 / 74_724_249_600.0,
        -3617.0 / 10_670_622_842_880_000.0,
        43_867.0 / 5_109_094_217_170_944_000.0,
        -174_611.0 / 802_857_662_698_291_200_000.0,
    ];
    let (mut factor, mut j) = (x * power / a, 1.0);
    for c in SERIES {
        let term = c * factor;
        sum += term;
        if term.abs() < sum.abs() * 1e-17 {
            break;
        }
        factor *= (x + j) * (x + j + 1.0) / (a * a);
        j += 2.0;
    }
    sum
}

/// Returns polygamma, the derivative of order `n` of [`digamma`].
fn polygamma(n: f64, x: f64) -> f64 {
    if n == 0.0 {
        return digamma(x);
    }
    if n.is_nan() || n < 0.0 || n != n.floor() {
        return f64::NAN;
    }
    let sign = if (n / 2.0).fract() == 0.0 { -1.0 } else { 1.0 };
    sign * libm::tgamma(n + 1.0) * zeta(n + 1.0, x)
}

/// Returns the modified Bessel function of the first kind of order one, times `e^-|x|`.
fn bessel_i1e(x: f64) -> f64 {
    let y = x.abs();
    if x.is_nan() || y == 0.0 {
        return x;
    }
    let value = if y <= 40.0 {
        // All terms are positive, so no digits cancel.
        let square = y * y / 4.0;
        let (mut term, mut sum, mut k) = (y / 2.0, y / 2.0, 1.0);
        while term > sum * 1e-18 {
            term *= square / (k * (k + 1.0));
            sum += term;
            k += 1.0;
        }
        sum * (-y).exp()
    } else {
        // Sum the asymptotic series 1 - 3 / (8 y) + ... Term k is term k - 1 times -(4 - (2k - 1)^2) / (8 k y).
        let (mut term, mut sum, mut k) = (1.0, 1.0, 1.0);
        while k < 40.0 {
            let odd: f64 = 2.0 * k - 1.0;
            let next = -term * (4.0 - odd * odd) / (8.0 * k * y);
            if next.abs() >= term.abs() || next.abs() < 1e-18 {
                break;
            }
            term = next;
            sum += term;
            k += 1.0;
        }
        sum / (2.0 * std::f64::consts::PI * y).sqrt()
    };
    value.copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(got: f64, want: f64, limit: f64) {
        assert!((got / want - 1.0).abs() <= limit, "{got}, want {want}");
    }

    /// Compares function values with published tables.
    #[test]
    fn values_match_tables() {
        near(libm::erf(0.5), 0.520_499_877_813_046_5, 1e-15);
        near(libm::erfc(5.0), 1.537_459_794_428_035e-12, 1e-14);
        near(digamma(1.0), -0.577_215_664_901_532_9, 1e-15);
        near(digamma(0.25), -4.227_453_533_376_265, 1e-15);
        near(digamma(-0.5), 0.036_489_973_978_576_52, 1e-13);
        near(zeta(2.0, 1.0), std::f64::consts::PI.powi(2) / 6.0, 1e-15);
        near(zeta(4.0, 1.0), std::f64::consts::PI.powi(4) / 90.0, 1e-15);
        near(zeta(2.0, 0.5), std::f64::consts::PI.powi(2) / 2.0, 1e-15);
        near(polygamma(1.0, 1.0), std::f64::consts::PI.powi(2) / 6.0, 1e-15);
        near(polygamma(2.0, 1.0), -2.404_113_806_319_188_6, 1e-15);
        near(bessel_i1e(1.0), 0.207_910_415_349_708_45, 1e-15);
        near(bessel_i1e(100.0), 0.039_744_153_025_130_25, 1e-15);
        near(lgamma(0.5), std::f64::consts::PI.sqrt().ln(), 1e-15);
        // The power series and the asymptotic series must agree at 40, where the function switches between them.
        near(bessel_i1e(40.000_000_1), bessel_i1e(40.0), 1e-8);
    }

    #[test]
    fn erf_inv_inverts_erf() {
        for x in [1e-300, 1e-9, 0.001, 0.1, 0.3, 0.5, 0.9, 0.999, 0.999_999_999, 1.0 - f64::EPSILON] {
            near(libm::erf(erf_inv(x)), x, 1e-15);
            assert_eq!(erf_inv(-x), -erf_inv(x));
        }
        // `erfc` distinguishes numbers in the tail, where `erf` rounds to 1.
        near(libm::erfc(erf_inv(1.0 - 2f64.powi(-50))), 2f64.powi(-50), 1e-13);
        assert_eq!(erf_inv(1.0), f64::INFINITY);
        assert_eq!(erf_inv(-1.0), f64::NEG_INFINITY);
        assert!(erf_inv(1.5).is_nan() && erf_inv(f64::NAN).is_nan());
        assert!(erf_inv(-0.0).is_sign_negative());
    }

    #[test]
    fn poles_and_infinities() {
        for x in [0.0, -1.0, -7.0, f64::NEG_INFINITY, f64::NAN] {
            assert!(digamma(x).is_nan(), "{x}");
        }
        assert_eq!(digamma(f64::INFINITY), f64::INFINITY);
        assert_eq!(zeta(1.0, 3.0), f64::INFINITY);
        assert_eq!(zeta(2.0, -3.0), f64::INFINITY);
        assert!(zeta(3.0, -3.0).is_nan() && zeta(0.5, 1.0).is_nan() && zeta(2.5, -0.5).is_nan());
        assert!(zeta(2.0, -1e300).is_infinite());
        assert!(polygamma(1.5, 1.0).is_nan() && polygamma(-1.0, 1.0).is_nan());
        assert_eq!(bessel_i1e(f64::INFINITY), 0.0);
        assert!(acosh(0.5).is_nan() && acosh(-3.0).is_nan());
        assert_eq!(acosh(1.0), 0.0);
        assert_eq!(lgamma(f64::NEG_INFINITY), f64::INFINITY);
    }
}
