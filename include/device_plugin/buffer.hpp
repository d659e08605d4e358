// Arrays on devices, and events.
#ifndef DEVICE_PLUGIN_BUFFER_HPP
#define DEVICE_PLUGIN_BUFFER_HPP

#include "base.hpp"
#include "buffer.h"
#include "capabilities.hpp"
#include "element_type.hpp"

#if defined(__cpp_impl_coroutine) && __has_include(<coroutine>)
#include <coroutine>
#endif

DEVICE_PLUGIN_NAMESPACE_BEGIN

class Client;
class Device;
class Memory;

// Tells when an operation has ended, such as a transfer or a run, and with which error.
class Event : public detail::Object<Event, dp_event> {
public:
    // Whether the operation has ended, with or without an error.
    DEVICE_PLUGIN_GET(bool, is_ready, dp_event_is_ready)
    // Waits until the operation has ended. Fails with its error.
    void wait(Error* error = nullptr) const { detail::run(error, dp_event_await, get()); }
    // Waits until the operation has ended or the timeout expires. Returns whether it has succeeded, and false after the
    // timeout. Fails with the error of the operation.
    template <typename Rep, typename Period>
    [[nodiscard]] bool wait_for(std::chrono::duration<Rep, Period> timeout, Error* error = nullptr) const {
        Error failure;
        detail::run(&failure, dp_event_await_for, get(), detail::milliseconds(timeout));
        bool ended = !failure;
        if (failure.code() == ErrorCode::DeadlineExceeded) {
            // An operation can also fail with this code.
            Error unknown;
            ended = is_ready(&unknown);
            if (ended) wait(&failure);
            if (!ended && !unknown) failure.clear();
        }
        if (failure) return detail::report(std::move(failure), error), false;
        if (error != nullptr) error->clear();
        return ended;
    }
    // Calls `function(Error)` when the operation has ended: on a thread of the plugin, or on this thread before `then`
    // returns. It must not wait for other operations. It may be a type that can only be moved. An exception that leaves
    // it ends the program. If `then` itself fails, the function is not called.
    template <typename F>
    void then(F&& function, Error* error = nullptr) const {
        using Function = std::decay_t<F>;
        const auto call = [](void* context, dp_error* raw) noexcept {
            const std::unique_ptr<Function> owned(static_cast<Function*>(context));
            (*owned)(raw == nullptr ? Error() : Error::adopt(dp_error_code(raw), raw));
        };
        auto owned = std::make_unique<Function>(std::forward<F>(function));
        const Event self(*this);  // The function may destroy this object.
        if (detail::run(error, dp_event_on_ready, self.get(), static_cast<dp_event_callback>(call),
                        static_cast<void*>(owned.get()))) {
            static_cast<void>(owned.release());
        }
    }
};

#if defined(__cpp_impl_coroutine) && __has_include(<coroutine>)

// Lets a coroutine wait for an event.
template <bool Reports>
class EventAwaiter {
public:
    explicit EventAwaiter(Event event) noexcept : event_(std::move(event)) {}
    bool await_ready() const {
        Error unknown;
        return event_.is_ready(&unknown);
    }
    // The coroutine may continue and end before `then` returns, so that this object no longer exists. Not inline, so
    // that compilers do not keep the variables in the coroutine.
    [[gnu::noinline]] bool await_suspend(std::coroutine_handle<> coroutine) {
        suspended_ = true;
        const Event event = event_;
        Error failure;
        const auto resume = [this, coroutine](Error error) {
            error_ = std::move(error);
            coroutine.resume();
        };
        event.then(resume, &failure);
        if (!failure) return true;
        error_ = std::move(failure);
        return false;
    }
    std::conditional_t<Reports, Error, void> await_resume() {
        if (!suspended_) event_.wait(&error_);
        if constexpr (Reports) return std::move(error_);
        if (error_) detail::report(std::move(error_), nullptr);
    }

private:
    Event event_;
    Error error_;
    bool suspended_ = false;
};

// `co_await event` suspends a coroutine until the operation has ended, and fails with the error of the operation.
// `Error error = co_await outcome(event);` returns it. The coroutine continues on a thread of the plugin, where it must
// not wait for other operations, except with co_await.
inline EventAwaiter<false> operator co_await(Event event) noexcept {
    return EventAwaiter<false>(std::move(event));
}
[[nodiscard]] inline EventAwaiter<true> outcome(Event event) noexcept {
    return EventAwaiter<true>(std::move(event));
}

#endif

// An event that the program sets. If it is dropped before, its event ends with an error. Only one object can refer to
// it, so it can be moved but not copied.
class SettableEvent : public detail::Object<SettableEvent, dp_settable_event> {
public:
    SettableEvent() noexcept = default;
    SettableEvent(SettableEvent&&) noexcept = default;
    SettableEvent& operator=(SettableEvent&&) noexcept = default;

    // The event that becomes ready.
    DEVICE_PLUGIN_GET(Event, event, dp_settable_event_event)
    // Makes the event ready. This object is empty afterwards, also after an error.
    void set(Error* error = nullptr) { end(DP_OK, std::string_view(), error); }
    // Makes the event end with an error.
    void set_error(ErrorCode code, std::string_view message, Error* error = nullptr) {
        end(static_cast<dp_code>(code), message, error);
    }

private:
    void end(dp_code code, std::string_view message, Error* error) {
        const SettableEvent given = std::move(*this);
        // The function releases the object. If it does not get so far, `given` does.
        detail::run(error, dp_settable_event_set, given.get(), code, detail::Text(message));
    }
};

// An array on a device. Its contents may be pending. Functions that use them wait.
class Buffer : public detail::Object<Buffer, dp_buffer> {
public:
    // Takes over a buffer that the program created with functions of the client's table. After an error, it still
    // belongs to the program.
    [[nodiscard]] static Buffer adopt_raw(const Client& client, PJRT_Buffer* raw, Error* error = nullptr);
    // The object of PJRT, which is valid as long as the buffer. Do not destroy it.
    PJRT_Buffer* raw() const&& = delete;
    PJRT_Buffer* raw() const& noexcept DEVICE_PLUGIN_LIFETIMEBOUND { return dp_buffer_raw(get()); }

    // The element type and the extents. If some are dynamic, these are their bounds.
    [[nodiscard]] Shape shape(Error* error = nullptr) const {
        return Shape::of(detail::call<dp_shape>(error, dp_buffer_shape, get()));
    }
    [[nodiscard]] ElementType element_type(Error* error = nullptr) const {
        return static_cast<ElementType>(detail::call<dp_shape>(error, dp_buffer_shape, get()).element_type);
    }
    // The size of the contents on the host, in bytes.
    DEVICE_PLUGIN_GET(std::size_t, host_size, dp_buffer_host_size)
    // The size in the device's memory, in bytes.
    DEVICE_PLUGIN_GET(std::size_t, on_device_size, dp_buffer_on_device_size)
    // The actual extents of a buffer with dynamic dimensions.
    [[nodiscard]] std::vector<std::int64_t> unpadded_dimensions(Error* error = nullptr) const {
        std::vector<std::int64_t> extents(detail::call<dp_shape>(error, dp_buffer_shape, get()).dimensions_size);
        if (error != nullptr && *error) return {};
        detail::run(error, dp_buffer_unpadded_dimensions, get(), extents.data(), extents.size());
        return error != nullptr && *error ? std::vector<std::int64_t>() : extents;
    }
    // Whether each dimension is dynamic.
    [[nodiscard]] std::vector<bool> dynamic_dimensions(Error* error = nullptr) const {
        detail::Array<bool> dynamic(detail::call<dp_shape>(error, dp_buffer_shape, get()).dimensions_size);
        if (error != nullptr && *error) return {};
        if (!detail::run(error, dp_buffer_dynamic_dimensions, get(), dynamic.data(), dynamic.size())) return {};
        return std::vector<bool>(dynamic.data(), dynamic.data() + dynamic.size());
    }
    // The layout in the device's memory as in HLO, such as `{1,0}`. Empty if the plugin does not report it.
    DEVICE_PLUGIN_GET(std::string, layout, dp_buffer_layout)
    // The device and the memory that hold the buffer, and its client. They need client.hpp.
    [[nodiscard]] Device device(Error* error = nullptr) const;
    [[nodiscard]] Memory memory(Error* error = nullptr) const;
    [[nodiscard]] Client client(Error* error = nullptr) const;
    // Whether the buffer is in memory that the host's processor can read.
    DEVICE_PLUGIN_GET(bool, is_on_cpu, dp_buffer_is_on_cpu)

    // An event that is ready when the contents are.
    DEVICE_PLUGIN_GET(Event, ready_event, dp_buffer_ready_event)
    // Waits until the contents are ready. Fails with the error of the operation that computes them.
    void wait(Error* error = nullptr) const { detail::run(error, dp_buffer_await, get()); }
    // Frees the memory on the device. The contents can no longer be used.
    void free_memory(Error* error = nullptr) const { detail::run(error, dp_buffer_delete, get()); }
    // Whether the memory on the device was freed, or donated to a program.
    DEVICE_PLUGIN_GET(bool, is_deleted, dp_buffer_is_deleted)

    // Copies the buffer to a device or memory of the same client.
    [[nodiscard]] Buffer copy_to(const Device& device, Error* error = nullptr) const;
    [[nodiscard]] Buffer copy_to(const Memory& memory, Error* error = nullptr) const;
    // A buffer with the same memory and another shape and layout. Without a layout, it is row-major.
    [[nodiscard]] Buffer bitcast(const Shape& shape, std::string_view layout = {}, Error* error = nullptr) const {
        const dp_shape raw = shape.raw();
        return detail::call<Buffer>(error, dp_buffer_bitcast, get(), &raw, detail::Text(layout));
    }
    // Waits until the contents are ready, and returns the address of the memory as a number. The plugin may free or
    // move the memory at any time.
    DEVICE_PLUGIN_GET(std::size_t, unsafe_pointer, dp_buffer_unsafe_pointer)

    // Waits for the contents, and exports the row-major buffer as a DLPack tensor without a copy. The caller calls the
    // tensor's deleter. Until then, the buffer can be neither donated nor deleted. `type` and `id` name the DLPack
    // device in whose memory the buffer is. Without them, it must be host memory.
    [[nodiscard]] DLManagedTensorVersioned* to_dlpack(DlpackDevice type = DlpackDevice::None, std::int32_t id = 0,
                                                      Error* error = nullptr) const {
        return detail::call<DLManagedTensorVersioned*>(error, dp_buffer_to_dlpack, get(),
                                                       static_cast<std::uint32_t>(type), id);
    }
    // The same for libraries that support only DLPack before 1.0.
    [[nodiscard]] DLManagedTensor* to_dlpack_unversioned(DlpackDevice type = DlpackDevice::None, std::int32_t id = 0,
                                                         Error* error = nullptr) const {
        return detail::call<DLManagedTensor*>(error, dp_buffer_to_dlpack_unversioned, get(),
                                              static_cast<std::uint32_t>(type), id);
    }

    // Waits for the contents, and returns them in row-major order. Fails with InvalidArgument if T is not the element
    // type. If the buffer has dynamic dimensions, the array of the actual extents comes first.
    template <typename T>
    [[nodiscard]] std::vector<T> to_vector(Error* error = nullptr) const {
        const std::size_t size = holds<T>(error) ? host_size(error) / sizeof(T) : 0;
        if (error != nullptr && *error) return {};
        if constexpr (std::is_same_v<T, bool>) {
            const std::unique_ptr<bool[]> elements(new bool[size]());
            if (!download(error, elements.get(), size)) return {};
            return std::vector<bool>(elements.get(), elements.get() + size);
        } else {
            std::vector<T> elements(size);
            if (!download(error, elements.data(), size * sizeof(T))) return {};
            return elements;
        }
    }
    // Waits for the contents, and copies them to a range such as a std::vector, whose type and size must fit.
    template <typename C, typename T = detail::Written<C>>
    void to_host(C&& range, Error* error = nullptr) const {
        const Span<T> to(std::forward<C>(range));
        if (holds<T>(error)) download(error, to.data(), to.size() * sizeof(T));
    }
    // The same for untyped memory of `host_size()` bytes. `layout` is the order of the elements on the host as in HLO.
    void to_host(void* data, std::size_t size, std::string_view layout = {}, Error* error = nullptr) const {
        detail::run(error, dp_buffer_to_host, get(), detail::Text(layout), data, size);
    }
    // Starts to copy the contents. The memory must exist, and nothing else may use it, until the event is ready, even
    // if the event is dropped before. The buffer may be dropped at once.
    template <typename C, typename T = detail::Written<C>>
    [[nodiscard]] Event start_to_host(C&& range, Error* error = nullptr) const {
        const Span<T> to(std::forward<C>(range));
        return holds<T>(error) ? start_to_host(to.data(), to.size() * sizeof(T), {}, error) : Event();
    }
    [[nodiscard]] Event start_to_host(void* data, std::size_t size, std::string_view layout = {},
                                      Error* error = nullptr) const {
        return detail::call<Event>(error, dp_buffer_start_to_host, get(), detail::Text(layout), data, size);
    }
    // Starts to copy bytes of the device's memory, from byte `offset`, in the layout of the device.
    [[nodiscard]] Event start_raw_to_host(std::size_t offset, void* data, std::size_t size,
                                          Error* error = nullptr) const {
        return detail::call<Event>(error, dp_buffer_start_raw_to_host, get(), offset, data, size);
    }

private:
    // Whether the elements have the type T.
    template <typename T>
    bool holds(Error* error) const {
        constexpr ElementType wanted = element_type_of_v<T>;
        Error failure;
        const ElementType found = element_type(&failure);
        if (!failure && found == wanted) return true;
        if (!failure) {
            std::string message("the elements of the buffer are ");
            message.append(to_string(found)).append(", and not ").append(to_string(wanted));
            failure = Error(ErrorCode::InvalidArgument, std::move(message));
        }
        detail::report(std::move(failure), error);
        return false;
    }
    bool download(Error* error, void* data, std::size_t size) const {
        return detail::run(error, dp_buffer_to_host, get(), static_cast<const char*>(nullptr), data, size);
    }
};

// New buffers whose contents the program transfers in chunks. Memory::create_transfer_manager creates one.
class TransferManager : public detail::Object<TransferManager, dp_transfer_manager> {
public:
    std::size_t buffer_count() const noexcept { return dp_transfer_manager_buffer_count(get()); }
    // The number of bytes that a buffer needs.
    [[nodiscard]] std::size_t buffer_size(std::size_t index, Error* error = nullptr) const {
        return detail::call<std::size_t>(error, dp_transfer_manager_buffer_size, get(), index);
    }
    // The buffer, which can be used before its contents are complete. Each buffer is returned once.
    [[nodiscard]] Buffer retrieve_buffer(std::size_t index, Error* error = nullptr) const {
        return detail::call<Buffer>(error, dp_transfer_manager_retrieve_buffer, get(), index);
    }
    // Transfers bytes to byte `offset` of a buffer. They must not change until the event is ready. `is_last` says that
    // no other chunk of this buffer follows.
    [[nodiscard]] Event transfer(std::size_t index, std::size_t offset, ByteView data, bool is_last,
                                 Error* error = nullptr) const {
        return detail::lend<Event>(error, detail::Lent(nullptr, nullptr), dp_transfer_manager_transfer, get(), index,
                                   offset, is_last, data.data(), data.size());
    }
    // The same. Moves a std::vector or another range, and keeps it until the transfer has ended.
    template <typename C, typename T = detail::Read<C&>, typename = std::enable_if_t<!std::is_lvalue_reference_v<C>>>
    Event transfer_owned(std::size_t index, std::size_t offset, C&& data, bool is_last, Error* error = nullptr) const {
        auto owned = std::make_unique<std::decay_t<C>>(std::forward<C>(data));
        const Span<const T> bytes(*owned);
        return detail::lend<Event>(error, detail::Lent(owned.release(), detail::destroy<std::decay_t<C>>),
                                   dp_transfer_manager_transfer, get(), index, offset, is_last,
                                   static_cast<const void*>(bytes.data()), bytes.size() * sizeof(T));
    }
    // Makes the contents of a buffer an error.
    void set_buffer_error(std::size_t index, ErrorCode code, std::string_view message, Error* error = nullptr) const {
        detail::run(error, dp_transfer_manager_set_buffer_error, get(), index, static_cast<dp_code>(code),
                    detail::Text(message));
    }
};

DEVICE_PLUGIN_NAMESPACE_END

#endif  // DEVICE_PLUGIN_BUFFER_HPP
