// Converts options of device_plugin.hpp to the form that XLA's PJRT_Client_Create takes.
//
// This header requires XLA's pjrt_c_api.h. It uses the one that was included before it, or finds it as
// `xla/pjrt/c/pjrt_c_api.h` or `pjrt_c_api.h`. GCC rejects XLA's header with -Wpedantic, so compile without that
// option.
#ifndef DEVICE_PLUGIN_PJRT_HPP
#define DEVICE_PLUGIN_PJRT_HPP

#ifndef XLA_PJRT_C_PJRT_C_API_H_
#if __has_include("xla/pjrt/c/pjrt_c_api.h")
#include "xla/pjrt/c/pjrt_c_api.h"
#elif __has_include("pjrt_c_api.h")
#include "pjrt_c_api.h"
#else
#error "device_plugin_pjrt.hpp needs XLA's pjrt_c_api.h; add its folder to the include path"
#endif
#endif

#include "device_plugin/registry.hpp"

DEVICE_PLUGIN_NAMESPACE_BEGIN

// Converts the options. Their names, texts and lists belong to `options`, which must live, and must not change, as long
// as the result is used. An object of Options lives as long as any copy of it.
[[nodiscard]] inline std::vector<PJRT_NamedValue> to_pjrt(const Options& options DEVICE_PLUGIN_LIFETIMEBOUND,
                                                          Error* error = nullptr) {
    std::vector<PJRT_NamedValue> values;
    const std::size_t size = options.size();
    for (std::size_t i = 0; i < size; ++i) {
        const auto option = detail::call<dp_option>(error, dp_options_at, options.get(), i);
        if (error != nullptr && *error) return {};
        PJRT_NamedValue value{};
        value.struct_size = PJRT_NamedValue_STRUCT_SIZE;
        value.name = option.name.data;
        value.name_size = option.name.size;
        value.value_size = 1;
        switch (static_cast<ValueType>(option.type)) {
            case ValueType::String:
                value.type = PJRT_NamedValue_kString;
                value.string_value = option.string_value.data;
                value.value_size = option.string_value.size;
                break;
            case ValueType::Int64:
                value.type = PJRT_NamedValue_kInt64;
                value.int64_value = option.int64_value;
                break;
            case ValueType::Int64List:
                value.type = PJRT_NamedValue_kInt64List;
                value.int64_array_value = option.int64_list;
                value.value_size = option.int64_list_size;
                break;
            case ValueType::Float:
                value.type = PJRT_NamedValue_kFloat;
                value.float_value = option.float_value;
                break;
            case ValueType::Bool:
                value.type = PJRT_NamedValue_kBool;
                value.bool_value = option.bool_value;
                break;
        }
        values.push_back(value);
    }
    return values;
}

// Deleted, because the values would point into options that no longer exist.
std::vector<PJRT_NamedValue> to_pjrt(const Options&& options, Error* error = nullptr) = delete;

DEVICE_PLUGIN_NAMESPACE_END

#endif  // DEVICE_PLUGIN_PJRT_HPP
