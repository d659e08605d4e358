//! Buffers as bytes.

use crate::{Backend, Error, Result};

/// A device whose buffers can be read and written in part, as the bytes they are on the device.
///
/// A raw buffer is an alias: it keeps the memory alive when the framework deletes the buffer it was made from, and what
/// is written shows in the buffer. `offset` and length lie within [`Backend::size_on_device`], or the size on the host
/// where that is none; the SDK checks it.
#[doc(alias = "PJRT_RawBuffer_Extension")]
pub trait RawBuffers: Backend {
    /// Reads the bytes from `offset` on. By default those of [`Backend::host_bytes`].
    ///
    /// # Errors
    ///
    /// `UNIMPLEMENTED` where the host does not see the memory, unless overridden; whatever the device reports.
    fn read_raw(&self, buffer: &Self::Buffer, offset: usize, to: &mut [u8]) -> Result<()> {
        let bytes = self.host_bytes(buffer).and_then(|bytes| bytes.get(offset..offset.checked_add(to.len())?));
        let bytes = bytes.ok_or_else(|| Error::unimplemented("raw reads of memory that the host does not see"))?;
        to.copy_from_slice(bytes);
        Ok(())
    }

    /// Writes bytes from `offset` on. Frameworks order writes and uses of the buffer themselves; a backend for which
    /// an overlap would be a data race locks the memory.
    ///
    /// # Errors
    ///
    /// `UNIMPLEMENTED` for memory that is never written after it is made, such as what another library owns; whatever
    /// the device reports.
    fn write_raw(&self, buffer: &Self::Buffer, offset: usize, bytes: &[u8]) -> Result<()>;

    /// The address at which the host sees, and may change, the memory; none where it does not, which is the default.
    /// It stays valid as long as the buffer or a clone of it lives.
    fn raw_host_pointer(&self, buffer: &Self::Buffer) -> Option<usize> {
        let _ = buffer;
        None
    }
}
