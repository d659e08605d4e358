//! Memory of the framework that a read fills after the framework's call has returned.

use crate::abi::lend::destination::Destination;
use crate::{Completer, Event};

/// Memory of the framework that a read fills while this value exists.
/// [`AsyncReads::begin_read`](crate::features::AsyncReads::begin_read) may move the value to another thread. The
/// framework gets the memory back when this value is dropped and the event of the read is ready.
pub struct HostDestination {
    /// `None` after the destructor has begun.
    memory: Option<Destination>,
    gone: Option<Completer>,
}

impl HostDestination {
    /// Wraps `memory`. Also returns an event that becomes ready when no thread can write to the memory any more.
    pub(crate) fn new(memory: Destination) -> (Self, Event) {
        let (gone, completer) = Event::pending();
        (Self { memory: Some(memory), gone: Some(completer) }, gone)
    }

    /// Returns the memory that the read fills. Its size is the size of the array on the host. The data is dense and
    /// row-major, with one byte per element for sub-byte types. The initial contents are unspecified.
    pub fn bytes(&mut self) -> &mut [u8] {
        let Some(memory) = &mut self.memory else { return &mut [] };
        // SAFETY: V3 (arrays and text): the plugin may write to the memory until the event of the framework's call is
        // ready. `async_read::read` completes this event after this value is dropped.
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
