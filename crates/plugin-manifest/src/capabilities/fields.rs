//! The table of the capabilities. Each row declares one field, and macros generate the code for the field from its row.

/// Passes the rows of the table to a macro. Each row contains the documentation, name and type of a field, followed by
/// the properties below. The name of the field is also its JSON key.
///
/// - `c`: the fields of `dp_capabilities` that represent the capability in C. The last one determines whether the
///   capability is set. The [`CForm`](crate::c_view::capabilities) implementation of the capability's Rust type
///   determines the types of these C fields.
/// - `replaces`: the framework's rule that the field replaces. Empty if there is no such rule.
///
/// The rows are in the order of the JSON fields. CONTRIBUTING.md describes how to add a row.
macro_rules! for_each_capability {
    ($macro:ident) => {
        $macro! {
            /// Lower a gather densely, with a mask over the whole dimension, if the gathered dimension has at most ten
            /// times this many elements. `None`: never. \[PyTorch/XLA `index_select`, `gather`: 8192 on TPU and
            /// Neuron\]
            dense_gather_factor: Option<NonZeroU32> {
                c: [dense_gather_factor],
                replaces: "PyTorch/XLA gather: TPU, Neuron",
            }

            /// Lower a scatter densely if the number of index elements times this factor is at least the number of
            /// input elements. `None`: never. \[PyTorch/XLA scatter: 100 on TPU\]
            dense_scatter_factor: Option<NonZeroU32> {
                c: [dense_scatter_factor],
                replaces: "PyTorch/XLA scatter: TPU",
            }

            /// The algorithm for random bits. \[PyTorch/XLA random: ThreeFry on CUDA up to 2.8\]
            rng_bit_generator: RngBitGenerator {
                c: [rng_bit_generator],
                replaces: "PyTorch/XLA random: CUDA",
            }

            /// Automatic mixed precision (autocast). `None`: frameworks ignore a request for autocast and print a
            /// warning. \[PyTorch/XLA `torch_xla.amp.autocast`: `bf16` on TPU and Neuron, `f16` and others on CUDA up
            /// to 2.8\]
            autocast: Option<Autocast> {
                c: [autocast_dtypes, autocast_dtypes_size, autocast_default_dtype, autocast_kind],
                replaces: "PyTorch/XLA autocast: TPU, Neuron, CUDA",
            }

            /// The element types that programs may use. `None`: unknown, so frameworks try every type.
            supported_dtypes: Option<BTreeSet<ElementType>> {
                c: [supported_dtypes, supported_dtypes_size],
                replaces: "",
            }

            /// Element types that frameworks always replace with another type. \[PyTorch/XLA: `f64`, `u16` and `s16` on
            /// Neuron\]
            remapped_dtypes: BTreeMap<ElementType, ElementType> {
                c: [remapped_dtypes, remapped_dtypes_size],
                replaces: "PyTorch/XLA element types: Neuron",
            }

            /// Handling of 64-bit integers. \[PyTorch/XLA on TPU: an integer `dot` runs on the host\]
            int64: Int64Policy {
                c: [int64_policy],
                replaces: "PyTorch/XLA dot: TPU",
            }

            /// Whether `f32` and `f64` arrays are stored in narrower types. \[PyTorch/XLA, by environment variables
            /// only\]
            bf16: Bf16Policy {
                c: [bf16_policy],
                replaces: "PyTorch/XLA environment variables",
            }

            /// The layout of arrays sent to the device. \[PyTorch/XLA: tiles of 8 by 128 on TPU\]
            layout: LayoutPolicy {
                c: [layout_tile, layout_max_padding, layout_policy],
                replaces: "PyTorch/XLA layouts: TPU",
            }

            /// Whether the compiler can partition one program across several devices. \[PyTorch/XLA: hardware checks,
            /// and a second initialization on Neuron\]
            spmd: Spmd {
                c: [spmd],
                replaces: "PyTorch/XLA SPMD: Neuron",
            }

            /// Whether a program may reuse the memory of its inputs for its outputs. \[JAX: cpu, cuda, rocm, tpu,
            /// neuron\]
            donation: bool {
                c: [donation],
                replaces: "JAX donation: cpu, cuda, rocm, tpu, neuron",
            }

            /// Whether frameworks may keep compiled programs on disk for other processes. The plugin's executables must
            /// support serialization. \[JAX: tpu, gpu, cpu, neuron\]
            persistent_cache: bool {
                c: [persistent_cache],
                replaces: "JAX compilation cache: tpu, gpu, cpu, neuron",
            }

            /// Whether a program that was compiled for some devices can run on other devices. If so, the key of the
            /// compilation cache omits the device assignment. \[JAX: gpu\]
            cache_key_strip_device_assignment: bool {
                c: [cache_key_strip_device_assignment],
                replaces: "JAX compilation cache key: gpu",
            }

            /// Callbacks from a running program into the host. `None`: no callbacks. \[JAX: cpu, cuda, rocm, tpu\]
            host_callbacks: Option<HostCallbacks> {
                c: [host_callbacks_partitioned, host_callbacks_empty_arrays, host_callbacks],
                replaces: "JAX callbacks: cpu, cuda, rocm, tpu",
            }

            /// Pass the arguments of a program as one tuple if the program has more arguments than this. `None`: never.
            /// \[JAX: 2000 on TPU\]
            tuple_args_threshold: Option<NonZeroU32> {
                c: [tuple_args_threshold],
                replaces: "JAX tupled arguments: tpu",
            }

            /// Program formats that the compiler accepts. \[PyTorch/XLA sends HLO unless an environment variable
            /// requests another format. JAX sends StableHLO\]
            program_formats: ProgramFormats {
                c: [program_formats, program_formats_size],
                replaces: "PyTorch/XLA environment variable",
            }

            /// Whether executables return their optimized program. \[PyTorch/XLA: compilation fails without the
            /// optimized program\]
            optimized_program: OptimizedProgram {
                c: [optimized_program],
                replaces: "PyTorch/XLA compilation",
            }

            /// Range of StableHLO versions that the compiler reads, for tools that do not create a client. A loaded
            /// plugin reports this range in its attributes. `None`: unknown.
            stablehlo: Option<StablehloVersions> {
                c: [stablehlo_minimum, stablehlo_current],
                replaces: "",
            }

            /// Support for arrays whose extents are known only at run time. \[PyTorch/XLA: an environment variable for
            /// all devices\]
            dynamic_shapes: DynamicShapes {
                c: [dynamic_shapes],
                replaces: "PyTorch/XLA environment variable",
            }

            /// DLPack device type of the device's memory. `None` if the memory cannot be shared through DLPack. \[JAX:
            /// cpu, cuda, rocm, oneapi; PyTorch/XLA: CPU, and CUDA up to 2.8\]
            dlpack_device: Option<DlpackDevice> {
                c: [dlpack_device],
                replaces: "JAX DLPack: cpu, cuda, rocm, oneapi; PyTorch/XLA DLPack: CPU, CUDA",
            }

            /// DLPack device type of host memory that is pinned for the device. `None` if this memory cannot be shared
            /// through DLPack. \[JAX: cuda, rocm, tpu\]
            dlpack_host_device: Option<DlpackDevice> {
                c: [dlpack_host_device],
                replaces: "JAX DLPack: cuda, rocm, tpu",
            }

            /// DLPack device types of foreign memory that the plugin's buffers can use without a copy. \[PyTorch/XLA
            /// Dynamo: CUDA up to 2.8\]
            zero_copy_import: BTreeSet<DlpackDevice> {
                c: [zero_copy_import, zero_copy_import_size],
                replaces: "PyTorch/XLA Dynamo: CUDA",
            }

            /// DLPack device types under which other libraries can use the plugin's buffers without a copy.
            /// \[PyTorch/XLA Dynamo: CUDA up to 2.8\]
            zero_copy_export: BTreeSet<DlpackDevice> {
                c: [zero_copy_export, zero_copy_export_size],
                replaces: "PyTorch/XLA Dynamo: CUDA",
            }

            /// The memory kinds of a device.
            memory_kinds: MemoryKinds {
                c: [memory_kinds, memory_kinds_size, default_memory_kind, default_memory_kind_size, host_offload],
                replaces: "",
            }

            /// The memory statistics that the device reports. \[PyTorch/XLA reads the limit without checking whether it
            /// exists\]
            memory_stats: MemoryStatsReport {
                c: [memory_stats],
                replaces: "PyTorch/XLA memory statistics",
            }

            /// The dot algorithms that the compiler supports. `None`: all. \[JAX: seven on cpu\]
            dot_algorithms: Option<BTreeSet<DotAlgorithm>> {
                c: [dot_algorithms, dot_algorithms_size],
                replaces: "JAX dot: cpu",
            }

            /// Support for dot products of operands with different types. \[JAX: float with integer operands on TPU\]
            mixed_dot: MixedDot {
                c: [mixed_dot],
                replaces: "JAX dot: tpu",
            }

            /// Other capabilities, by name. A name consists of lower-case letters, digits, underscores and dots. A
            /// framework looks up the names that it supports.
            features: BTreeMap<String, Value> {
                c: [features, features_size],
                replaces: "",
            }
        }
    };
}
pub(crate) use for_each_capability;
