//! Extensions of PJRT that a plugin may have.

mod failures;
mod ffi;
mod host_memory;
mod info;
mod layouts;
mod memory_descriptions;
mod phases;
mod profiler;
mod raw_buffers;
mod shardings;
mod streams;
mod transfers;
mod versions;

pub use failures::*;
pub use ffi::*;
pub use host_memory::*;
pub use info::*;
pub use layouts::*;
pub use memory_descriptions::*;
pub use phases::*;
pub use profiler::*;
pub use raw_buffers::*;
pub use shardings::*;
pub use streams::*;
pub use transfers::*;
pub use versions::*;
