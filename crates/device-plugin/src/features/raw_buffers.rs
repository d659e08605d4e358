//! Access to buffers as bytes.

use crate::features::FeatureCalls;
use crate::{Backend, Error, Result};

/// A device whose buffers can be read and written in part, as the bytes that they have on the device.
///
/// A raw buffer is an alias. It keeps the memory alive when the framework deletes the original buffer, and writes to it
/// change that buffer. The SDK checks that `offset` and length are within [`BufferAddresses::on_device_size`](crate::features::BufferAddresses::on_device_size), or within the
/// size on the host if that is `None`.
#[doc(alias = "PJRT_RawBuffer_Extension")]
pub trait RawBuffers: Backend {
    /// Reads bytes, starting at `offset`. By default, reads from
    /// [`BufferAddresses::host_bytes`](crate::features::BufferAddresses::host_bytes).
    ///
    /// # Errors
    ///
    /// `UNIMPLEMENTED` if the host cannot access the memory, unless overridden; any error that the device reports.
    fn read_raw(&self, buffer: &Self::Buffer, offset: usize, to: &mut [u8]) -> Result<()> {
        let bytes = self.host_bytes(buffer).and_then(|bytes| bytes.get(offset..offset.checked_add(to.len())?));
        let bytes = bytes.ok_or_else(|| {
            Error::unimplemented("this device does not support raw reads of memory that the host cannot access")
        })?;
        to.copy_from_slice(bytes);
        Ok(())
    }

    /// Writes bytes, starting at `offset`. Frameworks order writes and uses of the buffer themselves. If an overlap
    /// would be a data race, the backend must lock the memory.
    ///
    /// # Errors
    ///
    /// `UNIMPLEMENTED` for memory that is never written after it is created, such as another library's; any error that
    /// the device reports.
    fn write_raw(&self, buffer: &Self::Buffer, offset: usize, bytes: &[u8]) -> Result<()>;

    /// The address at which the host can access and modify the memory, or `None` if it cannot, which is the default.
    /// The address stays valid as long as the buffer or a clone of it exists.
    fn raw_host_pointer(&self, buffer: &Self::Buffer) -> Option<usize> {
        let _ = buffer;
        None
    }
}
