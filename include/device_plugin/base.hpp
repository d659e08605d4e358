// What the classes of device_plugin.hpp have in common: handles, errors, text and bytes.
//
// Handles. Each class holds one reference to an object of the C interface, or none. A copy is another reference to the
// same object, and costs one atomic operation. Functions of an object that is empty or was moved from fail with
// ErrorCode::InvalidArgument, or return an empty value if they cannot fail. Destructors do not throw.
//
// Errors. A function that can fail takes an `Error*` as its last parameter. With nullptr, the default, it throws the
// error; in a program without exceptions, it prints the error and aborts. Otherwise it stores the error there, or no
// error on success, and returns an empty value if it failed.
//
// Text. Parameters are std::string_view; a default-constructed view means that there is no text. Text that an object
// lends is a std::string_view, valid as long as the object. Such a function cannot be called on a temporary object:
// `auto name = registry.find("cpu").name();` does not compile. This applies to the classes of registry.hpp, and to
// Error, Bytes and Program. Clients, devices, buffers and executables return std::string instead.
#ifndef DEVICE_PLUGIN_BASE_HPP
#define DEVICE_PLUGIN_BASE_HPP

#if __cplusplus < 201703L && !(defined(_MSVC_LANG) && _MSVC_LANG >= 201703L)
#error "device_plugin.hpp needs C++17: compile with -std=c++17, or with /std:c++17 and Visual C++"
#endif

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base.h"

// Macros of these headers. Do not use them elsewhere.
//
// Code without exceptions has an inline namespace of its own. So one program can contain files of both kinds.
#if defined(__cpp_exceptions) || defined(_CPPUNWIND)
#define DEVICE_PLUGIN_THROW(error) throw(error)
#define DEVICE_PLUGIN_NAMESPACE_BEGIN namespace device_plugin {
#define DEVICE_PLUGIN_NAMESPACE_END }
#else
#define DEVICE_PLUGIN_THROW(error) ::device_plugin::detail::give_up(error)
#define DEVICE_PLUGIN_NAMESPACE_BEGIN \
    namespace device_plugin {         \
    inline namespace no_exceptions {
#define DEVICE_PLUGIN_NAMESPACE_END \
    }                               \
    }
#endif

// Lets Clang warn about a view that outlives the object from which it was obtained.
#if defined(__has_cpp_attribute)
#if __has_cpp_attribute(clang::lifetimebound)
#define DEVICE_PLUGIN_LIFETIMEBOUND [[clang::lifetimebound]]
#endif
#endif
#ifndef DEVICE_PLUGIN_LIFETIMEBOUND
#define DEVICE_PLUGIN_LIFETIMEBOUND
#endif

// Declares a method without parameters that returns what a function of the C interface fills in, or fails.
#define DEVICE_PLUGIN_GET(type, method, function)             \
    [[nodiscard]] type method(Error* error = nullptr) const { \
        return detail::call<type>(error, function, get());    \
    }

// Declares a method that returns text which the object lends.
#define DEVICE_PLUGIN_TEXT(method, function)                                              \
    std::string_view method() const&& = delete;                                           \
    [[nodiscard]] std::string_view method() const& noexcept DEVICE_PLUGIN_LIFETIMEBOUND { \
        return detail::view(function(get()));                                             \
    }

DEVICE_PLUGIN_NAMESPACE_BEGIN

// The reason why a function failed. The numbers are those of PJRT_Error_Code.
enum class ErrorCode : std::uint32_t {
    Ok = DP_OK,
    Cancelled = DP_CANCELLED,
    Unknown = DP_UNKNOWN,
    InvalidArgument = DP_INVALID_ARGUMENT,
    DeadlineExceeded = DP_DEADLINE_EXCEEDED,
    NotFound = DP_NOT_FOUND,
    AlreadyExists = DP_ALREADY_EXISTS,
    PermissionDenied = DP_PERMISSION_DENIED,
    ResourceExhausted = DP_RESOURCE_EXHAUSTED,
    FailedPrecondition = DP_FAILED_PRECONDITION,
    Aborted = DP_ABORTED,
    OutOfRange = DP_OUT_OF_RANGE,
    Unimplemented = DP_UNIMPLEMENTED,
    Internal = DP_INTERNAL,
    Unavailable = DP_UNAVAILABLE,
    DataLoss = DP_DATA_LOSS,
    Unauthenticated = DP_UNAUTHENTICATED,
};

namespace detail {

// Converts text of the C interface. Absent text becomes empty.
inline std::string_view view(dp_string text) noexcept {
    return text.data == nullptr ? std::string_view() : std::string_view(text.data, text.size);
}

}  // namespace detail

// An error, or no error.
class [[nodiscard]] Error : public std::exception {
public:
    // No error.
    Error() noexcept = default;
    Error(ErrorCode code, std::string message)
        : code_(code), message_(std::make_shared<const std::string>(std::move(message))) {}
    // Takes ownership of an error of the C interface, which may be null. `code` is the result of the function.
    static Error adopt(dp_code code, dp_error* raw) {
        const std::string_view message = detail::view(dp_error_message(raw));
        Error error(static_cast<ErrorCode>(code), std::string(message));
        dp_release(raw);
        return error;
    }

    // Whether this is an error.
    explicit operator bool() const noexcept { return code_ != ErrorCode::Ok; }
    ErrorCode code() const noexcept { return code_; }
    // The name of the function, the cause and, if there is one, a remedy.
    std::string_view message() const&& = delete;
    std::string_view message() const& noexcept DEVICE_PLUGIN_LIFETIMEBOUND { return what(); }
    const char* what() const noexcept override { return message_ == nullptr ? "no error" : message_->c_str(); }

    // Makes this no error.
    void clear() noexcept {
        code_ = ErrorCode::Ok;
        message_.reset();
    }

private:
    ErrorCode code_ = ErrorCode::Ok;
    std::shared_ptr<const std::string> message_;  // Shared, so that copies do not throw.
};

// Elements in a row that belong to another object, as a pointer and a length.
template <typename T>
class Span {
    // Whether the elements of a range can be passed as T.
    template <typename U>
    static constexpr bool fits = std::is_convertible_v<U (*)[], T (*)[]> ||
                                 (std::is_pointer_v<T> && std::is_pointer_v<U> && std::is_convertible_v<U*, T*>);
    template <typename C>
    using Element = std::remove_pointer_t<decltype(std::data(std::declval<C&>()))>;

public:
    using element_type = T;
    using value_type = std::remove_cv_t<T>;

    constexpr Span() noexcept = default;
    constexpr Span(T* data, std::size_t size) noexcept : data_(data), size_(size) {}
    // A C array, std::array, std::vector, std::string or std::span. Elements that will be written must not belong to a
    // temporary object.
    template <typename C, typename = std::enable_if_t<
                              !std::is_same_v<std::decay_t<C>, Span> && fits<Element<C>> &&
                              (std::is_const_v<T> || std::is_lvalue_reference_v<C> || fits<Element<const C>>)>>
    constexpr Span(C&& range DEVICE_PLUGIN_LIFETIMEBOUND) noexcept : data_(std::data(range)), size_(std::size(range)) {}
    // Only for a parameter, because the list ends with the statement.
    template <typename U = T, typename = std::enable_if_t<std::is_const_v<U>>>
    constexpr Span(std::initializer_list<value_type> list DEVICE_PLUGIN_LIFETIMEBOUND) noexcept : size_(list.size()) {
        data_ = list.begin();
    }

    constexpr T* data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }
    constexpr bool empty() const noexcept { return size_ == 0; }
    constexpr T* begin() const noexcept { return data_; }
    constexpr T* end() const noexcept { return data_ + size_; }
    constexpr T& operator[](std::size_t index) const noexcept { return data_[index]; }

private:
    T* data_ = nullptr;
    std::size_t size_ = 0;
};

template <typename C>
Span(C&&) -> Span<std::remove_pointer_t<decltype(std::data(std::declval<C&>()))>>;

namespace detail {

// The type of a range's elements. `Written` is not defined for elements that cannot be written.
template <typename C>
using Read = typename decltype(Span(std::declval<C>()))::value_type;
template <typename C>
using Written = std::enable_if_t<!std::is_const_v<typename decltype(Span(std::declval<C>()))::element_type>, Read<C>>;

}  // namespace detail

// Bytes as a parameter: Bytes, std::string_view, or any range of elements with one byte each. An array of char is text
// that ends with a NUL byte.
class ByteView {
public:
    constexpr ByteView() noexcept = default;
    constexpr ByteView(const void* data, std::size_t size) noexcept : data_(data), size_(size) {}
    template <typename C, typename = std::enable_if_t<sizeof(*std::data(std::declval<const C&>())) == 1>>
    constexpr ByteView(const C& range) noexcept : data_(std::data(range)), size_(std::size(range)) {}
    ByteView(const char* text) noexcept : data_(text), size_(text == nullptr ? 0 : std::strlen(text)) {}

    constexpr const void* data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }

private:
    const void* data_ = nullptr;
    std::size_t size_ = 0;
};

// The value of an option, an attribute or a feature.
using Value = std::variant<std::string, std::int64_t, std::vector<std::int64_t>, float, bool>;

namespace detail {

// One reference to an object of the C interface, or none.
template <typename R>
class Reference {
public:
    using Raw = R;

    constexpr Reference() noexcept = default;
    constexpr explicit Reference(Raw* raw) noexcept : raw_(raw) {}
    Reference(const Reference& other) noexcept : raw_(other.raw_) {
        if (raw_ != nullptr) dp_retain(raw_);
    }
    Reference(Reference&& other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
    Reference& operator=(const Reference& other) noexcept { return *this = Reference(other); }
    Reference& operator=(Reference&& other) noexcept {
        Raw* const mine = std::exchange(raw_, std::exchange(other.raw_, nullptr));
        if (mine != nullptr) dp_release(mine);
        return *this;
    }
    ~Reference() {
        if (raw_ != nullptr) dp_release(raw_);
    }

    explicit operator bool() const noexcept { return raw_ != nullptr; }
    // The object, which still belongs to this reference. nullptr if there is none.
    Raw* get() const noexcept DEVICE_PLUGIN_LIFETIMEBOUND { return raw_; }
    // Gives up the object. The caller must call dp_release.
    [[nodiscard]] Raw* release() noexcept { return std::exchange(raw_, nullptr); }
    void reset() noexcept { *this = Reference(); }

protected:
    Raw* raw_ = nullptr;
};

// The base of all classes that refer to objects.
template <typename Derived, typename R>
class Object : public Reference<R> {
public:
    // Takes ownership of a reference, such as one that a function of the C interface returned.
    [[nodiscard]] static Derived adopt(R* raw) noexcept {
        Derived adopted;
        adopted.raw_ = raw;
        return adopted;
    }
};

// Integers, without characters.
template <typename T, typename... Types>
constexpr bool is_one_of = (std::is_same_v<T, Types> || ...);
template <typename T>
constexpr bool is_number =
    is_one_of<T, signed char, short, int, long, long long, unsigned char, unsigned short, unsigned, unsigned long,
              unsigned long long>;

template <typename T, typename = void>
struct IsObject : std::false_type {};
template <typename T>
struct IsObject<T, std::void_t<typename T::Raw>> : std::true_type {};

template <typename T, typename = void>
struct IsSized : std::false_type {};
template <typename T>
struct IsSized<T, std::void_t<decltype(T::struct_size)>> : std::true_type {};

// Text with a NUL byte at its end, for the length of a call. Short text is not allocated.
class Text {
public:
    Text(std::string_view text) : has_nul_(text.find('\0') != std::string_view::npos) {
        if (text.data() == nullptr) return;
        char* to = short_;
        if (text.size() >= sizeof(short_)) {
            long_.reset(new char[text.size() + 1]);
            to = long_.get();
        }
        std::memcpy(to, text.data(), text.size());
        to[text.size()] = '\0';
        text_ = to;
    }
    Text(const Text&) = delete;
    Text& operator=(const Text&) = delete;
    operator const char*() const noexcept { return text_; }
    bool has_nul() const noexcept { return has_nul_; }

private:
    const char* text_ = nullptr;
    bool has_nul_;
    std::unique_ptr<char[]> long_;
    char short_[120];
};

template <typename T>
bool has_nul(const T& argument) noexcept {
    if constexpr (std::is_same_v<T, Text>) return argument.has_nul();
    return false;
}

[[noreturn]] inline void give_up(const Error& error) noexcept {
    std::fprintf(stderr, "device_plugin: %s\n", error.what());
    std::abort();
}

// Stores an error, or throws it if there is no place for it.
inline void report(Error failure, Error* error) {
    if (error == nullptr) DEVICE_PLUGIN_THROW(failure);
    *error = std::move(failure);
}

// Calls a function of the C interface whose last parameter is a `dp_error**`. Returns whether it succeeded.
template <typename F, typename... A>
bool run(Error* error, F* function, const A&... arguments) {
    if ((... || has_nul(arguments))) {
        report(Error(ErrorCode::InvalidArgument, "text contains a NUL byte"), error);
        return false;
    }
    dp_error* raw = nullptr;
    const dp_code code = function(arguments..., &raw);
    if (code != DP_OK) {
        report(Error::adopt(code, raw), error);
        return false;
    }
    if (error != nullptr) error->clear();
    return true;
}

// Calls a function that also fills in a result before the error.
template <typename T, typename F, typename... A>
T call(Error* error, F* function, const A&... arguments) {
    if constexpr (IsObject<T>::value) {
        typename T::Raw* raw = nullptr;
        run(error, function, arguments..., &raw);
        return T::adopt(raw);
    } else if constexpr (std::is_same_v<T, std::string>) {
        dp_string text{};
        run(error, function, arguments..., &text);
        return std::string(view(text));
    } else {
        T result{};
        if constexpr (IsSized<T>::value) result.struct_size = sizeof(T);
        run(error, function, arguments..., &result);
        return result;
    }
}

// The number of items that `function` counts. Without an owner 1, so that reading the first item fails.
template <typename F, typename Raw>
std::size_t count(Error* error, F* function, Raw* owner) {
    if (error != nullptr) error->clear();
    return owner == nullptr ? 1 : function(owner);
}

// Calls a function for each index below `size`, and collects what it returns. `error` was set before.
template <typename T, typename F, typename... A>
std::vector<T> list(Error* error, std::size_t size, F* at, const A&... owner) {
    std::vector<T> items;
    items.reserve(size);
    for (std::size_t i = 0; i < size; ++i) {
        items.push_back(call<T>(error, at, owner..., i));
        if (error != nullptr && *error) return {};
    }
    return items;
}

// Settings, whose object is created when the first setting is changed. A setter returns another reference to the
// object, so that calls can be chained. Copies of settings without an object are independent.
template <typename Derived, typename R, R* (*New)()>
class Settings : public Object<Derived, R> {
public:
    // Settings that already have an object.
    [[nodiscard]] static Derived create() { return Object<Derived, R>::adopt(New()); }

protected:
    template <typename F, typename... A>
    Derived change(Error* error, F* function, const A&... arguments) {
        if (this->raw_ == nullptr) this->raw_ = New();
        run(error, function, this->raw_, arguments...);
        return static_cast<const Derived&>(*this);
    }
    // The same for a function that takes a name and an integer. Fails if the integer does not fit.
    template <typename F, typename T>
    Derived change_integer(Error* error, F* function, std::string_view name, T value) {
        const auto converted = static_cast<std::int64_t>(value);
        if (std::is_signed_v<T> || converted >= 0) return change(error, function, Text(name), converted);
        report(Error(ErrorCode::InvalidArgument, "the integer is larger than std::int64_t allows"), error);
        return static_cast<const Derived&>(*this);
    }
};

// Milliseconds, rounded up. A negative time is 0.
template <typename Rep, typename Period>
std::uint64_t milliseconds(std::chrono::duration<Rep, Period> time) noexcept {
    const double exact = std::chrono::duration<double, std::milli>(time).count();
    if (!(exact > 0)) return 0;
    if (exact >= 1e18) return std::uint64_t{1} << 63;
    const auto whole = static_cast<std::uint64_t>(exact);
    return static_cast<double>(whole) < exact ? whole + 1 : whole;
}

// Reads a dp_option or a dp_feature, whose fields have the same names.
template <typename C>
Value value(std::uint32_t type, const C& from) {
    switch (type) {
        case 1: return from.int64_value;
        case 2: return std::vector<std::int64_t>(from.int64_list, from.int64_list + from.int64_list_size);
        case 3: return from.float_value;
        case 4: return from.bool_value != 0;
        default: return std::string(view(from.string_value));
    }
}

// Something that was lent to the C interface, and what it calls when it no longer uses it.
using Lent = std::unique_ptr<void, dp_release_callback>;

template <typename T>
void destroy(void* lent) noexcept {
    delete static_cast<T*>(lent);
}
template <typename T>
void call_and_destroy(void* lent) noexcept {
    const std::unique_ptr<T> function(static_cast<T*>(lent));
    (*function)();
}

// The C interface calls the function of something lent only if the object that it is lent to is live.
inline bool is_live(void* object) noexcept {
    return object != nullptr && dp_retain(object) == DP_OK && dp_release(object) == DP_OK;
}

// Calls a function whose last parameters before the result are a dp_release_callback and its context.
template <typename T, typename F, typename R, typename... A>
T lend(Error* error, Lent lent, F* function, R* object, const A&... arguments) {
    const bool takes = lent != nullptr && is_live(object);
    const dp_release_callback release = takes ? lent.get_deleter() : nullptr;
    void* const context = takes ? lent.release() : nullptr;
    return call<T>(error, function, object, arguments..., release, context);
}

// An array for the length of a call. A short one is not allocated.
template <typename T>
class Array {
public:
    explicit Array(std::size_t size) : size_(size) {
        if (size > sizeof(short_) / sizeof(T)) long_.reset(new T[size]);
    }
    Array(const Array&) = delete;
    Array& operator=(const Array&) = delete;
    T* data() noexcept { return long_ == nullptr ? short_ : long_.get(); }
    std::size_t size() const noexcept { return size_; }
    T& operator[](std::size_t index) noexcept { return data()[index]; }

private:
    std::size_t size_;
    std::unique_ptr<T[]> long_;
    T short_[16];
};

}  // namespace detail

// Bytes that a function returned, such as a serialized executable.
class Bytes : public detail::Object<Bytes, dp_bytes> {
public:
    const char* data() const&& = delete;
    const char* data() const& noexcept DEVICE_PLUGIN_LIFETIMEBOUND {
        std::size_t size = 0;
        return static_cast<const char*>(dp_bytes_data(get(), &size));
    }
    std::size_t size() const noexcept {
        std::size_t size = 0;
        dp_bytes_data(get(), &size);
        return size;
    }
    std::string_view view() const&& = delete;
    std::string_view view() const& noexcept DEVICE_PLUGIN_LIFETIMEBOUND {
        std::size_t size = 0;
        const void* const data = dp_bytes_data(get(), &size);
        return data == nullptr ? std::string_view() : std::string_view(static_cast<const char*>(data), size);
    }
    std::string to_string() const { return std::string(view()); }
};

// The version of the library in use, such as `0.1.0`.
inline std::string_view version() noexcept { return detail::view(dp_version()); }

// Whether the library in use has all functions of these headers.
inline bool is_compatible() noexcept { return dp_abi_version() >= DP_ABI_VERSION; }

// The number of objects that were not freed, of all types. A test that releases everything finds 0.
inline std::size_t object_count() noexcept { return dp_object_count(); }

DEVICE_PLUGIN_NAMESPACE_END

#endif  // DEVICE_PLUGIN_BASE_HPP
