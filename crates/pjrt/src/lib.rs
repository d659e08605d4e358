//! A safe client for PJRT, OpenXLA's device plugin interface: load plugins, compile and run programs, and transfer
//! data.
//!
//! ```no_run
//! use pjrt::{ClientOptions, CompileOptions, Plugin, Program};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // SAFETY: this file is a PJRT plugin that keeps the interface's contract.
//! let plugin = unsafe { Plugin::load("libexample_pjrt.so") }?;
//! let client = plugin.client(&ClientOptions::new())?;
//! let program = Program::mlir(
//!     "func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
//!        %y = stablehlo.add %x, %x : tensor<3xf32>
//!        return %y : tensor<3xf32>
//!      }",
//! );
//! let double = client.compile(&program, &CompileOptions::default())?;
//! let x = client.buffer_from_host(&[1.0f32, 2.0, 3.0], &[3])?;
//! let outputs = double.execute(&[&x])?;
//! assert_eq!(outputs[0].to_host::<f32>()?, [2.0, 4.0, 6.0]);
//! # Ok(())
//! # }
//! ```
//!
//! # Rules for all types
//!
//! - Objects keep the objects that they depend on alive: a [`Buffer`] holds its [`Client`], which holds its [`Plugin`].
//!   Handles are `Send + Sync` and may be dropped in any order.
//! - A function that calls the plugin returns the error that the plugin reports. The section *Errors* of a function's
//!   documentation lists only additional errors.
//! - If the plugin lacks a function, a call of this function returns an [`Error`] of kind [`ErrorKind::Unsupported`].
//!   [`Error::function`] returns the function's name. To check before the call, use [`Plugin::supports`].
//! - An asynchronous operation owns the host memory that it uses. The memory is freed only after the plugin reports
//!   that the operation has ended, even if the future is dropped or leaked.
//! - [`contracts`] lists what a plugin must promise (contracts C1 to C11) and what this crate guarantees in return.
//!
//! # Diagnostics
//!
//! The crate emits events and spans of [`tracing`](https://docs.rs/tracing). The span `compile` (level debug) records
//! the program's format, size and name. The span `execute` (level trace) records the program's name and the number of
//! devices. The span `execute` ends when the call returns. The program may still be running at that time.
//!
//! # Features
//!
//! - `dlpack`: exports DLPack tensors without copies, and imports them without copies if the device allows it.
//! - `hazards`: rejects programs that are known to crash XLA's plugins. The crate `plugin-registry` enables this
//!   feature.
//! - `stablehlo`: compiles programs that are built with the crate `stablehlo`. It serializes them in a StableHLO
//!   version that the plugin can read. The feature also makes [`LoadedExecutable::parameters`] read optimized programs
//!   that a plugin returns as StableHLO.
//! - `ndarray`: uploads arrays of the crate `ndarray`, and returns views of buffers as `ndarray` views.

mod cache;
mod download;
mod element;
mod envelope;
mod error;
pub mod extensions;
#[cfg(feature = "hazards")]
mod hazards;
mod host_array;
mod layout;
#[cfg(test)]
mod messages;
mod objects;
mod options;
mod program;
mod run;
#[cfg(feature = "stablehlo")]
pub mod stablehlo;
mod table;
mod upload;

pub use cache::{CacheStatistics, ExecutableCache};
pub use download::builder::Download;
pub use download::deferred_copy::DeferredCopy;
pub use download::host_read::{HostRead, HostReadInto};
pub use download::raw_download::RawDownload;
pub use error::{Error, ErrorKind};
pub use host_array::HostArray;
pub use objects::buffer::Buffer;
pub use objects::device::{AsyncTrackingEvent, Device, DeviceDescription};
pub use objects::device_memory::DeviceMemory;
pub use objects::event::Event;
pub use objects::executable::Executable;
pub use objects::exit::set_exit_wait;
pub use objects::external_reference::{ExternalReference, HostView};
pub use objects::key_value::KeyValueStore;
pub use objects::load_options::LoadOptions;
pub use objects::loaded_executable::LoadedExecutable;
pub use objects::memory::Memory;
pub use objects::new_buffer::NewBuffer;
pub use objects::owners::Client;
pub use objects::owners::Plugin;
pub use objects::pending_buffer::{AliasFulfillment, ControlDependency};
pub use objects::placement::Placement;
pub use objects::process_info::{ProcessInfo, ProcessState};
pub use objects::serialized::{SerializedExecutable, SerializedTopology};
pub use objects::settable_event::SettableEvent;
pub use objects::topology::TopologyDescription;
pub use options::ClientOptions;
#[doc(inline)]
pub use pjrt_sys::{StaticApi, contracts};
pub use pjrt_types::{
    ApiVersion, CompileOptions, CompiledMemoryStats, DeviceAssignment, Element, ElementType, ErrorCode,
    HostBufferSemantics, Layout, MemoryStats, NamedValue, OptionOverride, Program, Shape, UnknownFields, Value,
};
pub use run::copy_to_device_stream::CopyToDeviceStream;
pub use run::execute::{Execution, Input, ShardedExecution};
pub use run::execute_context::ExecuteContext;
pub use run::execute_options::ExecuteOptions;
pub use run::in_flight_limiter::{Acquire, InFlightLimiter, InFlightPermit};
pub use run::outputs::{Outputs, OutputsIntoIter};
pub use run::parameter::Parameter;
pub use run::run_callbacks::{ProgramOutput, SentChunk};
pub use table::function::Function;
pub use table::load_error::{LoadError, LoadErrorKind, LoaderError};
pub use upload::builder::Upload;
pub use upload::dma::DmaMapping;
pub use upload::transfer_manager::AsyncHostToDeviceTransferManager;

/// Raw pointers to a plugin's function table and objects, for code that calls PJRT functions that have no safe wrapper.
///
/// This module follows the PJRT header, so it may change with any minor version of this crate. [`Plugin::api`] returns
/// the [`Api`](raw::Api) of a plugin. Outside this module, the only type of `pjrt-sys` in the public API is
/// [`StaticApi`], which does not depend on the header.
pub mod raw {
    pub use pjrt_sys::{Slot, extension_slot, for_each_slot, slot};

    pub use crate::objects::adopt::{
        AdoptedBuffer, AsRaw, adopt_buffer, adopt_client, adopt_plugin, into_raw_buffer, own_buffer,
        with_multi_slice_config,
    };
    pub use crate::table::api::{Api, FallibleSlot};
    #[cfg(feature = "dlpack")]
    pub use crate::upload::dlpack::export as export_dlpack;
}

/// Runs the code blocks of the package's README as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct PackageReadme;
