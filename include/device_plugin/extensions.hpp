// Extensions of PJRT that a plugin may have. Without the extension, a function fails with Unimplemented.
#ifndef DEVICE_PLUGIN_EXTENSIONS_HPP
#define DEVICE_PLUGIN_EXTENSIONS_HPP

#include "base.hpp"
#include "buffer.hpp"
#include "client.hpp"
#include "extensions.h"
#include "program.hpp"

DEVICE_PLUGIN_NAMESPACE_BEGIN

// An extension of a plugin.
struct Extension {
    // The number in the header of PJRT, PJRT_Extension_Type.
    std::uint32_t number;
    // Empty if the library does not know the number.
    std::string name;
    // Size of the plugin's struct in bytes.
    std::size_t size;
};

// The extensions of the client's plugin.
[[nodiscard]] inline std::vector<Extension> extensions(const Client& client, Error* error = nullptr) {
    if (error != nullptr) error->clear();
    std::vector<Extension> all;
    // Without a client, the first call fails.
    const std::size_t size = client.api() == nullptr ? 1 : dp_client_extension_count(client.get());
    for (std::size_t i = 0; i < size; ++i) {
        const auto raw = detail::call<dp_extension>(error, dp_client_extension_at, client.get(), i);
        if (error != nullptr && *error) return {};
        all.push_back({raw.number, std::string(detail::view(raw.name)), raw.size});
    }
    return all;
}
// Whether the client's plugin has a function of PJRT, such as `PJRT_Buffer_Bitcast`, in its table or in an extension.
// Fails with NotFound if PJRT has no such function.
[[nodiscard]] inline bool supports(const Client& client, std::string_view function, Error* error = nullptr) {
    return detail::call<bool>(error, dp_client_supports, client.get(), detail::Text(function));
}

// Registers the handler of a custom call, an XLA_FFI_Handler*, for the whole process. It must stay callable from any
// thread until the process ends. `traits` are those of PJRT_FFI_Handler_TraitsBits.
inline void register_ffi_handler(const Client& client, std::string_view target, std::string_view platform,
                                 void* handler, std::uint32_t traits = 0, Error* error = nullptr) {
    detail::run(error, dp_client_register_ffi_handler, client.get(), detail::Text(target), detail::Text(platform),
                handler, traits);
}
// Registers a type of user data for the whole process, and returns its id. `id` is the wanted id, or 0 if the plugin
// shall choose one.
inline std::int64_t register_ffi_type(const Client& client, std::string_view name, std::int64_t id = 0,
                                      Error* error = nullptr) {
    return detail::call<std::int64_t>(error, dp_client_register_ffi_type, client.get(), detail::Text(name), id);
}

// Data of the program for the custom calls of a run.
class ExecuteContext : public detail::Object<ExecuteContext, dp_execute_context> {
public:
    [[nodiscard]] static ExecuteContext create(const Client& client, Error* error = nullptr) {
        return detail::call<ExecuteContext>(error, dp_client_create_execute_context, client.get());
    }
    // Adds a pointer to data of a registered type. The data must stay valid until the context is dropped and the runs
    // that use it have ended.
    void add_user_data(std::int64_t type_id, void* data, Error* error = nullptr) {
        detail::run(error, dp_execute_context_add_user_data, get(), type_id, data);
    }
    // Sets the data for the runs with these options.
    void set_in(ExecuteOptions& options, Error* error = nullptr) const {
        if (!options) options = ExecuteOptions::create();
        detail::run(error, dp_execute_options_set_context, options.get(), get());
    }
};

// Layouts in the plugin's own format: of arrays with this shape, and of outputs and parameters of a program that the
// client's plugin compiled.
[[nodiscard]] inline Bytes default_layout(const Client& client, const Shape& shape, Error* error = nullptr) {
    const dp_shape raw = shape.raw();
    return detail::call<Bytes>(error, dp_client_default_layout, client.get(), &raw);
}
[[nodiscard]] inline Bytes output_layout(const Client& client, const Executable& executable, std::size_t index,
                                         Error* error = nullptr) {
    return detail::call<Bytes>(error, dp_client_output_layout, client.get(), executable.get(), index);
}
[[nodiscard]] inline Bytes parameter_layout(const Client& client, const Executable& executable, std::size_t index,
                                            Error* error = nullptr) {
    return detail::call<Bytes>(error, dp_client_parameter_layout, client.get(), executable.get(), index);
}

// A profile that is being recorded. Only one object can refer to it, so it can be moved but not copied.
class Profile : public detail::Object<Profile, dp_profile> {
public:
    Profile() noexcept = default;
    Profile(Profile&&) noexcept = default;
    Profile& operator=(Profile&&) noexcept = default;

    // Starts to record. `options` is a serialized tensorflow.ProfileOptions, and may be empty.
    [[nodiscard]] static Profile start(const Client& client, ByteView options = {}, Error* error = nullptr) {
        return detail::call<Profile>(error, dp_client_start_profile, client.get(), options.data(), options.size());
    }
    // Stops, and returns a serialized tensorflow.profiler.XSpace. This object is empty afterwards, also after an error.
    [[nodiscard]] Bytes stop(Error* error = nullptr) {
        const Profile given = std::move(*this);
        return detail::call<Bytes>(error, dp_profile_stop, given.get());
    }
};

// The bytes of a buffer.
class RawBuffer : public detail::Object<RawBuffer, dp_raw_buffer> {
public:
    [[nodiscard]] static RawBuffer of(const Buffer& buffer, Error* error = nullptr) {
        return detail::call<RawBuffer>(error, dp_buffer_raw_alias, buffer.get());
    }
    DEVICE_PLUGIN_GET(std::size_t, size, dp_raw_buffer_size)
    // The address for the host's processor. nullptr if it cannot read the bytes.
    const void* host_pointer(Error* error = nullptr) const&& = delete;
    [[nodiscard]] const void* host_pointer(Error* error = nullptr) const& DEVICE_PLUGIN_LIFETIMEBOUND {
        return detail::call<const void*>(error, dp_raw_buffer_host_pointer, get());
    }
    // Copies bytes from byte `offset` to `data`, and waits for the copy.
    void read(std::size_t offset, void* data, std::size_t size, Error* error = nullptr) const {
        detail::run(error, dp_raw_buffer_read, get(), offset, data, size);
    }
    // Starts to copy bytes to byte `offset`. They must not change until the event is ready, and no program may use the
    // buffer meanwhile.
    [[nodiscard]] Event write(std::size_t offset, ByteView data, Error* error = nullptr) const {
        return detail::lend<Event>(error, detail::Lent(nullptr, nullptr), dp_raw_buffer_write, get(), offset,
                                   data.data(), data.size());
    }
};

// The driver's stream, such as a cudaStream_t, in which other code can wait for buffers of the device.
[[nodiscard]] inline std::int64_t stream_for_external_ready_events(const Device& device, Error* error = nullptr) {
    return detail::call<std::int64_t>(error, dp_device_stream_for_external_ready_events, device.get());
}
// Makes later work in a stream of the device's driver wait until the buffer is ready.
inline void wait_until_buffer_ready_on_stream(const Device& device, std::int64_t stream, const Buffer& buffer,
                                              Error* error = nullptr) {
    detail::run(error, dp_device_wait_until_buffer_ready_on_stream, device.get(), stream, buffer.get());
}

DEVICE_PLUGIN_NAMESPACE_END

#endif  // DEVICE_PLUGIN_EXTENSIONS_HPP
