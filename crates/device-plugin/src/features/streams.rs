//! Streams of a device that other libraries can use.

use crate::features::stream_handle::Stream;
use crate::{Backend, Result};

/// A device whose streams other libraries can use to share memory (DLPack) without waiting on the host.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lists a feature that it does not implement: `Streams`",
    label = "`Streams` is not implemented",
    note = "write `impl Streams for {Self} {{ … }}`, or remove `.streams()` from `Backend::FEATURES`"
)]
#[doc(alias = "PJRT_Stream_Extension")]
pub trait Streams: Backend {
    /// Returns a stream for a library that passes memory to the device. The library makes this stream wait until the
    /// memory is ready.
    ///
    /// `device` is an index into [`Backend::devices`].
    #[doc(alias = "PJRT_Get_Stream_For_External_Ready_Events")]
    fn stream_for_external_ready_events(&self, device: usize) -> Result<Stream>;

    /// Makes later work on a stream of another library wait until the buffer is ready. The SDK waits for the buffer on
    /// the host first, unless the backend is [`queued`](crate::features::Features::queued) and the buffer's value
    /// exists. The C function returns no event and may block. A framework must therefore not call it for a buffer whose
    /// data the same thread sends later.
    #[doc(alias = "PJRT_Wait_Until_Buffer_Ready_On_Stream")]
    fn wait_until_buffer_ready_on_stream(&self, stream: Stream, buffer: &Self::Buffer) -> Result<()>;
}
