//! The buffers of the runtime.

use std::fmt;
use std::sync::Arc;

use device_plugin::Event;

use crate::driver::Driver;
use crate::pool::Block;

/// A buffer of [`Runtime`](crate::Runtime). Clones refer to the same device memory. When the last clone is dropped, the
/// runtime keeps the memory for other buffers. Operations in progress may still use it.
pub struct Buffer<D: Driver>(Arc<Contents<D>>);

/// The contents of a buffer.
pub(crate) struct Contents<D: Driver> {
    /// Index of the device.
    pub(crate) device: usize,
    /// Size of the array in bytes. The block may be larger.
    pub(crate) bytes: usize,
    pub(crate) block: Block<D>,
    /// The end of the operation that writes the buffer.
    pub(crate) ready: Event,
}

impl<D: Driver> Buffer<D> {
    pub(crate) fn new(contents: Contents<D>) -> Self {
        Self(Arc::new(contents))
    }

    pub(crate) fn contents(&self) -> &Contents<D> {
        &self.0
    }

    /// Returns the contents if there is no other clone.
    ///
    /// # Errors
    ///
    /// Returns the buffer if there is another clone.
    pub(crate) fn into_contents(self) -> Result<Contents<D>, Self> {
        Arc::try_unwrap(self.0).map_err(Self)
    }
}

impl<D: Driver> Clone for Buffer<D> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<D: Driver> fmt::Debug for Buffer<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut buffer = f.debug_struct("Buffer");
        buffer.field("device", &self.0.device).field("bytes", &self.0.bytes).finish_non_exhaustive()
    }
}
