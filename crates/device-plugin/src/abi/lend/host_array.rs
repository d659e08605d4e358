//! Host data to be copied to a device, and host memory that a framework lends to a buffer.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::Deref;
use std::sync::Arc;

use crate::abi::table::ffi_read;
use crate::{Completer, Error, Event, Result, Shape};

/// A dense, row-major array on the host. Elements narrower than a byte occupy one byte each.
///
/// The array usually borrows the framework's memory. The framework's own type for host data is `pjrt::HostArray`.
#[derive(Debug)]
pub struct HostArray<'a> {
    shape: &'a Shape,
    bytes: Cow<'a, [u8]>,
    /// Set if the data is dense and the framework allows the device to keep using this memory after the call.
    alias: Option<&'a AliasSource>,
}

impl<'a> HostArray<'a> {
    /// Creates host data of this shape.
    ///
    /// # Errors
    ///
    /// Returns `INVALID_ARGUMENT` if the size of `bytes` does not match the shape.
    pub fn new(shape: &'a Shape, bytes: impl Into<Cow<'a, [u8]>>) -> Result<Self> {
        let bytes = bytes.into();
        if shape.host_size() != Some(bytes.len()) {
            return Err(Error::invalid_argument(format!(
                "the host data has {} bytes, which is not the size of {shape}",
                bytes.len()
            )));
        }
        Ok(Self { shape, bytes, alias: None })
    }

    pub(crate) fn with_alias(mut self, alias: &'a AliasSource) -> Self {
        self.alias = Some(alias);
        self
    }

    /// Returns the element type and the extents.
    pub fn shape(&self) -> &'a Shape {
        self.shape
    }

    /// Returns the data.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the data as a vector. Copies the data unless [`HostArray::is_owned`] returns `true`.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes.into_owned()
    }

    /// Whether this array owns a copy of the data, so that [`HostArray::into_bytes`] need not copy it again.
    pub fn is_owned(&self) -> bool {
        matches!(self.bytes, Cow::Owned(_))
    }

    /// Returns whether [`HostArray::alias`] returns an alias, without creating one.
    pub fn may_alias(&self) -> bool {
        self.alias.is_some()
    }

    /// Returns a reference to the framework's memory if the framework guarantees not to modify it while the buffer
    /// exists. Returns `None` if the data must be copied. A backend whose device can read host memory stores the alias
    /// in its buffer instead of a copy. When the last clone of the alias is dropped, the SDK notifies the framework.
    pub fn alias(&self) -> Option<HostAlias> {
        self.alias.map(AliasSource::alias)
    }
}

/// Allocates `size` zero bytes. Frameworks choose the size, so a failed allocation returns an error instead of aborting
/// the process.
pub fn zeroed(size: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(size)
        .map_err(|_| Error::resource_exhausted(format!("the system cannot allocate {size} bytes of host memory")))?;
    bytes.resize(size, 0);
    Ok(bytes)
}

/// Memory of the framework that a buffer uses in place. A `HostAlias` dereferences to a slice of bytes.
///
/// Dropping the last clone returns the memory to the framework, and runs the framework's callback on the current
/// thread. Do not drop the last clone on a thread of a driver if that thread must not call the driver. The crate
/// `device-runtime` takes care of this.
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
