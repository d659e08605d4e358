// Plugins in C++: a class for the driver becomes a plugin. See examples/cpp-plugin.
//
// The class, here `Driver`, has these members:
//
//     struct Buffer;                                     // movable; freed by its destructor
//     struct Executable;                                 // movable; freed by its destructor
//     static constexpr const char* name = "example";
//     static constexpr const char* version = "1.0.0";    // of the driver
//     static constexpr const char* manifest = nullptr;   // or the JSON text of a pjrt_plugin.json
//     explicit Driver(const Options& options);           // opens the devices
//     std::size_t device_count();
//     void describe(std::size_t index, dp_device_info& info);  // changes the defaults
//     Buffer upload(const HostArray& array);
//     void read(const Buffer& buffer, void* data, std::size_t size);
//     Executable compile(const Module& module, const CompileOptions& options);
//     void execute(const Executable& executable, Launch<Buffer>& launch);
//
// A Driver may also have `void memory_stats(std::size_t device, std::int64_t& bytes_in_use, std::int64_t& bytes_limit)`.
//
// A member that fails throws Error, or calls `fail`. Other exceptions become ErrorCode::Internal. Members may be called
// on any thread, and several at the same time.
#ifndef DEVICE_PLUGIN_VENDOR_HPP
#define DEVICE_PLUGIN_VENDOR_HPP

#include "base.hpp"
#include "buffer.hpp"
#include "program.hpp"
#include "registry.hpp"
#include "stablehlo.hpp"
#include "vendor.h"

// Defines the two functions by which frameworks find the plugin of this class.
#define DEVICE_PLUGIN_EXPORT(Driver)                                                                             \
    extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() {                             \
        return ::device_plugin::detail::Vendor<Driver>::api();                                                   \
    }                                                                                                            \
    extern "C" __attribute__((visibility("default"))) const dp_descriptor* DevicePlugin_GetDescriptor() {        \
        return ::device_plugin::detail::Vendor<Driver>::descriptor();                                            \
    }

DEVICE_PLUGIN_NAMESPACE_BEGIN

namespace detail {

// Where the error of the driver's member that runs on this thread is stored, in code without exceptions.
inline Error*& failing() noexcept {
    static thread_local Error* place = nullptr;
    return place;
}

}  // namespace detail

// Lets the running member of the driver fail: throws the error. Code without exceptions returns any value afterwards,
// which is destroyed; the first error of a member counts.
inline void fail(Error error) {
#if defined(__cpp_exceptions)
    DEVICE_PLUGIN_THROW(error);
#else
    Error* const place = detail::failing();
    if (place == nullptr) detail::give_up(error);
    if (!*place) *place = std::move(error);
#endif
}

// Ends an operation of the driver. If the last copy is destroyed before, the operation ends with an error.
class Completer : public detail::Object<Completer, dp_completer> {
public:
    [[nodiscard]] static Completer create() { return adopt(dp_completer_new()); }
    // Ends the operation, with an error if there is one. It may be called on any thread.
    void complete(const Error& outcome = {}, Error* error = nullptr) const {
        const auto code = static_cast<dp_code>(outcome.code());
        detail::run(error, dp_completer_complete, get(), code, outcome.what());
    }
};

// An array that a framework sends to a device, during the call.
class HostArray {
public:
    explicit HostArray(dp_host_array* raw) noexcept : raw_(raw) {}
    // The elements, row-major. Elements with fewer than 8 bits have one byte each.
    const void* data() const noexcept { return raw_->data; }
    std::size_t size() const noexcept { return raw_->size; }
    // The same as values of a C++ type. Fails with InvalidArgument if it is not that of the elements.
    template <typename T>
    Span<const T> elements() const {
        if (static_cast<dp_element_type>(element_type_of_v<T>) != raw_->shape.element_type) {
            const std::string wanted(to_string(element_type_of_v<T>));
            fail(Error(ErrorCode::InvalidArgument, to_string(shape()) + " has no elements of type " + wanted));
            return {};
        }
        return {static_cast<const T*>(raw_->data), raw_->size / sizeof(T)};
    }
    Shape shape() const { return Shape::of(raw_->shape); }
    // The index of the device that gets the array.
    std::size_t device() const noexcept { return raw_->device; }
    // Says that the transfer has not ended when the function returns, but when the completer is completed. The elements
    // must be copied before.
    void defer(const Completer& completer) const noexcept { raw_->done = Completer(completer).release(); }

private:
    dp_host_array* raw_;
};

// A run of a program on one device.
template <typename Buffer>
class Launch {
public:
    explicit Launch(dp_launch* raw) noexcept : raw_(raw) {}
    std::size_t device() const noexcept { return raw_->device; }
    // The number that the runs of one launch on several devices have in common.
    std::int32_t launch_id() const noexcept { return raw_->launch_id; }
    std::size_t input_count() const noexcept { return raw_->inputs_size; }
    std::size_t output_count() const noexcept { return raw_->outputs_size; }
    // Returns an input. It may differ from the program's parameter in dimensions of extent 1.
    const Buffer& input(std::size_t index) const noexcept { return *static_cast<const Buffer*>(raw_->inputs[index]); }
    // Whether the program may use the memory of an input for an output.
    bool is_donated(std::size_t index) const noexcept { return raw_->donated[index]; }
    // Returns a donated input as an output. The program may have written to it.
    Buffer& reuse(std::size_t input, std::size_t output) noexcept {
        raw_->outputs[output] = raw_->inputs[input];
        return *static_cast<Buffer*>(raw_->inputs[input]);
    }
    // Sets an output.
    void output(std::size_t index, Buffer buffer) { raw_->outputs[index] = new Buffer(std::move(buffer)); }
    // Says that the run has not ended when the function returns, but when the completer is completed. The inputs remain
    // valid until then.
    void defer(const Completer& completer) noexcept { raw_->done = Completer(completer).release(); }

private:
    dp_launch* raw_;
};

namespace detail {

// A reference that does not own its object, for objects that the C interface lends.
template <typename T>
class Borrowed {
public:
    explicit Borrowed(const typename T::Raw* raw) noexcept
        : object_(T::adopt(const_cast<typename T::Raw*>(raw))) {}
    Borrowed(const Borrowed&) = delete;
    Borrowed& operator=(const Borrowed&) = delete;
    ~Borrowed() { static_cast<void>(object_.release()); }
    const T& operator*() const noexcept { return object_; }

private:
    T object_;
};

template <typename Driver, typename = void>
struct HasMemoryStats : std::false_type {};
template <typename Driver>
struct HasMemoryStats<Driver, std::void_t<decltype(&Driver::memory_stats)>> : std::true_type {};

// The functions of a driver, for the C interface.
template <typename Driver>
class Vendor {
    using Buffer = typename Driver::Buffer;
    using Executable = typename Driver::Executable;

public:
    static const PJRT_Api* api() noexcept { return checked<const PJRT_Api*>(dp_backend_api); }
    static const dp_descriptor* descriptor() noexcept { return checked<const dp_descriptor*>(dp_backend_descriptor); }

private:
    template <typename T, typename F>
    static T checked(F* function) noexcept {
        T made = nullptr;
        dp_error* error = nullptr;
        const dp_code code = function(&backend(), &made, &error);
        if (code != DP_OK) {
            const Error reported = Error::adopt(code, error);
            std::fprintf(stderr, "%s: %s\n", Driver::name, reported.what());
        }
        return made;
    }

    // Runs a member of the driver, and turns what it throws into an error.
    template <typename F>
    static dp_code guarded(dp_error** error, F run) noexcept {
#if defined(__cpp_exceptions)
        try {
            run();
            return DP_OK;
        } catch (const Error& thrown) {
            const auto code = thrown ? static_cast<dp_code>(thrown.code()) : dp_code{DP_INTERNAL};
            *error = dp_error_new(code, thrown.what());
            return code;
        } catch (const std::bad_alloc&) {
            *error = dp_error_new(DP_RESOURCE_EXHAUSTED, "out of memory");
            return DP_RESOURCE_EXHAUSTED;
        } catch (const std::exception& thrown) {
            *error = dp_error_new(DP_INTERNAL, thrown.what());
        } catch (...) {
            *error = dp_error_new(DP_INTERNAL, "the driver threw something that is no std::exception");
        }
        return DP_INTERNAL;
#else
        Error failure;
        Error* const outer = std::exchange(failing(), &failure);
        run();
        failing() = outer;
        if (!failure) return DP_OK;
        const auto code = static_cast<dp_code>(failure.code());
        *error = dp_error_new(code, failure.what());
        return code;
#endif
    }

    // Stores what a member makes, if it succeeds.
    template <typename T, typename F>
    static dp_code make(void** out, dp_error** error, F produce) noexcept {
        std::unique_ptr<T> made;
        const dp_code code = guarded(error, [&] { made.reset(new T(produce())); });
        if (code == DP_OK) *out = made.release();
        return code;
    }

    static Driver& driver(void* client) noexcept { return *static_cast<Driver*>(client); }

    static const dp_backend& backend() noexcept {
        static const dp_backend backend = [] {
            dp_backend made{};
            made.struct_size = sizeof(made);
            made.name = Driver::name;
            made.version = Driver::version;
            made.manifest_json = Driver::manifest;
            made.create = [](const dp_options* options, void** out, dp_error** error) {
                return make<Driver>(out, error, [&] { return Driver(*Borrowed<Options>(options)); });
            };
            made.destroy = [](void* client) { delete static_cast<Driver*>(client); };
            made.device_count = [](void* client) {
                dp_error* error = nullptr;
                std::size_t count = 0;
                guarded(&error, [&] { count = driver(client).device_count(); });
                dp_release(error);
                return count;
            };
            made.describe_device = [](void* client, std::size_t index, dp_device_info* out, dp_error** error) {
                return guarded(error, [&] { driver(client).describe(index, *out); });
            };
            made.buffer_from_host = [](void* client, dp_host_array* array, void** out, dp_error** error) {
                return make<Buffer>(out, error, [&] { return driver(client).upload(HostArray(array)); });
            };
            made.destroy_buffer = [](void*, void* buffer) { delete static_cast<Buffer*>(buffer); };
            made.read = [](void* client, void* buffer, void* data, std::size_t size, dp_error** error) {
                return guarded(error, [&] { driver(client).read(*static_cast<const Buffer*>(buffer), data, size); });
            };
            made.compile = [](void* client, const dp_module* module, const dp_program*, const dp_compile_options* options,
                              void** out, dp_error** error) {
                return make<Executable>(out, error, [&] {
                    return driver(client).compile(*Borrowed<Module>(module), *Borrowed<CompileOptions>(options));
                });
            };
            made.destroy_executable = [](void*, void* executable) { delete static_cast<Executable*>(executable); };
            if constexpr (HasMemoryStats<Driver>::value) {
                made.memory_stats = [](void* client, std::size_t device, std::int64_t* in_use, std::int64_t* limit,
                                       dp_error** error) {
                    return guarded(error, [&] { driver(client).memory_stats(device, *in_use, *limit); });
                };
            }
            made.execute = [](void* client, void* executable, dp_launch* launch, dp_error** error) {
                return guarded(error, [&] {
                    Launch<Buffer> run(launch);
                    driver(client).execute(*static_cast<const Executable*>(executable), run);
                });
            };
            return made;
        }();
        return backend;
    }
};

}  // namespace detail

DEVICE_PLUGIN_NAMESPACE_END

#endif  // DEVICE_PLUGIN_VENDOR_HPP
