//! Uploads of arrays of the crate `ndarray`, and `ndarray` views of buffers.

use bytemuck::AnyBitPattern;
use ndarray::{ArrayRef, ArrayViewD, Dimension, IxDyn};
use pjrt_types::Element;

use crate::buffer::Buffer;
use crate::client::Client;
use crate::error::Error;
use crate::external_reference::HostView;
use crate::upload::Placement;

/// Uploads of arrays of the crate `ndarray`. Requires the feature `ndarray`.
impl Client {
    /// Copies an `ndarray` array or view, with any strides, to a device or memory.
    ///
    /// ```
    /// use ndarray::{Array2, s};
    /// use pjrt::Placement;
    /// # let client = plugin_registry::open("cpu")?.client(&pjrt::ClientOptions::new())?;
    ///
    /// let array = Array2::from_shape_fn((3, 4), |(i, j)| (4 * i + j) as f32);
    /// let columns = client.buffer_from_array(&array.slice(s![.., ..;-2]), Placement::Default)?;
    /// assert_eq!(columns.to_host::<f32>()?, [3.0, 1.0, 7.0, 5.0, 11.0, 9.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Client::buffer_from_host_to`] apply.
    pub fn buffer_from_array<'a, T: Element, D: Dimension>(
        &self,
        array: &ArrayRef<T, D>,
        placement: impl Into<Placement<'a>>,
    ) -> Result<Buffer, Error> {
        let dims: Vec<i64> = array.shape().iter().map(|extent| i64::try_from(*extent).unwrap_or(i64::MAX)).collect();
        if let Some(elements) = array.as_slice() {
            return self.buffer_from_host_to(elements, &dims, placement);
        }
        if let Some(elements) = array.as_slice_memory_order() {
            // If a stride is negative, the first element does not have the lowest address.
            let offset = (array.as_ptr().addr() - elements.as_ptr().addr()) / size_of::<T>().max(1);
            let strides: Vec<i64> = array.strides().iter().filter_map(|stride| i64::try_from(*stride).ok()).collect();
            return self.buffer_from_strided(elements, offset, &dims, &strides, placement);
        }
        let elements: Vec<T> = array.iter().copied().collect();
        self.buffer_from_host_to(&elements, &dims, placement)
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
