//! Extensions: optional groups of functions, each in its own file. `plugin.extension::<Layouts>()` returns one. Older
//! plugins have extension structs with fewer functions; [`Plugin::supports`](crate::Plugin::supports) checks for a function.

mod ffi;
mod functions;
mod layouts;
mod memory_descriptions;
mod phase_compile;
mod plugin_extension;
mod profiler;
mod raw_buffers;
mod shardings;
mod streams;

pub use ffi::Ffi;
pub(crate) use functions::Functions;
pub use layouts::Layouts;
pub use memory_descriptions::{MemoryDescription, MemoryDescriptions};
pub use phase_compile::{PhaseCompile, PhaseCompiler};
pub use pjrt_types::HandlerTraits;
pub use plugin_extension::{PluginExtension, name};
pub use profiler::{Profile, Profiler};
pub use raw_buffers::{RawBuffer, RawBuffers};
pub use shardings::Shardings;
pub use streams::{Stream, Streams};
