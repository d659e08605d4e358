//! Memory of the framework that a read fills after the framework's call.

#[cfg(doc)]
use crate::Backend;
use crate::abi::lend::destination::Destination;
use crate::{Completer, Event};

/// Memory of the framework that a read fills, for as long as this value lives: [`Backend::begin_read`] may hand it to
/// another thread. The framework has the memory back when this is dropped and the event of the read has come.
pub struct HostDestination {
    /// Until the end.
    memory: Option<Destination>,
    gone: Option<Completer>,
}

impl HostDestination {
    /// The memory, and the event that is ready when nothing can write to it any more.
    pub(crate) fn new(memory: Destination) -> (Self, Event) {
        let (gone, completer) = Event::pending();
        (Self { memory: Some(memory), gone: Some(completer) }, gone)
    }

    /// The bytes to fill, as many as the array has: dense, row-major, sub-byte types in one byte per element. What they
    /// are before means nothing.
    pub fn bytes(&mut self) -> &mut [u8] {
        let Some(memory) = &mut self.memory else { return &mut [] };
        // SAFETY: V3 (arrays and text), the framework leaves the memory to the plugin until the event of its call,
        // which `read` completes
        // after this value is gone.
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
