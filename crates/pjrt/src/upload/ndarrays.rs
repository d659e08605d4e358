//! Uploads of arrays of the crate `ndarray`, and `ndarray` views of buffers.

use bytemuck::AnyBitPattern;
use ndarray::{ArrayRef, ArrayViewD, Dimension, IxDyn};
use pjrt_types::{Element, Shape};

use crate::element;
use crate::objects::external_reference::HostView;
use crate::upload::builder::Upload;

impl<'a> Upload<'a> {
    /// A copy of an `ndarray` array or view, with any strides. Requires the feature `ndarray`.
    ///
    /// ```
    /// use ndarray::{Array2, s};
    /// use pjrt::Upload;
    /// # let client = plugin_registry::open("cpu")?.client(&pjrt::ClientOptions::new())?;
    ///
    /// let array = Array2::from_shape_fn((3, 4), |(i, j)| (4 * i + j) as f32);
    /// let columns = client.upload(Upload::array(&array.slice(s![.., ..;-2])))?;
    /// assert_eq!(columns.to_host::<f32>()?, [3.0, 1.0, 7.0, 5.0, 11.0, 9.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn array<T: Element, D: Dimension>(array: &'a ArrayRef<T, D>) -> Self {
        let dims: Vec<i64> = array.shape().iter().map(|extent| i64::try_from(*extent).unwrap_or(i64::MAX)).collect();
        let shape = Shape::new(element::type_of::<T>(), dims);
        if let Some(elements) = array.as_slice() {
            return Self::of(elements).fixed(shape, None);
        }
        if let Some(elements) = array.as_slice_memory_order() {
            // If a stride is negative, the first element does not have the lowest address.
            let offset = array.as_ptr().addr() - elements.as_ptr().addr();
            // An `ndarray` has at most `isize::MAX` bytes, so its strides in bytes are numbers of this type.
            let in_bytes = |stride: &isize| i64::try_from(*stride * size_of::<T>().cast_signed()).ok();
            let byte_strides = array.strides().iter().filter_map(in_bytes).collect();
            return Self::of(elements).fixed(shape, Some((offset, byte_strides)));
        }
        Self::owned::<T, Vec<T>>(array.iter().copied().collect()).fixed(shape, None)
    }
}

impl<T: Element + AnyBitPattern> HostView<'_, T> {
    /// Returns the elements as an `ndarray` view. Requires the feature `ndarray`.
    ///
    /// ```
    /// # let client = plugin_registry::open("cpu")?.client(&pjrt::ClientOptions::new())?;
    /// let buffer = client.buffer_from_host(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3])?;
    /// let view = buffer.host_view::<f32>()?;
    /// assert_eq!(view.array()[[1, 0]], 4.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn array(&self) -> ArrayViewD<'_, T> {
        let dims: Vec<usize> =
            self.shape().dimensions.iter().map(|extent| usize::try_from(*extent).unwrap_or_default()).collect();
        let array = ArrayViewD::from_shape(IxDyn(&dims), self);
        // `from_shape` cannot fail, because `host_view` checked that the number of elements matches the shape, and that
        // the extents other than 0 do not exceed the address space.
        array.unwrap_or_else(|error| unreachable!("{}: {error}", self.shape()))
    }
}
