//! Row-major arrays in host memory.

use bytemuck::checked;
use pjrt_types::{Element, Shape};

use crate::element;
use crate::error::Error;

/// A row-major array on the host, of any element type. Each element that is smaller than a byte occupies one byte.
///
/// ```
/// use pjrt::HostArray;
///
/// let array = HostArray::from_elements(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
/// assert_eq!(array.shape().to_string(), "f32[2,2]");
/// assert_eq!(array.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostArray {
    shape: Shape,
    bytes: Vec<u8>,
}

impl HostArray {
    /// Creates an array from row-major elements, given as bytes in native byte order.
    ///
    /// # Errors
    ///
    /// Returns an error if the number of bytes does not match the shape.
    pub fn new(shape: Shape, bytes: Vec<u8>) -> Result<Self, Error> {
        if shape.host_size() != Some(bytes.len()) {
            return Err(Error::invalid(format!(
                "the data has {} bytes, which is not the size of {shape}",
                bytes.len()
            )));
        }
        Ok(Self { shape, bytes })
    }

    /// Creates an array from row-major elements.
    ///
    /// # Errors
    ///
    /// Returns an error if the number of elements does not match the dimensions.
    pub fn from_elements<T: Element>(data: &[T], dims: &[i64]) -> Result<Self, Error> {
        Self::new(Shape::new(element::type_of::<T>(), dims), bytemuck::cast_slice(data).to_vec())
    }

    /// Returns the element type and the extents.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the bytes of the elements, in row-major order.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the bytes of the elements, in row-major order, without copying them.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns a copy of the elements, in row-major order.
    ///
    /// # Errors
    ///
    /// Returns an error if the array's element type is not that of `T`, or if a byte is not a valid `bool`.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, Error> {
        let wanted = element::type_of::<T>();
        if self.shape.element_type != wanted {
            return Err(Error::invalid(format!("the array is {}, not of element type {wanted}", self.shape)));
        }
        let size = size_of::<T>();
        let one = |bytes| {
            checked::try_pod_read_unaligned::<T>(bytes)
                .map_err(|_| Error::invalid(format!("the array has bytes that are not a valid {}", T::TYPE)))
        };
        self.bytes.chunks_exact(size).map(one).collect()
    }

    /// Returns the only element.
    ///
    /// # Errors
    ///
    /// The errors of [`HostArray::to_vec`] apply. Also returns an error if the array does not have exactly one element.
    pub fn scalar<T: Element>(&self) -> Result<T, Error> {
        match self.to_vec::<T>()?.as_slice() {
            [one] => Ok(*one),
            more => {
                Err(Error::invalid(format!("{} has {} elements, but exactly one is expected", self.shape, more.len())))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use pjrt_types::ElementType;

    use super::*;
    use crate::ErrorKind;

    #[test]
    fn round_trips_elements_and_checks_types() {
        let array = HostArray::from_elements(&[1i32, -2], &[2]).unwrap();
        assert_eq!(array.to_vec::<i32>().unwrap(), [1, -2]);
        let error = array.to_vec::<f32>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        expect!["the array is s32[2], not of element type f32"].assert_eq(&error.to_string());
        assert!(array.scalar::<i32>().is_err());
        assert_eq!(HostArray::from_elements(&[7u8], &[]).unwrap().scalar::<u8>().unwrap(), 7);
        let odd = HostArray::new(Shape::new(ElementType::Pred, [1]), vec![3]).unwrap();
        assert!(odd.to_vec::<bool>().is_err());
        assert!(HostArray::new(Shape::new(ElementType::F32, [1]), vec![0; 3]).is_err());
    }
}
