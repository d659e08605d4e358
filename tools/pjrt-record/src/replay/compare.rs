//! Compares arrays within a tolerance.

use std::collections::HashMap;
use std::str::FromStr;

use pjrt_types::{ElementType, Shape};

use super::elements;

/// How much floating-point elements may differ: `|got - expected| <= tolerance * (1 + |expected|)`. With the default
/// tolerance, 0, elements must be equal bit by bit. Integers and floating-point numbers of fewer than 16 bits must
/// always be equal bit by bit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tolerance {
    all: f64,
    types: HashMap<ElementType, f64>,
}

impl Tolerance {
    /// Sets the tolerance of all types for which [`Tolerance::with`] does not set a tolerance.
    #[must_use]
    pub fn with_all(mut self, tolerance: f64) -> Self {
        self.all = tolerance;
        self
    }

    /// Sets the tolerance of one type.
    #[must_use]
    pub fn with(mut self, element_type: ElementType, tolerance: f64) -> Self {
        self.types.insert(element_type, tolerance);
        self
    }

    fn of(&self, element_type: ElementType) -> f64 {
        self.types.get(&element_type).copied().unwrap_or(self.all)
    }
}

/// The error for a string that is not a tolerance.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a tolerance: write a number such as 1e-5, or TYPE=NUMBER such as bf16=1e-2")]
pub struct ParseToleranceError(String);

/// Parses strings such as `1e-5` and `1e-6,bf16=1e-2`.
impl FromStr for Tolerance {
    type Err = ParseToleranceError;

    fn from_str(text: &str) -> Result<Self, ParseToleranceError> {
        let mut tolerance = Self::default();
        for part in text.split(',') {
            let fault = || ParseToleranceError(part.to_owned());
            let number = |text: &str| text.trim().parse().ok().filter(|number: &f64| *number >= 0.0).ok_or_else(fault);
            tolerance = match part.split_once('=') {
                Some((name, value)) => tolerance.with(name.trim().parse().map_err(|_| fault())?, number(value)?),
                None => tolerance.with_all(number(part)?),
            };
        }
        Ok(tolerance)
    }
}

/// The difference between two arrays.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Difference {
    /// Number of elements that differ by more than the tolerance.
    pub count: usize,
    /// Number of elements of each array.
    pub elements: usize,
    /// Index of the first element that differs.
    pub index: Vec<i64>,
    /// Value of this element in the recording.
    pub expected: String,
    /// Value of this element in the replay.
    pub got: String,
    /// Largest absolute difference between two elements with the same index, among the elements that differ by more
    /// than the tolerance. `None` unless the elements are floating-point numbers of at least 16 bits.
    pub largest: Option<f64>,
}

/// Compares row-major arrays of the same size. Returns `None` if they are equal within the tolerance.
#[must_use]
pub fn compare(shape: &Shape, expected: &[u8], got: &[u8], tolerance: &Tolerance) -> Option<Difference> {
    if expected == got {
        return None;
    }
    let unit = shape.element_type.host_size().max(1);
    let allowed = tolerance.of(shape.element_type);
    let mut first = None;
    let (mut count, mut largest) = (0, None);
    for (at, (one, other)) in expected.chunks(unit).zip(got.chunks(unit)).enumerate() {
        if one == other {
            continue;
        }
        if let Some((expected, got)) =
            elements::floats(shape.element_type, one).zip(elements::floats(shape.element_type, other))
        {
            let mut pairs = expected.iter().zip(&got);
            if allowed > 0.0 && pairs.all(|(expected, got)| is_close(*expected, *got, allowed)) {
                continue;
            }
            for (expected, got) in expected.iter().zip(&got) {
                let distance = (expected - got).abs();
                largest = Some(largest.unwrap_or(0.0_f64).max(distance));
            }
        }
        count += 1;
        first.get_or_insert((at, one, other));
    }
    let (at, one, other) = first?;
    Some(Difference {
        count,
        elements: expected.len() / unit,
        index: index(at, &shape.dimensions),
        expected: elements::text(shape.element_type, one),
        got: elements::text(shape.element_type, other),
        largest,
    })
}

fn is_close(expected: f64, got: f64, allowed: f64) -> bool {
    expected == got
        || expected.is_nan() && got.is_nan()
        || expected.is_finite() && (expected - got).abs() <= allowed * (1.0 + expected.abs())
}

/// Returns the index in each dimension of the element that is at `position` in a row-major array.
fn index(position: usize, dimensions: &[i64]) -> Vec<i64> {
    let mut rest = i64::try_from(position).unwrap_or(i64::MAX);
    let mut index = vec![0; dimensions.len()];
    for (at, extent) in index.iter_mut().zip(dimensions).rev() {
        *at = rest % (*extent).max(1);
        rest /= (*extent).max(1);
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f32s(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_ne_bytes()).collect()
    }

    fn difference(expected: &[f32], got: &[f32], tolerance: &str) -> Option<Difference> {
        let count = i64::try_from(expected.len()).unwrap();
        let shape = Shape::new(ElementType::F32, [count / 2, 2]);
        compare(&shape, &f32s(expected), &f32s(got), &tolerance.parse().unwrap())
    }

    #[test]
    fn first_difference_is_found() {
        let found = difference(&[1.0, 2.0, 3.0, 4.0], &[1.0, 2.0, 3.5, 8.0], "0").unwrap();
        assert_eq!((found.count, found.elements, found.index), (2, 4, vec![1, 0]));
        assert_eq!((found.expected.as_str(), found.got.as_str(), found.largest), ("3", "3.5", Some(4.0)));
    }

    #[test]
    fn tolerance_is_relative_and_absolute() {
        assert_eq!(difference(&[100.0, 0.0], &[100.05, 0.0005], "1e-3"), None);
        assert!(difference(&[100.0, 0.0], &[100.2, 0.0], "1e-3").is_some());
        assert!(difference(&[100.0, 0.0], &[100.05, 0.0], "1e-3,f32=0").is_some());
        assert_eq!(difference(&[100.0, 0.0], &[100.05, 0.0], "0,f32=1e-3"), None);
        assert_eq!(difference(&[f32::NAN, 1.0], &[-f32::NAN, 1.0], "1e-3"), None);
        assert!(difference(&[f32::INFINITY, 1.0], &[1.0, 1.0], "1e-3").is_some());
        assert!(difference(&[1.0, 1.0], &[f32::NAN, 1.0], "1e-3").is_some());
    }

    #[test]
    fn wrong_tolerances_are_rejected() {
        for wrong in ["", "x", "-1", "f33=1", "f32=", "NaN"] {
            assert!(wrong.parse::<Tolerance>().is_err(), "{wrong}");
        }
    }
}
