// Clients, their devices and memories, topologies, and stores of keys and values.
#ifndef DEVICE_PLUGIN_CLIENT_HPP
#define DEVICE_PLUGIN_CLIENT_HPP

#include "base.hpp"
#include "buffer.hpp"
#include "client.h"
#include "program.hpp"
#include "registry.hpp"

DEVICE_PLUGIN_NAMESPACE_BEGIN

// The use of a device's memory, in bytes. The fields are documented in client.h. -1: the plugin does not report it.
using MemoryStats = dp_memory_stats;

// How long the plugin may use the data of an upload. The numbers are those of PJRT_HostBufferSemantics.
enum class HostBufferSemantics : std::uint32_t {
    ImmutableOnlyDuringCall = DP_IMMUTABLE_ONLY_DURING_CALL,
    ImmutableUntilTransferCompletes = DP_IMMUTABLE_UNTIL_TRANSFER_COMPLETES,
    ImmutableZeroCopy = DP_IMMUTABLE_ZERO_COPY,
    MutableZeroCopy = DP_MUTABLE_ZERO_COPY,
};

// A memory that devices of a client can use. Two objects are equal if they refer to the same memory.
class Memory : public detail::Object<Memory, dp_memory> {
public:
    // The object of PJRT, which is valid as long as the client.
    PJRT_Memory* raw() const noexcept { return dp_memory_raw(get()); }
    // The id, which is unique among the memories of the client.
    DEVICE_PLUGIN_GET(std::int32_t, id, dp_memory_id)
    // The kind, such as `device`, `pinned_host` or `unpinned_host`.
    DEVICE_PLUGIN_GET(std::string, kind, dp_memory_kind)
    DEVICE_PLUGIN_GET(std::int32_t, kind_id, dp_memory_kind_id)
    DEVICE_PLUGIN_GET(std::string, to_string, dp_memory_to_string)
    DEVICE_PLUGIN_GET(std::string, debug_string, dp_memory_debug_string)
    // The devices that can use the memory.
    [[nodiscard]] std::vector<Device> devices(Error* error = nullptr) const;

    // Creates a buffer with unspecified contents. Without a layout, it has the plugin's default.
    [[nodiscard]] Buffer create_uninitialized_buffer(const Shape& shape, std::string_view layout = {},
                                                     Error* error = nullptr) const {
        const dp_shape raw = shape.raw();
        return detail::call<Buffer>(error, dp_memory_create_uninitialized_buffer, get(), &raw, detail::Text(layout));
    }
    // Creates a buffer whose contents are an error. Programs that read it fail with it.
    [[nodiscard]] Buffer create_error_buffer(const Shape& shape, ErrorCode code, std::string_view message,
                                             Error* error = nullptr) const {
        const dp_shape raw = shape.raw();
        return detail::call<Buffer>(error, dp_memory_create_error_buffer, get(), &raw, static_cast<dp_code>(code),
                                    detail::Text(message));
    }
    // Creates buffers, one for each of the shapes, whose contents are transferred later.
    [[nodiscard]] TransferManager create_transfer_manager(Span<const Shape> shapes, Error* error = nullptr) const {
        std::vector<dp_shape> raw;
        for (const Shape& shape : shapes) raw.push_back(shape.raw());
        return detail::call<TransferManager>(error, dp_memory_create_transfer_manager, get(), raw.data(), raw.size());
    }

    friend bool operator==(const Memory& a, const Memory& b) noexcept { return a.raw() == b.raw(); }
    friend bool operator!=(const Memory& a, const Memory& b) noexcept { return a.raw() != b.raw(); }
};

// A device of a client. Two objects are equal if they refer to the same device.
class Device : public detail::Object<Device, dp_device> {
public:
    // The object of PJRT, which is valid as long as the client.
    PJRT_Device* raw() const noexcept { return dp_device_raw(get()); }
    // The id, which is unique among all processes.
    DEVICE_PLUGIN_GET(std::int32_t, id, dp_device_id)
    // The kind of hardware, such as `NVIDIA H100`.
    DEVICE_PLUGIN_GET(std::string, kind, dp_device_kind)
    // The index of the process that can use the device, and whether it is this process.
    DEVICE_PLUGIN_GET(std::int32_t, process_index, dp_device_process_index)
    DEVICE_PLUGIN_GET(bool, is_addressable, dp_device_is_addressable)
    // The number by which the operating system or the driver knows the device.
    DEVICE_PLUGIN_GET(std::int32_t, local_hardware_id, dp_device_local_hardware_id)
    DEVICE_PLUGIN_GET(std::string, to_string, dp_device_to_string)
    DEVICE_PLUGIN_GET(std::string, debug_string, dp_device_debug_string)
    // What the plugin reports, such as coordinates.
    DEVICE_PLUGIN_GET(Options, attributes, dp_device_attributes)
    // The memories that the device can use, and the one that it uses by default.
    [[nodiscard]] std::vector<Memory> memories(Error* error = nullptr) const {
        const auto size = detail::call<std::size_t>(error, dp_device_memory_count, get());
        return detail::list<Memory>(error, size, dp_device_memory_at, get());
    }
    DEVICE_PLUGIN_GET(Memory, default_memory, dp_device_default_memory)
    // Fails with Unimplemented if the plugin does not report the use of the memory.
    DEVICE_PLUGIN_GET(MemoryStats, memory_stats, dp_device_memory_stats)
    void clear_memory_stats(Error* error = nullptr) const { detail::run(error, dp_device_clear_memory_stats, get()); }
    // Makes the run with this launch id on this device fail. Returns whether there was such a run.
    bool poison_execution(std::int32_t launch_id, ErrorCode code, std::string_view message,
                          Error* error = nullptr) const {
        return detail::call<bool>(error, dp_device_poison_execution, get(), launch_id, static_cast<dp_code>(code),
                                  detail::Text(message));
    }

    friend bool operator==(const Device& a, const Device& b) noexcept { return a.raw() == b.raw(); }
    friend bool operator!=(const Device& a, const Device& b) noexcept { return a.raw() != b.raw(); }
};

// A device of a topology, which need not exist.
class DeviceDescription : public detail::Object<DeviceDescription, dp_device_description> {
public:
    DEVICE_PLUGIN_GET(std::int32_t, id, dp_device_description_id)
    DEVICE_PLUGIN_GET(std::int32_t, process_index, dp_device_description_process_index)
    DEVICE_PLUGIN_GET(std::string, kind, dp_device_description_kind)
    DEVICE_PLUGIN_GET(std::string, to_string, dp_device_description_to_string)
    DEVICE_PLUGIN_GET(std::string, debug_string, dp_device_description_debug_string)
    DEVICE_PLUGIN_GET(Options, attributes, dp_device_description_attributes)
};

// Devices and their connections. Programs can be compiled for them without the devices.
class TopologyDescription : public detail::Object<TopologyDescription, dp_topology_description> {
public:
    DEVICE_PLUGIN_GET(std::string, platform_name, dp_topology_description_platform_name)
    DEVICE_PLUGIN_GET(std::string, platform_version, dp_topology_description_platform_version)
    DEVICE_PLUGIN_GET(Options, attributes, dp_topology_description_attributes)
    [[nodiscard]] std::vector<DeviceDescription> devices(Error* error = nullptr) const {
        const auto size = detail::call<std::size_t>(error, dp_topology_description_device_count, get());
        return detail::list<DeviceDescription>(error, size, dp_topology_description_device_at, get());
    }
    // A number that is equal for equal topologies.
    DEVICE_PLUGIN_GET(std::uint64_t, fingerprint, dp_topology_description_fingerprint)
    // Serializes the description for Plugin::deserialize_topology.
    DEVICE_PLUGIN_GET(Bytes, serialize, dp_topology_description_serialize)
    // Compiles a program without the devices.
    [[nodiscard]] Executable compile(const Program& program, const CompileOptions& options = {},
                                     Error* error = nullptr) const {
        return detail::call<Executable>(error, dp_topology_description_compile, get(), program.get(), options.get());
    }
};

// A store of keys and values by which the processes of one computation find each other.
class KeyValueStore : public detail::Object<KeyValueStore, dp_key_value_store> {
public:
    // A store for several clients of this process.
    [[nodiscard]] static KeyValueStore in_process(Error* error = nullptr) {
        return detail::call<KeyValueStore>(error, dp_key_value_store_in_process);
    }
    // A store on a server: `redis://host:port` or `etcd://host:port`. Fails with Unimplemented if the library was built
    // without clients for such a server.
    [[nodiscard]] static KeyValueStore open(std::string_view address, Error* error = nullptr) {
        return detail::call<KeyValueStore>(error, dp_key_value_store_open, detail::Text(address));
    }
    // A store that keeps its keys apart from those of other computations on the same server.
    [[nodiscard]] KeyValueStore prefixed(std::string_view job, std::string_view attempt, Error* error = nullptr) const {
        return detail::call<KeyValueStore>(error, dp_key_value_store_prefixed, get(), detail::Text(job),
                                           detail::Text(attempt));
    }
    void put(std::string_view key, ByteView value, Error* error = nullptr) const {
        detail::run(error, dp_key_value_store_put, get(), detail::Text(key), value.data(), value.size());
    }
    // Waits until the key has a value. Fails with DeadlineExceeded after the timeout.
    template <typename Rep, typename Period>
    [[nodiscard]] Bytes wait_for(std::string_view key, std::chrono::duration<Rep, Period> timeout,
                                 Error* error = nullptr) const {
        return detail::call<Bytes>(error, dp_key_value_store_get, get(), detail::Text(key),
                                   detail::milliseconds(timeout));
    }
};

// How to transfer an array to a device.
struct UploadOptions {
    // The destination. Without one, it is the first addressable device and its default memory. A memory is enough.
    Device device;
    Memory memory;
    // The distance between neighbours in each dimension, in bytes, which may be zero or negative. Empty if the array
    // is row-major without gaps.
    std::vector<std::int64_t> byte_strides;
    // Position of the first element in the data, in bytes. It needs `byte_strides`.
    std::size_t offset = 0;
    // Layout in the device's memory as in HLO, such as `{0,1}`. Empty for the plugin's default.
    std::string layout;
    // For data that is lent or owned. ImmutableOnlyDuringCall then means ImmutableZeroCopy.
    HostBufferSemantics semantics = HostBufferSemantics::ImmutableOnlyDuringCall;
};

// A connection to the devices of a plugin. Objects of a client keep it alive. Two objects are equal if they refer to
// the same client.
class Client : public detail::Object<Client, dp_client> {
public:
    // Takes over a client that the program created with PJRT_Client_Create of `api`, after PJRT_Plugin_Initialize.
    // After an error, it still belongs to the program.
    [[nodiscard]] static Client adopt_raw(const PJRT_Api* api, PJRT_Client* raw, Error* error = nullptr) {
        return detail::call<Client>(error, dp_client_adopt, api, raw);
    }
    // The object of PJRT, which is valid as long as the client. Do not destroy it.
    PJRT_Client* raw() const&& = delete;
    PJRT_Client* raw() const& noexcept DEVICE_PLUGIN_LIFETIMEBOUND { return dp_client_raw(get()); }
    // The function table of the plugin, which is valid until the process ends.
    const PJRT_Api* api() const noexcept { return dp_client_api(get()); }

    // The name of the platform, such as `cpu`, `cuda` or `tpu`, and its version for display.
    DEVICE_PLUGIN_GET(std::string, platform_name, dp_client_platform_name)
    DEVICE_PLUGIN_GET(std::string, platform_version, dp_client_platform_version)
    // The index of this process among the processes of the computation. 0 for a single process.
    DEVICE_PLUGIN_GET(std::int32_t, process_index, dp_client_process_index)
    // All devices, and those that this process can use. The first of these receives uploads without a destination.
    [[nodiscard]] std::vector<Device> devices(Error* error = nullptr) const {
        const auto size = detail::call<std::size_t>(error, dp_client_device_count, get());
        return detail::list<Device>(error, size, dp_client_device_at, get());
    }
    [[nodiscard]] std::vector<Device> addressable_devices(Error* error = nullptr) const {
        const auto size = detail::call<std::size_t>(error, dp_client_addressable_device_count, get());
        return detail::list<Device>(error, size, dp_client_addressable_device_at, get());
    }
    // The device with this id, or the device of this process with this hardware id.
    [[nodiscard]] Device lookup_device(std::int32_t id, Error* error = nullptr) const {
        return detail::call<Device>(error, dp_client_lookup_device, get(), id);
    }
    [[nodiscard]] Device lookup_addressable_device(std::int32_t local_hardware_id, Error* error = nullptr) const {
        return detail::call<Device>(error, dp_client_lookup_addressable_device, get(), local_hardware_id);
    }
    // The memories that this process can use.
    [[nodiscard]] std::vector<Memory> memories(Error* error = nullptr) const {
        const auto size = detail::call<std::size_t>(error, dp_client_memory_count, get());
        return detail::list<Memory>(error, size, dp_client_memory_at, get());
    }
    // The ids of the `replicas * partitions` devices that a program uses by default: first those of the partitions of
    // replica 0, and so on.
    [[nodiscard]] std::vector<std::int64_t> default_device_assignment(std::size_t replicas, std::size_t partitions,
                                                                      Error* error = nullptr) const {
        std::vector<std::int64_t> ids(replicas * partitions);
        const bool filled = detail::run(error, dp_client_default_device_assignment, get(), replicas, partitions,
                                        ids.data(), ids.size());
        return filled ? ids : std::vector<std::int64_t>();
    }
    DEVICE_PLUGIN_GET(TopologyDescription, topology, dp_client_topology)

    // Compiles a program for the client's devices, and loads it.
    [[nodiscard]] LoadedExecutable compile(const Program& program, const CompileOptions& options = {},
                                           Error* error = nullptr) const {
        return detail::call<LoadedExecutable>(error, dp_client_compile, get(), program.get(), options.get());
    }
    // Loads a compiled program. The options override those with which it was compiled.
    [[nodiscard]] LoadedExecutable load(const Executable& executable, const CompileOptions& options = {},
                                        Error* error = nullptr) const {
        return detail::call<LoadedExecutable>(error, dp_client_load, get(), executable.get(), options.get());
    }
    // Loads the result of Executable::serialize.
    [[nodiscard]] LoadedExecutable deserialize_and_load(ByteView serialized, const CompileOptions& options = {},
                                                        Error* error = nullptr) const {
        return detail::call<LoadedExecutable>(error, dp_client_deserialize_and_load, get(), serialized.data(),
                                              serialized.size(), options.get());
    }

    // Copies an array to a device: `upload(values, {2, 3})`. The values are a std::vector, std::array or other range,
    // or a list in braces. The buffer may not be ready. Functions that use its contents wait.
    template <typename C, typename T = detail::Read<const C&>>
    [[nodiscard]] Buffer upload(const C& values, const Extents& dimensions, const UploadOptions& options = {},
                                Error* error = nullptr) const {
        const Span<const T> data(values);
        return upload(data.data(), data.size() * sizeof(T), element_type_of_v<T>, dimensions, options, error);
    }
    template <typename T>
    [[nodiscard]] Buffer upload(std::initializer_list<T> values, const Extents& dimensions,
                                const UploadOptions& options = {}, Error* error = nullptr) const {
        return upload(Span<const T>(values), dimensions, options, error);
    }
    [[nodiscard]] Buffer upload(const void* data, std::size_t size, ElementType element_type, const Extents& dimensions,
                                const UploadOptions& options = {}, Error* error = nullptr) const {
        return transfer({data, size}, element_type, dimensions, options, detail::Lent(nullptr, nullptr), error);
    }
    // Moves a std::vector or another range, and keeps it until the plugin no longer uses it: without a copy, as long as
    // the buffer exists.
    template <typename C, typename T = detail::Read<C&>, typename = std::enable_if_t<!std::is_lvalue_reference_v<C>>>
    [[nodiscard]] Buffer upload_owned(C&& values, const Extents& dimensions, const UploadOptions& options = {},
                                      Error* error = nullptr) const {
        using Owned = std::decay_t<C>;
        auto owned = std::make_unique<Owned>(std::forward<C>(values));
        const Span<const T> data(*owned);
        return transfer({data.data(), data.size() * sizeof(T)}, element_type_of_v<T>, dimensions, options,
                        detail::Lent(owned.release(), detail::destroy<Owned>), error);
    }
    // Lends memory until `release()` is called: once, on any thread, also if this function fails. `release` may be a
    // type that can only be moved. An exception that leaves it ends the program.
    template <typename F>
    [[nodiscard]] Buffer upload_lent(const void* data, std::size_t size, ElementType element_type,
                                     const Extents& dimensions, F&& release, const UploadOptions& options = {},
                                     Error* error = nullptr) const {
        using Function = std::decay_t<F>;
        detail::Lent lent(new Function(std::forward<F>(release)), detail::call_and_destroy<Function>);
        return transfer({data, size}, element_type, dimensions, options, std::move(lent), error);
    }

    // Makes a buffer from a DLPack tensor in host memory, without a copy if the device can use the memory in place.
    // Takes the tensor, also if the function fails. Nobody may write the elements before its deleter is called. The
    // destination is as in UploadOptions.
    [[nodiscard]] Buffer from_dlpack(DLManagedTensorVersioned* tensor, const Device& device = {},
                                     const Memory& memory = {}, Error* error = nullptr) const {
        return detail::call<Buffer>(error, dp_client_from_dlpack, get(), tensor, device.get(), memory.get());
    }
    // The same for a tensor of DLPack before 1.0.
    [[nodiscard]] Buffer from_dlpack(DLManagedTensor* tensor, const Device& device = {}, const Memory& memory = {},
                                     Error* error = nullptr) const {
        return detail::call<Buffer>(error, dp_client_from_dlpack_unversioned, get(), tensor, device.get(),
                                    memory.get());
    }

    // Creates an event that the program sets. Needs API 0.90 or later.
    DEVICE_PLUGIN_GET(SettableEvent, create_event, dp_client_create_event)
    // Waits until the client has finished all transfers of lent memory, and all runs if the client tracks them. Fails
    // with DeadlineExceeded after the timeout.
    template <typename Rep, typename Period>
    void synchronize(std::chrono::duration<Rep, Period> timeout, Error* error = nullptr) const {
        detail::run(error, dp_client_synchronize, get(), detail::milliseconds(timeout));
    }

    friend bool operator==(const Client& a, const Client& b) noexcept { return a.raw() == b.raw(); }
    friend bool operator!=(const Client& a, const Client& b) noexcept { return a.raw() != b.raw(); }

private:
    Buffer transfer(ByteView data, ElementType element_type, const Extents& dimensions, const UploadOptions& options,
                    detail::Lent lent, Error* error) const {
        const detail::Text layout(options.layout.empty() ? std::string_view() : std::string_view(options.layout));
        const std::size_t num_strides = options.byte_strides.size();
        if (layout.has_nul() || (num_strides != 0 && num_strides != dimensions.size())) {
            const std::string wrong =
                layout.has_nul() ? "`layout` contains a NUL byte"
                                 : "there are " + std::to_string(num_strides) + " byte_strides, but " +
                                       std::to_string(dimensions.size()) + " dimensions";
            detail::report(Error(ErrorCode::InvalidArgument, "upload: " + wrong), error);
            return Buffer();
        }
        dp_upload upload{};
        upload.struct_size = sizeof(upload);
        upload.data = data.data();
        upload.size = data.size();
        upload.element_type = static_cast<dp_element_type>(element_type);
        upload.semantics = static_cast<dp_host_buffer_semantics>(options.semantics);
        upload.dimensions = dimensions.data();
        upload.dimensions_size = dimensions.size();
        upload.byte_strides = options.byte_strides.empty() ? nullptr : options.byte_strides.data();
        upload.offset = options.offset;
        upload.device = options.device.get();
        upload.memory = options.memory.get();
        upload.layout = layout;
        if (lent != nullptr && detail::is_live(get())) {
            upload.release = lent.get_deleter();
            upload.release_context = lent.release();
        }
        return detail::call<Buffer>(error, dp_client_upload, get(), &upload);
    }
};

// Sets how long the end of the process waits for programs that still run. The default is 5 seconds.
template <typename Rep, typename Period>
void set_exit_wait(std::chrono::duration<Rep, Period> time) noexcept {
    dp_set_exit_wait(detail::milliseconds(time));
}

// What registry.hpp, buffer.hpp and program.hpp declare.

inline Client Plugin::create_client(const Options& options, Error* error) const {
    return create_client(options, KeyValueStore(), error);
}
inline Client Plugin::create_client(const Options& options, const KeyValueStore& store, Error* error) const {
    return detail::call<Client>(error, dp_plugin_create_client, get(), options.get(), store.get());
}
inline TopologyDescription Plugin::create_topology(std::string_view name, const Options& options, Error* error) const {
    return detail::call<TopologyDescription>(error, dp_plugin_create_topology, get(), detail::Text(name),
                                             options.get());
}
inline TopologyDescription Plugin::deserialize_topology(ByteView serialized, Error* error) const {
    return detail::call<TopologyDescription>(error, dp_plugin_deserialize_topology, get(), serialized.data(),
                                             serialized.size());
}

inline Buffer Buffer::adopt_raw(const Client& client, PJRT_Buffer* raw, Error* error) {
    return detail::call<Buffer>(error, dp_buffer_adopt, client.get(), raw);
}
inline Device Buffer::device(Error* error) const { return detail::call<Device>(error, dp_buffer_device, get()); }
inline Memory Buffer::memory(Error* error) const { return detail::call<Memory>(error, dp_buffer_memory, get()); }
inline Client Buffer::client(Error* error) const { return detail::call<Client>(error, dp_buffer_client, get()); }
inline Buffer Buffer::copy_to(const Device& device, Error* error) const {
    return detail::call<Buffer>(error, dp_buffer_copy_to, get(), device.get(), static_cast<const dp_memory*>(nullptr));
}
inline Buffer Buffer::copy_to(const Memory& memory, Error* error) const {
    return detail::call<Buffer>(error, dp_buffer_copy_to, get(), static_cast<const dp_device*>(nullptr), memory.get());
}

inline ExecuteOptions ExecuteOptions::device(const Device& device, Error* error) {
    return change(error, dp_execute_options_set_device, device.get());
}
inline std::vector<Device> LoadedExecutable::devices(Error* error) const {
    const auto size = detail::count(error, dp_loaded_executable_device_count, get());
    return detail::list<Device>(error, size, dp_loaded_executable_device_at, get());
}
inline Client LoadedExecutable::client(Error* error) const {
    return detail::call<Client>(error, dp_loaded_executable_client, get());
}

inline std::vector<Device> Memory::devices(Error* error) const {
    const auto size = detail::call<std::size_t>(error, dp_memory_device_count, get());
    return detail::list<Device>(error, size, dp_memory_device_at, get());
}

DEVICE_PLUGIN_NAMESPACE_END

#endif  // DEVICE_PLUGIN_CLIENT_HPP
