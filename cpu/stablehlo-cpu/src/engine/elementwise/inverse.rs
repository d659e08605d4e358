//! Inverse trigonometric and hyperbolic functions of complex numbers, and CHLO's other complex functions.
//!
//! Arcsine and arccosine follow Hull, Fairgrieve and Tang (1997). Their formulas avoid the cancellation of the textbook
//! formulas.

use num_complex::Complex;

use super::complex::{cos, ln_abs, narrow, sin, tan, wide};
use super::map::scalar1;
use super::{Loop, One};
use crate::engine::dtype::DType;

type C32 = Complex<f32>;
type C64 = Complex<f64>;

/// Above this magnitude, squares may overflow. Below [`TINY`], they may underflow to zero.
const HUGE: f64 = 1e150;
const TINY: f64 = 1e-150;

/// Returns `z` times `i`.
fn turned(z: C64) -> C64 {
    C64::new(-z.im, z.re)
}

/// Returns `z` divided by `i`.
fn turned_back(z: C64) -> C64 {
    C64::new(z.im, -z.re)
}

/// Returns the real part of the arcsine, the real part of the arccosine and the imaginary part of the arcsine of `x +
/// iy`. `x` and `y` must not be negative.
fn arcs(x: f64, y: f64) -> (f64, f64, f64) {
    let (r, s) = ((x + 1.0).hypot(y), (x - 1.0).hypot(y));
    if x.max(y) > HUGE || !r.is_finite() {
        // For large |z|, asin z is approximately -i ln(2iz).
        return (x.atan2(y), y.atan2(x), ln_abs(C64::new(x, y)) + std::f64::consts::LN_2);
    }
    if y < TINY {
        return if x < 1.0 {
            (x.asin(), x.acos(), y / ((1.0 - x) * (1.0 + x)).sqrt())
        } else if x == 1.0 {
            (std::f64::consts::FRAC_PI_2, y.sqrt(), y.sqrt())
        } else {
            let root = ((x - 1.0) * (x + 1.0)).sqrt();
            (std::f64::consts::FRAC_PI_2, y / root, ((x - 1.0) + root).ln_1p())
        };
    }
    let a = 0.5 * (r + s);
    let b = x / a;
    // Compute `(r - (1 + x)) + (s + (1 - x))`. The first difference would suffer from cancellation, so divide `y * y`
    // by the corresponding sum instead.
    let near = if x <= 1.0 { y * y / (r + x + 1.0) + (s + (1.0 - x)) } else { 0.0 };
    let (asin, acos) = if b <= 0.6417 {
        (b.asin(), b.acos())
    } else if x <= 1.0 {
        let root = (0.5 * (a + x) * near).sqrt();
        ((x / root).atan(), (root / x).atan())
    } else {
        let root = y * (0.5 * ((a + x) / (r + x + 1.0) + (a + x) / (s + (x - 1.0)))).sqrt();
        ((x / root).atan(), (root / x).atan())
    };
    let im = if a <= 1.5 {
        let over = if x < 1.0 {
            0.5 * (y * y / (r + x + 1.0) + y * y / (s + (1.0 - x)))
        } else {
            0.5 * (y * y / (r + x + 1.0) + (s + (x - 1.0)))
        };
        (over + (over * (a + 1.0)).sqrt()).ln_1p()
    } else {
        (a + ((a - 1.0) * (a + 1.0)).sqrt()).ln()
    };
    (asin, acos, im)
}

fn asin(z: C64) -> C64 {
    let (re, _, im) = arcs(z.re.abs(), z.im.abs());
    C64::new(re.copysign(z.re), im.copysign(z.im))
}

fn acos(z: C64) -> C64 {
    let (_, re, im) = arcs(z.re.abs(), z.im.abs());
    let re = if z.re.is_sign_negative() { std::f64::consts::PI - re } else { re };
    C64::new(re, -im.copysign(z.im))
}

fn acosh(z: C64) -> C64 {
    let w = acos(z);
    C64::new(w.im.abs(), w.re.copysign(z.im))
}

fn asinh(z: C64) -> C64 {
    turned_back(asin(turned(z)))
}

fn atanh(z: C64) -> C64 {
    let (x, y) = (z.re.abs(), z.im);
    if x.max(y.abs()) > HUGE {
        // Divide by four, so that the magnitude is finite if the parts are.
        let size = (x / 4.0).hypot(y / 4.0);
        let re = if size.is_infinite() { 0.0 } else { x / 4.0 / size / size / 4.0 };
        return C64::new(re.copysign(z.re), std::f64::consts::FRAC_PI_2.copysign(y));
    }
    if x == 1.0 && y == 0.0 {
        return C64::new(f64::INFINITY.copysign(z.re), y);
    }
    // Do not compute |1 - z|^2, which would underflow to zero.
    let re = if x == 1.0 && y.abs() < TINY {
        0.5 * (std::f64::consts::LN_2 - y.abs().ln())
    } else {
        0.25 * (4.0 * x / ((1.0 - x) * (1.0 - x) + y * y)).ln_1p()
    };
    let im = 0.5 * (2.0 * y).atan2((1.0 - x) * (1.0 + x) - y * y);
    C64::new(re.copysign(z.re), im)
}

fn atan(z: C64) -> C64 {
    turned_back(atanh(turned(z)))
}

fn cosh(z: C64) -> C64 {
    cos(turned(z))
}

fn sinh(z: C64) -> C64 {
    turned_back(sin(turned(z)))
}

/// Returns `z * z`. Multiplies the sum and the difference of the parts, because the squares of the parts may overflow
/// even if their difference does not.
fn square(z: C64) -> C64 {
    let equal = z.re.abs() == z.im.abs() && z.re.is_finite();
    let re = if equal { 0.0 } else { (z.re - z.im) * (z.re + z.im) };
    let product = z.re * z.im;
    C64::new(re, product + product)
}

fn conj(z: C64) -> C64 {
    z.conj()
}

/// Returns the loop of the complex function called `name`. Returns `None` for other names and for real types.
pub(crate) fn complex_special(name: &str, dtype: DType) -> Option<Loop> {
    macro_rules! of {
        ($f:path) => {
            match dtype {
                DType::C64 => |a, o| scalar1::<C32, C32>(a, o, |z| narrow($f(wide(z)))),
                DType::C128 => |a, o| scalar1::<C64, C64>(a, o, $f),
                _ => return None,
            }
        };
    }
    let f: One = match name {
        "acos" => of!(acos),
        "acosh" => of!(acosh),
        "asin" => of!(asin),
        "asinh" => of!(asinh),
        "atan" => of!(atan),
        "atanh" => of!(atanh),
        "conj" => of!(conj),
        "cosh" => of!(cosh),
        "sinh" => of!(sinh),
        "square" => of!(square),
        "tan" => of!(tan),
        _ => return None,
    };
    Some(Loop::One(f))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: C64, b: C64) {
        let close = |x: f64, y: f64| (x - y).abs() <= 4e-15 * y.abs().max(1e-300) || x == y;
        assert!(close(a.re, b.re) && close(a.im, b.im), "{a} {b}");
    }

    #[test]
    fn inverses() {
        for z in [(0.3, 0.4), (-0.5, 0.2), (0.7, -1e-3), (1e-3, 0.9), (-1.2, -0.8)] {
            let z = C64::new(z.0, z.1);
            for w in [sin(asin(z)), cos(acos(z)), tan(atan(z)), sinh(asinh(z)), cosh(acosh(z))] {
                assert!((w - z).norm() <= 1e-15 * 8.0, "{w} {z}");
            }
            assert!((tan(turned(atanh(z))) - turned(z)).norm() <= 1e-14);
        }
    }

    #[test]
    fn precision_of_small_and_large_parts() {
        near(asin(C64::new(1e-200, 1e-200)), C64::new(1e-200, 1e-200));
        near(atanh(C64::new(1e-20, 1e-30)), C64::new(1e-20, 1e-30));
        near(acos(C64::new(2.0, 1e-20)), C64::new(5.773_502_691_896_258e-21, -1.316_957_896_924_816_7));
        // The imaginary part is ln |2z| if |z| is large. Here |z| is sqrt(2) * 10^300.
        let size = 1.5 * std::f64::consts::LN_2 + 300.0 * std::f64::consts::LN_10;
        near(asin(C64::new(1e300, 1e300)), C64::new(std::f64::consts::FRAC_PI_4, size));
        near(
            acos(C64::new(f64::NEG_INFINITY, f64::INFINITY)),
            C64::new(0.75 * std::f64::consts::PI, f64::NEG_INFINITY),
        );
        near(atanh(C64::new(1e200, 1.0)), C64::new(1e-200, std::f64::consts::FRAC_PI_2));
        assert_eq!(square(C64::new(1e200, 1e200)).re, 0.0);
    }
}
