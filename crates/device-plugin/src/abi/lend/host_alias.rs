//! Host memory that a framework lends to a buffer.

use std::cell::OnceCell;
use std::ops::Deref;
use std::sync::Arc;

use crate::abi::table::ffi_read;
use crate::{Completer, Event, Result};

/// Memory of the framework that a buffer uses in place. A `HostAlias` dereferences to a slice of bytes.
///
/// Dropping the last clone returns the memory to the framework, and runs the framework's callback on the current
/// thread. Do not drop the last clone on a thread of a driver if that thread must not call the driver.
#[derive(Clone)]
pub struct HostAlias(Arc<AliasedMemory>);

struct AliasedMemory {
    data: *const u8,
    size: usize,
    /// Completed on drop, to return the memory to the framework.
    done: Option<Completer>,
}

// SAFETY: V3 (arrays and text): the framework does not write to the memory until the event is ready, so any thread may
// read it.
unsafe impl Send for AliasedMemory {}
// SAFETY: the reason for `Send` of this type also applies here.
unsafe impl Sync for AliasedMemory {}

impl Drop for AliasedMemory {
    fn drop(&mut self) {
        if let Some(done) = self.done.take() {
            done.complete_internally(Ok(()));
        }
    }
}

impl Deref for HostAlias {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: V3 (arrays and text): the memory is readable until the event is ready, and dropping the last clone
        // completes the event.
        unsafe { ffi_read::slice(self.0.data, self.0.size, "data") }.unwrap_or_default()
    }
}

impl std::fmt::Debug for HostAlias {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HostAlias({} bytes)", self.0.size)
    }
}

/// The host data of one upload. The backend may request an alias of it.
pub(crate) struct AliasSource {
    data: *const u8,
    size: usize,
    made: OnceCell<(HostAlias, Event)>,
}

impl AliasSource {
    /// # Safety
    ///
    /// V3 (arrays and text) holds for the data, until the event of [`AliasSource::done`] is ready.
    pub(crate) unsafe fn new(data: *const u8, size: usize) -> Result<Self> {
        // SAFETY: V3 (arrays and text), which the caller promises. This call only checks the pointer.
        unsafe { ffi_read::slice(data, size, "data") }?;
        Ok(Self { data, size, made: OnceCell::new() })
    }

    pub(crate) fn alias(&self) -> HostAlias {
        let make = || {
            let (event, done) = Event::pending();
            (HostAlias(Arc::new(AliasedMemory { data: self.data, size: self.size, done: Some(done) })), event)
        };
        self.made.get_or_init(make).0.clone()
    }

    /// Returns whether the backend requested an alias. The backend may still hold a clone of it.
    pub(crate) fn is_lent(&self) -> bool {
        self.made.get().is_some()
    }

    /// Returns the event after which the framework may reuse its memory. The event is ready at once if the backend
    /// requested no alias.
    pub(crate) fn done(self) -> Event {
        self.made.into_inner().map_or(Event::ready(), |(_, event)| event)
    }
}

impl std::fmt::Debug for AliasSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AliasSource({} bytes)", self.size)
    }
}
