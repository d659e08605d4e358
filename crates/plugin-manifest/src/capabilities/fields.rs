//! The table of the capabilities. Each row declares one field, and macros generate the code for the field from its row.

/// Passes the rows of the table to a macro. Each row contains the documentation, name and type of a field, followed by
/// the properties below. The name of the field is also its JSON key.
///
/// - `builder`: the argument that the builder's method takes. `value` means anything that converts into the field's
///   type. `count` means an integer for which 0 means `None`. `list(T)` means an iterator over `T`, and `text` means a
///   string. `by_hand` means that `builder.rs` defines the method.
/// - `c`: the fields of `dp_capabilities` that represent the capability in C. The last one determines whether the
///   capability is set. The [`CForm`](crate::describe::capabilities) implementation of the capability's Rust type
///   determines the types of these C fields.
/// - `replaces`: the framework's rule that the field replaces, for display. Empty if there is no such rule.
///
/// The rows are in the order of the JSON fields and of the printed table. CONTRIBUTING.md describes how to add a row.
macro_rules! for_each_capability {
    ($macro:ident) => {
        $macro! {
            /// Lower a gather densely, with a mask over the whole dimension, if the gathered dimension has at most ten
            /// times this many elements. `None`: never. \[PyTorch/XLA `index_select`, `gather`: 8192 on TPU and
            /// Neuron\]
            dense_gather_factor: Option<NonZeroU32> {
                builder: count,
                c: [dense_gather_factor],
                replaces: "PyTorch/XLA gather: TPU, Neuron",
            }

            /// Lower a scatter densely if the number of index elements times this factor is at least the number of
            /// input elements. `None`: never. \[PyTorch/XLA scatter: 100 on TPU\]
            dense_scatter_factor: Option<NonZeroU32> {
                builder: count,
                c: [dense_scatter_factor],
                replaces: "PyTorch/XLA scatter: TPU",
            }

            /// The algorithm for random bits. \[PyTorch/XLA random: ThreeFry on CUDA up to 2.8\]
            rng_bit_generator: RngBitGenerator {
                builder: value,
                c: [rng_bit_generator],
                replaces: "PyTorch/XLA random: CUDA",
            }

            /// Automatic mixed precision (autocast). `None`: frameworks ignore a request for autocast and print a
            /// warning. \[PyTorch/XLA `torch_xla.amp.autocast`: `bf16` on TPU and Neuron, `f16` and others on CUDA up
            /// to 2.8\]
            autocast: Option<Autocast> {
                builder: value,
                c: [autocast_dtypes, autocast_dtypes_size, autocast_default_dtype, autocast_kind],
                replaces: "PyTorch/XLA autocast: TPU, Neuron, CUDA",
            }

            /// PyTorch's dispatch key for autocast on tensors of the device. \[PyTorch/XLA tensor set-up: AutocastCUDA
            /// on CUDA up to 2.8\]
            autocast_dispatch_key: AutocastDispatchKey {
                builder: value,
                c: [autocast_dispatch_key],
                replaces: "PyTorch/XLA tensors: CUDA",
            }

            /// The device that runs operations without a lowering. \[PyTorch/XLA fallback: on CUDA up to 2.8, PyTorch's
            /// CUDA device, through DLPack\]
            eager_fallback: EagerFallback {
                builder: value,
                c: [eager_fallback],
                replaces: "PyTorch/XLA fallback: CUDA",
            }

            /// The element types that programs may use. `None`: unknown, so frameworks try every type.
            supported_dtypes: Option<BTreeSet<ElementType>> {
                builder: list(ElementType),
                c: [supported_dtypes, supported_dtypes_size],
                replaces: "",
            }

            /// Element types that frameworks always replace with another type. \[PyTorch/XLA: `f64`, `u16` and `s16` on
            /// Neuron\]
            remapped_dtypes: BTreeMap<ElementType, ElementType> {
                builder: by_hand,
                c: [remapped_dtypes, remapped_dtypes_size],
                replaces: "PyTorch/XLA element types: Neuron",
            }

            /// Handling of 64-bit integers. \[PyTorch/XLA on TPU: an integer `dot` runs on the host\]
            int64: Int64Policy {
                builder: value,
                c: [int64_policy],
                replaces: "PyTorch/XLA dot: TPU",
            }

            /// Whether `f32` and `f64` arrays are stored in narrower types. \[PyTorch/XLA, by environment variables
            /// only\]
            bf16: Bf16Policy {
                builder: value,
                c: [bf16_policy],
                replaces: "PyTorch/XLA environment variables",
            }

            /// The layout of arrays sent to the device. \[PyTorch/XLA: tiles of 8 by 128 on TPU\]
            layout: LayoutPolicy {
                builder: value,
                c: [layout_tile, layout_max_padding, layout_policy],
                replaces: "PyTorch/XLA layouts: TPU",
            }

            /// Whether the compiler supports the custom calls `ResizeNearest` and `ResizeBilinear`. Otherwise
            /// frameworks lower a resize to other operations. \[PyTorch/XLA upsampling: TPU and Neuron\]
            resize_custom_call: bool {
                builder: value,
                c: [resize_custom_call],
                replaces: "PyTorch/XLA upsampling: TPU, Neuron",
            }

            /// Whether the gradient of nearest-neighbor upsampling runs on the device instead of the host.
            /// \[PyTorch/XLA: TPU and Neuron\]
            upsample_nearest_backward: bool {
                builder: value,
                c: [upsample_nearest_backward],
                replaces: "PyTorch/XLA upsampling: TPU, Neuron",
            }

            /// Whether the gradient of bilinear upsampling runs on the device instead of the host. \[PyTorch/XLA: TPU\]
            upsample_bilinear_backward: bool {
                builder: value,
                c: [upsample_bilinear_backward],
                replaces: "PyTorch/XLA upsampling: TPU",
            }

            /// Whether the compiler can partition one program across several devices. \[PyTorch/XLA: hardware checks,
            /// and a second initialization on Neuron\]
            spmd: Spmd {
                builder: value,
                c: [spmd],
                replaces: "PyTorch/XLA SPMD: Neuron",
            }

            /// Name of the device attribute that holds a device's coordinates in the physical mesh. `None`: devices do
            /// not form a mesh. \[PyTorch/XLA hybrid meshes: `coords`, on TPU only\]
            mesh_coordinates: Option<String> {
                builder: text,
                c: [mesh_coordinates, mesh_coordinates_size],
                replaces: "PyTorch/XLA hybrid mesh: TPU",
            }

            /// Device orders for collective operations, for meshes in which the logical order is not the fastest.
            /// \[PyTorch/XLA replica groups: TPU v5p and v6e\]
            replica_orders: Vec<ReplicaOrder> {
                builder: by_hand,
                c: [replica_orders, replica_orders_size],
                replaces: "PyTorch/XLA replica groups: TPU v5p, v6e",
            }

            /// How processes find the address of the process with rank 0. \[PyTorch/XLA `get_master_ip`: TPU and
            /// Neuron\]
            master_address: MasterAddress {
                builder: value,
                c: [master_address_variable, master_address_variable_size, master_address],
                replaces: "PyTorch/XLA master address: TPU, Neuron",
            }

            /// Whether a program may reuse the memory of its inputs for its outputs. \[JAX: cpu, cuda, rocm, tpu,
            /// neuron\]
            donation: bool {
                builder: value,
                c: [donation],
                replaces: "JAX donation: cpu, cuda, rocm, tpu, neuron",
            }

            /// Whether frameworks may keep compiled programs on disk for other processes. The plugin's executables must
            /// support serialization. \[JAX: tpu, gpu, cpu, neuron\]
            persistent_cache: bool {
                builder: value,
                c: [persistent_cache],
                replaces: "JAX compilation cache: tpu, gpu, cpu, neuron",
            }

            /// Whether a program that was compiled for some devices can run on other devices. If so, the key of the
            /// compilation cache omits the device assignment. \[JAX: gpu\]
            cache_key_strip_device_assignment: bool {
                builder: value,
                c: [cache_key_strip_device_assignment],
                replaces: "JAX compilation cache key: gpu",
            }

            /// Callbacks from a running program into the host. `None`: no callbacks. \[JAX: cpu, cuda, rocm, tpu\]
            host_callbacks: Option<HostCallbacks> {
                builder: value,
                c: [host_callbacks_partitioned, host_callbacks_empty_arrays, host_callbacks],
                replaces: "JAX callbacks: cpu, cuda, rocm, tpu",
            }

            /// Pass the arguments of a program as one tuple if the program has more arguments than this. `None`: never.
            /// \[JAX: 2000 on TPU\]
            tuple_args_threshold: Option<NonZeroU32> {
                builder: count,
                c: [tuple_args_threshold],
                replaces: "JAX tupled arguments: tpu",
            }

            /// Program formats that the compiler accepts. \[PyTorch/XLA sends HLO unless an environment variable
            /// requests another format. JAX sends StableHLO\]
            program_formats: ProgramFormats {
                builder: value,
                c: [program_formats, program_formats_size],
                replaces: "PyTorch/XLA environment variable",
            }

            /// Whether executables return their optimized program. \[PyTorch/XLA: compilation fails without the
            /// optimized program\]
            optimized_program: OptimizedProgram {
                builder: value,
                c: [optimized_program],
                replaces: "PyTorch/XLA compilation",
            }

            /// Range of StableHLO versions that the compiler reads, for tools that do not create a client. A loaded
            /// plugin reports this range in its attributes. `None`: unknown.
            stablehlo: Option<StablehloRange> {
                builder: value,
                c: [stablehlo_minimum, stablehlo_current],
                replaces: "",
            }

            /// Support for arrays whose extents are known only at run time. \[PyTorch/XLA: an environment variable for
            /// all devices\]
            dynamic_shapes: DynamicShapes {
                builder: value,
                c: [dynamic_shapes],
                replaces: "PyTorch/XLA environment variable",
            }

            /// DLPack device type of the device's memory. `None` if the memory cannot be shared through DLPack. \[JAX:
            /// cpu, cuda, rocm, oneapi; PyTorch/XLA: CPU, and CUDA up to 2.8\]
            dlpack_device: Option<DlpackDevice> {
                builder: value,
                c: [dlpack_device],
                replaces: "JAX DLPack: cpu, cuda, rocm, oneapi; PyTorch/XLA DLPack: CPU, CUDA",
            }

            /// DLPack device type of host memory that is pinned for the device. `None` if this memory cannot be shared
            /// through DLPack. \[JAX: cuda, rocm, tpu\]
            dlpack_host_device: Option<DlpackDevice> {
                builder: value,
                c: [dlpack_host_device],
                replaces: "JAX DLPack: cuda, rocm, tpu",
            }

            /// DLPack device types of foreign memory that the plugin's buffers can use without a copy. \[PyTorch/XLA
            /// Dynamo: CUDA up to 2.8\]
            zero_copy_import: BTreeSet<DlpackDevice> {
                builder: list(DlpackDevice),
                c: [zero_copy_import, zero_copy_import_size],
                replaces: "PyTorch/XLA Dynamo: CUDA",
            }

            /// DLPack device types under which other libraries can use the plugin's buffers without a copy.
            /// \[PyTorch/XLA Dynamo: CUDA up to 2.8\]
            zero_copy_export: BTreeSet<DlpackDevice> {
                builder: list(DlpackDevice),
                c: [zero_copy_export, zero_copy_export_size],
                replaces: "PyTorch/XLA Dynamo: CUDA",
            }

            /// The memory kinds of a device.
            memory_kinds: MemoryKinds {
                builder: value,
                c: [memory_kinds, memory_kinds_size, default_memory_kind, default_memory_kind_size, host_offload],
                replaces: "",
            }

            /// The memory statistics that the device reports. \[PyTorch/XLA reads the limit without checking whether it
            /// exists\]
            memory_stats: MemoryStatsReport {
                builder: value,
                c: [memory_stats],
                replaces: "PyTorch/XLA memory statistics",
            }

            /// The dot algorithms that the compiler supports. `None`: all. \[JAX: seven on cpu\]
            dot_algorithms: Option<BTreeSet<DotAlgorithm>> {
                builder: list(DotAlgorithm),
                c: [dot_algorithms, dot_algorithms_size],
                replaces: "JAX dot: cpu",
            }

            /// Support for dot products of operands with different types. \[JAX: float with integer operands on TPU\]
            mixed_dot: MixedDot {
                builder: value,
                c: [mixed_dot],
                replaces: "JAX dot: tpu",
            }

            /// Other capabilities, by name. A name consists of lower-case letters, digits, underscores and dots. A
            /// framework looks up the names that it supports.
            features: BTreeMap<String, Value> {
                builder: by_hand,
                c: [features, features_size],
                replaces: "",
            }
        }
    };
}
pub(crate) use for_each_capability;
