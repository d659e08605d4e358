//! Functions outside the specification that frameworks call by name, in `f64`.

use super::map::scalar1;
use super::{Map, One};

/// The error function: its series of positive terms, which loses nothing to cancellation.
fn erf(x: f64) -> f64 {
    if x.is_nan() || x == 0.0 {
        return x;
    }
    if x.abs() > 6.0 {
        return 1f64.copysign(x);
    }
    // e^(-x^2) * sum of 2^n x^(2n+1) / (1 * 3 * .. * (2n+1)), times 2 / sqrt(pi).
    let square = x * x;
    let (mut term, mut sum, mut odd) = (x, x, 1.0);
    while term.abs() > sum.abs() * 1e-17 {
        odd += 2.0;
        term *= 2.0 * square / odd;
        sum += term;
    }
    std::f64::consts::FRAC_2_SQRT_PI * (-square).exp() * sum
}

/// The function of that name.
pub(crate) fn special(name: &str) -> Option<Map> {
    let f: One = match name {
        "erf" => |a, o| scalar1::<f64, f64>(a, o, erf),
        "acos" => |a, o| scalar1::<f64, f64>(a, o, f64::acos),
        "acosh" => |a, o| scalar1::<f64, f64>(a, o, f64::acosh),
        "asin" => |a, o| scalar1::<f64, f64>(a, o, f64::asin),
        "asinh" => |a, o| scalar1::<f64, f64>(a, o, f64::asinh),
        "atan" => |a, o| scalar1::<f64, f64>(a, o, f64::atan),
        "atanh" => |a, o| scalar1::<f64, f64>(a, o, f64::atanh),
        "cosh" => |a, o| scalar1::<f64, f64>(a, o, f64::cosh),
        "sinh" => |a, o| scalar1::<f64, f64>(a, o, f64::sinh),
        "tan" => |a, o| scalar1::<f64, f64>(a, o, f64::tan),
        _ => return None,
    };
    Some(Map::One(f))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erf_matches_known_values() {
        for (x, want) in [
            (0.1, 0.112_462_916_018_284_89),
            (0.5, 0.520_499_877_813_046_5),
            (1.0, 0.842_700_792_949_714_9),
            (2.0, 0.995_322_265_018_952_7),
            (5.0, 0.999_999_999_998_462_5),
            (-1.0, -0.842_700_792_949_714_9),
        ] {
            assert!((erf(x) / want - 1.0).abs() < 1e-14, "erf({x}) = {}", erf(x));
        }
        assert_eq!(erf(f64::INFINITY), 1.0);
        assert!(erf(f64::NAN).is_nan());
    }
}
