//! The structs of the C interface.
#![allow(non_camel_case_types, reason = "the names in C")]

use std::ffi::c_char;

/// Row-major order, in which the last dimension is the most minor one.
pub const DP_LAYOUT_DESCENDING: u32 = 0;
/// The device stores arrays of two or more dimensions in tiles of the last two dimensions. The extents of a tile are in
/// layout_tile.
pub const DP_LAYOUT_TILED: u32 = 1;
/// The value is string_value.
pub const DP_FEATURE_STRING: u32 = 0;
/// The value is int64_value.
pub const DP_FEATURE_INT64: u32 = 1;
/// The value is the list int64_list.
pub const DP_FEATURE_INT64_LIST: u32 = 2;
/// The value is float_value.
pub const DP_FEATURE_FLOAT: u32 = 3;
/// The value is bool_value.
pub const DP_FEATURE_BOOL: u32 = 4;

/// A UTF-8 string, as pointer and length.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct dp_string {
    /// The bytes. Do not rely on a terminating NUL. May be null if the string is empty.
    pub data: *const c_char,
    /// Length in bytes. 0: empty.
    pub size: usize,
}

/// An element type that frameworks replace with another. Both types are values of PJRT_Buffer_Type.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct dp_dtype_remap {
    /// The type in the program. Never 0.
    pub from: u32,
    /// The type on the device. Never 0.
    pub to: u32,
}

/// A capability for which dp_capabilities does not have a field.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct dp_feature {
    /// Name of the capability. Never empty.
    pub name: dp_string,
    /// Value for DP_FEATURE_INT64, otherwise 0.
    pub int64_value: i64,
    /// Value for DP_FEATURE_STRING, otherwise empty.
    pub string_value: dp_string,
    /// Value for DP_FEATURE_INT64_LIST, otherwise null.
    pub int64_list: *const i64,
    /// Number of elements of int64_list.
    pub int64_list_size: usize,
    /// Value for DP_FEATURE_FLOAT, otherwise 0.
    pub float_value: f32,
    /// Value for DP_FEATURE_BOOL: 0 or 1. Otherwise 0.
    pub bool_value: u32,
    /// Type of the value, DP_FEATURE_*, which determines the field that holds the value. 0: string_value.
    pub kind: u32,
}

/// The capabilities of the devices of a plugin.
///
/// To create the struct, set all its bytes to 0, set struct_size to its sizeof, and set the fields that differ from
/// what frameworks assume about an unknown device. A function that takes the struct reads all memory that the struct
/// points to during the call. If a function returns the struct, this memory lives as long as the object that returned
/// it. The Rust type Capabilities documents each field in detail.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct dp_capabilities {
    /// Size of this struct in bytes, according to the header of its creator. Readers treat fields beyond this size
    /// as 0.
    pub struct_size: usize,
    /// Lower a gather densely if the gathered dimension has at most ten times this many elements. 0: never.
    pub dense_gather_factor: u32,
    /// Lower a scatter densely if the number of index elements times this factor is at least the number of input
    /// elements. 0: never.
    pub dense_scatter_factor: u32,
    /// Algorithm for random bits, DP_RNG_BIT_GENERATOR_*. 0: the compiler chooses the algorithm.
    pub rng_bit_generator: u32,
    /// Float types of automatic mixed precision, as PJRT_Buffer_Type values. Ignored if autocast_kind is 0.
    pub autocast_dtypes: *const u32,
    /// Number of elements of autocast_dtypes.
    pub autocast_dtypes_size: usize,
    /// Type that applies if the user does not choose one. It is one of autocast_dtypes. Ignored if autocast_kind is 0.
    pub autocast_default_dtype: u32,
    /// List of the operations that run in the narrower type, DP_AUTOCAST_*. 0: no automatic mixed precision.
    pub autocast_kind: u32,
    /// Handling of 64-bit integers, DP_INT64_*. 0: the device computes with 64-bit integers.
    pub int64_policy: u32,
    /// Element types that programs may use, as PJRT_Buffer_Type values. Empty: unknown.
    pub supported_dtypes: *const u32,
    /// Number of elements of supported_dtypes.
    pub supported_dtypes_size: usize,
    /// Element types that frameworks always replace with another type. Empty: frameworks do not replace any type.
    pub remapped_dtypes: *const dp_dtype_remap,
    /// Number of elements of remapped_dtypes.
    pub remapped_dtypes_size: usize,
    /// Whether f32 and f64 arrays are stored in narrower types, DP_BF16_*. 0: they are not.
    pub bf16_policy: u32,
    /// Extents of a tile along the last two dimensions. Used only with DP_LAYOUT_TILED.
    pub layout_tile: [u32; 2],
    /// Keep the row-major order if padding multiplies the memory by less than this factor. Used only with
    /// DP_LAYOUT_TILED.
    pub layout_max_padding: f32,
    /// Layout of arrays sent to the device, DP_LAYOUT_*. 0: row-major.
    pub layout_policy: u32,
    /// Whether the compiler can partition one program across several devices, DP_SPMD_*. 0: it can.
    pub spmd: u32,
    /// 1: a program may reuse the memory of its inputs for its outputs. 0: it may not.
    pub donation: u32,
    /// 1: frameworks may keep compiled programs on disk for other processes. 0: they may not.
    pub persistent_cache: u32,
    /// 1: the key of the compilation cache omits the device assignment. 0: the key contains the device assignment.
    pub cache_key_strip_device_assignment: u32,
    /// 1: partitioned programs may contain callbacks. 0: they may not. Ignored if host_callbacks is 0.
    pub host_callbacks_partitioned: u32,
    /// 1: callbacks may take arrays without elements. 0: they may not. Ignored if host_callbacks is 0.
    pub host_callbacks_empty_arrays: u32,
    /// 1: a running program may call back into the host. 0: it may not.
    pub host_callbacks: u32,
    /// Pass the arguments of a program as one tuple if the program has more arguments than this. 0: never.
    pub tuple_args_threshold: u32,
    /// Program formats that the compiler accepts, DP_PROGRAM_FORMAT_*, the preferred one first. Empty: HLO, then MLIR.
    pub program_formats: *const u32,
    /// Number of elements of program_formats.
    pub program_formats_size: usize,
    /// Oldest version of StableHLO that the compiler reads: major, minor, patch. Ignored if stablehlo_current is 0.0.0.
    pub stablehlo_minimum: [u32; 3],
    /// Newest version of StableHLO that the compiler reads: major, minor, patch. 0.0.0: unknown.
    pub stablehlo_current: [u32; 3],
    /// Whether executables return their optimized program, DP_OPTIMIZED_PROGRAM_*. 0: they do.
    pub optimized_program: u32,
    /// Support for arrays whose extents are known only at run time, DP_DYNAMIC_SHAPES_*. 0: no support.
    pub dynamic_shapes: u32,
    /// DLDeviceType of the device's memory, DP_DLPACK_*. 0: the memory cannot be shared through DLPack.
    pub dlpack_device: u32,
    /// DLDeviceType of host memory pinned for the device, DP_DLPACK_*. 0: this memory cannot be shared through DLPack.
    pub dlpack_host_device: u32,
    /// DLPack device types of foreign memory that the plugin's buffers can use without a copy, DP_DLPACK_*. Empty:
    /// foreign memory is always copied.
    pub zero_copy_import: *const u32,
    /// Number of elements of zero_copy_import.
    pub zero_copy_import_size: usize,
    /// DLPack device types under which other libraries can use the plugin's buffers without a copy, DP_DLPACK_*. Empty:
    /// buffers are always copied.
    pub zero_copy_export: *const u32,
    /// Number of elements of zero_copy_export.
    pub zero_copy_export_size: usize,
    /// Names of the device's memory kinds. Empty: only the client can list them.
    pub memory_kinds: *const dp_string,
    /// Number of elements of memory_kinds.
    pub memory_kinds_size: usize,
    /// Memory kind for arrays if the user does not choose one. It is one of memory_kinds. Empty: only the client can
    /// report it.
    pub default_memory_kind: *const c_char,
    /// Length of default_memory_kind in bytes.
    pub default_memory_kind_size: usize,
    /// 1: a program may keep arrays in host memory while it runs. 0: it may not.
    pub host_offload: u32,
    /// Memory statistics that the device reports, DP_MEMORY_STATS_*. 0: unknown.
    pub memory_stats: u32,
    /// Support for dot products of operands with different types, DP_MIXED_DOT_*. 0: frameworks convert the operands
    /// first.
    pub mixed_dot: u32,
    /// Dot algorithms that the compiler supports, DP_DOT_ALGORITHM_*. Empty: all.
    pub dot_algorithms: *const u32,
    /// Number of elements of dot_algorithms.
    pub dot_algorithms_size: usize,
    /// Capabilities for which this struct does not have a field, sorted by name. Null if there are none.
    pub features: *const dp_feature,
    /// Number of elements of features.
    pub features_size: usize,
}
