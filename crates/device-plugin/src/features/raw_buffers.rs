//! Access to the bytes of buffers.

use crate::features::FeatureCalls;
use crate::{Backend, Error, Result};

/// A device that can read and write ranges of a buffer's bytes, in the format in which the device stores the buffer.
///
/// A raw buffer is an alias of a buffer. It keeps the memory alive after the framework has deleted the original buffer.
/// Writes to the alias change the original buffer. The SDK checks that each range of bytes is within
/// [`BufferAddresses::on_device_size`](crate::features::BufferAddresses::on_device_size), or within the size on the
/// host if that function returns `None`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lists a feature that it does not implement: `RawBuffers`",
    label = "`RawBuffers` is not implemented",
    note = "write `impl RawBuffers for {Self} {{ … }}`, or remove `.raw_buffers()` from `Backend::FEATURES`"
)]
#[doc(alias = "PJRT_RawBuffer_Extension")]
pub trait RawBuffers: Backend {
    /// Fills `to` with the bytes of a buffer, starting at byte `offset` of the buffer. The default implementation reads
    /// from [`BufferAddresses::host_bytes`](crate::features::BufferAddresses::host_bytes).
    ///
    /// # Errors
    ///
    /// The default implementation returns `UNIMPLEMENTED` if the host cannot access the memory. An implementation
    /// returns any error that the device reports.
    fn read_raw(&self, buffer: &Self::Buffer, offset: usize, to: &mut [u8]) -> Result<()> {
        let bytes = self.host_bytes(buffer).and_then(|bytes| bytes.get(offset..offset.checked_add(to.len())?));
        let bytes = bytes.ok_or_else(|| {
            Error::unimplemented("this device does not support raw reads of memory that the host cannot access")
        })?;
        to.copy_from_slice(bytes);
        Ok(())
    }

    /// Writes `bytes` to a buffer, starting at byte `offset` of the buffer. Frameworks are responsible for the order of
    /// writes and other uses of the buffer. If overlapping accesses would be a data race in the backend, the backend
    /// must lock the memory.
    ///
    /// # Errors
    ///
    /// Returns `UNIMPLEMENTED` for memory that must not be written after its creation, such as memory of another
    /// library. Also returns any error that the device reports.
    fn write_raw(&self, buffer: &Self::Buffer, offset: usize, bytes: &[u8]) -> Result<()>;

    /// Returns the address at which the host can read and write the memory, or `None` if the host cannot access it. The
    /// address must stay valid while the buffer or a clone of it exists. The default implementation returns `None`.
    fn raw_host_pointer(&self, buffer: &Self::Buffer) -> Option<usize> {
        let _ = buffer;
        None
    }
}
