//! The features that a backend can support beyond the methods of [`Backend`].
//!
//! A simple plugin needs no features. Almost every feature has a trait with the functions that it requires. A backend
//! implements the trait and lists the feature in [`Backend::FEATURES`]:
//!
//! ```
//! use device_plugin::features::{AsyncReads, Features, MultiDevice};
//! # use std::sync::Arc;
//! # use device_plugin::*;
//! # struct Example;
//! # #[device_plugin]
//! # impl DevicePlugin for Example {
//! #     const NAME: &'static str = "example";
//! #     type Backend = Device;
//! # }
//!
//! # struct Device;
//! impl Backend for Device {
//!     const FEATURES: Features<Self> = Features::none().async_reads().multi_device().queued();
//!     // …
//! #   type Buffer = Arc<Vec<u8>>;
//! #   type Executable = ();
//! #   fn create(_: &ClientOptions) -> Result<Self> { Ok(Self) }
//! #   fn devices(&self) -> Vec<DeviceInfo> { vec![DeviceInfo::new(0, "device")] }
//! #   fn buffer_from_host(&self, host: HostArray<'_>, _: Placement) -> Result<Self::Buffer> { Ok(Arc::new(host.into_bytes())) }
//! #   fn read(&self, _: &Self::Buffer, _: &mut [u8]) -> Result<()> { Ok(()) }
//! #   fn compile(&self, _: &Program, _: &CompileOptions) -> Result<Compiled<()>> { Err(Error::unimplemented("none")) }
//! #   fn execute(&self, _: &Arc<()>, _: &mut Launch<'_, Self>) -> Result<Event> { Ok(Event::ready()) }
//! }
//!
//! impl AsyncReads for Device {
//!     fn begin_read(&self, buffer: &Self::Buffer, mut to: HostDestination) -> Result<Event> {
//!         // A device with a copy engine passes `to` to it, and returns the event of the copy.
//!         to.bytes().copy_from_slice(buffer);
//!         Ok(Event::ready())
//!     }
//! }
//!
//! impl MultiDevice for Device {
//!     fn execute_all(&self, executable: &Arc<()>, launches: &mut [Launch<'_, Self>]) -> Result<Vec<Event>> {
//!         launches.iter_mut().map(|launch| self.execute(executable, launch)).collect()
//!     }
//! }
//! ```
//!
//! The compiler reports inconsistencies. A backend must implement the trait of each feature that it lists.
//! [`#[device_plugin]`](macro@crate::device_plugin) rejects a backend that implements a trait without listing its
//! feature. Three features have no functions and therefore no trait: [`Features::queued`],
//! [`Features::queued_transfers`] and [`Features::ffi`].
//!
//! | a device that | lists | and implements |
//! |---|---|---|
//! | names its platform and version | [`platform`](Features::platform) | [`Platform`] |
//! | runs in one of several processes | [`distributed`](Features::distributed) | [`Distributed`] |
//! | exchanges arrays with devices of other processes | [`cross_host_transfers`](Features::cross_host_transfers) | [`CrossHostTransfers`] |
//! | ends its own work at exit | [`at_exit`](Features::at_exit) | [`AtExit`] |
//! | stores arrays in other orders than row-major | [`storage_layouts`](Features::storage_layouts) | [`StorageLayouts`] |
//! | keeps statistics of its memory | [`memory_statistics`](Features::memory_statistics) | [`MemoryStatistics`] |
//! | reads asynchronously | [`async_reads`](Features::async_reads) | [`AsyncReads`] |
//! | accepts uploads in pieces | [`piecewise_uploads`](Features::piecewise_uploads) | [`PiecewiseUploads`] |
//! | computes extents at run time | [`dynamic_shapes`](Features::dynamic_shapes) | [`DynamicShapes`] |
//! | reports the addresses of buffers | [`buffer_addresses`](Features::buffer_addresses) | [`BufferAddresses`] |
//! | copies buffers without the host | [`device_copies`](Features::device_copies) | [`DeviceCopies`] |
//! | uses memory of other libraries | [`foreign_views`](Features::foreign_views) | [`ForeignViews`] |
//! | accesses host memory directly | [`dma_mappings`](Features::dma_mappings) | [`DmaMappings`] |
//! | allocates host memory for fast transfers | [`host_memory_allocator`](Features::host_memory_allocator) | [`HostMemoryAllocator`] |
//! | has options for its compiler | [`named_options`](Features::named_options) | [`NamedOptions`] |
//! | compiles for absent devices | [`ahead_of_time`](Features::ahead_of_time) | [`AheadOfTime`] |
//! | serializes compiled programs | [`serialization`](Features::serialization) | [`Serialization`] |
//! | reports the costs of programs | [`cost_analysis`](Features::cost_analysis) | [`CostAnalysis`] |
//! | runs one program on several devices | [`multi_device`](Features::multi_device) | [`MultiDevice`] |
//! | can end an execution with an error | [`poisoning`](Features::poisoning) | [`Poisoning`] |
//! | tracks the framework's work that it waits for | [`tracking`](Features::tracking) | [`Tracking`] |
//! | runs its work in the order of submission | [`queued`](Features::queued) | |
//! | also runs its transfers in this order | [`queued_transfers`](Features::queued_transfers) | |
//! | offers an extension of the C API | [`profiler`](Features::profiler), [`streams`](Features::streams), [`raw_buffers`](Features::raw_buffers), [`ffi`](Features::ffi), [`abi_versions`](Features::abi_versions), [`executable_metadata`](Features::executable_metadata), [`failure_reports`](Features::failure_reports) | [`Profiler`], [`Streams`], [`RawBuffers`], [`AbiVersions`], [`ExecutableMetadata`], [`FailureReports`] |
//!
//! # Extensions of the C API
//!
//! Frameworks find extensions in a linked list to which the function table points. Layouts, shardings and memory
//! descriptions are always available, because the SDK derives them from the methods that every backend has. So is host
//! memory, because the SDK can allocate it. All other supported extensions depend on the backend, so each of them is a
//! feature. The following table lists all extensions:
//!
//! | type | name | in this SDK |
//! |---:|---|---|
//! | 0 | Gpu_Custom_Call | not offered: registers CUDA and ROCm custom calls for XLA's own GPU compiler. Other devices use FFI |
//! | 1 | Profiler | [`Features::profiler`]. While a profile runs, the SDK also reads this extension from the arguments of `PJRT_Client_Compile` and `PJRT_LoadedExecutable_Execute` |
//! | 2 | Custom_Partitioner | not offered: its callbacks receive modules of XLA's own compiler, which other compilers do not have |
//! | 3 | Stream | [`Features::streams`] |
//! | 4 | Layouts | always |
//! | 5 | FFI | [`Features::ffi`] |
//! | 6 | MemoryDescriptions | always |
//! | 7 | Triton | not offered: compiles Triton kernels for CUDA |
//! | 8 | RawBuffer | [`Features::raw_buffers`] |
//! | 9 | PhaseCompile | not offered: runs phases of XLA's own compiler one by one; [`AheadOfTime::compile_for`] compiles ahead of time |
//! | 10, 11 | Example, Unknown | not offered: no functions |
//! | 12 | CrossHostTransfers | [`Features::cross_host_transfers`] |
//! | 13 | ExecutableMetadata | [`Features::executable_metadata`] |
//! | 14 | Callback | [`Features::failure_reports`] |
//! | 15 | HostAllocator | not offered: no struct declared |
//! | 16, 17 | TpuTopology, TpuExecutable | not offered: shapes and programs of TPUs |
//! | 18 | Megascale | not offered: transfers between slices of TPUs. It creates the `multi_slice_config` of an execution, which the SDK therefore rejects |
//! | 19 | Shardings | always |
//! | 20 | AbiVersion | [`Features::abi_versions`]. Serialized executables of this SDK also contain the platform's name and version, which the SDK checks on load |
//! | 21 | Collectives | not offered: collectives outside programs, which frameworks use on CUDA only |
//! | 22 | MultiSlice | not offered: for transfers between slices of TPUs, like Megascale |
//! | 23 | HostMemoryAllocator | always; ordinary memory without [`Features::host_memory_allocator`] |
//! | 24 | XlaTransform | not offered: changes how XLA's own compiler runs |

#[cfg(doc)]
use crate::Backend;
pub use crate::backend::Features;

pub(crate) mod calls;
mod compilation;
mod cross_host;
mod cross_host_transfer;
mod execution;
mod failure_callbacks;
mod failures;
mod host_allocation;
mod host_memory;
mod list;
mod memory;
mod platform;
mod profiler;
mod raw_buffers;
mod stream_handle;
mod streams;
pub(crate) mod table;
mod transfers;
mod versions;

pub(crate) use calls::FeatureCalls;
pub use compilation::{AheadOfTime, CostAnalysis, NamedOptions, Serialization};
pub use cross_host::CrossHostTransfers;
pub use cross_host_transfer::CrossHostTransfer;
pub use execution::{MultiDevice, Poisoning, Tracking};
pub use failure_callbacks::{Failure, FailureCallbacks};
pub use failures::FailureReports;
pub use host_allocation::HostAllocation;
pub use host_memory::HostMemoryAllocator;
#[doc(hidden)]
pub use list::{Implemented, NotImplemented, Probe, check};
pub use memory::{BufferAddresses, DeviceCopies, DmaMappings, ForeignViews};
pub use platform::{AtExit, Distributed, MemoryStatistics, Platform, StorageLayouts};
pub use profiler::Profiler;
pub use raw_buffers::RawBuffers;
pub use stream_handle::Stream;
pub use streams::Streams;
pub use transfers::{AsyncReads, DynamicShapes, PiecewiseUploads};
pub use versions::{AbiVersions, ExecutableMetadata};
