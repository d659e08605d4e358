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
    /// The bytes of a buffer in host memory, in the layout of [`Backend::read`]. They must neither move nor change
    /// while the buffer or a clone of it exists. Returns `None` if the host cannot access them, which is the default.
    fn host_bytes<'a>(&self, buffer: &'a Self::Buffer) -> Option<&'a [u8]> {
        let _ = buffer;
        None
    }

    /// Address of a buffer on the device. By default this is the address of [`BufferAddresses::host_bytes`], if there
    /// are any.
    fn device_pointer(&self, buffer: &Self::Buffer) -> Option<usize> {
        self.host_bytes(buffer).map(|bytes| bytes.as_ptr().addr())
    }

    /// Size of a buffer on the device in bytes, if it differs from the size on the host.
    fn on_device_size(&self, buffer: &Self::Buffer) -> Option<usize> {
        let _ = buffer;
        None
    }
}

/// A backend that allocates, reinterprets and copies buffers without a detour through the host.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lists a feature that it does not implement: `DeviceCopies`",
    label = "`DeviceCopies` is not implemented",
    note = "write `impl DeviceCopies for {Self} {{ … }}`, or remove `.device_copies()` from `Backend::FEATURES`"
)]
pub trait DeviceCopies: Backend {
    /// Allocates memory for an array whose contents do not matter yet. By default it is filled with zeros.
    ///
    /// # Errors
    ///
    /// In the cases of [`Backend::buffer_from_host`].
    fn create_uninitialized_buffer(&self, shape: &Shape, to: Placement) -> Result<Self::Buffer> {
        through_host::uninitialized(self, shape, to)
    }

    /// Reinterprets the bytes of a buffer as an array of another shape with the same size on the host. The result may
    /// share the memory of `buffer`. By default it is a copy through the host.
    ///
    /// # Errors
    ///
    /// In the cases of [`Backend::read`] and [`Backend::buffer_from_host`].
    fn bitcast(&self, buffer: &Self::Buffer, from: &Shape, to: &Shape, placement: Placement) -> Result<Self::Buffer> {
        through_host::copy(self, buffer, from, to, placement)
    }

    /// Copies a ready buffer to another memory or device. By default the copy is made through the host. It is complete
    /// when this returns, unless [`Backend::ready`] returns a pending event for it.
    ///
    /// # Errors
    ///
    /// In the cases of [`Backend::read`] and [`Backend::buffer_from_host`].
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
    /// Creates a buffer in memory that another library allocated, such as one passed through DLPack. The other library
    /// keeps the memory until the last clone of `memory` is dropped.
    ///
    /// # Errors
    ///
    /// `UNIMPLEMENTED` for memory that the device cannot use.
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
    /// Prepares host memory for direct access by the devices: `size` bytes from `address` on, which stay valid until
    /// [`DmaMappings::dma_unmap`].
    ///
    /// # Errors
    ///
    /// Any error that the device reports. In this case, the memory is not mapped.
    fn dma_map(&self, address: usize, size: usize) -> Result<()>;

    /// Unmaps the memory that [`DmaMappings::dma_map`] mapped at this address.
    ///
    /// # Errors
    ///
    /// Any error that the device reports. In this case, the memory remains mapped.
    fn dma_unmap(&self, address: usize) -> Result<()>;
}
