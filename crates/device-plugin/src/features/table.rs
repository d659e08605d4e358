//! The features of a backend, as function pointers that the SDK can call without a bound on the feature's trait.

use std::marker::PhantomData;

use crate::features::cross_host_transfer::CrossHostTransfer;
use crate::features::stream::Stream;
use crate::{
    Backend, CompileOptionSchema, CompileOptions, Compiled, CompiledMemoryStats, Error, Event, ExecutableInfo,
    ForeignMemory, HostDestination, Launch, Layout, MemoryStats, NamedValue, Placement, ProcessInfo, Program, Result,
    Shape, TopologyInfo,
};

/// Declares one feature for each trait: `method: Trait { function: type, … }`. The method of [`Features`] that lists a
/// feature requires the trait, so a backend can list only features that it implements. `#[device_plugin]` rejects a
/// backend that implements a trait without listing its feature.
macro_rules! features {
    (
        ($d:tt)
        $($(#[$meta:meta])* $method:ident: $trait:ident { $($function:ident: $signature:ty,)+ })+
    ) => {
        /// The features that a backend supports beyond the methods of [`Backend`]. See the [module
        /// documentation](super).
        pub struct Features<B: Backend> {
            $(pub(crate) $method: Option<functions::$trait<B>>,)+
            pub(crate) ffi: bool,
            pub(crate) queued: bool,
            /// Whether the plugin has a backend. `false` only for [`NoBackend`](crate::NoBackend).
            pub(crate) present: bool,
        }

        impl<B: Backend> Features<B> {
            /// Creates an empty list of features, for a backend that supports only the methods of [`Backend`].
            pub const fn none() -> Self {
                Self { $($method: None,)+ ffi: false, queued: false, present: true }
            }

            $(
                $(#[$meta])*
                #[must_use]
                pub const fn $method(self) -> Self
                where
                    B: super::$trait,
                {
                    let functions =
                        functions::$trait { $($function: <B as super::$trait>::$function,)+ backend: PhantomData };
                    Self { $method: Some(functions), ..self }
                }
            )+

            /// Returns the names of the listed features. The name of a feature is the name of the method that lists it.
            pub fn names(&self) -> Vec<&'static str> {
                let features = [
                    $((self.$method.is_some(), stringify!($method)),)+
                    (self.ffi, "ffi"),
                    (self.queued, "queued"),
                ];
                features.iter().filter(|(listed, _)| *listed).map(|(_, name)| *name).collect()
            }
        }

        /// For each feature, a struct with pointers to the functions of its trait.
        pub(crate) mod functions {
            use super::*;

            $(
                pub(crate) struct $trait<B: Backend> {
                    $(pub(crate) $function: $signature,)+
                    pub(crate) backend: PhantomData<fn(&B)>,
                }
            )+
        }

        /// For each feature, whether a type implements the feature's trait. [`check_features!`](crate::check_features)
        /// creates this value.
        #[doc(hidden)]
        #[derive(Debug)]
        pub struct Implemented {
            $(pub $method: bool,)+
        }

        /// A type with one constant for each feature. The constant is `true` if `B` implements the feature's trait. The
        /// inherent constant has the trait as a bound. If `B` does not implement the trait, the name refers to the
        /// constant of [`NotImplemented`] instead.
        #[doc(hidden)]
        #[derive(Debug)]
        pub struct Probe<B>(PhantomData<B>);

        #[doc(hidden)]
        #[allow(non_upper_case_globals, reason = "the names of the methods of `Features`")]
        pub trait NotImplemented {
            $(const $method: bool = false;)+
        }

        impl<B> NotImplemented for Probe<B> {}

        $(
            #[allow(non_upper_case_globals, reason = "the names of the methods of `Features`")]
            impl<B: super::$trait> Probe<B> {
                #[doc(hidden)]
                pub const $method: bool = true;
            }
        )+

        /// Fails to compile if the backend implements the trait of a feature that [`Backend::FEATURES`] does not list.
        #[doc(hidden)]
        pub const fn check<B: Backend>(implemented: &Implemented) {
            $(
                assert!(
                    !implemented.$method || B::FEATURES.$method.is_some(),
                    concat!(
                        "the backend implements `", stringify!($trait), "`, but `Backend::FEATURES` does not list it: \
                         add `.", stringify!($method), "()`"
                    )
                );
            )+
        }

        /// Fails to compile if the type implements the trait of a feature that it does not list. The type must not be
        /// generic.
        #[doc(hidden)]
        #[macro_export]
        macro_rules! check_features {
            ($d backend:ty) => {{
                #[allow(unused_imports, reason = "a backend may implement all traits")]
                use $crate::__private::NotImplemented as _;
                $crate::__private::check::<$d backend>(&$crate::__private::Implemented {
                    $($method: $crate::__private::Probe::<$d backend>::$method,)+
                })
            }};
        }
    };
}

features! {
    ($)

    /// Declares that the backend names its platform and the platform's version.
    platform: Platform {
        platform_name: fn(&B) -> Option<String>,
        platform_version: fn(&B) -> String,
        topology_attributes: fn(&B) -> Vec<NamedValue>,
    }

    /// Declares that the backend runs in one of several processes that drive devices together.
    distributed: Distributed {
        process_index: fn(&B) -> i32,
        update_global_process_info: fn(&B, &[ProcessInfo]) -> Result<()>,
    }

    /// Declares that the backend exchanges arrays with devices of other processes
    /// (`PJRT_CrossHostTransfers_Extension`).
    cross_host_transfers: CrossHostTransfers {
        send_buffer: fn(&B, &B::Buffer, &CrossHostTransfer<'_>) -> Result<Event>,
        send_error: fn(&B, &Error, &CrossHostTransfer<'_>),
        receive_buffers: fn(&B, &[CrossHostTransfer<'_>]) -> Result<Vec<(B::Buffer, Event)>>,
    }

    /// Declares that the backend ends its own work if the process ends before its client is destroyed.
    at_exit: AtExit {
        at_exit: fn(&B) -> Option<Box<dyn FnOnce() + Send>>,
    }

    /// Declares that the devices store arrays in other orders than row-major.
    storage_layouts: StorageLayouts {
        default_layout: fn(&TopologyInfo, &Shape) -> Option<Layout>,
    }

    /// Declares that the devices keep statistics of their memory.
    memory_statistics: MemoryStatistics {
        memory_stats: fn(&B, usize) -> Result<MemoryStats>,
        clear_memory_stats: fn(&B, usize) -> Result<()>,
    }

    /// Declares that reads of whole buffers continue after the call that begins them.
    async_reads: AsyncReads {
        begin_read: fn(&B, &B::Buffer, HostDestination) -> Result<Event>,
    }

    /// Declares that the backend writes data to the device piece by piece as it arrives.
    piecewise_uploads: PiecewiseUploads {
        transfer_data: fn(&B, &B::Buffer, usize, &[u8]) -> Result<()>,
    }

    /// Declares that arrays may have fewer elements than their shapes declare.
    dynamic_shapes: DynamicShapes {
        is_dynamic: fn(&B, &B::Buffer) -> bool,
        dynamic_dimensions: fn(&B, &B::Buffer, &Shape) -> Vec<(usize, i64)>,
    }

    /// Declares that buffers have addresses, or bytes that the host can access.
    buffer_addresses: BufferAddresses {
        host_bytes: for<'a> fn(&B, &'a B::Buffer) -> Option<&'a [u8]>,
        device_pointer: fn(&B, &B::Buffer) -> Option<usize>,
        on_device_size: fn(&B, &B::Buffer) -> Option<usize>,
    }

    /// Declares that the backend allocates, reinterprets and copies buffers without copies through the host.
    device_copies: DeviceCopies {
        create_uninitialized_buffer: fn(&B, &Shape, Placement) -> Result<B::Buffer>,
        bitcast: fn(&B, &B::Buffer, &Shape, &Shape, Placement) -> Result<B::Buffer>,
        copy: fn(&B, &B::Buffer, &Shape, Placement) -> Result<B::Buffer>,
    }

    /// Declares that buffers can use memory of other libraries, such as arrays passed through DLPack.
    foreign_views: ForeignViews {
        create_view_of_device_buffer: fn(&B, ForeignMemory, &Shape, Placement) -> Result<B::Buffer>,
    }

    /// Declares that the devices access host memory directly.
    dma_mappings: DmaMappings {
        dma_map: fn(&B, usize, usize) -> Result<()>,
        dma_unmap: fn(&B, usize) -> Result<()>,
    }

    /// Declares that the SDK checks named compile options against the backend's schema.
    named_options: NamedOptions {
        compile_options: fn() -> CompileOptionSchema,
    }

    /// Declares that the backend compiles programs for devices that need not be present.
    ahead_of_time: AheadOfTime {
        topology: fn(&str, &[NamedValue]) -> Result<TopologyInfo>,
        compile_for: fn(&TopologyInfo, &Program, &CompileOptions) -> Result<Compiled<B::Executable>>,
        load_executable: fn(&B, &std::sync::Arc<B::Executable>) -> Result<std::sync::Arc<B::Executable>>,
    }

    /// Declares that the backend serializes compiled programs, and loads them without compiling them again.
    serialization: Serialization {
        serialize: fn(&B::Executable) -> Result<Option<Vec<u8>>>,
        deserialize_and_load: fn(&B, &[u8], &CompileOptions) -> Result<Compiled<B::Executable>>,
    }

    /// Declares that the compiler reports the costs of a program.
    cost_analysis: CostAnalysis {
        cost_analysis: fn(&B::Executable) -> Result<Vec<NamedValue>>,
        compiled_memory_stats: fn(&B::Executable, &ExecutableInfo) -> Result<CompiledMemoryStats>,
    }

    /// Declares that the backend runs a program on several devices at once.
    multi_device: MultiDevice {
        execute_all: fn(&B, &std::sync::Arc<B::Executable>, &mut [Launch<'_, B>]) -> Result<Vec<Event>>,
    }

    /// Declares that frameworks can end an execution with an error.
    poisoning: Poisoning {
        poison_execution: fn(&B, usize, i32, Error) -> Result<bool>,
    }

    /// Declares that the backend tracks the framework's work that a device waits for.
    tracking: Tracking {
        track: fn(&B, usize, &str) -> Box<dyn Send + Sync>,
    }

    /// Offers a profile of the plugin's work (`PJRT_Profiler_Extension`). See [`profiler`](crate::profiler).
    profiler: Profiler {
        profile_started: fn(&[u8]) -> Result<()>,
        profile_stopping: fn() -> Result<()>,
    }

    /// Offers the device's streams to libraries that share its memory (`PJRT_Stream_Extension`).
    streams: Streams {
        stream_for_external_ready_events: fn(&B, usize) -> Result<Stream>,
        wait_until_buffer_ready_on_stream: fn(&B, Stream, &B::Buffer) -> Result<()>,
    }

    /// Offers access to ranges of a buffer's bytes (`PJRT_RawBuffer_Extension`).
    raw_buffers: RawBuffers {
        read_raw: fn(&B, &B::Buffer, usize, &mut [u8]) -> Result<()>,
        write_raw: fn(&B, &B::Buffer, usize, &[u8]) -> Result<()>,
        raw_host_pointer: fn(&B, &B::Buffer) -> Option<usize>,
    }

    /// Offers versions by which frameworks check whether a stored executable runs on a runtime
    /// (`PJRT_AbiVersion_Extension`).
    abi_versions: AbiVersions {
        platform_id: fn() -> u64,
        runtime_abi_version: fn(&B) -> Result<Vec<u8>>,
        executable_abi_version: fn(&B::Executable) -> Result<Vec<u8>>,
        check_runtime: fn(&[u8], &[u8]) -> Result<()>,
        check_executable: fn(&[u8], &[u8]) -> Result<()>,
    }

    /// Offers descriptions of executables (`PJRT_ExecutableMetadata_Extension`).
    executable_metadata: ExecutableMetadata {
        executable_metadata: fn(&B::Executable) -> Result<Vec<u8>>,
    }

    /// Offers host memory for fast transfers to and from the device (`PJRT_HostMemoryAllocator_Extension`).
    host_memory_allocator: HostMemoryAllocator {
        allocate_host: fn(&B, usize, Option<usize>) -> Result<crate::features::HostAllocation>,
    }

    /// Offers reports of failures (`PJRT_Callback_Extension`).
    failure_reports: FailureReports {
        failure_callbacks: fn(&B) -> &crate::features::FailureCallbacks,
    }
}

impl<B: Backend> Features<B> {
    /// Returns the features of a plugin without a backend.
    pub(crate) const fn absent() -> Self {
        Self { present: false, ..Self::none() }
    }

    /// Declares that the backend runs custom calls, whose handlers and user data come from frameworks
    /// (`PJRT_FFI_Extension`). See [`ffi`](crate::ffi).
    #[must_use]
    pub const fn ffi(self) -> Self {
        Self { ffi: true, ..self }
    }

    /// Declares that the device runs its work in the order of submission, so that [`Backend::execute`] may receive
    /// buffers whose event is still pending.
    ///
    /// Without this feature, the SDK calls `execute` with ready buffers only. If a buffer is not ready when the
    /// framework launches the program, the framework's call still returns at once. The SDK creates the outputs, holds
    /// the arguments, and calls `execute` on one of its own threads when the last argument is ready. If an argument
    /// fails, the outputs fail with its error and `execute` is not called. Deferred launches begin in the order in
    /// which their arguments become ready. If programs of different launches wait for each other on the device, the
    /// backend must keep the order itself.
    ///
    /// With this feature, the SDK adds the events of the arguments to the event that `execute` returns. If an argument
    /// fails later, the outputs fail with its error. The device may therefore run with a failed input, and must
    /// tolerate any contents of this input. A launch is still deferred if the value of an argument does not exist yet.
    /// An example is a buffer whose data the framework has not sent.
    ///
    /// `read`, `copy`, `bitcast` and the functions of raw buffers always receive ready buffers. These functions return
    /// no event, so they cannot fail later or report when the memory becomes valid. If a framework copies a pending
    /// buffer, the SDK therefore calls `copy` when this buffer becomes ready.
    #[must_use]
    pub const fn queued(self) -> Self {
        Self { queued: true, ..self }
    }
}

impl<B: Backend> Default for Features<B> {
    fn default() -> Self {
        Self::none()
    }
}

impl<B: Backend> std::fmt::Debug for Features<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}
