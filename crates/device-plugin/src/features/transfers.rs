//! Features of transfers.

use crate::{Backend, Event, HostDestination, Result, Shape};

/// A backend whose reads of whole buffers continue after the call that begins them.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lists a feature that it does not implement: `AsyncReads`",
    label = "`AsyncReads` is not implemented",
    note = "write `impl AsyncReads for {Self} {{ … }}`, or remove `.async_reads()` from `Backend::FEATURES`"
)]
pub trait AsyncReads: Backend {
    /// Begins a [`Backend::read`] that may continue after this returns. The copy is complete when the event is ready
    /// and `to` is dropped. Used when a framework requests a whole buffer as the device stores it. Ranges of bytes, and
    /// arrays that must be reordered, are read by [`Backend::read`].
    ///
    /// If the device still needs the buffer afterwards, the backend must keep a clone of it.
    ///
    /// # Errors
    ///
    /// Errors that are known immediately. Later errors are reported by the event.
    fn begin_read(&self, buffer: &Self::Buffer, to: HostDestination) -> Result<Event>;
}

/// A backend that writes data to the device piece by piece as it arrives. Without this feature the SDK gathers the
/// pieces of an array first.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lists a feature that it does not implement: `PiecewiseUploads`",
    label = "`PiecewiseUploads` is not implemented",
    note = "write `impl PiecewiseUploads for {Self} {{ … }}`, or remove `.piecewise_uploads()` from `Backend::FEATURES`"
)]
pub trait PiecewiseUploads: Backend {
    /// Writes a piece of a buffer's data. [`DeviceCopies::create_uninitialized_buffer`](crate::features::DeviceCopies::create_uninitialized_buffer)
    /// created the buffer, or [`Backend::buffer_from_host`] without that feature. No other function has read the buffer
    /// yet. `bytes` are those of the array in the format of [`Backend::read`], from byte `offset` on. Pieces of one
    /// buffer may arrive on several threads at once. The SDK calls [`Backend::ready`] after the last one.
    ///
    /// # Errors
    ///
    /// Any error that the device reports. It becomes the buffer's error.
    fn transfer_data(&self, buffer: &Self::Buffer, offset: usize, bytes: &[u8]) -> Result<()>;
}

/// A backend whose arrays may have fewer elements than their shapes declare, because programs determine extents at run
/// time.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lists a feature that it does not implement: `DynamicShapes`",
    label = "`DynamicShapes` is not implemented",
    note = "write `impl DynamicShapes for {Self} {{ … }}`, or remove `.dynamic_shapes()` from `Backend::FEATURES`"
)]
pub trait DynamicShapes: Backend {
    /// Whether a buffer may be shorter than its shape declares. The SDK calls this once for each buffer, when the backend
    /// returns it, so the buffer may not be ready. For other buffers the SDK does not call
    /// [`DynamicShapes::dynamic_dimensions`], and does not wait before it returns their extents to the framework. By
    /// default, every buffer may be shorter.
    fn is_dynamic(&self, buffer: &Self::Buffer) -> bool {
        let _ = buffer;
        true
    }

    /// Returns the dimensions of a ready buffer that are, or may be, shorter than its shape declares, and their actual
    /// extents. Called once for each buffer. Later reads return an array of these extents.
    fn dynamic_dimensions(&self, buffer: &Self::Buffer, shape: &Shape) -> Vec<(usize, i64)>;
}
