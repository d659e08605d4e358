//! The structs of the C interface.
#![allow(non_camel_case_types, reason = "the names in C")]

use std::ffi::c_char;

/// UTF-8 text by pointer and length.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct dp_string {
    /// The bytes; do not rely on a 0 behind them. Null if there is no text. It may also be null if the text is empty.
    pub data: *const c_char,
    /// Length in bytes. 0: empty.
    pub size: usize,
}

/// An element type that frameworks replace by another. Both are PJRT_Buffer_Type numbers.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct dp_dtype_remap {
    /// The type in the program. Never 0.
    pub from: u32,
    /// The type on the device. Never 0.
    pub to: u32,
}

/// The order in which a collective operation visits the devices of one physical mesh.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct dp_replica_order {
    /// The kind of device, as the vendor names the generation. Never empty.
    pub device_kind: dp_string,
    /// Devices along each coordinate.
    pub bounds: *const u32,
    /// Number of elements of bounds. Never 0.
    pub bounds_size: usize,
    /// Every device of the mesh once, by its logical number.
    pub order: *const u32,
    /// Number of elements of order: the product of bounds.
    pub order_size: usize,
}

/// A capability without a field of its own.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct dp_feature {
    /// The name. Never empty.
    pub name: dp_string,
    /// The integer. 0 except with DP_FEATURE_INT64.
    pub int64_value: i64,
    /// The text. Empty except with DP_FEATURE_STRING.
    pub string_value: dp_string,
    /// The integers. Null except with DP_FEATURE_INT64_LIST.
    pub int64_list: *const i64,
    /// Number of elements of int64_list.
    pub int64_list_size: usize,
    /// The float. 0 except with DP_FEATURE_FLOAT.
    pub float_value: f32,
    /// The flag, 0 or 1. 0 except with DP_FEATURE_BOOL.
    pub bool_value: u32,
    /// The field that holds the value, DP_FEATURE_*. 0: string_value.
    pub kind: u32,
}

/// The capabilities of the devices of a plugin.
///
/// Zero the struct, set struct_size to its sizeof, then set the fields that differ from what frameworks assume of an
/// unknown device. Everything it points to is read during the call that takes it, and lives as long as the object that
/// returned it. The Rust type Capabilities documents each field in detail.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct dp_capabilities {
    /// Size in bytes of this struct as its creator knew it. Fields beyond it count as 0.
    pub struct_size: usize,
    /// Lower a gather densely while the gathered dimension has at most ten times this many elements. 0: always gather.
    pub dense_gather_factor: u32,
    /// Lower a scatter densely if the index has at least one element for this many of the input. 0: always scatter.
    pub dense_scatter_factor: u32,
    /// Algorithm for random bits, DP_RNG_BIT_GENERATOR_*. 0: chosen by the compiler.
    pub rng_bit_generator: u32,
    /// PyTorch's dispatch key for autocast, DP_AUTOCAST_DISPATCH_KEY_*. 0: AutocastXLA.
    pub autocast_dispatch_key: u32,
    /// Float types of automatic mixed precision, as PJRT_Buffer_Type numbers. Unused without autocast_kind.
    pub autocast_dtypes: *const u32,
    /// Number of elements of autocast_dtypes.
    pub autocast_dtypes_size: usize,
    /// The type used when the user chooses none, one of autocast_dtypes. 0 only without autocast_kind.
    pub autocast_default_dtype: u32,
    /// Operations that run in the shorter type, DP_AUTOCAST_*. 0: no automatic mixed precision.
    pub autocast_kind: u32,
    /// Device for operations without a lowering, DP_EAGER_FALLBACK_*. 0: the host.
    pub eager_fallback: u32,
    /// Handling of 64-bit integers, DP_INT64_*. 0: the device computes with them.
    pub int64_policy: u32,
    /// Element types that programs may use, as PJRT_Buffer_Type numbers. None: not stated.
    pub supported_dtypes: *const u32,
    /// Number of elements of supported_dtypes.
    pub supported_dtypes_size: usize,
    /// Element types that frameworks replace by another throughout. None: no type.
    pub remapped_dtypes: *const dp_dtype_remap,
    /// Number of elements of remapped_dtypes.
    pub remapped_dtypes_size: usize,
    /// Floats that are stored as bf16, DP_BF16_*. 0: those that the program declares.
    pub bf16_policy: u32,
    /// Elements of a tile along the last two dimensions. Used only with DP_LAYOUT_TILED.
    pub layout_tile: [u32; 2],
    /// Keep the row-major order if padding multiplies the memory by less than this. Used only with DP_LAYOUT_TILED.
    pub layout_max_padding: f32,
    /// Layout of arrays sent to the device, DP_LAYOUT_*. 0: row-major.
    pub layout_policy: u32,
    /// 1: the compiler knows the custom calls ResizeNearest and ResizeBilinear. 0: it does not.
    pub resize_custom_call: u32,
    /// 1: the gradient of nearest upsampling runs on the device. 0: on the host.
    pub upsample_nearest_backward: u32,
    /// 1: the gradient of bilinear upsampling runs on the device. 0: on the host.
    pub upsample_bilinear_backward: u32,
    /// Whether one program may be partitioned for several devices, DP_SPMD_*. 0: it may.
    pub spmd: u32,
    /// Device attribute that holds a device's coordinates in the physical mesh. Empty: devices form no mesh.
    pub mesh_coordinates: *const c_char,
    /// Length of mesh_coordinates in bytes.
    pub mesh_coordinates_size: usize,
    /// Orders of devices for collective operations. None: the logical order.
    pub replica_orders: *const dp_replica_order,
    /// Number of elements of replica_orders.
    pub replica_orders_size: usize,
    /// Environment variable with the address of the first process. Used only with DP_MASTER_ADDRESS_VARIABLE.
    pub master_address_variable: *const c_char,
    /// Length of master_address_variable in bytes.
    pub master_address_variable_size: usize,
    /// How processes find the first one, DP_MASTER_ADDRESS_*. 0: they do not.
    pub master_address: u32,
    /// 1: a program may reuse the memory of its inputs for its outputs. 0: it may not.
    pub donation: u32,
    /// 1: compiled programs may be kept on disk for other processes. 0: they may not.
    pub persistent_cache: u32,
    /// 1: the key of that cache omits the device assignment. 0: it does not.
    pub cache_key_strip_device_assignment: u32,
    /// 1: callbacks may come from partitioned programs. 0: they may not. Unused without host_callbacks.
    pub host_callbacks_partitioned: u32,
    /// 1: callbacks may pass arrays without elements. 0: they may not. Unused without host_callbacks.
    pub host_callbacks_empty_arrays: u32,
    /// 1: a running program may call back into the host. 0: it may not.
    pub host_callbacks: u32,
    /// Pass the arguments of a program as one tuple if there are more than this many. 0: never.
    pub tuple_args_threshold: u32,
    /// Program formats that the compiler accepts, DP_PROGRAM_FORMAT_*, preferred one first. None: HLO, then MLIR.
    pub program_formats: *const u32,
    /// Number of elements of program_formats.
    pub program_formats_size: usize,
    /// Oldest version of StableHLO that the compiler reads: major, minor, patch. Unused without stablehlo_current.
    pub stablehlo_minimum: [u32; 3],
    /// Newest version of StableHLO that the compiler reads: major, minor, patch. 0.0.0: not stated.
    pub stablehlo_current: [u32; 3],
    /// Whether executables return their optimized program, DP_OPTIMIZED_PROGRAM_*. 0: they do.
    pub optimized_program: u32,
    /// Arrays with extents known only at run time, DP_DYNAMIC_SHAPES_*. 0: none.
    pub dynamic_shapes: u32,
    /// DLDeviceType of the device's memory, DP_DLPACK_*. 0: it cannot be shared through DLPack.
    pub dlpack_device: u32,
    /// DLDeviceType of host memory pinned for the device, DP_DLPACK_*. 0: it cannot be shared through DLPack.
    pub dlpack_host_device: u32,
    /// Foreign memories that buffers can use without a copy, DP_DLPACK_*. Empty: all are copied.
    pub zero_copy_import: *const u32,
    /// Number of elements of zero_copy_import.
    pub zero_copy_import_size: usize,
    /// Memories through which others can use buffers without a copy, DP_DLPACK_*. Empty: all are copied.
    pub zero_copy_export: *const u32,
    /// Number of elements of zero_copy_export.
    pub zero_copy_export_size: usize,
    /// Names of the device's memories. None: only the client knows.
    pub memory_kinds: *const dp_string,
    /// Number of elements of memory_kinds.
    pub memory_kinds_size: usize,
    /// The memory for arrays if the user names none, one of memory_kinds. Empty: only the client knows.
    pub default_memory_kind: *const c_char,
    /// Length of default_memory_kind in bytes.
    pub default_memory_kind_size: usize,
    /// 1: a program may keep arrays in a memory of the host while it runs. 0: it may not.
    pub host_offload: u32,
    /// Memory statistics that the device reports, DP_MEMORY_STATS_*. 0: not stated.
    pub memory_stats: u32,
    /// Dot products of operands with different types, DP_MIXED_DOT_*. 0: frameworks convert first.
    pub mixed_dot: u32,
    /// Dot algorithms that the compiler supports, DP_DOT_ALGORITHM_*. None: all.
    pub dot_algorithms: *const u32,
    /// Number of elements of dot_algorithms.
    pub dot_algorithms_size: usize,
    /// Capabilities without a field of their own, in the order of their names. Null if there are none.
    pub features: *const dp_feature,
    /// Number of elements of features.
    pub features_size: usize,
}
