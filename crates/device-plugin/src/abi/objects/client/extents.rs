//! The actual extents of buffers with dynamic dimensions.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The actual extents of a buffer. A program computed some of these extents at run time.
pub(crate) struct Extents {
    /// The actual extents of all dimensions.
    pub(crate) unpadded: Vec<i64>,
    /// Indices of the dimensions whose extent may be smaller than in the shape.
    pub(crate) dynamic: Vec<usize>,
}

/// The known extents of dynamic buffers, with the address of each buffer's handle. Frameworks receive pointers into
/// these extents. The pointers are valid until the framework destroys the buffer.
#[derive(Default)]
pub(crate) struct KnownExtents(Mutex<Vec<(usize, Arc<Extents>)>>);

impl KnownExtents {
    pub(super) fn lock(&self) -> MutexGuard<'_, Vec<(usize, Arc<Extents>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the extents of a buffer that is being destroyed.
    pub(crate) fn forget(&self, address: usize) {
        self.lock().retain(|(known, _)| *known != address);
    }
}
