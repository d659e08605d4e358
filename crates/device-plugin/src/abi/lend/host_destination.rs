//! Memory of the framework that a read fills after the framework's call has returned.

#[cfg(doc)]
use crate::Backend;
use crate::abi::lend::destination::Destination;
use crate::{Completer, Event};

/// Memory of the framework that a read fills while this value exists. [`AsyncReads::begin_read`](crate::features::AsyncReads::begin_read) may pass it to another
/// thread. The framework gets the memory back when this value is dropped and the event of the read is ready.
pub struct HostDestination {
    /// `None` once the drop has begun.
    memory: Option<Destination>,
    gone: Option<Completer>,
}

impl HostDestination {
    /// Returns the memory with an event that is ready when no thread can write to it any more.
    pub(crate) fn new(memory: Destination) -> (Self, Event) {
        let (gone, completer) = Event::pending();
        (Self { memory: Some(memory), gone: Some(completer) }, gone)
    }

    /// Returns the bytes to fill, in the size of the array. They are dense and row-major, with sub-byte types in one
    /// byte per element. Their initial values are unspecified.
    pub fn bytes(&mut self) -> &mut [u8] {
        let Some(memory) = &mut self.memory else { return &mut [] };
        // SAFETY: V3 (arrays and text), the framework leaves the memory to the plugin until the event of its call,
        // which `read` completes
        // after this value is dropped.
        unsafe { memory.slice() }.unwrap_or_default()
    }
}

impl Drop for HostDestination {
    fn drop(&mut self) {
        self.memory = None;
        if let Some(gone) = self.gone.take() {
            gone.complete(Ok(()));
        }
    }
}

impl std::fmt::Debug for HostDestination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostDestination").finish_non_exhaustive()
    }
}
