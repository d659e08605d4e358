//! Extensions of PJRT that a plugin may have.

mod ffi;
mod info;
mod layouts;
mod profiler;
mod raw_buffers;
mod streams;

pub use ffi::*;
pub use info::*;
pub use layouts::*;
pub use profiler::*;
pub use raw_buffers::*;
pub use streams::*;
