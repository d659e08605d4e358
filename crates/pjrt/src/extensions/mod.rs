//! Extensions of plugins. An extension is an optional group of functions. For example, `plugin.extension::<Layouts>()`
//! returns the layouts extension if the plugin has it. Extensions of older plugins may lack some functions.
//! [`Plugin::supports`](crate::Plugin::supports) checks whether a plugin has a function.

mod abi_version;
mod callbacks;
mod collective_functions;
mod collectives;
mod communicator;
mod cross_host_transfers;
mod custom_calls;
mod custom_partitioner;
mod executable_metadata;
mod ffi;
mod functions;
mod host_memory_allocator;
mod layouts;
mod lent_results;
mod megascale;
mod memory_descriptions;
mod phase_compile;
mod plugin_extension;
mod profiler;
mod raw_buffers;
mod shardings;
mod streams;
mod tpu_executable;
mod tpu_topology;
mod xla_transform;

pub use abi_version::{AbiVersions, ExecutableAbiVersion, RuntimeAbiVersion};
pub use callbacks::{Callbacks, SliceFailure};
pub use collectives::Collectives;
pub use communicator::{CollectiveReduction, CollectiveRun, CollectiveScope, Communicator};
pub use cross_host_transfers::{CrossHostTransfers, Receive, Send, TaskIncarnation};
pub use custom_calls::{GpuCustomCalls, GpuHandlers};
pub use custom_partitioner::{CustomPartitioner, CustomPartitioners, Partitioned, PartitionedArray};
pub use executable_metadata::ExecutableMetadata;
pub use ffi::Ffi;
pub(crate) use functions::Functions;
pub use host_memory_allocator::{HostMemory, HostMemoryAllocator};
pub use layouts::Layouts;
pub use lent_results::CallbackError;
pub use megascale::{LocalSlice, Megascale, MegascaleContext, MultiSliceConfig, Processes};
pub use memory_descriptions::{MemoryDescription, MemoryDescriptions};
pub use phase_compile::{PhaseCompile, PhaseCompiler};
pub use pjrt_types::HandlerTraits;
pub use plugin_extension::{ExtensionInfo, PluginExtension, name};
pub use profiler::{Profile, Profiler};
pub use raw_buffers::{RawBuffer, RawBuffers};
pub use shardings::Shardings;
pub use streams::{Stream, Streams};
pub use tpu_executable::TpuExecutables;
pub use tpu_topology::{PlatformConfig, SliceConfig, TpuTopology};
pub use xla_transform::{PipelineStage, XlaTransforms};
