//! Optional groups of functions of the C API that a backend may offer.
//!
//! Layouts, shardings and memory descriptions are always available, because the SDK derives them from the functions
//! that every backend has. Each group below needs functions of the backend, so it has a trait. A backend that
//! implements one names it in [`Backend::EXTENSIONS`], and frameworks then find it in the table's chain:
//!
//! ```
//! use device_plugin::extensions::{Extensions, Profile, Stream, Streams};
//! # use std::sync::Arc;
//! # use device_plugin::*;
//!
//! # struct Device;
//! impl Backend for Device {
//!     const EXTENSIONS: Extensions<Self> = Extensions::none().streams().profiler().ffi();
//!     // …
//! #   type Buffer = Arc<Vec<u8>>;
//! #   type Executable = ();
//! #   fn create(_: &CreateOptions) -> Result<Self> { Ok(Self) }
//! #   fn devices(&self) -> Vec<DeviceInfo> { vec![DeviceInfo::new(0, "device")] }
//! #   fn buffer_from_host(&self, host: HostArray<'_>, _: Placement) -> Result<Self::Buffer> { Ok(Arc::new(host.into_bytes())) }
//! #   fn read(&self, _: &Self::Buffer, _: &mut [u8]) -> Result<()> { Ok(()) }
//! #   fn compile(&self, _: &Program, _: &CompileOptions) -> Result<Compiled<()>> { Err(Error::unimplemented("none")) }
//! #   fn execute(&self, _: &Arc<()>, _: &mut Launch<'_, Self>) -> Result<Event> { Ok(Event::ready()) }
//! }
//!
//! impl Streams for Device {
//!     fn stream_for_external_ready_events(&self, _device: usize) -> Result<Stream> {
//!         Ok(Stream(0))
//!     }
//!     fn wait_until_buffer_ready_on_stream(&self, _: Stream, _: &Self::Buffer) -> Result<()> {
//!         Ok(())
//!     }
//! }
//!
//! // The SDK records calls, executions and transfers; there is nothing to add.
//! impl Profile for Device {}
//! ```
//!
//! # Every extension type of the headers
//!
//! | type | name | here |
//! |---:|---|---|
//! | 0 | Gpu_Custom_Call | not offered: registers CUDA and ROCm calls of XLA's own GPU compiler; others use FFI |
//! | 1 | Profiler | [`Extensions::profiler`]; also read from the arguments of `PJRT_Client_Compile` and `PJRT_LoadedExecutable_Execute` while a profile runs |
//! | 2 | Custom_Partitioner | not offered: its callbacks take XLA's own modules, which other compilers do not have |
//! | 3 | Stream | [`Extensions::streams`] |
//! | 4 | Layouts | always |
//! | 5 | FFI | [`Extensions::ffi`] |
//! | 6 | MemoryDescriptions | always |
//! | 7 | Triton | not offered: compiles Triton kernels for CUDA |
//! | 8 | RawBuffer | [`Extensions::raw_buffers`] |
//! | 9 | PhaseCompile | not offered: runs phases of XLA's own compiler one by one; [`Backend::compile_for`] compiles ahead of time |
//! | 10, 11 | Example, Unknown | not offered: no functions |
//! | 12 | CrossHostTransfers | not offered: the headers used by this SDK number it, but do not declare a struct |
//! | 13 | ExecutableMetadata | not offered: as above |
//! | 14 | Callback | not offered: callbacks about slices of TPUs |
//! | 15 | HostAllocator | not offered: no struct declared |
//! | 16, 17 | TpuTopology, TpuExecutable | not offered: shapes and programs of TPUs |
//! | 18 | Megascale | not offered: transfers between slices of TPUs. It creates the `multi_slice_config` of an execution, which the SDK therefore rejects |
//! | 19 | Shardings | always |
//! | 20 | AbiVersion | not offered: reports whether serialized executables fit a runtime. The SDK's own envelope contains platform and version, which are checked on load |
//! | 21 | Collectives | not offered: collectives outside programs, which frameworks use on CUDA only |
//! | 22 | MultiSlice | not offered: as Megascale |
//! | 23 | HostMemoryAllocator | not offered: no struct declared |
//! | 24 | XlaTransform | not offered: changes how XLA's own compiler runs |

mod profile;
mod raw_buffers;
mod streams;

pub use profile::Profile;
pub use raw_buffers::RawBuffers;
pub use streams::{Stream, Streams};

use crate::{Backend, Result};

/// The optional groups of functions that a backend offers; see the [module](self).
pub struct Extensions<B: Backend> {
    pub(crate) streams: Option<StreamFunctions<B>>,
    pub(crate) raw_buffers: Option<RawBufferFunctions<B>>,
    pub(crate) profiler: Option<ProfileFunctions>,
    pub(crate) ffi: bool,
}

/// The functions of [`Streams`], so that the table can call them without a bound on the trait.
pub(crate) struct StreamFunctions<B: Backend> {
    pub(crate) stream: fn(&B, usize) -> Result<Stream>,
    pub(crate) wait: fn(&B, Stream, &B::Buffer) -> Result<()>,
}

/// The functions of [`RawBuffers`].
pub(crate) struct RawBufferFunctions<B: Backend> {
    pub(crate) read: fn(&B, &B::Buffer, usize, &mut [u8]) -> Result<()>,
    pub(crate) write: fn(&B, &B::Buffer, usize, &[u8]) -> Result<()>,
    pub(crate) host_pointer: fn(&B, &B::Buffer) -> Option<usize>,
}

/// The functions of [`Profile`].
pub(crate) struct ProfileFunctions {
    pub(crate) started: fn(&[u8]) -> Result<()>,
    pub(crate) stopping: fn() -> Result<()>,
}

impl<B: Backend> Extensions<B> {
    /// None of the optional groups.
    pub const fn none() -> Self {
        Self { streams: None, raw_buffers: None, profiler: None, ffi: false }
    }

    /// Offers the device's streams to libraries that share its memory (`PJRT_Stream_Extension`).
    #[must_use]
    pub const fn streams(self) -> Self
    where
        B: Streams,
    {
        let streams =
            StreamFunctions { stream: B::stream_for_external_ready_events, wait: B::wait_until_buffer_ready_on_stream };
        Self { streams: Some(streams), ..self }
    }

    /// Offers access to parts of buffers as bytes (`PJRT_RawBuffer_Extension`).
    #[must_use]
    pub const fn raw_buffers(self) -> Self
    where
        B: RawBuffers,
    {
        let raw_buffers =
            RawBufferFunctions { read: B::read_raw, write: B::write_raw, host_pointer: B::raw_host_pointer };
        Self { raw_buffers: Some(raw_buffers), ..self }
    }

    /// Offers a profile of the plugin's work (`PJRT_Profiler_Extension`); see [`profiler`](crate::profiler).
    #[must_use]
    pub const fn profiler(self) -> Self
    where
        B: Profile,
    {
        let profiler = ProfileFunctions { started: B::profile_started, stopping: B::profile_stopping };
        Self { profiler: Some(profiler), ..self }
    }

    /// Accepts custom calls that frameworks register, and their data (`PJRT_FFI_Extension`); see [`ffi`](crate::ffi).
    #[must_use]
    pub const fn ffi(self) -> Self {
        Self { ffi: true, ..self }
    }

    /// Names of the offered groups, as in the headers.
    pub fn names(&self) -> Vec<&'static str> {
        let names = [
            (self.profiler.is_some(), "Profiler"),
            (self.streams.is_some(), "Stream"),
            (self.ffi, "FFI"),
            (self.raw_buffers.is_some(), "RawBuffer"),
        ];
        names.iter().filter(|(offered, _)| *offered).map(|(_, name)| *name).collect()
    }
}

impl<B: Backend> Default for Extensions<B> {
    fn default() -> Self {
        Self::none()
    }
}

impl<B: Backend> std::fmt::Debug for Extensions<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}
