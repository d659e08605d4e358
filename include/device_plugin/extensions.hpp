// Extensions of PJRT that a plugin may have. Without the extension, a function fails with Unimplemented.
#ifndef DEVICE_PLUGIN_EXTENSIONS_HPP
#define DEVICE_PLUGIN_EXTENSIONS_HPP

#include "base.hpp"
#include "buffer.hpp"
#include "client.hpp"
#include "extensions.h"
#include "program.hpp"
#include "registry.hpp"

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

// A buffer to send to a device of another process.
struct Send {
    // It must not be donated or deleted before the event is ready.
    Buffer buffer;
    // The id of the device that receives it.
    std::int32_t device_id;
    // A number that the receiver also uses. It tells apart the transfers between two devices.
    std::int64_t key;
};
// A buffer to receive from a device of another process.
struct Receive {
    // It must be that of the sent buffer.
    Shape shape;
    // The id of the device that sends it.
    std::int32_t device_id;
    // A number that the sender also uses.
    std::int64_t key;
};
// A process, and a number that changes whenever the process restarts.
using Incarnation = dp_incarnation;

// Starts to send buffers of the client. The events become ready when the buffers were sent. `alive` lists the processes
// that were alive recently, and may be empty.
[[nodiscard]] inline std::vector<Event> send_buffers(const Client& client, Span<const Send> sends,
                                                     Span<const Incarnation> alive = {}, Error* error = nullptr) {
    detail::Array<dp_send> raw(sends.size());
    for (std::size_t i = 0; i < sends.size(); ++i) {
        raw[i] = {sends[i].buffer.get(), sends[i].device_id, sends[i].key};
    }
    std::vector<Event> events(sends.size());
    detail::Array<dp_event*> made(sends.size());
    if (!detail::run(error, dp_client_send_buffers, client.get(), raw.data(), raw.size(), alive.data(), alive.size(),
                     made.data(), made.size())) {
        return {};
    }
    for (std::size_t i = 0; i < made.size(); ++i) events[i] = Event::adopt(made[i]);
    return events;
}
// Starts to receive buffers on a device of this process. They become ready when their contents have arrived.
[[nodiscard]] inline std::vector<Buffer> receive_buffers(const Device& device, Span<const Receive> receives,
                                                         Span<const Incarnation> alive = {}, Error* error = nullptr) {
    detail::Array<dp_receive> raw(receives.size());
    for (std::size_t i = 0; i < receives.size(); ++i) {
        raw[i] = {receives[i].shape.raw(), receives[i].device_id, receives[i].key};
    }
    std::vector<Buffer> buffers(receives.size());
    detail::Array<dp_buffer*> made(receives.size());
    if (!detail::run(error, dp_device_receive_buffers, device.get(), raw.data(), raw.size(), alive.data(), alive.size(),
                     made.data(), made.size())) {
        return {};
    }
    for (std::size_t i = 0; i < made.size(); ++i) buffers[i] = Buffer::adopt(made[i]);
    return buffers;
}

// Host memory that the device reads and writes quickly. It is freed with this object, which can be moved but not
// copied. For an upload without a copy, move it into the function of `Client::upload_lent`.
class HostMemory {
public:
    HostMemory() noexcept = default;
    // Allocates bytes that are zero. `size` must not be 0. `numa_node` is -1 if the plugin shall choose the node.
    [[nodiscard]] static HostMemory allocate(const Client& client, std::size_t size, std::int32_t numa_node = -1,
                                             Error* error = nullptr) {
        HostMemory memory;
        memory.data_.reset(detail::call<void*>(error, dp_client_allocate_host_memory, client.get(), size, numa_node));
        memory.size_ = memory.data_ == nullptr ? 0 : size;
        return memory;
    }

    explicit operator bool() const noexcept { return data_ != nullptr; }
    void* data() const noexcept DEVICE_PLUGIN_LIFETIMEBOUND { return data_.get(); }
    std::size_t size() const noexcept { return data_ == nullptr ? 0 : size_; }

private:
    struct Free {
        void operator()(void* memory) const noexcept { dp_host_memory_free(memory); }
    };
    std::unique_ptr<void, Free> data_;
    std::size_t size_ = 0;
};

// A memory of a device that need not be present.
struct MemoryDescription {
    // The kind, such as `device` or `pinned_host`.
    std::string kind;
    std::int32_t kind_id;
    // Whether arrays are stored in this memory unless the program says otherwise.
    bool is_default;
};
// The memories of a device of a topology. The plugin is that of the topology.
[[nodiscard]] inline std::vector<MemoryDescription> memory_descriptions(const Plugin& plugin,
                                                                        const DeviceDescription& device,
                                                                        Error* error = nullptr) {
    Error failure;
    const auto size =
        detail::call<std::size_t>(&failure, dp_plugin_memory_description_count, plugin.get(), device.get());
    std::vector<MemoryDescription> all;
    for (std::size_t i = 0; i < size && !failure; ++i) {
        const auto raw = detail::call<dp_memory_description>(&failure, dp_plugin_memory_description_at, plugin.get(),
                                                             device.get(), i);
        all.push_back({std::string(detail::view(raw.kind)), raw.kind_id, raw.is_default});
    }
    if (failure) {
        detail::report(std::move(failure), error);
        return {};
    }
    if (error != nullptr) error->clear();
    return all;
}

// The shardings of a parameter and of an output of a program that the client's plugin compiled, as a serialized
// xla.OpSharding. Fails with NotFound if the plugin reports none for the program, such as one for a single device.
[[nodiscard]] inline Bytes parameter_sharding(const Client& client, const Executable& executable, std::size_t index,
                                              Error* error = nullptr) {
    return detail::call<Bytes>(error, dp_client_parameter_sharding, client.get(), executable.get(), index);
}
[[nodiscard]] inline Bytes output_sharding(const Client& client, const Executable& executable, std::size_t index,
                                           Error* error = nullptr) {
    return detail::call<Bytes>(error, dp_client_output_sharding, client.get(), executable.get(), index);
}
// Declares for the whole process that the custom call `target` computes the elements of a batch independently.
inline void register_batch_partitionable(const Client& client, std::string_view target, Error* error = nullptr) {
    detail::run(error, dp_client_register_batch_partitionable, client.get(), detail::Text(target));
}

// The names of the phases of the plugin's compiler, in the order in which they run.
[[nodiscard]] inline std::vector<std::string> phase_names(const Client& client, Error* error = nullptr) {
    Error failure;
    const auto size = detail::call<std::size_t>(&failure, dp_client_phase_count, client.get());
    std::vector<std::string> names;
    for (std::size_t i = 0; i < size && !failure; ++i) {
        names.push_back(detail::call<std::string>(&failure, dp_client_phase_name_at, client.get(), i));
    }
    if (!failure) {
        if (error != nullptr) error->clear();
        return names;
    }
    detail::report(std::move(failure), error);
    return {};
}
// Runs phases of the plugin's compiler, by name, for the client's devices. Programs are serialized
// xla.PjRtPartialProgramProto. Fails with OutOfRange if the phases make more than `most` programs.
[[nodiscard]] inline std::vector<Bytes> run_phases(const Client& client, Span<const std::string> phases,
                                                   Span<const ByteView> programs, const CompileOptions& options = {},
                                                   std::size_t most = 64, Error* error = nullptr) {
    std::vector<const char*> names;
    for (const std::string& phase : phases) names.push_back(phase.c_str());
    std::vector<dp_partial_program> inputs;
    for (const ByteView& program : programs) inputs.push_back({program.data(), program.size()});
    std::vector<Bytes> outputs(most);
    std::vector<dp_bytes*> made(most);
    if (!detail::run(error, dp_client_run_phases, client.get(), names.data(), names.size(), inputs.data(),
                     inputs.size(), options.get(), made.data(), made.size())) {
        return {};
    }
    std::size_t size = 0;
    for (; size < most && made[size] != nullptr; ++size) outputs[size] = Bytes::adopt(made[size]);
    outputs.resize(size);
    return outputs;
}

// The metadata of a program that the client's plugin compiled, in the plugin's own format.
[[nodiscard]] inline Bytes executable_metadata(const Client& client, const Executable& executable,
                                               Error* error = nullptr) {
    return detail::call<Bytes>(error, dp_client_executable_metadata, client.get(), executable.get());
}

// The version of a binary interface, serialized by the plugin, and a number for the platform that the plugin defines.
struct AbiVersion {
    Bytes serialized;
    std::uint64_t platform_id = 0;
};
// The version of the client's runtime, and that of the runtime which a program needs.
[[nodiscard]] inline AbiVersion runtime_abi_version(const Client& client, Error* error = nullptr) {
    AbiVersion version;
    version.serialized =
        detail::call<Bytes>(error, dp_client_runtime_abi_version, client.get(), &version.platform_id);
    return version;
}
[[nodiscard]] inline AbiVersion executable_abi_version(const Client& client, const Executable& executable,
                                                       Error* error = nullptr) {
    AbiVersion version;
    version.serialized = detail::call<Bytes>(error, dp_client_executable_abi_version, client.get(), executable.get(),
                                             &version.platform_id);
    return version;
}
// Checks that the client's runtime can run programs for a runtime, or one program, with this serialized version. If it
// cannot, the error is that of the plugin.
inline void check_runtime_abi_version(const Client& client, ByteView version, Error* error = nullptr) {
    detail::run(error, dp_client_check_runtime_abi_version, client.get(), version.data(), version.size());
}
inline void check_executable_abi_version(const Client& client, ByteView version, Error* error = nullptr) {
    detail::run(error, dp_client_check_executable_abi_version, client.get(), version.data(), version.size());
}

// The reason why a TPU slice failed. The numbers are those of PJRT_Callback_Tpu_SliceFailureType.
enum class SliceFailure : std::int32_t {
    Unknown = DP_SLICE_FAILURE_UNKNOWN,
    InitError = DP_SLICE_FAILURE_INIT_ERROR,
    WorkerUnavailable = DP_SLICE_FAILURE_WORKER_UNAVAILABLE,
    FlappingTask = DP_SLICE_FAILURE_FLAPPING_TASK,
    Injected = DP_SLICE_FAILURE_INJECTED,
    ChipDriverError = DP_SLICE_FAILURE_CHIP_DRIVER_ERROR,
};

namespace detail {

// A copy of a function that lives until the process ends, or nullptr if the plugin cannot call it.
template <typename F>
void* keep_callback(const Client& client, F&& function) {
    bool can = false;
    if (dp_client_supports(client.get(), "PJRT_Register_Callback", &can, nullptr) != DP_OK || !can) return nullptr;
    return new std::decay_t<F>(std::forward<F>(function));
}

}  // namespace detail

// Calls `function(SliceFailure)` whenever the client's TPU slice fails, on any thread, until the process ends. An
// exception that leaves it ends the program.
template <typename F>
void on_slice_failure(const Client& client, F&& function, Error* error = nullptr) {
    const auto call = [](void* context, dp_slice_failure failure) noexcept {
        (*static_cast<std::decay_t<F>*>(context))(static_cast<SliceFailure>(failure));
    };
    detail::run(error, dp_client_on_slice_failure, client.get(), static_cast<dp_slice_failure_callback>(call),
                detail::keep_callback(client, std::forward<F>(function)));
}
// Calls `function(ErrorCode, std::string_view message)` before the plugin ends the process because of an error, on any
// thread. An exception that leaves it ends the program.
template <typename F>
void on_fatal_error(const Client& client, F&& function, Error* error = nullptr) {
    const auto call = [](void* context, dp_code code, dp_string message) noexcept {
        (*static_cast<std::decay_t<F>*>(context))(static_cast<ErrorCode>(code), detail::view(message));
    };
    detail::run(error, dp_client_on_fatal_error, client.get(), static_cast<dp_fatal_error_callback>(call),
                detail::keep_callback(client, std::forward<F>(function)));
}
// Call these functions, for example to test them. The process does not end.
inline void report_slice_failure(const Client& client, SliceFailure failure, Error* error = nullptr) {
    detail::run(error, dp_client_report_slice_failure, client.get(), static_cast<dp_slice_failure>(failure));
}
inline void report_fatal_error(const Client& client, ErrorCode code, std::string_view message,
                               Error* error = nullptr) {
    detail::run(error, dp_client_report_fatal_error, client.get(), static_cast<dp_code>(code), detail::Text(message));
}

DEVICE_PLUGIN_NAMESPACE_END

#endif  // DEVICE_PLUGIN_EXTENSIONS_HPP
