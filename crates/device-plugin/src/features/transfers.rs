//! Features of transfers.

use crate::{Backend, Event, HostDestination, Result, Shape};

/// A backend whose reads of whole buffers continue after the call that begins them.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lists a feature that it does not implement: `AsyncReads`",
    label = "`AsyncReads` is not implemented",
    note = "write `impl AsyncReads for {Self} {{ … }}`, or remove `.async_reads()` from `Backend::FEATURES`"
)]
pub trait AsyncReads: Backend {
    /// Begins to read a buffer in the format of [`Backend::read`], and may return before the copy is complete. The copy
    /// is complete when the event is ready and `to` has been dropped. The SDK calls this function when a framework
    /// requests a whole buffer in the device's storage order. For ranges of bytes, and for arrays that must be
    /// reordered, the SDK calls [`Backend::read`].
    ///
    /// If the device still needs the buffer after this function has returned, the backend must keep a clone of the
    /// buffer.
    ///
    /// # Errors
    ///
    /// Returns errors that are known immediately. The event reports later errors.
    fn begin_read(&self, buffer: &Self::Buffer, to: HostDestination) -> Result<Event>;
}

/// A backend that writes data to the device piece by piece as it arrives. Without this feature, the SDK gathers all
/// pieces of an array before it uploads the array.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lists a feature that it does not implement: `PiecewiseUploads`",
    label = "`PiecewiseUploads` is not implemented",
    note = "write `impl PiecewiseUploads for {Self} {{ … }}`, or remove `.piecewise_uploads()` from `Backend::FEATURES`"
)]
pub trait PiecewiseUploads: Backend {
    /// Writes a piece of a buffer's data. The buffer came from
    /// [`DeviceCopies::create_uninitialized_buffer`](crate::features::DeviceCopies::create_uninitialized_buffer) or,
    /// without the feature `DeviceCopies`, from [`Backend::buffer_from_host`]. No other function has read the buffer
    /// yet. `bytes` is a part of the array in the format of [`Backend::read`], starting at byte `offset`. Pieces of one
    /// buffer may arrive on several threads at once. The SDK calls [`Backend::ready`] after the last piece.
    ///
    /// # Errors
    ///
    /// Returns any error that the device reports. The error becomes the buffer's error.
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
    /// Returns whether an extent of a buffer may be smaller than its shape declares. The SDK calls this function at
    /// most once for each buffer, when the backend returns the buffer, which may not be ready yet. If the result is
    /// `false`, the SDK does not call [`DynamicShapes::dynamic_dimensions`], and returns the buffer's extents to the
    /// framework without waiting for the buffer. The default implementation returns `true`.
    fn is_dynamic(&self, buffer: &Self::Buffer) -> bool {
        let _ = buffer;
        true
    }

    /// Returns whether an extent of an output of a program may be smaller than its shape declares. The SDK calls this
    /// function for an execution that waits for its arguments, instead of [`DynamicShapes::is_dynamic`] for the buffer
    /// that the execution will return. The default implementation returns `true`.
    fn is_dynamic_output(&self, executable: &Self::Executable, output: usize) -> bool {
        let _ = (executable, output);
        true
    }

    /// Returns the index and the actual extent of each dimension whose extent is, or may be, smaller than `shape`
    /// declares. The buffer is ready. The SDK may call this function several times for the same buffer. Later reads
    /// return an array with these extents.
    fn dynamic_dimensions(&self, buffer: &Self::Buffer, shape: &Shape) -> Vec<(usize, i64)>;
}
