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
