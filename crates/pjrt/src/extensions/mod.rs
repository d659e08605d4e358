//! Extensions: optional groups of functions, each in its own file. `plugin.extension::<Layouts>()` returns one.

mod ffi;
mod functions;
mod layouts;
mod memory_descriptions;
mod phase_compile;
mod profiler;
mod raw_buffers;
mod shardings;
mod streams;

pub use ffi::{Ffi, HandlerTraits};
use functions::Functions;
pub use layouts::Layouts;
pub use memory_descriptions::{MemoryDescription, MemoryDescriptions};
pub use phase_compile::{PhaseCompile, PhaseCompiler};
pub use profiler::{Profile, Profiler};
pub use raw_buffers::{RawBuffer, RawBuffers};
pub use shardings::Shardings;
pub use streams::{Stream, Streams};

use crate::plugin::Plugin;

mod sealed {
    pub trait Sealed {}
}

/// An optional group of functions; see [`Plugin::extension`].
pub trait PluginExtension: Sized + sealed::Sealed {
    /// Returns the plugin's extension of this type, if it has one.
    fn of(plugin: &Plugin) -> Option<Self>;
}

/// Names of the extension types of `PJRT_Extension_Type`, by number.
const NAMES: [&str; 25] = [
    "Gpu_Custom_Call",
    "Profiler",
    "Custom_Partitioner",
    "Stream",
    "Layouts",
    "FFI",
    "MemoryDescriptions",
    "Triton",
    "RawBuffer",
    "PhaseCompile",
    "Example",
    "Unknown",
    "CrossHostTransfers",
    "ExecutableMetadata",
    "Callback",
    "HostAllocator",
    "TpuTopology",
    "TpuExecutable",
    "Megascale",
    "Shardings",
    "AbiVersion",
    "Collectives",
    "MultiSlice",
    "HostMemoryAllocator",
    "XlaTransform",
];

/// Name of an extension type. `None` if the number is newer than this crate.
pub fn name(ty: u32) -> Option<&'static str> {
    NAMES.get(usize::try_from(ty).ok()?).copied()
}
