//! Queues, memory and transfers for PJRT plugins over a device driver.
//!
//! A vendor implements [`Driver`], whose methods allocate device memory, begin copies, compile and launch programs, and
//! wait for the end of these operations. [`Runtime`] is a [`Backend`](device_plugin::Backend) over such a driver. It
//! adds:
//!
//! - **Queues.** Each device has two ordered queues, see [`QueueKind`]. An operation keeps the memory that it uses
//!   alive until the driver reports its end. One thread for each queue waits for the driver and completes the events of
//!   the SDK.
//! - **Dependencies.** If an operation needs a result of another queue, the runtime passes the completion of that
//!   result to the driver. If an argument of a launch fails, the outputs fail with an error that names the argument.
//! - **Back-pressure.** A queue holds at most [`Driver::MAX_IN_FLIGHT`] unfinished operations. Further calls wait.
//! - **Memory.** A pool with size classes keeps the memory of dropped buffers. Later operations of the same queue reuse
//!   it at once, operations of other queues when no operation uses it any more. If memory is exhausted, the runtime
//!   returns such memory to the driver, after the operations that use it have ended, and tries again.
//! - **Donation.** An output can use the memory of a donated argument, see [`Driver::output_alias`].
//! - **Collectives.** The launches of one execution find each other, and exchange arrays by algorithms that need only a
//!   copy and a reduction from the driver, see [`collectives`].
//! - **Features.** A driver can add features such as the serialization of programs, see [`features`].
//! - **Errors.** Errors of the driver name the operation, its size and the ids of its devices.
//! - **A lost device.** After an error with the code `UNAVAILABLE`, all later operations of the device fail with this
//!   code.
//! - **The end.** Dropping the runtime waits for all operations and joins the threads.
//!
//! ```
//! # use std::sync::Arc;
//! # use device_plugin::{ClientOptions, CompileOptions, Compiled, DevicePlugin, Program, Result, device_plugin};
//! # use device_runtime::{DriverDevice, HostSource, HostTarget, LaunchRequest, QueueId};
//! use device_runtime::{Driver, Runtime};
//!
//! pub struct Example;
//!
//! #[device_plugin]
//! impl DevicePlugin for Example {
//!     const NAME: &'static str = "example";
//!     type Backend = Runtime<ExampleDriver>;
//! }
//!
//! pub struct ExampleDriver;
//!
//! impl Driver for ExampleDriver {
//!     // …
//! #   type Memory = ();
//! #   type Executable = ();
//! #   type Prepared = ();
//! #   type Completion = ();
//! #   fn open(_: &ClientOptions) -> Result<Self> { Ok(Self) }
//! #   fn devices(&self) -> Vec<DriverDevice> { Vec::new() }
//! #   fn allocate(&self, _: usize, _: usize) -> Result<()> { Ok(()) }
//! #   fn copy_from_host(&self, _: QueueId, _: &HostSource, _: &Arc<()>, _: &[Arc<()>]) -> Result<()> { Ok(()) }
//! #   fn copy_to_host(&self, _: QueueId, _: &Arc<()>, _: &HostTarget, _: &[Arc<()>]) -> Result<()> { Ok(()) }
//! #   fn copy(&self, _: QueueId, _: (usize, &Arc<()>), _: &Arc<()>, _: usize, _: &[Arc<()>]) -> Result<()> { Ok(()) }
//! #   fn compile(&self, _: &Program, _: &CompileOptions) -> Result<Compiled<()>> {
//! #       Err(device_plugin::Error::unimplemented("no programs"))
//! #   }
//! #   fn prepare(&self, _: &Arc<()>, _: &LaunchRequest<'_, Self>) -> Result<()> { Ok(()) }
//! #   fn launch(&self, _: QueueId, _: (), _: &[Arc<()>]) {}
//! #   fn wait(&self, _: &()) -> Result<()> { Ok(()) }
//! }
//! ```
//!
//! # Limits
//!
//! All devices belong to one process. A device has a memory of kind `device`, and the driver can add others, which only
//! this device uses. PJRT reports the statistics of the first one. An array occupies as many bytes on the device as on
//! the host, in row-major order.
//!
//! Of the optional [features](device_plugin::features), the runtime has asynchronous reads, copies between devices,
//! launches on several devices, statistics of the memory, profiles, an exit hook, and launches with pending arguments.
//! A driver can add those of the module [`features`]. The runtime does not support the others, such as views of memory
//! that another library allocated.
#![forbid(unsafe_code)]

mod buffer;
pub mod collectives;
mod copies;
mod device;
mod driver;
pub mod features;
mod health;
mod host_memory;
mod host_thread;
mod kernel_times;
mod launch;
mod operation;
mod pool;
mod queue;
mod runtime;
mod size_class;
mod timeline;

pub use buffer::Buffer;
pub use driver::{Driver, DriverDevice, DriverMemory, LaunchMemory, LaunchRequest, QueueId, QueueKind};
pub use host_memory::{HostSource, HostTarget};
pub use host_thread::{HostThread, process_exits};
pub use kernel_times::KernelTimes;
pub use runtime::Runtime;
