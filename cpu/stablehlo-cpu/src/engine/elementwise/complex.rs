//! Elementary functions of complex numbers. Most functions of `complex<f32>` are computed in `f64`, which avoids
//! cancellation and intermediate overflow. Simple operations such as addition are computed in `f32`.
#![expect(clippy::cast_possible_truncation, reason = "rounding to f32 is the point")]

use bytemuck::{Pod, cast_slice, cast_slice_mut};
use num_complex::Complex;
use stablehlo::ir::{Binary, ComparisonDirection, Unary};

use super::map::{map1, map2, map3, scalar1, scalar2};
use super::{Loop, One, Two};
use crate::engine::dtype::{DType, Pred};

type C32 = Complex<f32>;
type C64 = Complex<f64>;

pub(super) fn wide(z: C32) -> C64 {
    C64::new(f64::from(z.re), f64::from(z.im))
}

pub(super) fn narrow(z: C64) -> C32 {
    C32::new(z.re as f32, z.im as f32)
}

/// Returns `|z|`. The squares of two `f32`s are exact in `f64` and neither overflow nor underflow.
#[inline(always)]
fn abs(z: C32) -> f32 {
    let (re, im) = (f64::from(z.re), f64::from(z.im));
    let root = (re * re + im * im).sqrt() as f32;
    // If one part is infinite, the absolute value is infinite even if the other part is a NaN.
    if z.re.is_infinite() || z.im.is_infinite() { f32::INFINITY } else { root }
}

fn exp(z: C64) -> C64 {
    if z.im == 0.0 {
        return C64::new(z.re.exp(), z.im);
    }
    if !z.im.is_finite() {
        // The sine of an infinite angle is undefined, unless its factor is zero.
        return match z.re {
            f64::NEG_INFINITY => C64::new(0.0, 0.0),
            f64::INFINITY => C64::new(z.re, f64::NAN),
            _ => C64::new(f64::NAN, f64::NAN),
        };
    }
    let (sin, cos) = z.im.sin_cos();
    // Multiply by two factors, because `exp(re)` alone may overflow even if the product does not.
    let half = (z.re / 2.0).exp();
    C64::new(half * cos * half, half * sin * half)
}

/// Returns `2^z`, with `2^re` instead of `exp(re * ln 2)`, whose error grows with `re`.
fn exp2(z: C64) -> C64 {
    if z.im == 0.0 {
        return C64::new(z.re.exp2(), z.im);
    }
    if !z.im.is_finite() {
        return exp(z);
    }
    let (sin, cos) = (z.im * std::f64::consts::LN_2).sin_cos();
    let half = (z.re / 2.0).exp2();
    C64::new(half * cos * half, half * sin * half)
}

fn exp_m1(z: C64) -> C64 {
    if z.im == 0.0 {
        return C64::new(z.re.exp_m1(), z.im);
    }
    if z.re.abs() > 40.0 || !z.im.is_finite() {
        let e = exp(z);
        return C64::new(e.re - 1.0, e.im);
    }
    let (sin, cos) = z.im.sin_cos();
    let half = (z.im / 2.0).sin();
    C64::new(z.re.exp_m1() * cos - 2.0 * half * half, z.re.exp() * sin)
}

/// Returns ln |z|, accurate near |z| = 1 and without overflow.
pub(super) fn ln_abs(z: C64) -> f64 {
    let (small, large) = if z.re.abs() < z.im.abs() { (z.re.abs(), z.im.abs()) } else { (z.im.abs(), z.re.abs()) };
    if large.is_infinite() || small.is_infinite() {
        return f64::INFINITY;
    }
    if small.is_nan() {
        return f64::NAN;
    }
    if large > 0.5 && large < 2.0 {
        return 0.5 * ((large - 1.0) * (large + 1.0) + small * small).ln_1p();
    }
    if large == 0.0 {
        return f64::NEG_INFINITY;
    }
    let ratio = small / large;
    large.ln() + 0.5 * (ratio * ratio).ln_1p()
}

fn ln(z: C64) -> C64 {
    C64::new(ln_abs(z), z.im.atan2(z.re))
}

fn log2(z: C64) -> C64 {
    let w = ln(z);
    C64::new(w.re * std::f64::consts::LOG2_E, w.im * std::f64::consts::LOG2_E)
}

fn ln_1p(z: C64) -> C64 {
    let one = C64::new(1.0 + z.re, z.im);
    let re = if z.re.abs() < 0.5 && z.im.abs() < 1.0 {
        0.5 * (z.re * (2.0 + z.re) + z.im * z.im).ln_1p()
    } else {
        ln_abs(one)
    };
    C64::new(re, z.im.atan2(one.re))
}

fn sqrt(z: C64) -> C64 {
    if z.im.is_infinite() {
        return C64::new(f64::INFINITY, z.im);
    }
    if z.re == f64::INFINITY {
        return C64::new(z.re, if z.im.is_nan() { z.im } else { 0f64.copysign(z.im) });
    }
    if z.re == f64::NEG_INFINITY {
        return C64::new(if z.im.is_nan() { z.im } else { 0.0 }, f64::INFINITY.copysign(z.im));
    }
    if z.re == 0.0 && z.im == 0.0 {
        return C64::new(0.0, z.im);
    }
    let large = z.re.abs().max(z.im.abs());
    let tiny = large < 1e-290;
    // Scale by an even power of two, so that squares and sums neither overflow nor underflow to zero.
    let (scale, back) = if large > 1e300 {
        (2f64.powi(-4), 4.0)
    } else if tiny {
        (2f64.powi(160), 2f64.powi(-80))
    } else {
        (1.0, 1.0)
    };
    let (re, im) = (z.re * scale, z.im * scale);
    let t = ((re.abs() + re.hypot(im)) / 2.0).sqrt();
    let w = if re >= 0.0 { C64::new(t, im / (2.0 * t)) } else { C64::new(im.abs() / (2.0 * t), t.copysign(im)) };
    C64::new(w.re * back, w.im * back)
}

fn tanh(z: C64) -> C64 {
    if z.re.abs() > 20.0 {
        if !z.im.is_finite() {
            return C64::new(1f64.copysign(z.re), 0.0);
        }
        let (sin, cos) = z.im.sin_cos();
        return C64::new(1f64.copysign(z.re), 4.0 * sin * cos * (-2.0 * z.re.abs()).exp());
    }
    // A zero stays a zero, even if the other part is NaN.
    if z.im == 0.0 {
        return C64::new(z.re.tanh(), z.im);
    }
    if z.re == 0.0 {
        return C64::new(z.re, z.im.tan());
    }
    let t = z.im.tan();
    let (beta, s) = (1.0 + t * t, z.re.sinh());
    let rho = (1.0 + s * s).sqrt();
    let bottom = 1.0 + beta * s * s;
    C64::new(beta * rho * s / bottom, t / bottom)
}

pub(super) fn tan(z: C64) -> C64 {
    let w = tanh(C64::new(-z.im, z.re));
    C64::new(w.im, -w.re)
}

pub(super) fn sin(z: C64) -> C64 {
    if z.re == 0.0 {
        return C64::new(z.re, z.im.sinh());
    }
    if !z.re.is_finite() {
        // The sine of an infinite angle is undefined. Its product with a zero is a zero, and with an infinity an
        // infinity.
        return C64::new(f64::NAN, if z.im == 0.0 || z.im.is_infinite() { z.im } else { f64::NAN });
    }
    let (s, c) = z.re.sin_cos();
    C64::new(s * z.im.cosh(), c * z.im.sinh())
}

pub(super) fn cos(z: C64) -> C64 {
    // The sine of a zero is a zero, and its product with an infinity or NaN is a zero as well.
    if z.re == 0.0 {
        return C64::new(z.im.cosh(), -(z.re * 1f64.copysign(z.im)));
    }
    if !z.re.is_finite() {
        let re = if z.im.is_infinite() { f64::INFINITY } else { f64::NAN };
        return C64::new(re, if z.im == 0.0 { z.im } else { f64::NAN });
    }
    let (s, c) = z.re.sin_cos();
    C64::new(c * z.im.cosh(), -s * z.im.sinh())
}

fn cbrt(z: C64) -> C64 {
    let (r, angle) = (z.re.hypot(z.im).cbrt(), z.im.atan2(z.re) / 3.0);
    C64::new(r * angle.cos(), r * angle.sin())
}

/// Divides without intermediate overflow. If the divisor is zero, each part of the dividend is divided by zero.
fn div(a: C64, b: C64) -> C64 {
    if b.re == 0.0 && b.im == 0.0 {
        let zero = b.re.abs().copysign(b.re);
        return C64::new(a.re / zero, a.im / zero);
    }
    let finite = |z: C64| z.re.is_finite() && z.im.is_finite();
    let infinite = |z: C64| z.re.is_infinite() || z.im.is_infinite();
    let unit = |x: f64| if x.is_infinite() { 1f64.copysign(x) } else { 0f64.copysign(x) };
    if infinite(a) && finite(b) {
        let (p, q) = (unit(a.re), unit(a.im));
        let inf = f64::INFINITY;
        return C64::new(inf * (p * b.re + q * b.im), inf * (q * b.re - p * b.im));
    }
    if infinite(b) && finite(a) {
        let (p, q) = (unit(b.re), unit(b.im));
        return C64::new(0.0 * (a.re * p + a.im * q), 0.0 * (a.im * p - a.re * q));
    }
    if b.re.abs().max(b.im.abs()) > 1e300 && finite(b) {
        // Scale down far enough that sums stay below `f64::MAX`.
        let down = |z: C64| C64::new(z.re * 1e-10, z.im * 1e-10);
        return div(down(a), down(b));
    }
    if b.re.abs() >= b.im.abs() {
        let ratio = b.im / b.re;
        let bottom = b.re + b.im * ratio;
        C64::new((a.re + a.im * ratio) / bottom, (a.im - a.re * ratio) / bottom)
    } else {
        let ratio = b.re / b.im;
        let bottom = b.re * ratio + b.im;
        C64::new((a.re * ratio + a.im) / bottom, (a.im * ratio - a.re) / bottom)
    }
}

/// Divides as [`div`] does. The products of two `f32`s are exact in `f64`, and neither their sums nor `|b|^2` overflow
/// or underflow, so that the definition is accurate. Only quotients of zero, infinity and NaN need [`div`].
fn div_single(a: &[u8], b: &[u8], o: &mut [u8]) {
    let is_special = |a: C32, b: C32| {
        let finite = a.re.is_finite() & a.im.is_finite() & b.re.is_finite() & b.im.is_finite();
        !finite | ((b.re == 0.0) & (b.im == 0.0))
    };
    map2::<C32, C32>(a, b, o, |a, b| {
        let (a, b) = (wide(a), wide(b));
        let norm = b.re * b.re + b.im * b.im;
        narrow(C64::new((a.re * b.re + a.im * b.im) / norm, (a.im * b.re - a.re * b.im) / norm))
    });
    let (a, b, o) = (cast_slice::<u8, C32>(a), cast_slice::<u8, C32>(b), cast_slice_mut::<u8, C32>(o));
    for ((o, a), b) in o.chunks_mut(64).zip(a.chunks(64)).zip(b.chunks(64)) {
        if a.iter().zip(b).fold(false, |any, (&a, &b)| any | is_special(a, b)) {
            for ((o, &a), &b) in o.iter_mut().zip(a).zip(b) {
                if is_special(a, b) {
                    *o = narrow(div(wide(a), wide(b)));
                }
            }
        }
    }
}

fn pow(z: C64, w: C64) -> C64 {
    if w.re == 0.0 && w.im == 0.0 {
        return C64::new(1.0, 0.0);
    }
    if z.re == 1.0 && z.im == 0.0 && !w.re.is_nan() && !w.im.is_nan() {
        return z;
    }
    if z.re == 0.0 && z.im == 0.0 {
        return C64::new(if w.re > 0.0 { 0.0 } else { f64::NAN }, if w.re > 0.0 { 0.0 } else { f64::NAN });
    }
    if w.re == 1.0 && w.im == 0.0 {
        return z;
    }
    let (r, angle) = (ln_abs(z), z.im.atan2(z.re));
    exp(C64::new(w.re * r - w.im * angle, w.im * r + w.re * angle))
}

/// Returns `-i ln((x + i y) / sqrt(x^2 + y^2))`, the extension of the real `atan2` to complex numbers.
fn atan2(y: C64, x: C64) -> C64 {
    let i = C64::new(0.0, 1.0);
    let w = ln(div(x + i * y, sqrt(x * x + y * y)));
    C64::new(w.im, -w.re)
}

fn sign(z: C64) -> C64 {
    let r = z.re.hypot(z.im);
    if r == 0.0 { z } else { C64::new(z.re / r, z.im / r) }
}

fn logistic(z: C64) -> C64 {
    let e = exp(C64::new(-z.re, -z.im));
    div(C64::new(1.0, 0.0), C64::new(1.0 + e.re, e.im))
}

fn recip_sqrt(z: C64) -> C64 {
    if z.re == 0.0 && z.im == 0.0 {
        return C64::new(f64::INFINITY, f64::NAN);
    }
    div(C64::new(1.0, 0.0), sqrt(z))
}

/// Returns whether `a` is less than `b`. Compares the real parts first, and the imaginary parts if the real parts are
/// equal.
fn less<T: PartialOrd>(a: Complex<T>, b: Complex<T>) -> bool {
    a.re < b.re || (a.re == b.re && a.im < b.im)
}

macro_rules! with {
    ($dtype:expr, $f:path) => {
        match $dtype {
            DType::C64 => Some(Loop::One(|a, o| scalar1::<C32, C32>(a, o, |z| narrow($f(wide(z)))))),
            DType::C128 => Some(Loop::One(|a, o| scalar1::<C64, C64>(a, o, $f))),
            _ => None,
        }
    };
}

macro_rules! with2 {
    ($dtype:expr, $f:path) => {
        match $dtype {
            DType::C64 => Some(Loop::Two(|a, b, o| scalar2::<C32, C32>(a, b, o, |z, w| narrow($f(wide(z), wide(w)))))),
            DType::C128 => Some(Loop::Two(|a, b, o| scalar2::<C64, C64>(a, b, o, $f))),
            _ => None,
        }
    };
}

/// Returns the loop of `$f` for a complex type, and `None` for any other type. The loop computes in the precision of
/// the operands.
macro_rules! own {
    ($dtype:expr, $one:ident, $loop:ident, $f:expr) => {
        match $dtype {
            DType::C64 => Some(Loop::$one(|a, b, o| $loop::<C32, C32>(a, b, o, $f))),
            DType::C128 => Some(Loop::$one(|a, b, o| $loop::<C64, C64>(a, b, o, $f))),
            _ => None,
        }
    };
}

/// Returns the loop of a unary op on complex numbers. The results of `abs`, `real` and `imag` are real numbers.
pub(crate) fn unary(op: Unary, dtype: DType) -> Option<Loop> {
    macro_rules! to_real {
        ($f32:expr, $f64:expr) => {
            match dtype {
                DType::C64 => Some(Loop::One(|a, o| scalar1::<C32, f32>(a, o, $f32))),
                DType::C128 => Some(Loop::One(|a, o| scalar1::<C64, f64>(a, o, $f64))),
                _ => None,
            }
        };
    }
    match op {
        Unary::Abs => match dtype {
            DType::C64 => Some(Loop::One(|a, o| map1::<C32, f32>(a, o, abs))),
            DType::C128 => Some(Loop::One(|a, o| scalar1::<C64, f64>(a, o, |z| z.re.hypot(z.im)))),
            _ => None,
        },
        Unary::Real => to_real!(|z| z.re, |z| z.re),
        Unary::Imag => to_real!(|z| z.im, |z| z.im),
        Unary::Negate => match dtype {
            DType::C64 => Some(Loop::One(|a, o| map1::<C32, C32>(a, o, |z| -z))),
            DType::C128 => Some(Loop::One(|a, o| map1::<C64, C64>(a, o, |z| -z))),
            _ => None,
        },
        Unary::Cbrt => with!(dtype, cbrt),
        Unary::Cosine => with!(dtype, cos),
        Unary::Sine => with!(dtype, sin),
        Unary::Tan => with!(dtype, tan),
        Unary::Tanh => with!(dtype, tanh),
        Unary::Exp2 => with!(dtype, exp2),
        Unary::Exponential => with!(dtype, exp),
        Unary::ExponentialMinusOne => with!(dtype, exp_m1),
        Unary::Log => with!(dtype, ln),
        Unary::Log2 => with!(dtype, log2),
        Unary::LogPlusOne => with!(dtype, ln_1p),
        Unary::Logistic => with!(dtype, logistic),
        Unary::Sqrt => with!(dtype, sqrt),
        Unary::Rsqrt => with!(dtype, recip_sqrt),
        Unary::Sign => with!(dtype, sign),
        _ => None,
    }
}

/// Returns the loop of a binary op on complex numbers.
pub(crate) fn binary(op: Binary, dtype: DType) -> Option<Loop> {
    match op {
        Binary::Add => own!(dtype, Two, map2, |z, w| z + w),
        Binary::Subtract => own!(dtype, Two, map2, |z, w| z - w),
        Binary::Multiply => own!(dtype, Two, map2, |z, w| z * w),
        Binary::Divide => match dtype {
            DType::C64 => Some(Loop::Two(div_single)),
            DType::C128 => Some(Loop::Two(|a, b, o| scalar2::<C64, C64>(a, b, o, div))),
            _ => None,
        },
        Binary::Power => with2!(dtype, pow),
        Binary::Atan2 => with2!(dtype, atan2),
        Binary::Maximum => own!(dtype, Two, scalar2, |z, w| if less(z, w) { w } else { z }),
        Binary::Minimum => own!(dtype, Two, scalar2, |z, w| if less(w, z) { w } else { z }),
        _ => None,
    }
}

/// Returns the loop of `complex`, which combines two real numbers.
pub(crate) fn complex(part: DType) -> Option<Loop> {
    match part {
        DType::F32 => Some(Loop::Two(|a, b, o| map2::<f32, C32>(a, b, o, C32::new))),
        DType::F64 => Some(Loop::Two(|a, b, o| map2::<f64, C64>(a, b, o, C64::new))),
        _ => None,
    }
}

/// Returns the loop of `compare` for complex numbers.
pub(crate) fn compare(direction: ComparisonDirection, dtype: DType) -> Option<Loop> {
    fn loops<T: Pod + PartialOrd>(direction: ComparisonDirection) -> Two
    where
        Complex<T>: Pod,
    {
        match direction {
            ComparisonDirection::Eq => |a, b, o| scalar2::<Complex<T>, Pred>(a, b, o, |z, w| (z == w).into()),
            ComparisonDirection::Ne => |a, b, o| scalar2::<Complex<T>, Pred>(a, b, o, |z, w| (z != w).into()),
            ComparisonDirection::Lt => |a, b, o| scalar2::<Complex<T>, Pred>(a, b, o, |z, w| less(z, w).into()),
            ComparisonDirection::Gt => |a, b, o| scalar2::<Complex<T>, Pred>(a, b, o, |z, w| less(w, z).into()),
            ComparisonDirection::Le => {
                |a, b, o| scalar2::<Complex<T>, Pred>(a, b, o, |z, w| (less(z, w) || z == w).into())
            }
            ComparisonDirection::Ge => {
                |a, b, o| scalar2::<Complex<T>, Pred>(a, b, o, |z, w| (less(w, z) || z == w).into())
            }
        }
    }
    match dtype {
        DType::C64 => Some(Loop::Two(loops::<f32>(direction))),
        DType::C128 => Some(Loop::Two(loops::<f64>(direction))),
        _ => None,
    }
}

/// Returns the loop of `clamp` for complex numbers. Its operands are the lower bound, the number and the upper bound.
pub(crate) fn clamp(dtype: DType) -> Option<Loop> {
    fn each<T: Pod + PartialOrd>(l: &[u8], x: &[u8], h: &[u8], o: &mut [u8])
    where
        Complex<T>: Pod,
    {
        map3::<Complex<T>, Complex<T>, Complex<T>>(l, x, h, o, |l, x, h| {
            let low = if less(x, l) { l } else { x };
            if less(h, low) { h } else { low }
        });
    }
    match dtype {
        DType::C64 => Some(Loop::Three(each::<f32>)),
        DType::C128 => Some(Loop::Three(each::<f64>)),
        _ => None,
    }
}

/// Returns the loop of `convert` between the two complex types, or from `f32` or `f64` to the complex type with parts
/// of the same type. The imaginary part of a converted real number is zero. Returns `None` for other pairs of types.
pub(crate) fn convert(from: DType, to: DType) -> Option<Loop> {
    let f: One = match (from, to) {
        (DType::C64, DType::C128) => |a, o| scalar1::<C32, C64>(a, o, wide),
        (DType::C128, DType::C64) => |a, o| scalar1::<C64, C32>(a, o, narrow),
        (DType::F32, DType::C64) => |a, o| scalar1::<f32, C32>(a, o, |x| C32::new(x, 0.0)),
        (DType::F64, DType::C128) => |a, o| scalar1::<f64, C64>(a, o, |x| C64::new(x, 0.0)),
        _ => return None,
    };
    Some(Loop::One(f))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: C64, b: C64) {
        assert!(
            (a.re - b.re).abs() <= 1e-14 * (1.0 + b.re.abs()) && (a.im - b.im).abs() <= 1e-14 * (1.0 + b.im.abs()),
            "{a} {b}"
        );
    }

    #[test]
    fn functions_invert_each_other() {
        for (re, im) in [(0.3, 0.4), (-1.5, 2.0), (2.0, -0.1), (-0.2, -0.9), (1e-9, 1e-9), (1.0, 1e-12)] {
            let z = C64::new(re, im);
            near(exp(ln(z)), z);
            near(sqrt(z) * sqrt(z), z);
            near(exp_m1(ln_1p(z)), z);
            near(tan(z), div(sin(z), cos(z)));
            near(cbrt(z) * cbrt(z) * cbrt(z), z);
            near(pow(z, C64::new(2.0, 0.0)), z * z);
            near(div(z * C64::new(3.0, -1.0), z), C64::new(3.0, -1.0));
        }
    }

    #[test]
    fn no_intermediate_overflow() {
        let big = C64::new(1e308, 1e308);
        near(div(big, big), C64::new(1.0, 0.0));
        assert!((sqrt(big).re / 1.0987e154 - 1.0).abs() < 1e-3);
        assert!(ln(big).re.is_finite());
        assert_eq!(tanh(C64::new(1000.0, 1.0)), C64::new(1.0, 0.0));
        assert!((ln(C64::new(1.0, 1e-10)).re - 5e-21).abs() < 1e-30);
    }

    /// Compares [`div_single`] with [`div`], except for the signs of zeros, which the definition does not determine.
    #[test]
    fn quotients_of_single_precision() {
        let parts = [
            0.0,
            -0.0,
            1.0,
            -3.0,
            0.1,
            1e-45,
            -1e-38,
            7e-20,
            3e38,
            -f32::MAX,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::NAN,
        ];
        let numbers: Vec<C32> = parts.iter().flat_map(|&re| parts.map(|im| C32::new(re, im))).collect();
        let mut quotients = vec![C32::new(0.0, 0.0); numbers.len()];
        for shift in 0..numbers.len() {
            let mut divisors = numbers.clone();
            divisors.rotate_left(shift);
            div_single(cast_slice(&numbers), cast_slice(&divisors), cast_slice_mut(&mut quotients));
            for ((&a, &b), &got) in numbers.iter().zip(&divisors).zip(&quotients) {
                let want = narrow(div(wide(a), wide(b)));
                // [`div`] rounds the ratio of the divisor's parts, so that small parts of its quotients are inaccurate.
                let size = want.re.abs().max(want.im.abs());
                let near = |got: f32, want: f32| {
                    let error = f32::EPSILON * want.abs().max(1e-8 * size) + f32::from_bits(1);
                    got == want || got.is_nan() && want.is_nan() || size.is_finite() && (got - want).abs() <= error
                };
                assert!(near(got.re, want.re) && near(got.im, want.im), "{a} / {b}: {got}, not {want}");
            }
        }
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "the same rounding")]
    fn absolute_values_agree_with_hypot() {
        let parts = [0.0, -0.0, 1.0, -3.0, 4.0, 0.1, 1e-45, -1e-40, 1e-20, 3e38, -f32::MAX, 1.5e19, f32::INFINITY];
        for re in parts {
            for im in parts.into_iter().chain([f32::NEG_INFINITY]) {
                let want = f64::from(re).hypot(f64::from(im)) as f32;
                assert_eq!(abs(C32::new(re, im)), want, "{re} {im}");
            }
        }
        assert_eq!(abs(C32::new(f32::NAN, f32::NEG_INFINITY)), f32::INFINITY);
        assert!(abs(C32::new(f32::NAN, 0.0)).is_nan() && abs(C32::new(1.0, f32::NAN)).is_nan());
    }
}
