//! `PJRT_NamedValue`: named values, which represent attributes, create options and cost analyses.

use std::fmt;

/// The typed value of a [`NamedValue`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// UTF-8 text.
    String(String),
    /// A 64-bit integer.
    Int64(i64),
    /// A list of 64-bit integers.
    Int64List(Vec<i64>),
    /// A 32-bit float.
    Float(f32),
    /// A boolean.
    Bool(bool),
}

/// A name and its typed value.
#[derive(Clone, Debug, PartialEq)]
// Exhaustive, so that callers can destructure the pair.
pub struct NamedValue {
    /// The name.
    pub name: String,
    /// The value.
    pub value: Value,
}

impl NamedValue {
    /// Creates a named value from an integer, a float, a boolean, a string or a list of integers.
    pub fn new(name: impl Into<String>, value: impl Into<Value>) -> Self {
        Self { name: name.into(), value: value.into() }
    }
}

macro_rules! from {
    ($($variant:ident($ty:ty)),*) => {
        $(impl From<$ty> for Value {
            fn from(value: $ty) -> Self {
                Self::$variant(value.into())
            }
        })*
    };
}
from!(
    String(String),
    String(&str),
    Int64(i64),
    Int64(i32),
    Int64(u32),
    Int64List(Vec<i64>),
    Int64List(&[i64]),
    Float(f32),
    Bool(bool)
);

impl<const N: usize> From<[i64; N]> for Value {
    fn from(value: [i64; N]) -> Self {
        Self::Int64List(value.to_vec())
    }
}

impl Value {
    /// Returns the name of the value's type, as the command line and error messages spell it.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::String(_) => "string",
            Self::Int64(_) => "int64",
            Self::Int64List(_) => "int64 list",
            Self::Float(_) => "float",
            Self::Bool(_) => "bool",
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::String(value) => f.write_str(value),
            Self::Int64(value) => write!(f, "{value}"),
            Self::Int64List(value) => write!(f, "{value:?}"),
            Self::Float(value) => f.write_str(&float_text(*value)),
            Self::Bool(value) => write!(f, "{value}"),
        }
    }
}

/// Returns the decimal number with the fewest decimal places whose nearest `f32` is `number`. The result consists of
/// the digits of this decimal number as an integer, and the number of its decimal places. Returns `None` if the decimal
/// number is too long or `number` is not finite.
///
/// The standard library's code that formats floats would make up 1 % of the size of a small plugin. This function
/// avoids that code.
#[doc(hidden)]
#[must_use]
pub fn shortest_decimal(number: f32) -> Option<(f64, u32)> {
    let mut scale = 1.0;
    for places in 0..16 {
        let scaled = f64::from(number) * scale;
        // Above 2^53, which is slightly more than this limit, `f64` cannot represent every integer.
        if scaled.is_nan() || scaled.abs() > 9e15 {
            return None;
        }
        // `f64` represents the dividend and the divisor exactly, so the quotient is the `f64` nearest to the decimal
        // number.
        #[expect(clippy::cast_possible_truncation, reason = "the rounding is what is compared")]
        if (scaled.round() / scale) as f32 == number {
            return Some((scaled.round(), places));
        }
        scale *= 10.0;
    }
    None
}

/// Formats a float so that parsing the text returns the same float. Uses an exponent if the decimal form is too long.
fn float_text(number: f32) -> String {
    let sign = if number.is_sign_negative() { "-" } else { "" };
    if !number.is_finite() {
        return if number.is_nan() { "NaN".to_owned() } else { format!("{sign}inf") };
    }
    let whole = |digits: f64| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a whole number below 9e15")]
        let whole = digits.abs() as u64;
        whole.to_string()
    };
    let placed = |digits: f64, places: usize| {
        let text = format!("{:0>width$}", whole(digits), width = places + 1);
        let (before, after) = text.split_at(text.len() - places);
        if places == 0 { text } else { format!("{before}.{after}") }
    };
    if let Some((digits, places)) = shortest_decimal(number) {
        return format!("{sign}{}", placed(digits, places as usize));
    }
    // Write one digit before the decimal point. After it, write the fewest digits that identify the float, at most
    // nine.
    let (mut exponent, mut size) = (0i32, f64::from(number).abs());
    while size >= 10.0 {
        (exponent, size) = (exponent + 1, size / 10.0);
    }
    while size < 1.0 {
        (exponent, size) = (exponent - 1, size * 10.0);
    }
    let mut scale = 1.0;
    for places in 0..9 {
        let digits = (size * scale).round();
        let back = digits / scale * 10f64.powi(exponent);
        #[expect(clippy::cast_possible_truncation, reason = "the rounding is what is compared")]
        if back as f32 == number.abs() {
            return format!("{sign}{}e{exponent}", placed(digits, places));
        }
        scale *= 10.0;
    }
    format!("{sign}{}e{exponent}", placed((size * 1e9).round(), 9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_written_as_they_are_read() {
        for (number, text) in [
            (0.1f32, "0.1"),
            (-2.5, "-2.5"),
            (3.0, "3"),
            (0.0, "0"),
            (-0.0, "-0"),
            (0.333_333_34, "0.33333334"),
            (16_777_216.0, "16777216"),
            (1e-5, "0.00001"),
            (1e30, "1e30"),
            (-3.402_823_5e38, "-3.4028235e38"),
            (1e-45, "1e-45"),
            (1.175_494_4e-38, "1.1754944e-38"),
            (f32::INFINITY, "inf"),
            (f32::NEG_INFINITY, "-inf"),
            (f32::NAN, "NaN"),
        ] {
            assert_eq!(Value::Float(number).to_string(), text);
        }
        for bits in (0..u32::MAX).step_by(10_007) {
            let number = f32::from_bits(bits);
            let text = Value::Float(number).to_string();
            assert_eq!(text.parse::<f32>().map(f32::is_nan), Ok(number.is_nan()), "{text}");
            assert!(number.is_nan() || text.parse() == Ok(number), "{text} of {number:e}");
            assert!(text.len() <= 25, "{text}");
        }
    }
}
