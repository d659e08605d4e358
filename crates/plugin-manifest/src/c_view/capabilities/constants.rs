//! Codes of the enumerations in [`dp_capabilities`](super::dp_capabilities), as literals for the C header.
//!
//! Except for the codes of layouts and features, a test compares the codes with the Rust enumerations.

/// RngBitGenerator default: The compiler chooses the algorithm.
pub const DP_RNG_BIT_GENERATOR_DEFAULT: u32 = 0;
/// RngBitGenerator philox: Philox 4x32.
pub const DP_RNG_BIT_GENERATOR_PHILOX: u32 = 1;
/// RngBitGenerator three_fry: ThreeFry 2x32.
pub const DP_RNG_BIT_GENERATOR_THREE_FRY: u32 = 2;
/// AutocastKind xla: PyTorch's list of autocast operations for XLA devices.
pub const DP_AUTOCAST_XLA: u32 = 1;
/// AutocastKind cuda: PyTorch's list of autocast operations for CUDA devices.
pub const DP_AUTOCAST_CUDA: u32 = 2;
/// Int64Policy native: The device computes with 64-bit integers.
pub const DP_INT64_NATIVE: u32 = 0;
/// Int64Policy dot_on_host: Like native, but integer dot products with a 64-bit operand run on the host.
pub const DP_INT64_DOT_ON_HOST: u32 = 1;
/// Int64Policy remapped: Frameworks store 64-bit integers as 32-bit integers, and compute with 32-bit integers.
pub const DP_INT64_REMAPPED: u32 = 2;
/// Bf16Policy native: Every float type is stored as the program declares it.
pub const DP_BF16_NATIVE: u32 = 0;
/// Bf16Policy downcast: f32 is stored as bf16, and f64 as f32.
pub const DP_BF16_DOWNCAST: u32 = 1;
/// Bf16Policy replace: f32 and f64 are stored as bf16.
pub const DP_BF16_REPLACE: u32 = 2;
/// MixedDot converted: Frameworks convert both operands to the result type first.
pub const DP_MIXED_DOT_CONVERTED: u32 = 0;
/// MixedDot float_and_integer: The device accepts one float and one integer operand without a conversion.
pub const DP_MIXED_DOT_FLOAT_AND_INTEGER: u32 = 1;
/// DotAlgorithm default: The operand types determine the algorithm.
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
/// DotAlgorithm bf16_bf16_f32_x3: f32, computed with 3 operations on bf16.
pub const DP_DOT_ALGORITHM_BF16_BF16_F32_X3: u32 = 10;
/// DotAlgorithm bf16_bf16_f32_x6: f32, computed with 6 operations on bf16.
pub const DP_DOT_ALGORITHM_BF16_BF16_F32_X6: u32 = 11;
/// DotAlgorithm bf16_bf16_f32_x9: f32, computed with 9 operations on bf16.
pub const DP_DOT_ALGORITHM_BF16_BF16_F32_X9: u32 = 12;
/// DotAlgorithm tf32_tf32_f32: tf32, summed in f32.
pub const DP_DOT_ALGORITHM_TF32_TF32_F32: u32 = 13;
/// DotAlgorithm tf32_tf32_f32_x3: f32, computed with 3 operations on tf32.
pub const DP_DOT_ALGORITHM_TF32_TF32_F32_X3: u32 = 14;
/// DotAlgorithm f32_f32_f32: f32, summed in f32.
pub const DP_DOT_ALGORITHM_F32_F32_F32: u32 = 15;
/// DotAlgorithm f64_f64_f64: f64, summed in f64.
pub const DP_DOT_ALGORITHM_F64_F64_F64: u32 = 16;
/// ProgramFormat hlo: Serialized HloModuleProto.
pub const DP_PROGRAM_FORMAT_HLO: u32 = 1;
/// ProgramFormat hlo_with_config: Serialized HloModuleProtoWithConfig.
pub const DP_PROGRAM_FORMAT_HLO_WITH_CONFIG: u32 = 2;
/// ProgramFormat mlir: StableHLO as MLIR text, as MLIR bytecode, or as a portable artifact.
pub const DP_PROGRAM_FORMAT_MLIR: u32 = 3;
/// OptimizedProgram available: PJRT_Executable_OptimizedProgram returns the program, as PyTorch/XLA requires.
pub const DP_OPTIMIZED_PROGRAM_AVAILABLE: u32 = 0;
/// OptimizedProgram unavailable: PJRT_Executable_OptimizedProgram does not return a program.
pub const DP_OPTIMIZED_PROGRAM_UNAVAILABLE: u32 = 1;
/// DynamicShapes none: The compiler supports only static extents.
pub const DP_DYNAMIC_SHAPES_NONE: u32 = 0;
/// DynamicShapes bounded: A dynamic extent must have an upper bound in the program.
pub const DP_DYNAMIC_SHAPES_BOUNDED: u32 = 1;
/// DynamicShapes unbounded: A dynamic extent does not need an upper bound.
pub const DP_DYNAMIC_SHAPES_UNBOUNDED: u32 = 2;
/// Spmd supported: The compiler can partition programs.
pub const DP_SPMD_SUPPORTED: u32 = 0;
/// Spmd unsupported: The compiler cannot partition programs, so frameworks compile one program for each device.
pub const DP_SPMD_UNSUPPORTED: u32 = 1;
/// Spmd reinitialize: Like supported, but the plugin must be initialized again when the framework switches to SPMD.
pub const DP_SPMD_REINITIALIZE: u32 = 2;
/// DlpackDevice cpu: Host memory.
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
/// DlpackDevice ext_dev: A device that does not have its own DLPack device type.
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
/// DlpackDevice tpu_host: Host memory pinned by the TPU runtime. JAX defines this code, and DLPack 1.1 does not.
pub const DP_DLPACK_TPU_HOST: u32 = 20;
/// MemoryStatsReport unstated: Unknown until PJRT_Device_MemoryStats is called. PyTorch/XLA assumes that the limit is
/// reported, and JAX does not.
pub const DP_MEMORY_STATS_UNSTATED: u32 = 0;
/// MemoryStatsReport none: PJRT_Device_MemoryStats does not return statistics.
pub const DP_MEMORY_STATS_NONE: u32 = 1;
/// MemoryStatsReport in_use: The amount of memory in use.
pub const DP_MEMORY_STATS_IN_USE: u32 = 2;
/// MemoryStatsReport with_limit: The amount of memory in use, and the limit (bytes_limit).
pub const DP_MEMORY_STATS_WITH_LIMIT: u32 = 3;
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
