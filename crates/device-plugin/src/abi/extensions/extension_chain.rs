//! The linked list of PJRT extensions to which the function table points.
//!
//! Each extension implements [`Link`](super::link::Link) and has its successor as a type parameter. [`Chain`] defines
//! their order. If the backend does not support an extension, the list skips this extension.

use crate::abi::extensions::abi_version::AbiVersions;
use crate::abi::extensions::callbacks::Callbacks;
use crate::abi::extensions::cross_host_transfers::CrossHostTransfers;
use crate::abi::extensions::executable_metadata::ExecutableMetadata;
use crate::abi::extensions::ffi::Ffi;
use crate::abi::extensions::host_memory_allocator::HostMemoryAllocator;
use crate::abi::extensions::layouts::Layouts;
use crate::abi::extensions::link::End;
use crate::abi::extensions::memory_descriptions::MemoryDescriptions;
use crate::abi::extensions::profiler::ProfilerExtension;
use crate::abi::extensions::raw_buffers::RawBuffers;
use crate::abi::extensions::shardings::Shardings;
use crate::abi::extensions::streams::Streams;

/// The extensions of the plugin `P`, in their order in the linked list.
pub(crate) type Chain<P> = Layouts<
    P,
    ProfilerExtension<P, Streams<P, Ffi<P, RawBuffers<P, Shardings<P, MemoryDescriptions<P, Optional<P>>>>>>>,
>;

/// The end of the list: extensions that few devices offer.
type Optional<P> =
    AbiVersions<P, ExecutableMetadata<P, HostMemoryAllocator<P, Callbacks<P, CrossHostTransfers<P, End>>>>>;
