//! The table of features: the name of each feature, its trait, and the functions of the trait.

/// Passes the table to the macro `$callback`, after `$before` in parentheses. Each row has the form
/// `name: Trait { function: type, … }`. `B` is the backend in the types.
macro_rules! for_each_feature {
    ($callback:ident $($before:tt)*) => {
        $callback! {
            ($($before)*)

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
                is_dynamic_output: fn(&B, &B::Executable, usize) -> bool,
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
                load_executable: fn(&B, &Arc<B::Executable>) -> Result<Arc<B::Executable>>,
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
                execute_all: fn(&B, &Arc<B::Executable>, &mut [Launch<'_, B>]) -> Result<Vec<Event>>,
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

            /// Declares that the backend allocates the host memory that frameworks use for fast transfers
            /// (`PJRT_HostMemoryAllocator_Extension`).
            host_memory_allocator: HostMemoryAllocator {
                allocate_host: fn(&B, usize, Option<usize>) -> Result<HostAllocation>,
            }

            /// Offers reports of failures (`PJRT_Callback_Extension`).
            failure_reports: FailureReports {
                failure_callbacks: fn(&B) -> &FailureCallbacks,
            }
        }
    };
}
pub(crate) use for_each_feature;
