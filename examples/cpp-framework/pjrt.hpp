// The part of PJRT's C interface that this example calls, with objects that destroy themselves.
#ifndef PJRT_HPP
#define PJRT_HPP

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "xla/pjrt/c/pjrt_c_api.h"

namespace pjrt {

// Throws an exception if there is an error, and destroys the error.
inline void check(const PJRT_Api* api, PJRT_Error* error) {
    if (error == nullptr) return;
    PJRT_Error_Message_Args message{};
    message.struct_size = PJRT_Error_Message_Args_STRUCT_SIZE;
    message.error = error;
    api->PJRT_Error_Message(&message);
    const std::string text(message.message, message.message_size);
    PJRT_Error_Destroy_Args destroy{};
    destroy.struct_size = PJRT_Error_Destroy_Args_STRUCT_SIZE;
    destroy.error = error;
    api->PJRT_Error_Destroy(&destroy);
    throw std::runtime_error(text);
}

// Waits for an event and destroys it.
inline void await(const PJRT_Api* api, PJRT_Event* event) {
    PJRT_Event_Await_Args wait{};
    wait.struct_size = PJRT_Event_Await_Args_STRUCT_SIZE;
    wait.event = event;
    PJRT_Error* failed = api->PJRT_Event_Await(&wait);
    PJRT_Event_Destroy_Args destroy{};
    destroy.struct_size = PJRT_Event_Destroy_Args_STRUCT_SIZE;
    destroy.event = event;
    check(api, api->PJRT_Event_Destroy(&destroy));
    check(api, failed);
}

// A pointer to an object of the plugin, with the function that destroys it.
template <typename T>
class Object {
public:
    using Destroy = void (*)(const PJRT_Api*, T*);

    Object(const PJRT_Api* api, T* object, Destroy destroy) : api_(api), object_(object), destroy_(destroy) {}
    Object(Object&& other) noexcept
        : api_(other.api_), object_(std::exchange(other.object_, nullptr)), destroy_(other.destroy_) {}
    Object(const Object&) = delete;
    Object& operator=(const Object&) = delete;
    Object& operator=(Object&&) = delete;
    ~Object() {
        if (object_ != nullptr) destroy_(api_, object_);
    }
    T* get() const { return object_; }

private:
    const PJRT_Api* api_;
    T* object_;
    Destroy destroy_;
};

// Destroys the object. An error is dropped, because there is no caller to return it to.
#define PJRT_EXAMPLE_DESTROY(Type, field)                                       \
    [](const PJRT_Api* api, Type* object) {                                     \
        Type##_Destroy_Args args{};                                             \
        args.struct_size = Type##_Destroy_Args_STRUCT_SIZE;                     \
        args.field = object;                                                    \
        try {                                                                   \
            check(api, api->Type##_Destroy(&args));                             \
        } catch (const std::exception&) {                                       \
        }                                                                       \
    }

using Client = Object<PJRT_Client>;
using Buffer = Object<PJRT_Buffer>;
using Executable = Object<PJRT_LoadedExecutable>;

inline Client create(const PJRT_Api* api, const std::vector<PJRT_NamedValue>& options) {
    PJRT_Client_Create_Args args{};
    args.struct_size = PJRT_Client_Create_Args_STRUCT_SIZE;
    args.create_options = options.data();
    args.num_options = options.size();
    check(api, api->PJRT_Client_Create(&args));
    return Client(api, args.client, PJRT_EXAMPLE_DESTROY(PJRT_Client, client));
}

inline std::string platform_name(const PJRT_Api* api, const Client& client) {
    PJRT_Client_PlatformName_Args args{};
    args.struct_size = PJRT_Client_PlatformName_Args_STRUCT_SIZE;
    args.client = client.get();
    check(api, api->PJRT_Client_PlatformName(&args));
    return std::string(args.platform_name, args.platform_name_size);
}

inline PJRT_Device* first_device(const PJRT_Api* api, const Client& client) {
    PJRT_Client_AddressableDevices_Args args{};
    args.struct_size = PJRT_Client_AddressableDevices_Args_STRUCT_SIZE;
    args.client = client.get();
    check(api, api->PJRT_Client_AddressableDevices(&args));
    if (args.num_addressable_devices == 0) throw std::runtime_error("the client has no device");
    return args.addressable_devices[0];
}

inline Executable compile(const PJRT_Api* api, const Client& client, std::string program) {
    // A CompileOptionsProto: executable_build_options (3) with device_ordinal (1) = -1, num_replicas (4) = 1 and
    // num_partitions (5) = 1.
    static const unsigned char options[] = {0x1a, 15,   0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                            0xff, 0xff, 0xff, 0x01, 0x20, 0x01, 0x28, 0x01};
    const std::string format = "mlir";
    PJRT_Program source{};
    source.struct_size = PJRT_Program_STRUCT_SIZE;
    source.code = program.data();
    source.code_size = program.size();
    source.format = format.data();
    source.format_size = format.size();
    PJRT_Client_Compile_Args args{};
    args.struct_size = PJRT_Client_Compile_Args_STRUCT_SIZE;
    args.client = client.get();
    args.program = &source;
    args.compile_options = reinterpret_cast<const char*>(options);
    args.compile_options_size = sizeof options;
    check(api, api->PJRT_Client_Compile(&args));
    return Executable(api, args.executable, PJRT_EXAMPLE_DESTROY(PJRT_LoadedExecutable, executable));
}

template <typename T>
Buffer upload(const PJRT_Api* api, const Client& client, PJRT_Device* device, PJRT_Buffer_Type type,
              const std::vector<T>& data, const std::vector<std::int64_t>& dims) {
    PJRT_Client_BufferFromHostBuffer_Args args{};
    args.struct_size = PJRT_Client_BufferFromHostBuffer_Args_STRUCT_SIZE;
    args.client = client.get();
    args.data = data.data();
    args.type = type;
    args.dims = dims.data();
    args.num_dims = dims.size();
    args.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
    args.device = device;
    check(api, api->PJRT_Client_BufferFromHostBuffer(&args));
    Buffer buffer(api, args.buffer, PJRT_EXAMPLE_DESTROY(PJRT_Buffer, buffer));
    await(api, args.done_with_host_buffer);
    return buffer;
}

inline Buffer execute(const PJRT_Api* api, const Executable& executable, const std::vector<PJRT_Buffer*>& inputs) {
    PJRT_ExecuteOptions options{};
    options.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE;
    PJRT_Buffer* const* input_list = inputs.data();
    PJRT_Buffer* output = nullptr;
    PJRT_Buffer** output_list = &output;
    PJRT_LoadedExecutable_Execute_Args args{};
    args.struct_size = PJRT_LoadedExecutable_Execute_Args_STRUCT_SIZE;
    args.executable = executable.get();
    args.options = &options;
    args.argument_lists = &input_list;
    args.num_devices = 1;
    args.num_args = inputs.size();
    args.output_lists = &output_list;
    check(api, api->PJRT_LoadedExecutable_Execute(&args));
    return Buffer(api, output, PJRT_EXAMPLE_DESTROY(PJRT_Buffer, buffer));
}

inline std::vector<float> download(const PJRT_Api* api, const Buffer& buffer, std::size_t elements) {
    std::vector<float> data(elements);
    PJRT_Buffer_ToHostBuffer_Args args{};
    args.struct_size = PJRT_Buffer_ToHostBuffer_Args_STRUCT_SIZE;
    args.src = buffer.get();
    args.dst = data.data();
    args.dst_size = data.size() * sizeof(float);
    check(api, api->PJRT_Buffer_ToHostBuffer(&args));
    await(api, args.event);
    return data;
}

#undef PJRT_EXAMPLE_DESTROY

}  // namespace pjrt

#endif
