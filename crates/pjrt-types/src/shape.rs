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

    /// Returns the number of elements, or `None` if an extent is negative or the product exceeds `usize`.
    #[must_use]
    pub fn num_elements(&self) -> Option<usize> {
        self.dimensions.iter().try_fold(1usize, |n, d| n.checked_mul(usize::try_from(*d).ok()?))
    }

    /// Returns the number of bytes on the host, where elements of sub-byte types take one byte each. Returns `None` if
    /// an extent is negative or the result exceeds `usize`.
    #[must_use]
    pub fn host_size(&self) -> Option<usize> {
        self.num_elements()?.checked_mul(self.element_type.host_size())
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
        assert_eq!(shape(&[2, 3]).to_string(), "f32[2,3]");
    }
}
