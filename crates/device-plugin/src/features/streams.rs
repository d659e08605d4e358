//! Queues of a device that other libraries can use.

use crate::{Backend, Result};

/// A platform's own handle of a queue, such as a `cudaStream_t`, as a number. The SDK never dereferences it. Code that
/// dereferences it must know that it is valid. The framework's `pjrt::extensions::Stream` also keeps the client alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stream(pub isize);

/// A device whose queues other libraries use to share memory (DLPack) without waiting on the host.
#[doc(alias = "PJRT_Stream_Extension")]
pub trait Streams: Backend {
    /// The stream on which another library should make the device wait until memory that it passes is ready.
    ///
    /// `device` is an index into [`Backend::devices`].
    #[doc(alias = "PJRT_Get_Stream_For_External_Ready_Events")]
    fn stream_for_external_ready_events(&self, device: usize) -> Result<Stream>;

    /// Makes later work on a stream of another library wait until the buffer is ready. The SDK waits for the buffer on
    /// the host first, unless the backend is [`queued`](crate::features::Features::queued) and the buffer's value exists. The function has
    /// no event, so a framework must not call it for data that the same thread sends later.
    #[doc(alias = "PJRT_Wait_Until_Buffer_Ready_On_Stream")]
    fn wait_until_buffer_ready_on_stream(&self, stream: Stream, buffer: &Self::Buffer) -> Result<()>;
}
