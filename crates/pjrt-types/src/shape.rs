//! Element type and extents of a buffer.

use std::fmt;

use crate::ElementType;

/// Shape of a dense array: element type and extents. A scalar has no dimensions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Shape {
    /// Type of the elements.
    pub element_type: ElementType,
    /// Extents in logical order, which is from major to minor in a row-major array. A valid extent is not negative.
    pub dimensions: Vec<i64>,
}

impl Shape {
    /// Creates a shape from an element type and extents.
    pub fn new(element_type: ElementType, dimensions: impl Into<Vec<i64>>) -> Self {
        Self { element_type, dimensions: dimensions.into() }
    }

    /// Returns the number of elements. Returns `None` if an extent is negative, or if the product of the extents other
    /// than 0 exceeds `isize::MAX`. An empty array of such a shape has strides that do not fit `isize`.
    #[must_use]
    pub fn num_elements(&self) -> Option<usize> {
        self.times(1)
    }

    /// Returns the number of bytes on the host, where elements of sub-byte types take one byte each. Returns `None` if
    /// an extent is negative, or if the product of this size and the extents other than 0 exceeds `isize::MAX`.
    #[must_use]
    pub fn host_size(&self) -> Option<usize> {
        self.times(self.element_type.host_size())
    }

    /// Returns the product of `unit` and the extents.
    fn times(&self, unit: usize) -> Option<usize> {
        let (mut span, mut is_empty) = (unit, false);
        for extent in &self.dimensions {
            let extent = usize::try_from(*extent).ok()?;
            is_empty |= extent == 0;
            span = span.checked_mul(extent.max(1))?;
        }
        isize::try_from(span).ok()?;
        Some(if is_empty { 0 } else { span })
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.element_type)?;
        for (i, d) in self.dimensions.iter().enumerate() {
            write!(f, "{}{d}", if i == 0 { "" } else { "," })?;
        }
        f.write_str("]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_checked() {
        let shape = |dimensions: &[i64]| Shape::new(ElementType::F32, dimensions);
        assert_eq!(shape(&[]).host_size(), Some(4));
        assert_eq!(shape(&[2, 3]).host_size(), Some(24));
        assert_eq!(shape(&[2, 0, 3]).host_size(), Some(0));
        assert_eq!(shape(&[-1]).host_size(), None);
        assert_eq!(shape(&[i64::MAX, 4]).host_size(), None);
        // The order of the extents does not matter.
        for dimensions in [[0, 1 << 40, 1 << 40], [1 << 40, 0, 1 << 40], [1 << 40, 1 << 40, 0]] {
            assert_eq!((shape(&dimensions).num_elements(), shape(&dimensions).host_size()), (None, None));
        }
        assert_eq!(shape(&[0, 1 << 40, 1 << 20]).host_size(), Some(0));
        // The number of elements fits, and the size does not.
        let largest = shape(&[i64::MAX, 0]);
        assert_eq!((largest.num_elements(), largest.host_size()), (Some(0), None));
        assert_eq!(shape(&[2, 3]).to_string(), "f32[2,3]");
    }
}
