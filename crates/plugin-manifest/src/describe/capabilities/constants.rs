//! Numbers of the enumerations in [`dp_capabilities`](super::dp_capabilities), as literals for the C header.
//!
//! A test compares each with its Rust enumeration.

/// RngBitGenerator default: The compiler chooses the algorithm.
pub const DP_RNG_BIT_GENERATOR_DEFAULT: u32 = 0;
/// RngBitGenerator philox: Philox 4x32.
pub const DP_RNG_BIT_GENERATOR_PHILOX: u32 = 1;
/// RngBitGenerator three_fry: ThreeFry 2x32.
pub const DP_RNG_BIT_GENERATOR_THREE_FRY: u32 = 2;
/// AutocastKind xla: The list made for XLA devices.
pub const DP_AUTOCAST_XLA: u32 = 1;
/// AutocastKind cuda: The list made for CUDA devices.
pub const DP_AUTOCAST_CUDA: u32 = 2;
/// AutocastDispatchKey autocast_xla: AutocastXLA.
pub const DP_AUTOCAST_DISPATCH_KEY_AUTOCAST_XLA: u32 = 0;
/// AutocastDispatchKey autocast_cuda: AutocastCUDA.
pub const DP_AUTOCAST_DISPATCH_KEY_AUTOCAST_CUDA: u32 = 1;
/// EagerFallback cpu: On the host, through copies.
pub const DP_EAGER_FALLBACK_CPU: u32 = 0;
/// EagerFallback cuda: On the framework's own CUDA device, sharing memory through DLPack.
pub const DP_EAGER_FALLBACK_CUDA: u32 = 1;
/// Int64Policy native: The device computes with 64-bit integers.
pub const DP_INT64_NATIVE: u32 = 0;
/// Int64Policy dot_on_host: Like native, but integer dot products with a 64-bit operand run on the host.
pub const DP_INT64_DOT_ON_HOST: u32 = 1;
/// Int64Policy remapped: Frameworks store 64-bit integers as 32-bit integers and compute with those.
pub const DP_INT64_REMAPPED: u32 = 2;
/// Bf16Policy native: Types stay as the program declares them.
pub const DP_BF16_NATIVE: u32 = 0;
/// Bf16Policy downcast: f32 is stored as bf16, and f64 as f32.
pub const DP_BF16_DOWNCAST: u32 = 1;
/// Bf16Policy replace: f32 and f64 are stored as bf16.
pub const DP_BF16_REPLACE: u32 = 2;
/// MixedDot converted: Frameworks convert both operands to the result's type first.
pub const DP_MIXED_DOT_CONVERTED: u32 = 0;
/// MixedDot float_and_integer: The device takes float and integer operands of different types without a conversion.
pub const DP_MIXED_DOT_FLOAT_AND_INTEGER: u32 = 1;
/// DotAlgorithm default: The types determine the algorithm.
pub const DP_DOT_ALGORITHM_DEFAULT: u32 = 1;
/// DotAlgorithm any_f8_any_f8_f32: Any 8-bit floats, summed in f32.
pub const DP_DOT_ALGORITHM_ANY_F8_ANY_F8_F32: u32 = 2;
/// DotAlgorithm any_f8_any_f8_f32_fast_accum: Any 8-bit floats, summed in f32, faster and less exact.
pub const DP_DOT_ALGORITHM_ANY_F8_ANY_F8_F32_FAST_ACCUM: u32 = 3;
/// DotAlgorithm any_f8_any_f8_any: Any 8-bit floats, summed in the result's type.
pub const DP_DOT_ALGORITHM_ANY_F8_ANY_F8_ANY: u32 = 4;
/// DotAlgorithm any_f8_any_f8_any_fast_accum: Any 8-bit floats, summed in the result's type, faster and less exact.
pub const DP_DOT_ALGORITHM_ANY_F8_ANY_F8_ANY_FAST_ACCUM: u32 = 5;
/// DotAlgorithm f16_f16_f16: f16, summed in f16.
pub const DP_DOT_ALGORITHM_F16_F16_F16: u32 = 6;
/// DotAlgorithm f16_f16_f32: f16, summed in f32.
pub const DP_DOT_ALGORITHM_F16_F16_F32: u32 = 7;
/// DotAlgorithm bf16_bf16_bf16: bf16, summed in bf16.
pub const DP_DOT_ALGORITHM_BF16_BF16_BF16: u32 = 8;
/// DotAlgorithm bf16_bf16_f32: bf16, summed in f32.
pub const DP_DOT_ALGORITHM_BF16_BF16_F32: u32 = 9;
/// DotAlgorithm bf16_bf16_f32_x3: f32 in 3 operations on bf16.
pub const DP_DOT_ALGORITHM_BF16_BF16_F32_X3: u32 = 10;
/// DotAlgorithm bf16_bf16_f32_x6: f32 in 6 operations on bf16.
pub const DP_DOT_ALGORITHM_BF16_BF16_F32_X6: u32 = 11;
/// DotAlgorithm bf16_bf16_f32_x9: f32 in 9 operations on bf16.
pub const DP_DOT_ALGORITHM_BF16_BF16_F32_X9: u32 = 12;
/// DotAlgorithm tf32_tf32_f32: tf32, summed in f32.
pub const DP_DOT_ALGORITHM_TF32_TF32_F32: u32 = 13;
/// DotAlgorithm tf32_tf32_f32_x3: f32 in 3 operations on tf32.
pub const DP_DOT_ALGORITHM_TF32_TF32_F32_X3: u32 = 14;
/// DotAlgorithm f32_f32_f32: f32.
pub const DP_DOT_ALGORITHM_F32_F32_F32: u32 = 15;
/// DotAlgorithm f64_f64_f64: f64.
pub const DP_DOT_ALGORITHM_F64_F64_F64: u32 = 16;
/// ProgramFormat hlo: Serialized HloModuleProto.
pub const DP_PROGRAM_FORMAT_HLO: u32 = 1;
/// ProgramFormat hlo_with_config: Serialized HloModuleProtoWithConfig.
pub const DP_PROGRAM_FORMAT_HLO_WITH_CONFIG: u32 = 2;
/// ProgramFormat mlir: StableHLO: MLIR text, bytecode, or a portable artifact.
pub const DP_PROGRAM_FORMAT_MLIR: u32 = 3;
/// OptimizedProgram available: PJRT_Executable_OptimizedProgram returns the program, as PyTorch/XLA requires.
pub const DP_OPTIMIZED_PROGRAM_AVAILABLE: u32 = 0;
/// OptimizedProgram unavailable: The function returns no program.
pub const DP_OPTIMIZED_PROGRAM_UNAVAILABLE: u32 = 1;
/// DynamicShapes none: All extents are static.
pub const DP_DYNAMIC_SHAPES_NONE: u32 = 0;
/// DynamicShapes bounded: A dynamic extent has a bound in the program.
pub const DP_DYNAMIC_SHAPES_BOUNDED: u32 = 1;
/// DynamicShapes unbounded: A dynamic extent needs no bound.
pub const DP_DYNAMIC_SHAPES_UNBOUNDED: u32 = 2;
/// Spmd supported: The compiler partitions programs.
pub const DP_SPMD_SUPPORTED: u32 = 0;
/// Spmd unsupported: Frameworks compile one program for each device.
pub const DP_SPMD_UNSUPPORTED: u32 = 1;
/// Spmd reinitialize: Like supported, but the plugin's set-up must run again when the framework switches to SPMD.
pub const DP_SPMD_REINITIALIZE: u32 = 2;
/// DlpackDevice cpu: The host.
pub const DP_DLPACK_CPU: u32 = 1;
/// DlpackDevice cuda: NVIDIA's GPUs.
pub const DP_DLPACK_CUDA: u32 = 2;
/// DlpackDevice cuda_host: Host memory pinned by CUDA.
pub const DP_DLPACK_CUDA_HOST: u32 = 3;
/// DlpackDevice opencl: OpenCL devices.
pub const DP_DLPACK_OPENCL: u32 = 4;
/// DlpackDevice vulkan: Vulkan buffers.
pub const DP_DLPACK_VULKAN: u32 = 7;
/// DlpackDevice metal: Apple's GPUs.
pub const DP_DLPACK_METAL: u32 = 8;
/// DlpackDevice vpi: Verilog simulators.
pub const DP_DLPACK_VPI: u32 = 9;
/// DlpackDevice rocm: AMD's GPUs.
pub const DP_DLPACK_ROCM: u32 = 10;
/// DlpackDevice rocm_host: Host memory pinned by ROCm.
pub const DP_DLPACK_ROCM_HOST: u32 = 11;
/// DlpackDevice ext_dev: A device for which DLPack has no name.
pub const DP_DLPACK_EXT_DEV: u32 = 12;
/// DlpackDevice cuda_managed: CUDA memory that the host can also read.
pub const DP_DLPACK_CUDA_MANAGED: u32 = 13;
/// DlpackDevice oneapi: oneAPI devices through unified shared memory.
pub const DP_DLPACK_ONEAPI: u32 = 14;
/// DlpackDevice webgpu: WebGPU buffers.
pub const DP_DLPACK_WEBGPU: u32 = 15;
/// DlpackDevice hexagon: Qualcomm's Hexagon DSPs.
pub const DP_DLPACK_HEXAGON: u32 = 16;
/// DlpackDevice maia: Microsoft's MAIA devices.
pub const DP_DLPACK_MAIA: u32 = 17;
/// DlpackDevice trn: AWS Trainium.
pub const DP_DLPACK_TRN: u32 = 18;
/// DlpackDevice tpu_host: Host memory pinned by the TPU runtime; JAX's number, not one of DLPack 1.1.
pub const DP_DLPACK_TPU_HOST: u32 = 20;
/// MemoryStatsReport unstated: Unknown before the call. PyTorch/XLA assumes that there is a limit, JAX does not.
pub const DP_MEMORY_STATS_UNSTATED: u32 = 0;
/// MemoryStatsReport none: The function returns no statistics.
pub const DP_MEMORY_STATS_NONE: u32 = 1;
/// MemoryStatsReport in_use: The amount of memory in use.
pub const DP_MEMORY_STATS_IN_USE: u32 = 2;
/// MemoryStatsReport with_limit: The amount of memory in use, and the limit (bytes_limit).
pub const DP_MEMORY_STATS_WITH_LIMIT: u32 = 3;
/// Row-major.
pub const DP_LAYOUT_DESCENDING: u32 = 0;
/// Tiles of layout_tile over the last two dimensions.
pub const DP_LAYOUT_TILED: u32 = 1;
/// The user has to specify a coordinator.
pub const DP_MASTER_ADDRESS_UNKNOWN: u32 = 0;
/// Query the metadata service, or the other processes.
pub const DP_MASTER_ADDRESS_METADATA: u32 = 1;
/// Read the environment variable master_address_variable.
pub const DP_MASTER_ADDRESS_VARIABLE: u32 = 2;
/// The value is text.
pub const DP_FEATURE_STRING: u32 = 0;
/// The value is int64_value.
pub const DP_FEATURE_INT64: u32 = 1;
/// The value is the list int64_list.
pub const DP_FEATURE_INT64_LIST: u32 = 2;
/// The value is float_value.
pub const DP_FEATURE_FLOAT: u32 = 3;
/// The value is bool_value.
pub const DP_FEATURE_BOOL: u32 = 4;
