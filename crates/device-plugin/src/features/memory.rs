//! Features of device memory.

use crate::features::calls::through_host;
use crate::{Backend, ForeignMemory, Placement, Result, Shape};

/// A backend whose buffers have addresses, or bytes that the host can access.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lists a feature that it does not implement: `BufferAddresses`",
    label = "`BufferAddresses` is not implemented",
    note = "write `impl BufferAddresses for {Self} {{ … }}`, or remove `.buffer_addresses()` from `Backend::FEATURES`"
)]
pub trait BufferAddresses: Backend {
    /// Returns the bytes of a buffer in host memory, in the format of [`Backend::read`], or `None` if the host cannot
    /// access them. The bytes must neither move nor change while the buffer or a clone of it exists. The default
    /// implementation returns `None`.
    fn host_bytes<'a>(&self, buffer: &'a Self::Buffer) -> Option<&'a [u8]> {
        let _ = buffer;
        None
    }

    /// Returns the address of a buffer on the device, or `None` if the buffer has no address. The default
    /// implementation returns the address of [`BufferAddresses::host_bytes`].
    fn device_pointer(&self, buffer: &Self::Buffer) -> Option<usize> {
        self.host_bytes(buffer).map(|bytes| bytes.as_ptr().addr())
    }

    /// Returns the size of a buffer on the device in bytes, or `None` if it is the same as the size on the host. The
    /// default implementation returns `None`.
    fn on_device_size(&self, buffer: &Self::Buffer) -> Option<usize> {
        let _ = buffer;
        None
    }
}

/// A backend that allocates, reinterprets and copies buffers without copies through the host.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lists a feature that it does not implement: `DeviceCopies`",
    label = "`DeviceCopies` is not implemented",
    note = "write `impl DeviceCopies for {Self} {{ … }}`, or remove `.device_copies()` from `Backend::FEATURES`"
)]
pub trait DeviceCopies: Backend {
    /// Allocates memory for an array whose contents do not matter yet. The default implementation fills the memory with
    /// zeros.
    ///
    /// # Errors
    ///
    /// Returns an error in the same cases as [`Backend::buffer_from_host`].
    fn create_uninitialized_buffer(&self, shape: &Shape, to: Placement) -> Result<Self::Buffer> {
        through_host::uninitialized(self, shape, to)
    }

    /// Reinterprets the bytes of a buffer as an array of another shape with the same size on the host. The new buffer
    /// may share the memory of `buffer`. The default implementation copies the data through the host.
    ///
    /// # Errors
    ///
    /// Returns an error in the same cases as [`Backend::read`] and [`Backend::buffer_from_host`].
    fn bitcast(&self, buffer: &Self::Buffer, from: &Shape, to: &Shape, placement: Placement) -> Result<Self::Buffer> {
        through_host::copy(self, buffer, from, to, placement)
    }

    /// Copies a ready buffer to another memory or device. The copy is complete when this function returns, unless
    /// [`Backend::ready`] returns a pending event for the new buffer. The default implementation copies the data
    /// through the host.
    ///
    /// # Errors
    ///
    /// Returns an error in the same cases as [`Backend::read`] and [`Backend::buffer_from_host`].
    fn copy(&self, buffer: &Self::Buffer, shape: &Shape, to: Placement) -> Result<Self::Buffer> {
        through_host::copy(self, buffer, shape, shape, to)
    }
}

/// A backend whose buffers can use memory that another library allocated.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lists a feature that it does not implement: `ForeignViews`",
    label = "`ForeignViews` is not implemented",
    note = "write `impl ForeignViews for {Self} {{ … }}`, or remove `.foreign_views()` from `Backend::FEATURES`"
)]
pub trait ForeignViews: Backend {
    /// Creates a buffer in memory that another library allocated, such as memory passed through DLPack. The other
    /// library keeps the memory until the last clone of `memory` is dropped.
    ///
    /// # Errors
    ///
    /// Returns `UNIMPLEMENTED` for memory that the device cannot use.
    fn create_view_of_device_buffer(&self, memory: ForeignMemory, shape: &Shape, at: Placement)
    -> Result<Self::Buffer>;
}

/// A backend whose devices access host memory directly. The SDK keeps a list of the mapped ranges.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lists a feature that it does not implement: `DmaMappings`",
    label = "`DmaMappings` is not implemented",
    note = "write `impl DmaMappings for {Self} {{ … }}`, or remove `.dma_mappings()` from `Backend::FEATURES`"
)]
pub trait DmaMappings: Backend {
    /// Prepares `size` bytes of host memory at `address` for direct access by the devices. The memory stays valid until
    /// [`DmaMappings::dma_unmap`] is called.
    ///
    /// # Errors
    ///
    /// Returns any error that the device reports. In this case, the memory is not mapped.
    fn dma_map(&self, address: usize, size: usize) -> Result<()>;

    /// Unmaps the memory that [`DmaMappings::dma_map`] mapped at this address.
    ///
    /// # Errors
    ///
    /// Returns any error that the device reports. In this case, the memory remains mapped.
    fn dma_unmap(&self, address: usize) -> Result<()>;
}
