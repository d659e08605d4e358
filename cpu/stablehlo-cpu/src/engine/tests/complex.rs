//! Tests of complex functions at special points.

use num_complex::Complex;

use super::{DType, op};

/// A part of a result: the number, and whether its sign is specified.
fn part(text: &str) -> (f64, bool) {
    let digits = text.strip_prefix('?');
    (digits.unwrap_or(text).parse().unwrap(), digits.is_none())
}

/// Compares two parts. Finite numbers may differ by `tolerance`.
fn agrees(got: f64, (want, has_sign): (f64, bool), tolerance: f64) -> bool {
    let near = got == want || (got - want).abs() <= tolerance * want.abs();
    let same_sign = got.is_sign_negative() == want.is_sign_negative();
    if want.is_nan() {
        got.is_nan()
    } else if has_sign {
        near && same_sign
    } else {
        got.abs() == want.abs()
    }
}

#[test]
#[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is the point")]
fn special_points_of_annex_g() {
    let mut failures = Vec::new();
    let mut rows = 0;
    for line in include_str!("annex_g.txt").lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split(' ').collect();
        let [name, re, im, want_re, want_im] = fields[..] else { panic!("{line}") };
        let z = Complex::new(re.parse::<f64>().unwrap(), im.parse::<f64>().unwrap());
        let (want_re, want_im) = (part(want_re), part(want_im));
        let double: Complex<f64> = op(name, DType::C128, &[&[z]])[0];
        let single: Complex<f32> = op(name, DType::C64, &[&[Complex::new(z.re as f32, z.im as f32)]])[0];
        let single = Complex::new(f64::from(single.re), f64::from(single.im));
        for (what, got, tolerance) in [("f64", double, 1e-15), ("f32", single, 1e-7)] {
            if !agrees(got.re, want_re, tolerance) || !agrees(got.im, want_im, tolerance) {
                failures.push(format!("{line}, but the result of {what} is {} {}", got.re, got.im));
            }
        }
        rows += 1;
    }
    assert!(rows > 300 && failures.is_empty(), "{rows} rows, {} failures:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn powers_and_logarithms_of_two() {
    use std::f64::consts::{FRAC_PI_2, LN_2, SQRT_2};
    let close = |got: Complex<f64>, re: f64, im: f64| {
        let near = |x: f64, y: f64| x == y || (x - y).abs() <= 4.0 * f64::EPSILON * re.hypot(im);
        assert!(near(got.re, re) && near(got.im, im), "{got}, not {re} + {im}i");
    };
    let number = Complex::<f64>::new;
    let x = [number(3.0, 0.0), number(0.5, FRAC_PI_2 / LN_2), number(1023.5, -FRAC_PI_2 / LN_2), number(-1074.0, 0.0)];
    let got = op("exp2", DType::C128, &[&x]);
    close(got[0], 8.0, 0.0);
    close(got[1], 0.0, SQRT_2);
    close(got[2], 0.0, -SQRT_2 * 2f64.powi(1023));
    assert_eq!(got[3], number(f64::from_bits(1), 0.0));
    // As for `exponential`, an infinite angle matters unless its factor is 0.
    let infinite = op("exp2", DType::C128, &[&[number(f64::NEG_INFINITY, f64::INFINITY), number(0.0, f64::INFINITY)]]);
    assert!(infinite[0] == number(0.0, 0.0) && infinite[1].re.is_nan() && infinite[1].im.is_nan());
    let got = op("log2", DType::C128, &[&[number(0.0, 8.0), number(-0.25, 0.0), number(0.0, 0.0)]]);
    close(got[0], 3.0, FRAC_PI_2 / LN_2);
    close(got[1], -2.0, 2.0 * FRAC_PI_2 / LN_2);
    assert_eq!(got[2].re, f64::NEG_INFINITY);
    let single = op("exp2", DType::C64, &[&[Complex::new(2.0f32, 0.0)]]);
    assert_eq!(single, [Complex::new(4.0f32, 0.0)]);
}
