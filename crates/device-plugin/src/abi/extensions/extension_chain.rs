//! The list of extensions that the table points to.
//!
//! PJRT's extensions form a linked list of structs. Each one is a [`Link`](super::link::Link) that knows its successor, and [`Chain`]
//! defines their order. If the backend does not offer an extension, its link points to the next one.

use crate::abi::extensions::ffi::Ffi;
use crate::abi::extensions::layouts::Layouts;
use crate::abi::extensions::link::End;
use crate::abi::extensions::memory_descriptions::MemoryDescriptions;
use crate::abi::extensions::profiler::Profile;
use crate::abi::extensions::raw_buffers::RawBuffers;
use crate::abi::extensions::shardings::Shardings;
use crate::abi::extensions::streams::Streams;

/// The extensions of the plugin `P`, in the order in which frameworks find them.
pub(crate) type Chain<P> =
    Layouts<P, Profile<P, Streams<P, Ffi<P, RawBuffers<P, Shardings<P, MemoryDescriptions<P, End>>>>>>>;
