// What a plugin declares about its devices.
#ifndef DEVICE_PLUGIN_CAPABILITIES_HPP
#define DEVICE_PLUGIN_CAPABILITIES_HPP

#include <array>

#include "base.hpp"
#include "capabilities.h"
#include "element_type.hpp"

DEVICE_PLUGIN_NAMESPACE_BEGIN

enum class Layout : std::uint32_t { Descending = DP_LAYOUT_DESCENDING, Tiled = DP_LAYOUT_TILED };
enum class RngBitGenerator : std::uint32_t {
    Default = DP_RNG_BIT_GENERATOR_DEFAULT,
    Philox = DP_RNG_BIT_GENERATOR_PHILOX,
    ThreeFry = DP_RNG_BIT_GENERATOR_THREE_FRY,
};
enum class AutocastKind : std::uint32_t { None = 0, Xla = DP_AUTOCAST_XLA, Cuda = DP_AUTOCAST_CUDA };
enum class Int64Policy : std::uint32_t {
    Native = DP_INT64_NATIVE,
    DotOnHost = DP_INT64_DOT_ON_HOST,
    Remapped = DP_INT64_REMAPPED,
};
enum class Bf16Policy : std::uint32_t {
    Native = DP_BF16_NATIVE,
    Downcast = DP_BF16_DOWNCAST,
    Replace = DP_BF16_REPLACE,
};
enum class MixedDot : std::uint32_t {
    Converted = DP_MIXED_DOT_CONVERTED,
    FloatAndInteger = DP_MIXED_DOT_FLOAT_AND_INTEGER,
};
enum class DotAlgorithm : std::uint32_t {
    Default = DP_DOT_ALGORITHM_DEFAULT,
    AnyF8AnyF8F32 = DP_DOT_ALGORITHM_ANY_F8_ANY_F8_F32,
    AnyF8AnyF8F32FastAccum = DP_DOT_ALGORITHM_ANY_F8_ANY_F8_F32_FAST_ACCUM,
    AnyF8AnyF8Any = DP_DOT_ALGORITHM_ANY_F8_ANY_F8_ANY,
    AnyF8AnyF8AnyFastAccum = DP_DOT_ALGORITHM_ANY_F8_ANY_F8_ANY_FAST_ACCUM,
    F16F16F16 = DP_DOT_ALGORITHM_F16_F16_F16,
    F16F16F32 = DP_DOT_ALGORITHM_F16_F16_F32,
    Bf16Bf16Bf16 = DP_DOT_ALGORITHM_BF16_BF16_BF16,
    Bf16Bf16F32 = DP_DOT_ALGORITHM_BF16_BF16_F32,
    Bf16Bf16F32X3 = DP_DOT_ALGORITHM_BF16_BF16_F32_X3,
    Bf16Bf16F32X6 = DP_DOT_ALGORITHM_BF16_BF16_F32_X6,
    Bf16Bf16F32X9 = DP_DOT_ALGORITHM_BF16_BF16_F32_X9,
    Tf32Tf32F32 = DP_DOT_ALGORITHM_TF32_TF32_F32,
    Tf32Tf32F32X3 = DP_DOT_ALGORITHM_TF32_TF32_F32_X3,
    F32F32F32 = DP_DOT_ALGORITHM_F32_F32_F32,
    F64F64F64 = DP_DOT_ALGORITHM_F64_F64_F64,
};
enum class ProgramFormat : std::uint32_t {
    Hlo = DP_PROGRAM_FORMAT_HLO,
    HloWithConfig = DP_PROGRAM_FORMAT_HLO_WITH_CONFIG,
    Mlir = DP_PROGRAM_FORMAT_MLIR,
};
enum class OptimizedProgram : std::uint32_t {
    Available = DP_OPTIMIZED_PROGRAM_AVAILABLE,
    Unavailable = DP_OPTIMIZED_PROGRAM_UNAVAILABLE,
};
enum class DynamicShapes : std::uint32_t {
    None = DP_DYNAMIC_SHAPES_NONE,
    Bounded = DP_DYNAMIC_SHAPES_BOUNDED,
    Unbounded = DP_DYNAMIC_SHAPES_UNBOUNDED,
};
enum class Spmd : std::uint32_t {
    Supported = DP_SPMD_SUPPORTED,
    Unsupported = DP_SPMD_UNSUPPORTED,
    Reinitialize = DP_SPMD_REINITIALIZE,
};
enum class DlpackDevice : std::uint32_t {
    None = 0,
    Cpu = DP_DLPACK_CPU,
    Cuda = DP_DLPACK_CUDA,
    CudaHost = DP_DLPACK_CUDA_HOST,
    Opencl = DP_DLPACK_OPENCL,
    Vulkan = DP_DLPACK_VULKAN,
    Metal = DP_DLPACK_METAL,
    Vpi = DP_DLPACK_VPI,
    Rocm = DP_DLPACK_ROCM,
    RocmHost = DP_DLPACK_ROCM_HOST,
    ExtDev = DP_DLPACK_EXT_DEV,
    CudaManaged = DP_DLPACK_CUDA_MANAGED,
    Oneapi = DP_DLPACK_ONEAPI,
    Webgpu = DP_DLPACK_WEBGPU,
    Hexagon = DP_DLPACK_HEXAGON,
    Maia = DP_DLPACK_MAIA,
    Trn = DP_DLPACK_TRN,
    TpuHost = DP_DLPACK_TPU_HOST,
};
enum class MemoryStatsReport : std::uint32_t {
    Unstated = DP_MEMORY_STATS_UNSTATED,
    None = DP_MEMORY_STATS_NONE,
    InUse = DP_MEMORY_STATS_IN_USE,
    WithLimit = DP_MEMORY_STATS_WITH_LIMIT,
};

// An element type that frameworks replace with another.
struct DtypeRemap {
    ElementType from;
    ElementType to;
};

// A capability for which Capabilities has no method.
struct Feature {
    std::string name;
    Value value;
};

// The capabilities of a plugin's devices. The object keeps the plugin's object alive, which owns the struct. An empty
// object contains what frameworks assume about an unknown device.
//
// Each method returns the field of dp_capabilities with its name, which capabilities.h documents, or zero if the
// library is too old to have it.
class Capabilities {
public:
    Capabilities() noexcept = default;
    // `raw` must live as long as this object, unless it belongs to `owner`, of which this takes one reference.
    explicit Capabilities(const dp_capabilities* raw, dp_plugin* owner = nullptr) noexcept : raw_(raw), owner_(owner) {}

    explicit operator bool() const noexcept { return raw_ != nullptr; }
    // The struct. Fields beyond `struct_size` do not exist.
    const dp_capabilities* get() const noexcept DEVICE_PLUGIN_LIFETIMEBOUND { return raw_; }

// Whether the struct has a field, the field or zero, and methods that return a field.
#define DEVICE_PLUGIN_HAS(field) \
    (raw_ != nullptr && offsetof(dp_capabilities, field) + sizeof(raw_->field) <= raw_->struct_size)
#define DEVICE_PLUGIN_READ(field) (DEVICE_PLUGIN_HAS(field) ? raw_->field : decltype(raw_->field)())
#define DEVICE_PLUGIN_FIELD(type, field) \
    type field() const noexcept { return static_cast<type>(DEVICE_PLUGIN_READ(field)); }
#define DEVICE_PLUGIN_FLAG(field) \
    bool field() const noexcept { return DEVICE_PLUGIN_READ(field) != 0; }
#define DEVICE_PLUGIN_LIST(type, field) \
    std::vector<type> field() const { return list<type>(DEVICE_PLUGIN_READ(field), DEVICE_PLUGIN_READ(field##_size)); }
#define DEVICE_PLUGIN_NUMBERS(size, field)                                     \
    std::array<std::uint32_t, size> field() const noexcept {                   \
        std::array<std::uint32_t, size> all{};                                 \
        for (std::size_t i = 0; i < size && DEVICE_PLUGIN_HAS(field); ++i) {   \
            all[i] = raw_->field[i];                                           \
        }                                                                      \
        return all;                                                            \
    }

    DEVICE_PLUGIN_FIELD(std::uint32_t, dense_gather_factor)
    DEVICE_PLUGIN_FIELD(std::uint32_t, dense_scatter_factor)
    DEVICE_PLUGIN_FIELD(RngBitGenerator, rng_bit_generator)
    DEVICE_PLUGIN_LIST(ElementType, autocast_dtypes)
    DEVICE_PLUGIN_FIELD(ElementType, autocast_default_dtype)
    DEVICE_PLUGIN_FIELD(AutocastKind, autocast_kind)
    DEVICE_PLUGIN_FIELD(Int64Policy, int64_policy)
    DEVICE_PLUGIN_LIST(ElementType, supported_dtypes)
    DEVICE_PLUGIN_LIST(DtypeRemap, remapped_dtypes)
    DEVICE_PLUGIN_FIELD(Bf16Policy, bf16_policy)
    DEVICE_PLUGIN_NUMBERS(2, layout_tile)
    DEVICE_PLUGIN_FIELD(float, layout_max_padding)
    DEVICE_PLUGIN_FIELD(Layout, layout_policy)
    DEVICE_PLUGIN_FIELD(Spmd, spmd)
    DEVICE_PLUGIN_FLAG(donation)
    DEVICE_PLUGIN_FLAG(persistent_cache)
    DEVICE_PLUGIN_FLAG(cache_key_strip_device_assignment)
    DEVICE_PLUGIN_FLAG(host_callbacks_partitioned)
    DEVICE_PLUGIN_FLAG(host_callbacks_empty_arrays)
    DEVICE_PLUGIN_FLAG(host_callbacks)
    DEVICE_PLUGIN_FIELD(std::uint32_t, tuple_args_threshold)
    DEVICE_PLUGIN_LIST(ProgramFormat, program_formats)
    DEVICE_PLUGIN_NUMBERS(3, stablehlo_minimum)
    DEVICE_PLUGIN_NUMBERS(3, stablehlo_current)
    DEVICE_PLUGIN_FIELD(OptimizedProgram, optimized_program)
    DEVICE_PLUGIN_FIELD(DynamicShapes, dynamic_shapes)
    DEVICE_PLUGIN_FIELD(DlpackDevice, dlpack_device)
    DEVICE_PLUGIN_FIELD(DlpackDevice, dlpack_host_device)
    DEVICE_PLUGIN_LIST(DlpackDevice, zero_copy_import)
    DEVICE_PLUGIN_LIST(DlpackDevice, zero_copy_export)
    DEVICE_PLUGIN_LIST(std::string, memory_kinds)
    std::string default_memory_kind() const {
        return element<std::string>(
            dp_string{DEVICE_PLUGIN_READ(default_memory_kind), DEVICE_PLUGIN_READ(default_memory_kind_size)});
    }
    DEVICE_PLUGIN_FLAG(host_offload)
    DEVICE_PLUGIN_FIELD(MemoryStatsReport, memory_stats)
    DEVICE_PLUGIN_FIELD(MixedDot, mixed_dot)
    DEVICE_PLUGIN_LIST(DotAlgorithm, dot_algorithms)
    DEVICE_PLUGIN_LIST(Feature, features)

#undef DEVICE_PLUGIN_HAS
#undef DEVICE_PLUGIN_READ
#undef DEVICE_PLUGIN_FIELD
#undef DEVICE_PLUGIN_FLAG
#undef DEVICE_PLUGIN_LIST
#undef DEVICE_PLUGIN_NUMBERS

    // Whether to lower a gather along a dimension of that many elements densely, as a product with a one-hot matrix.
    bool gathers_densely(std::uint64_t elements) const noexcept {
        const std::uint64_t factor = dense_gather_factor();
        return factor != 0 && elements <= factor * 10;
    }
    // Whether to lower a scatter of `index_elements` into `input_elements` elements densely.
    bool scatters_densely(std::uint64_t index_elements, std::uint64_t input_elements) const noexcept {
        const std::uint64_t factor = dense_scatter_factor();
        if (factor == 0) return false;
        const bool overflows = index_elements > UINT64_MAX / factor;
        return overflows || index_elements * factor >= input_elements;
    }
    // The preferred program format of the compiler.
    ProgramFormat preferred_program_format() const {
        const std::vector<ProgramFormat> formats = program_formats();
        return formats.empty() ? ProgramFormat::Hlo : formats.front();
    }
    // Whether the compiler accepts this program format.
    bool accepts(ProgramFormat format) const {
        const std::vector<ProgramFormat> formats = program_formats();
        for (const ProgramFormat accepted : formats) {
            if (accepted == format) return true;
        }
        return formats.empty() && format != ProgramFormat::HloWithConfig;
    }

private:
    // Converts an element of a list.
    template <typename T>
    static T element(std::uint32_t raw) {
        return static_cast<T>(raw);
    }
    template <typename T>
    static T element(const dp_string& raw) {
        return T(detail::view(raw));
    }
    template <typename T>
    static T element(const dp_dtype_remap& raw) {
        return {static_cast<ElementType>(raw.from), static_cast<ElementType>(raw.to)};
    }
    template <typename T>
    static T element(const dp_feature& raw) {
        return {std::string(detail::view(raw.name)), detail::value(raw.kind, raw)};
    }
    template <typename T, typename Raw>
    static std::vector<T> list(const Raw* first, std::size_t size) {
        std::vector<T> all;
        all.reserve(size);
        for (std::size_t i = 0; i < size; ++i) all.push_back(element<T>(first[i]));
        return all;
    }

    const dp_capabilities* raw_ = nullptr;
    detail::Reference<dp_plugin> owner_;
};

DEVICE_PLUGIN_NAMESPACE_END

#endif  // DEVICE_PLUGIN_CAPABILITIES_HPP
