//! Optional features of a driver.
//!
//! [`Runtime`] implements some [features](device_plugin::features) of a backend for every driver. The others need the
//! driver. A driver implements the trait of a feature in this module, and lists the feature in [`Driver::FEATURES`]:
//!
//! ```
//! # use std::sync::Arc;
//! # use device_plugin::{ClientOptions, CompileOptions, Compiled, DevicePlugin, Error, Program, Result, device_plugin};
//! # use device_runtime::{DriverDevice, HostSource, HostTarget, LaunchRequest, QueueId};
//! use device_plugin::features::Features;
//! use device_runtime::features::{Platform, Serialization};
//! use device_runtime::{Driver, Runtime};
//!
//! # pub struct Example;
//! # #[device_plugin]
//! # impl DevicePlugin for Example {
//! #     const NAME: &'static str = "example";
//! #     type Backend = Runtime<ExampleDriver>;
//! # }
//! pub struct ExampleDriver;
//!
//! impl Driver for ExampleDriver {
//!     type Executable = Vec<u8>;
//!
//!     const FEATURES: Features<Runtime<Self>> = Features::none().platform().serialization();
//!     // …
//! #   type Memory = ();
//! #   type Prepared = ();
//! #   type Completion = ();
//! #   fn open(_: &ClientOptions) -> Result<Self> { Ok(Self) }
//! #   fn devices(&self) -> Vec<DriverDevice> { Vec::new() }
//! #   fn allocate(&self, _: usize, _: usize) -> Result<()> { Ok(()) }
//! #   fn copy_from_host(&self, _: QueueId, _: &HostSource, _: &Arc<()>, _: &[Arc<()>]) -> Result<()> { Ok(()) }
//! #   fn copy_to_host(&self, _: QueueId, _: &Arc<()>, _: &HostTarget, _: &[Arc<()>]) -> Result<()> { Ok(()) }
//! #   fn copy(&self, _: QueueId, _: (usize, &Arc<()>), _: &Arc<()>, _: usize, _: &[Arc<()>]) -> Result<()> { Ok(()) }
//! #   fn compile(&self, _: &Program, _: &CompileOptions) -> Result<Compiled<Vec<u8>>> {
//! #       Err(Error::unimplemented("no programs"))
//! #   }
//! #   fn prepare(&self, _: &Arc<Vec<u8>>, _: &LaunchRequest<'_, Self>) -> Result<()> { Ok(()) }
//! #   fn launch(&self, _: QueueId, _: (), _: &[Arc<()>]) {}
//! #   fn wait(&self, _: &()) -> Result<()> { Ok(()) }
//! }
//!
//! impl Platform for ExampleDriver {
//!     fn platform_version(&self) -> String {
//!         "firmware 1.2".to_owned()
//!     }
//! }
//!
//! impl Serialization for ExampleDriver {
//!     fn serialize(executable: &Vec<u8>) -> Result<Option<Vec<u8>>> {
//!         Ok(Some(executable.clone()))
//!     }
//!
//!     fn deserialize_and_load(&self, data: &[u8], options: &CompileOptions) -> Result<Compiled<Vec<u8>>> {
//!         // …
//! #       let _ = (data, options);
//! #       Err(Error::unimplemented("no programs"))
//!     }
//! }
//! ```
//!
//! The compiler rejects a driver that lists a feature without its trait. `#[device_plugin]` rejects a driver that
//! implements a trait without listing its feature. The traits have the names of those in [`device_plugin::features`],
//! where the SDK describes when it calls their functions.
//!
//! | a driver that | lists | and implements |
//! |---|---|---|
//! | names its platform and version | [`platform`](Features::platform) | [`Platform`] |
//! | has options for its compiler | [`named_options`](Features::named_options) | [`NamedOptions`] |
//! | compiles for absent devices | [`ahead_of_time`](Features::ahead_of_time) | [`AheadOfTime`] |
//! | serializes compiled programs | [`serialization`](Features::serialization) | [`Serialization`] |
//! | reports the costs of programs | [`cost_analysis`](Features::cost_analysis) | [`CostAnalysis`] |
//! | allocates host memory for fast transfers | [`host_memory_allocator`](Features::host_memory_allocator) | [`HostMemoryAllocator`] |
//! | can end a launch with an error | [`poisoning`](Features::poisoning) | [`Poisoning`] |
//! | reports the addresses of device memory | [`buffer_addresses`](Features::buffer_addresses) | [`BufferAddresses`] |
//! | shares its streams with other libraries | [`streams`](Features::streams) | [`Streams`] |
//! | copies parts of device memory | [`piecewise_uploads`](Features::piecewise_uploads), [`raw_buffers`](Features::raw_buffers) | [`PartialCopies`] |
//! | copies between all memories of all devices | [`queued_transfers`](Features::queued_transfers) | |
//! | runs custom calls | [`ffi`](Features::ffi) | |
//!
//! The runtime begins reads and copies of buffers that are not ready yet, if the driver lists `queued_transfers`. Such
//! a driver never returns `UNIMPLEMENTED` from [`Driver::copy`], because the caller would then wait for the buffer.
//!
//! Custom calls need no trait. [`Registry::of`](device_plugin::ffi::Registry::of) with the type `Runtime<Self>` returns
//! the handlers. [`Driver::prepare`] looks up the handler, and [`Driver::launch`] or the thread of the launch calls it
//! with [`Handler::call_on_device`](device_plugin::ffi::Handler::call_on_device). It passes the addresses of the
//! launch's memory, the driver's handle of the queue, and the user data in
//! [`LaunchRequest::options`](crate::LaunchRequest::options). The handler enqueues its work there. If it fails,
//! [`Driver::wait`] returns its error for the launch, after the work that has been enqueued.
//!
//! # Forks
//!
//! In a forked process, and when the process is about to end, the runtime calls no method of a driver. Functions
//! without `self` do not depend on a client, so the runtime still calls them. In a forked process, they must not wait
//! for threads or locks of the parent process.

use std::sync::Arc;

use device_plugin::__private::signature_memory_stats;
#[cfg(doc)]
use device_plugin::features::Features;
use device_plugin::features::{self as plugin, HostAllocation, Stream};
use device_plugin::{
    CompileOptionSchema, CompileOptions, Compiled, CompiledMemoryStats, Error, ErrorCode, Event, ExecutableInfo,
    NamedValue, Program, Result, TopologyInfo,
};

use crate::buffer::Buffer;
use crate::copies;
use crate::driver::{Driver, QueueId};
use crate::host_memory::{HostSource, HostTarget};
use crate::runtime::Runtime;

/// A driver that names its platform and the platform's version.
pub trait Platform: Driver {
    /// Returns the name of the platform, or `None` to use the name of the plugin. The default implementation returns
    /// `None`.
    fn platform_name(&self) -> Option<String> {
        None
    }

    /// Returns a human-readable version, such as the version of the driver. The default implementation returns an empty
    /// string. A program that was serialized with another version is compiled again.
    fn platform_version(&self) -> String {
        String::new()
    }

    /// Returns the attributes of the topology that the devices form. The default implementation returns no attributes.
    fn topology_attributes(&self) -> Vec<NamedValue> {
        Vec::new()
    }
}

impl<D: Platform> plugin::Platform for Runtime<D> {
    fn platform_name(&self) -> Option<String> {
        self.driver().platform_name()
    }

    fn platform_version(&self) -> String {
        self.driver().platform_version()
    }

    fn topology_attributes(&self) -> Vec<NamedValue> {
        self.driver().topology_attributes()
    }
}

/// A driver that declares the compile options that it accepts by name.
pub trait NamedOptions: Driver {
    /// Returns the options that [`Driver::compile`] accepts in
    /// [`CompileOptions::env_option_overrides`](CompileOptions::env_option_overrides). The SDK rejects other names and
    /// values of the wrong type.
    fn compile_options() -> CompileOptionSchema;
}

impl<D: NamedOptions> plugin::NamedOptions for Runtime<D> {
    fn compile_options() -> CompileOptionSchema {
        D::compile_options()
    }
}

/// A driver that compiles programs for devices that need not be present.
pub trait AheadOfTime: Driver {
    /// Returns the devices and memories of the topology `name`. They need not be present.
    ///
    /// # Errors
    ///
    /// Returns `INVALID_ARGUMENT` for an unknown name or option.
    fn topology(name: &str, options: &[NamedValue]) -> Result<TopologyInfo>;

    /// Compiles a program for devices that need not be present.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Driver::compile`].
    fn compile_for(
        topology: &TopologyInfo,
        program: &Program,
        options: &CompileOptions,
    ) -> Result<Compiled<Self::Executable>>;

    /// Prepares an executable of [`AheadOfTime::compile_for`] for the devices of this driver. The default
    /// implementation returns the executable unchanged.
    ///
    /// # Errors
    ///
    /// Returns `INVALID_ARGUMENT` for a program that was compiled for other devices.
    fn load_executable(&self, executable: &Arc<Self::Executable>) -> Result<Arc<Self::Executable>> {
        Ok(Arc::clone(executable))
    }
}

impl<D: AheadOfTime> plugin::AheadOfTime for Runtime<D> {
    fn topology(name: &str, options: &[NamedValue]) -> Result<TopologyInfo> {
        D::topology(name, options)
    }

    fn compile_for(
        topology: &TopologyInfo,
        program: &Program,
        options: &CompileOptions,
    ) -> Result<Compiled<D::Executable>> {
        D::compile_for(topology, program, options)
    }

    fn load_executable(&self, executable: &Arc<D::Executable>) -> Result<Arc<D::Executable>> {
        self.open_driver()?.load_executable(executable)
    }
}

/// A driver that serializes compiled programs.
pub trait Serialization: Driver {
    /// Serializes a compiled program for exactly this version of the platform. If this function returns `None`, the SDK
    /// stores the program as received, and compiles it again to load it.
    ///
    /// # Errors
    ///
    /// Returns any error that prevents serialization.
    fn serialize(executable: &Self::Executable) -> Result<Option<Vec<u8>>>;

    /// Loads a program that [`Serialization::serialize`] serialized.
    ///
    /// # Errors
    ///
    /// Returns `INVALID_ARGUMENT` for data of another version or device.
    fn deserialize_and_load(&self, data: &[u8], options: &CompileOptions) -> Result<Compiled<Self::Executable>>;
}

impl<D: Serialization> plugin::Serialization for Runtime<D> {
    fn serialize(executable: &D::Executable) -> Result<Option<Vec<u8>>> {
        D::serialize(executable)
    }

    fn deserialize_and_load(&self, data: &[u8], options: &CompileOptions) -> Result<Compiled<D::Executable>> {
        self.open_driver()?.deserialize_and_load(data, options)
    }
}

/// A driver whose compiler reports the costs of a program.
pub trait CostAnalysis: Driver {
    /// Returns the costs of a program by name, such as `flops` and `bytes accessed`.
    ///
    /// # Errors
    ///
    /// Returns `UNIMPLEMENTED` if the compiler cannot determine the costs.
    fn cost_analysis(executable: &Self::Executable) -> Result<Vec<NamedValue>>;

    /// Returns the memory that an execution of a program needs. The default implementation computes it from the sizes
    /// of the program's code, parameters and outputs. It omits temporary memory.
    ///
    /// # Errors
    ///
    /// Returns `UNIMPLEMENTED` if the compiler cannot determine the memory.
    fn compiled_memory_stats(executable: &Self::Executable, info: &ExecutableInfo) -> Result<CompiledMemoryStats> {
        let _ = executable;
        Ok(signature_memory_stats(info))
    }
}

impl<D: CostAnalysis> plugin::CostAnalysis for Runtime<D> {
    fn cost_analysis(executable: &D::Executable) -> Result<Vec<NamedValue>> {
        D::cost_analysis(executable)
    }

    fn compiled_memory_stats(executable: &D::Executable, info: &ExecutableInfo) -> Result<CompiledMemoryStats> {
        D::compiled_memory_stats(executable, info)
    }
}

/// A driver that allocates host memory for fast transfers, such as pinned memory.
pub trait HostMemoryAllocator: Driver {
    /// Allocates at least `size` bytes of host memory. Their address stays the same until the allocation is dropped.
    /// `numa_node` is the index of a NUMA node. If it is `None`, the driver chooses the node.
    ///
    /// The framework may drop the allocation after the runtime has dropped the driver. A copy uses the allocation if
    /// the address of its [`HostSource`] or [`HostTarget`] lies in it.
    ///
    /// # Errors
    ///
    /// Returns `RESOURCE_EXHAUSTED` if there is not enough memory.
    fn allocate_host(&self, size: usize, numa_node: Option<usize>) -> Result<HostAllocation>;
}

impl<D: HostMemoryAllocator> plugin::HostMemoryAllocator for Runtime<D> {
    fn allocate_host(&self, size: usize, numa_node: Option<usize>) -> Result<HostAllocation> {
        self.open_driver()?.allocate_host(size, numa_node)
    }
}

/// A driver that can end a launch with an error.
pub trait Poisoning: Driver {
    /// Ends the earliest unfinished launch with this launch id on a device, which may be running.
    /// [`ExecuteOptions::launch_id`](device_plugin::ExecuteOptions::launch_id) contains the id of a launch. Returns
    /// `false` if there is no such launch.
    ///
    /// [`Driver::wait`] returns `error` for this launch when the device no longer uses its memory. The code of `error`
    /// is not `UNAVAILABLE`, which would report a lost device. The runtime passes `ABORTED` instead.
    ///
    /// # Errors
    ///
    /// Returns an error if the device cannot end the launch.
    fn poison_execution(&self, device: usize, launch_id: i32, error: Error) -> Result<bool>;
}

impl<D: Poisoning> plugin::Poisoning for Runtime<D> {
    fn poison_execution(&self, device: usize, launch_id: i32, error: Error) -> Result<bool> {
        self.device(device)?;
        let error = match error.code() {
            ErrorCode::UNAVAILABLE => Error::new(ErrorCode::ABORTED, error.message()),
            _ => error,
        };
        self.driver().poison_execution(device, launch_id, error)
    }
}

/// A driver whose memory has addresses.
pub trait BufferAddresses: Driver {
    /// Returns the address of device memory, or `None` if it has no address. Frameworks pass the address to other
    /// libraries, for example through DLPack.
    fn device_pointer(&self, memory: &Self::Memory) -> Option<usize>;
}

impl<D: BufferAddresses> plugin::BufferAddresses for Runtime<D> {
    fn device_pointer(&self, buffer: &Buffer<D>) -> Option<usize> {
        self.open_driver().ok()?.device_pointer(buffer.block().memory())
    }
}

/// A driver that copies parts of device memory. Frameworks then upload an array in pieces while they read or compute
/// it, and access ranges of the bytes of buffers.
pub trait PartialCopies: Driver {
    /// Begins to copy all bytes of `from` to device memory, from the byte `to.1` on. The method has the rules of
    /// [`Driver::copy_from_host`].
    ///
    /// # Errors
    ///
    /// Returns an error if the copy cannot begin. Then the driver does not access the memory.
    fn copy_part_from_host(
        &self,
        queue: QueueId,
        from: &HostSource,
        to: (&Arc<Self::Memory>, usize),
        after: &[Arc<Self::Completion>],
    ) -> Result<Self::Completion>;

    /// Begins to fill `to` with the bytes of device memory from the byte `from.1` on. The method has the rules of
    /// [`Driver::copy_to_host`].
    ///
    /// # Errors
    ///
    /// Returns an error if the copy cannot begin. Then the driver does not access the memory.
    fn copy_part_to_host(
        &self,
        queue: QueueId,
        from: (&Arc<Self::Memory>, usize),
        to: &HostTarget,
        after: &[Arc<Self::Completion>],
    ) -> Result<Self::Completion>;
}

impl<D: PartialCopies> Runtime<D> {
    /// Begins to copy some bytes to a buffer, from byte `offset` on. Returns the event of the copy.
    fn write_part(&self, buffer: &Buffer<D>, offset: usize, bytes: &[u8]) -> Result<Event> {
        let to = (buffer.block().memory(), offset);
        copies::write_part(self.device_of(buffer)?, buffer, offset, bytes, |driver, queue, from, after| {
            driver.copy_part_from_host(queue, from, to, after)
        })
    }
}

impl<D: PartialCopies> plugin::PiecewiseUploads for Runtime<D> {
    fn transfer_data(&self, buffer: &Buffer<D>, offset: usize, bytes: &[u8]) -> Result<()> {
        buffer.add_end(self.write_part(buffer, offset, bytes)?);
        Ok(())
    }
}

impl<D: PartialCopies> plugin::RawBuffers for Runtime<D> {
    fn read_raw(&self, buffer: &Buffer<D>, offset: usize, to: &mut [u8]) -> Result<()> {
        let from = (buffer.block().memory(), offset);
        copies::read_part(self.device_of(buffer)?, buffer, offset, to, |driver, queue, to, after| {
            driver.copy_part_to_host(queue, from, to, after)
        })
    }

    fn write_raw(&self, buffer: &Buffer<D>, offset: usize, bytes: &[u8]) -> Result<()> {
        self.write_part(buffer, offset, bytes)?.wait()
    }
}

/// A driver whose streams other libraries can use to share memory without waiting on the host.
pub trait Streams: Driver {
    /// Returns a stream for a library that passes memory to the device. The library makes this stream wait until the
    /// memory is ready. Later launches on the device must wait for the stream.
    ///
    /// # Errors
    ///
    /// Returns an error if the device has no such stream.
    fn stream_for_external_ready_events(&self, device: usize) -> Result<Stream>;

    /// Makes later work on a stream of another library wait until the operations in `after` have ended, with or without
    /// an error. These operations write a buffer that the library reads.
    ///
    /// # Errors
    ///
    /// Returns an error if the stream cannot wait for the operations.
    fn wait_on_stream(&self, stream: Stream, after: &[Arc<Self::Completion>]) -> Result<()>;
}

impl<D: Streams> plugin::Streams for Runtime<D> {
    fn stream_for_external_ready_events(&self, device: usize) -> Result<Stream> {
        self.device(device)?;
        self.driver().stream_for_external_ready_events(device)
    }

    fn wait_until_buffer_ready_on_stream(&self, stream: Stream, buffer: &Buffer<D>) -> Result<()> {
        self.device_of(buffer)?.health.check()?;
        let mut after = Vec::new();
        // No operation belongs to a new timeline, so the list contains those of all queues.
        buffer.block().uses().before_read(&Arc::default(), &mut after);
        self.driver().wait_on_stream(stream, &after)
    }
}
