//! The handle of a stream.

/// The platform's handle of a stream, such as a `cudaStream_t`, as an integer. The SDK never dereferences the handle.
/// Code that dereferences it must ensure that the stream exists. The type `pjrt::extensions::Stream` for frameworks
/// also keeps the client alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stream(pub isize);
