// The types of array elements, and the shapes of arrays.
#ifndef DEVICE_PLUGIN_ELEMENT_TYPE_HPP
#define DEVICE_PLUGIN_ELEMENT_TYPE_HPP

#include <array>
#include <complex>

#include "base.hpp"
#include "buffer.h"

DEVICE_PLUGIN_NAMESPACE_BEGIN

// The type of an array's elements. The numbers are those of PJRT_Buffer_Type. 0 is no type.
enum class ElementType : std::uint32_t {
    PRED = DP_PRED,
    S8 = DP_S8,
    S16 = DP_S16,
    S32 = DP_S32,
    S64 = DP_S64,
    U8 = DP_U8,
    U16 = DP_U16,
    U32 = DP_U32,
    U64 = DP_U64,
    F16 = DP_F16,
    F32 = DP_F32,
    F64 = DP_F64,
    BF16 = DP_BF16,
    C64 = DP_C64,
    C128 = DP_C128,
    F8E5M2 = DP_F8E5M2,
    F8E4M3FN = DP_F8E4M3FN,
    F8E4M3B11FNUZ = DP_F8E4M3B11FNUZ,
    F8E5M2FNUZ = DP_F8E5M2FNUZ,
    F8E4M3FNUZ = DP_F8E4M3FNUZ,
    S4 = DP_S4,
    U4 = DP_U4,
    TOKEN = DP_TOKEN,
    S2 = DP_S2,
    U2 = DP_U2,
    F8E4M3 = DP_F8E4M3,
    F8E3M4 = DP_F8E3M4,
    F8E8M0FNU = DP_F8E8M0FNU,
    F4E2M1FN = DP_F4E2M1FN,
    S1 = DP_S1,
    U1 = DP_U1,
    F6E2M3FN = DP_F6E2M3FN,
    F6E3M2FN = DP_F6E3M2FN,
};

// The name of an element type, such as `f32`. It is empty for a number that is no type.
inline std::string_view to_string(ElementType type) noexcept {
    return detail::view(dp_element_type_name(static_cast<dp_element_type>(type)));
}

// The size of one element on the host in bytes. Types with fewer than 8 bits have one byte. 0 if this is no type.
inline std::size_t size_of(ElementType type) noexcept {
    return dp_element_type_size(static_cast<dp_element_type>(type));
}

// The element type of arrays of T. Specialize it for other types, such as a type for bf16:
// `template <> struct device_plugin::element_type_of<Half> : device_plugin::IsElement<device_plugin::ElementType::BF16>
// {};`
template <typename T, typename Enable = void>
struct element_type_of;

template <ElementType Type>
using IsElement = std::integral_constant<ElementType, Type>;

template <>
struct element_type_of<bool> : IsElement<ElementType::PRED> {};
template <>
struct element_type_of<float> : IsElement<ElementType::F32> {};
template <>
struct element_type_of<double> : IsElement<ElementType::F64> {};
template <>
struct element_type_of<std::complex<float>> : IsElement<ElementType::C64> {};
template <>
struct element_type_of<std::complex<double>> : IsElement<ElementType::C128> {};

namespace detail {

constexpr ElementType integer(std::size_t size, bool is_signed) noexcept {
    switch (size) {
        case 1: return is_signed ? ElementType::S8 : ElementType::U8;
        case 2: return is_signed ? ElementType::S16 : ElementType::U16;
        case 4: return is_signed ? ElementType::S32 : ElementType::U32;
        default: return is_signed ? ElementType::S64 : ElementType::U64;
    }
}

}  // namespace detail

template <typename T>
struct element_type_of<T, std::enable_if_t<detail::is_number<T>>>
    : IsElement<detail::integer(sizeof(T), std::is_signed_v<T>)> {};

template <typename T>
constexpr ElementType element_type_of_v = element_type_of<std::remove_cv_t<T>>::value;

// The extents of an array as a parameter: `{2, 3}` of any types of integers, `{}` for a scalar, or a range of
// std::int64_t, which must outlive the call.
class Extents {
public:
    constexpr Extents() noexcept = default;
    template <typename... I, typename = std::enable_if_t<(sizeof...(I) >= 1) && (sizeof...(I) <= 8) &&
                                                         (detail::is_number<I> && ...)>>
    constexpr Extents(I... extents) noexcept : own_{static_cast<std::int64_t>(extents)...}, size_(sizeof...(I)) {}
    template <typename C, typename = std::enable_if_t<std::is_convertible_v<const C&, Span<const std::int64_t>>>,
              typename = void>
    constexpr Extents(const C& range) noexcept : range_(std::data(range)), size_(std::size(range)) {}

    constexpr const std::int64_t* data() const noexcept { return range_ == nullptr ? own_ : range_; }
    constexpr std::size_t size() const noexcept { return size_; }

private:
    std::int64_t own_[8] = {};
    const std::int64_t* range_ = nullptr;
    std::size_t size_ = 0;
};

// The element type and the extents of an array.
struct Shape {
    ElementType element_type{};
    // From the outermost dimension to the innermost. Empty for a scalar.
    std::vector<std::int64_t> dimensions;

    static Shape of(const dp_shape& raw) {
        return {static_cast<ElementType>(raw.element_type), {raw.dimensions, raw.dimensions + raw.dimensions_size}};
    }
    // The struct of the C interface. It points to the dimensions of this object.
    dp_shape raw() const&& = delete;
    dp_shape raw() const& noexcept DEVICE_PLUGIN_LIFETIMEBOUND {
        return {static_cast<dp_element_type>(element_type), dimensions.data(), dimensions.size()};
    }

    friend bool operator==(const Shape& a, const Shape& b) {
        return a.element_type == b.element_type && a.dimensions == b.dimensions;
    }
    friend bool operator!=(const Shape& a, const Shape& b) { return !(a == b); }
};

// A shape as in HLO, such as `f32[2,3]`.
inline std::string to_string(const Shape& shape) {
    std::string text(to_string(shape.element_type));
    char separator = '[';
    for (const std::int64_t extent : shape.dimensions) {
        text += separator;
        text += std::to_string(extent);
        separator = ',';
    }
    return text += shape.dimensions.empty() ? "[]" : "]";
}

DEVICE_PLUGIN_NAMESPACE_END

#endif  // DEVICE_PLUGIN_ELEMENT_TYPE_HPP
