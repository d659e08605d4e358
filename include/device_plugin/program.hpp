// Programs, the options for compiling them, compiled programs, and their runs.
#ifndef DEVICE_PLUGIN_PROGRAM_HPP
#define DEVICE_PLUGIN_PROGRAM_HPP

#include "base.hpp"
#include "buffer.hpp"
#include "program.h"
#include "registry.hpp"

DEVICE_PLUGIN_NAMESPACE_BEGIN

// Memory that a run needs, in bytes. The fields are documented in program.h.
using CompiledMemoryStats = dp_compiled_memory_stats;

// A program in a format of compilers.
class Program : public detail::Object<Program, dp_program> {
public:
    // Copies a program. `format` is a format of PJRT_Program, such as `mlir`. The bytes are checked when they are
    // compiled.
    [[nodiscard]] static Program create(std::string_view format, ByteView code, Error* error = nullptr) {
        return detail::call<Program>(error, dp_program_new, detail::Text(format), code.data(), code.size());
    }
    // StableHLO as MLIR text, as bytecode, or as a portable artifact.
    [[nodiscard]] static Program mlir(ByteView code, Error* error = nullptr) { return create("mlir", code, error); }
    // A serialized HloModuleProto.
    [[nodiscard]] static Program hlo(ByteView code, Error* error = nullptr) { return create("hlo", code, error); }

    DEVICE_PLUGIN_TEXT(format, dp_program_format)
    std::string_view code() const&& = delete;
    [[nodiscard]] std::string_view code() const& noexcept DEVICE_PLUGIN_LIFETIMEBOUND {
        std::size_t size = 0;
        const auto* data = static_cast<const char*>(dp_program_code(get(), &size));
        return data == nullptr ? std::string_view() : std::string_view(data, size);
    }
};

// Options for compiling a program. Without settings, those for one device.
class CompileOptions : public detail::Settings<CompileOptions, dp_compile_options, dp_compile_options_new> {
public:
    // Reads a serialized CompileOptionsProto.
    [[nodiscard]] static CompileOptions decode(ByteView proto, Error* error = nullptr) {
        return detail::call<CompileOptions>(error, dp_compile_options_decode, proto.data(), proto.size());
    }
    // Serializes the options as CompileOptionsProto.
    [[nodiscard]] Bytes encode(Error* error = nullptr) const {
        const CompileOptions given = *this ? *this : create();
        return detail::call<Bytes>(error, dp_compile_options_encode, given.get());
    }

    // On how many groups of devices the program runs with different data.
    CompileOptions num_replicas(std::int64_t replicas, Error* error = nullptr) {
        return change(error, dp_compile_options_set_num_replicas, replicas);
    }
    // Into how many parts the compiler divides the program.
    CompileOptions num_partitions(std::int64_t partitions, Error* error = nullptr) {
        return change(error, dp_compile_options_set_num_partitions, partitions);
    }
    // The device for a program on one device, by its position among the client's devices. -1 means the first
    // addressable device.
    CompileOptions device_ordinal(std::int64_t ordinal, Error* error = nullptr) {
        return change(error, dp_compile_options_set_device_ordinal, ordinal);
    }
    // The ids of `replicas * partitions` devices: first those of the partitions of replica 0, and so on. Also sets
    // these two numbers.
    CompileOptions device_assignment(std::size_t replicas, std::size_t partitions, Span<const std::int64_t> devices,
                                     Error* error = nullptr) {
        return change(error, dp_compile_options_set_device_assignment, replicas, partitions, devices.data(),
                      devices.size());
    }
    // Whether the compiler partitions the program by its sharding annotations.
    CompileOptions spmd_partitioning(bool enabled, Error* error = nullptr) {
        return change(error, dp_compile_options_set_spmd_partitioning, enabled);
    }
    // Whether the sharding annotations are those of Shardy.
    CompileOptions shardy_partitioner(bool enabled, Error* error = nullptr) {
        return change(error, dp_compile_options_set_shardy_partitioner, enabled);
    }
    // Whether the program can run on any device of its kind, which ExecuteOptions::device chooses.
    CompileOptions portable_executable(bool enabled, Error* error = nullptr) {
        return change(error, dp_compile_options_set_portable_executable, enabled);
    }
    // An option of the compiler, such as `xla_cpu_enable_fast_math`: text, a boolean, an integer or a number.
    CompileOptions override_option(std::string_view name, std::string_view value, Error* error = nullptr) {
        return change(error, dp_compile_options_override_string, detail::Text(name), detail::Text(value));
    }
    CompileOptions override_option(std::string_view name, const char* value, Error* error = nullptr) {
        return change(error, dp_compile_options_override_string, detail::Text(name), value);
    }
    CompileOptions override_option(std::string_view name, bool value, Error* error = nullptr) {
        return change(error, dp_compile_options_override_bool, detail::Text(name), value);
    }
    template <typename T, std::enable_if_t<detail::is_number<T>, int> = 0>
    CompileOptions override_option(std::string_view name, T value, Error* error = nullptr) {
        return change_integer(error, dp_compile_options_override_int64, name, value);
    }
    CompileOptions override_option(std::string_view name, double value, Error* error = nullptr) {
        return change(error, dp_compile_options_override_double, detail::Text(name), value);
    }
};

// A compiled program, loaded or not.
class Executable : public detail::Object<Executable, dp_executable> {
public:
    DEVICE_PLUGIN_GET(std::string, name, dp_executable_name)
    DEVICE_PLUGIN_GET(std::size_t, num_replicas, dp_executable_num_replicas)
    DEVICE_PLUGIN_GET(std::size_t, num_partitions, dp_executable_num_partitions)
    // The number of outputs on each device.
    DEVICE_PLUGIN_GET(std::size_t, num_outputs, dp_executable_num_outputs)
    [[nodiscard]] Shape output_shape(std::size_t index, Error* error = nullptr) const {
        return Shape::of(detail::call<dp_shape>(error, dp_executable_output_shape, get(), index));
    }
    // The kind of memory of an output or parameter, such as `device`.
    [[nodiscard]] std::string output_memory_kind(std::size_t index, Error* error = nullptr) const {
        return detail::call<std::string>(error, dp_executable_output_memory_kind, get(), index);
    }
    [[nodiscard]] std::string parameter_memory_kind(std::size_t index, Error* error = nullptr) const {
        return detail::call<std::string>(error, dp_executable_parameter_memory_kind, get(), index);
    }
    // The size of the machine code in bytes, or -1 if the plugin does not know it.
    DEVICE_PLUGIN_GET(std::int64_t, size_of_generated_code, dp_executable_size_of_generated_code)
    // Bytes that are equal for equal programs, compiled for equal devices with equal options.
    DEVICE_PLUGIN_GET(Bytes, fingerprint, dp_executable_fingerprint)
    // What the compiler estimates about a run, such as `flops`.
    DEVICE_PLUGIN_GET(Options, cost_analysis, dp_executable_cost_analysis)
    DEVICE_PLUGIN_GET(CompiledMemoryStats, compiled_memory_stats, dp_executable_compiled_memory_stats)
    // The program after the compiler's optimizations, in a format that the plugin chooses.
    DEVICE_PLUGIN_GET(Program, optimized_program, dp_executable_optimized_program)
    // The options with which the program was compiled.
    DEVICE_PLUGIN_GET(CompileOptions, compile_options, dp_executable_compile_options)
    // Serializes the program for Client::deserialize_and_load.
    DEVICE_PLUGIN_GET(Bytes, serialize, dp_executable_serialize)
};

// A part of a value that a program sends to the host. The fields are documented in program.h.
using SentChunk = dp_sent_chunk;

// Sends a value to a program that receives it from the host.
class CopyToDeviceStream : public detail::Object<CopyToDeviceStream, dp_copy_to_device_stream> {
public:
    // The number of bytes of the value, and of those that were sent.
    DEVICE_PLUGIN_GET(std::size_t, total_bytes, dp_copy_to_device_stream_total_bytes)
    DEVICE_PLUGIN_GET(std::size_t, current_bytes, dp_copy_to_device_stream_current_bytes)
    // The size of each part must be a multiple of this number of bytes.
    DEVICE_PLUGIN_GET(std::size_t, granule_size, dp_copy_to_device_stream_granule_size)
    // Sends the next part. The bytes must not change until the event is ready.
    [[nodiscard]] Event add_chunk(ByteView data, Error* error = nullptr) {
        return detail::lend<Event>(error, detail::Lent(nullptr, nullptr), dp_copy_to_device_stream_add_chunk, get(),
                                   data.data(), data.size());
    }
};

// Options of a run. One object can serve many runs, also at the same time.
class ExecuteOptions : public detail::Settings<ExecuteOptions, dp_execute_options, dp_execute_options_new> {
public:
    // The number by which the devices of one launch know that their runs belong together.
    ExecuteOptions launch_id(std::int32_t id, Error* error = nullptr) {
        return change(error, dp_execute_options_set_launch_id, id);
    }
    // The location in the program's source code, such as `train.cc:12`, for the plugin's messages.
    ExecuteOptions call_location(std::string_view location, Error* error = nullptr) {
        return change(error, dp_execute_options_set_call_location, detail::Text(location));
    }
    // The device of a program that was compiled as a portable executable. It needs client.hpp.
    ExecuteOptions device(const Device& device, Error* error = nullptr);
    // Adds options that are specific to the plugin.
    ExecuteOptions custom(const Options& options, Error* error = nullptr) {
        return change(error, dp_execute_options_add_custom, options.get());
    }
    // A function for the values that the program sends to the host on a channel:
    // `ErrorCode function(const SentChunk&)`. With another result than Ok, the run fails. The function may run on any
    // thread, and must not wait for the run. An exception that leaves it ends the program. The options and their runs
    // own it.
    template <typename F>
    ExecuteOptions on_send(std::int64_t channel, F function, Error* error = nullptr) {
        const auto call = [](void* context, const dp_sent_chunk* chunk) noexcept {
            return static_cast<dp_code>(static_cast<ErrorCode>((*static_cast<F*>(context))(*chunk)));
        };
        return add_callback<F, dp_send_callback>(error, dp_execute_options_add_send_callback, channel, call,
                                                 std::move(function));
    }
    // A function that provides values that the program receives from the host on a channel:
    // `void function(std::size_t device_index, CopyToDeviceStream)`. It may keep the stream and send the value later.
    // Otherwise like `on_send`.
    template <typename F>
    ExecuteOptions on_receive(std::int64_t channel, F function, Error* error = nullptr) {
        const auto call = [](void* context, std::size_t device, dp_copy_to_device_stream* stream) noexcept {
            (*static_cast<F*>(context))(device, CopyToDeviceStream::adopt(stream));
        };
        return add_callback<F, dp_recv_callback>(error, dp_execute_options_add_recv_callback, channel, call,
                                                 std::move(function));
    }
    // Whether values in these functions are row-major, instead of in the layout of the device's memory.
    ExecuteOptions major_to_minor_callbacks(bool enabled, Error* error = nullptr) {
        return change(error, dp_execute_options_set_major_to_minor_callbacks, enabled);
    }
    // The incarnation of a process that takes part in the run, which changes whenever the process restarts.
    ExecuteOptions incarnation(std::int32_t process_index, std::int64_t value, Error* error = nullptr) {
        return change(error, dp_execute_options_add_incarnation, process_index, value);
    }

private:
    template <typename F, typename Callback, typename Add>
    ExecuteOptions add_callback(Error* error, Add* add, std::int64_t channel, Callback callback, F function) {
        if (!*this) *this = create();
        detail::Lent lent(new F(std::move(function)), detail::destroy<F>);
        const bool takes = detail::is_live(get());
        const dp_release_callback ended = takes ? lent.get_deleter() : nullptr;
        return change(error, add, channel, callback, takes ? lent.release() : lent.get(), ended);
    }
};

// An input of a run. `buffer` lends the buffer, which must exist during the call. `std::move(buffer)` donates it: the
// program may reuse its memory for an output. The buffer must have no copies, and is empty afterwards, also after an
// error.
class Input {
public:
    Input(const Buffer& buffer) noexcept : raw_(buffer.get()), donated_(false) {}
    Input(Buffer&& buffer) noexcept : raw_(buffer.get()), owned_(std::move(buffer)), donated_(true) {}
    Input(Input&&) noexcept = default;
    Input& operator=(Input&&) noexcept = default;

    // The buffer, which still belongs to its owner.
    dp_buffer* get() const noexcept { return raw_; }
    bool is_donated() const noexcept { return donated_; }

private:
    friend class LoadedExecutable;

    dp_buffer* raw_;
    mutable Buffer owned_;  // The elements of a list in braces are const.
    bool donated_;
};

// The result of a run that may not have ended.
struct Execution {
    std::vector<Buffer> outputs;
    // Ready when the run has ended.
    Event done;
};

// The result of a run on several devices that may not have ended.
struct ShardedExecution {
    // The outputs of each device, in the order of LoadedExecutable::devices.
    std::vector<std::vector<Buffer>> outputs;
    // Ready when the run on the device has ended.
    std::vector<Event> done;
};

// A compiled program that is loaded onto devices.
class LoadedExecutable : public detail::Object<LoadedExecutable, dp_loaded_executable> {
public:
    // The object of PJRT, which is valid as long as this object. Do not destroy it.
    PJRT_LoadedExecutable* raw() const&& = delete;
    PJRT_LoadedExecutable* raw() const& noexcept DEVICE_PLUGIN_LIFETIMEBOUND { return dp_loaded_executable_raw(get()); }
    // The properties of the program.
    DEVICE_PLUGIN_GET(Executable, executable, dp_loaded_executable_executable)
    // The devices of this process that run the program. This and `client` need client.hpp.
    [[nodiscard]] std::vector<Device> devices(Error* error = nullptr) const;
    [[nodiscard]] Client client(Error* error = nullptr) const;
    // The number of outputs on each device.
    std::size_t num_outputs() const noexcept { return dp_loaded_executable_num_outputs(get()); }
    // The parameters. These functions fail with Unimplemented if the plugin does not report them.
    DEVICE_PLUGIN_GET(std::size_t, num_parameters, dp_loaded_executable_num_parameters)
    [[nodiscard]] Shape parameter_shape(std::size_t index, Error* error = nullptr) const {
        return Shape::of(detail::call<dp_shape>(error, dp_loaded_executable_parameter_shape, get(), index));
    }
    // The layout as in HLO, such as `{1,0}`. Empty if it is not known.
    [[nodiscard]] std::string parameter_layout(std::size_t index, Error* error = nullptr) const {
        return detail::call<std::string>(error, dp_loaded_executable_parameter_layout, get(), index);
    }
    // Whether the program was unloaded.
    DEVICE_PLUGIN_GET(bool, is_deleted, dp_loaded_executable_is_deleted)
    // Unloads the program from its devices. Fails while an Executable of it exists.
    void unload(Error* error = nullptr) const { detail::run(error, dp_loaded_executable_delete, get()); }

    // Runs the program on one device: `execute({weights, std::move(state)})`. The outputs may not be ready. Functions
    // that use their contents wait.
    [[nodiscard]] std::vector<Buffer> execute(Span<const Input> inputs, const ExecuteOptions& options = {},
                                              Error* error = nullptr) const {
        return start(inputs, options, nullptr, error);
    }
    // The same. Also returns an event that is ready when the run has ended.
    [[nodiscard]] Execution execute_async(Span<const Input> inputs, const ExecuteOptions& options = {},
                                          Error* error = nullptr) const {
        dp_event* done = nullptr;
        std::vector<Buffer> outputs = start(inputs, options, &done, error);
        return {std::move(outputs), Event::adopt(done)};
    }
    // Runs the program on all its devices of this process. The inputs are first those of the first device, then those
    // of the second, and so on. An input must be lent on all devices or donated on all.
    [[nodiscard]] ShardedExecution execute_sharded(Span<const Input> inputs, const ExecuteOptions& options = {},
                                                   Error* error = nullptr) const {
        const std::size_t devices = dp_loaded_executable_device_count(get());
        const std::size_t each = devices == 0 ? 0 : inputs.size() / devices;
        for (std::size_t i = each; each != 0 && i < inputs.size(); ++i) {
            if (inputs[i].is_donated() == inputs[i % each].is_donated()) continue;
            detail::report(Error(ErrorCode::InvalidArgument, "input " + std::to_string(i % each) +
                                                                 " is donated on some devices only"),
                           error);
            return {};
        }
        const std::size_t num_outputs = this->num_outputs();
        Arguments arguments(inputs, each);
        detail::Array<dp_buffer*> outputs(num_outputs * devices);
        detail::Array<dp_event*> done(devices);
        if (!detail::run(error, dp_loaded_executable_execute_sharded, get(), arguments.inputs.data(), inputs.size(),
                         arguments.donated.data(), arguments.num_donated, options.get(), outputs.data(), outputs.size(),
                         done.data(), done.size())) {
            return {};
        }
        arguments.forget();
        ShardedExecution run;
        run.outputs.resize(devices);
        run.done.reserve(devices);
        for (std::size_t device = 0; device < devices; ++device) {
            run.done.push_back(Event::adopt(done[device]));
            for (std::size_t i = 0; i < num_outputs; ++i) {
                run.outputs[device].push_back(Buffer::adopt(outputs[device * num_outputs + i]));
            }
        }
        return run;
    }
    // Runs the program without donations and allocations. Fills `outputs`, whose length must be `num_outputs()`, with
    // objects that the caller owns: pass them to Buffer::adopt or dp_release.
    void execute_into(Span<const dp_buffer* const> inputs, Span<dp_buffer*> outputs, const ExecuteOptions& options = {},
                      Error* error = nullptr) const {
        detail::run(error, dp_loaded_executable_execute, get(), inputs.data(), inputs.size(),
                    static_cast<const std::size_t*>(nullptr), std::size_t{0}, options.get(), outputs.data(),
                    outputs.size(), static_cast<dp_event**>(nullptr));
    }

private:
    // Inputs as the C interface takes them: handles, and the positions of those that are donated on the first device.
    struct Arguments {
        Arguments(Span<const Input> from, std::size_t each) : all(from), inputs(from.size()), donated(each) {
            for (std::size_t i = 0; i < from.size(); ++i) {
                inputs[i] = from[i].get();
                if (i < each && from[i].is_donated()) donated[num_donated++] = i;
            }
        }
        // Called after a run, which has released the donated buffers.
        void forget() const noexcept {
            if (num_donated == 0) return;
            for (const Input& input : all) static_cast<void>(input.owned_.release());
        }

        Span<const Input> all;
        detail::Array<const dp_buffer*> inputs;
        detail::Array<std::size_t> donated;
        std::size_t num_donated = 0;
    };

    // After an error, the inputs release the donated buffers that the library has not released.
    std::vector<Buffer> start(Span<const Input> inputs, const ExecuteOptions& options, dp_event** done,
                              Error* error) const {
        Arguments arguments(inputs, inputs.size());
        detail::Array<dp_buffer*> made(num_outputs());
        std::vector<Buffer> outputs;
        outputs.reserve(made.size());
        if (!detail::run(error, dp_loaded_executable_execute, get(), arguments.inputs.data(), inputs.size(),
                         arguments.donated.data(), arguments.num_donated, options.get(), made.data(), made.size(),
                         done)) {
            return {};
        }
        arguments.forget();
        for (std::size_t i = 0; i < made.size(); ++i) outputs.push_back(Buffer::adopt(made[i]));
        return outputs;
    }
};

DEVICE_PLUGIN_NAMESPACE_END

#endif  // DEVICE_PLUGIN_PROGRAM_HPP
