//! The buffers of the runtime.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use device_plugin::Event;

use crate::driver::Driver;
use crate::pool::Block;

/// A buffer of [`Runtime`](crate::Runtime). Clones refer to the same device memory. When the last clone is dropped, the
/// runtime keeps the memory for other buffers. Operations in progress may still use it.
pub struct Buffer<D: Driver>(Arc<Contents<D>>);

/// The contents of a buffer.
pub(crate) struct Contents<D: Driver> {
    /// Size of the array in bytes. The block may be larger.
    pub(crate) bytes: usize,
    pub(crate) block: Block<D>,
    /// The end of the operations that write the buffer.
    ready: Mutex<Event>,
}

impl<D: Driver> Buffer<D> {
    pub(crate) fn new(block: Block<D>, bytes: usize, ready: Event) -> Self {
        Self(Arc::new(Contents { bytes, block, ready: Mutex::new(ready) }))
    }

    fn lock_ready(&self) -> MutexGuard<'_, Event> {
        self.0.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an operation that writes a part of the buffer. If it fails, the buffer fails.
    pub(crate) fn add_end(&self, end: Event) {
        let mut ready = self.lock_ready();
        *ready = Event::all([ready.clone(), end]);
    }

    /// Returns the end of the operations that write the buffer.
    pub(crate) fn ready(&self) -> Event {
        self.lock_ready().clone()
    }

    pub(crate) fn contents(&self) -> &Contents<D> {
        &self.0
    }

    pub(crate) fn block(&self) -> &Block<D> {
        &self.0.block
    }

    /// Returns the block if there is no other clone.
    ///
    /// # Errors
    ///
    /// Returns the buffer if there is another clone.
    pub(crate) fn into_block(self) -> Result<Block<D>, Self> {
        Arc::try_unwrap(self.0).map(|contents| contents.block).map_err(Self)
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
        buffer.field("device", &self.0.block.device()).field("bytes", &self.0.bytes).finish_non_exhaustive()
    }
}
