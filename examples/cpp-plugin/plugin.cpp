// A PJRT plugin in C++: a device in host memory that adds 32-bit floats. JAX runs `jax.jit(lambda x: x + 1)` on it.
#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "device_plugin/vendor.hpp"

namespace dp = device_plugin;

class Driver {
public:
    // Device memory. A real driver has a handle here.
    using Buffer = std::vector<float>;

    // A run computes a list of values, from arguments, constants and sums.
    struct Step {
        std::uint32_t to;
        std::vector<std::uint32_t> from;
        std::vector<float> constant;
        std::size_t size;
    };
    struct Executable {
        std::size_t values;
        std::vector<std::uint32_t> arguments, outputs;
        std::vector<Step> steps;
    };

    static constexpr const char* name = "cpp_example";
    static constexpr const char* version = "1.0.0";
    static constexpr const char* manifest = nullptr;

    explicit Driver(const dp::Options& options) {
        if (options.size() != 0) {
            throw dp::Error(dp::ErrorCode::InvalidArgument, "this device has no options");
        }
    }

    std::size_t device_count() { return 1; }

    void describe(std::size_t, dp_device_info&) {}

    Buffer upload(const dp::HostArray& array) {
        count(array.shape());
        const auto elements = array.elements<float>();
        return Buffer(elements.begin(), elements.end());
    }

    void read(const Buffer& buffer, void* data, std::size_t size) {
        if (size != 0) std::memcpy(data, buffer.data(), size);
    }

    // Rejects what the device cannot run, so that it does not fail later.
    Executable compile(const dp::Module& module, const dp::CompileOptions&) {
        const dp::Function main = module.inlined().main();  // without calls of other functions
        Executable made{main.value_count(), main.arguments(), {}, {}};
        for (const std::uint32_t argument : made.arguments) count(main.shape(argument));
        for (const dp::Op& op : main.ops()) {
            const std::string_view kind = op.name();
            if (kind == "stablehlo.return" || kind == "func.return") {
                made.outputs = op.operands();
                continue;
            }
            const std::uint32_t to = op.results().at(0);
            Step step{to, op.operands(), {}, count(main.shape(to))};
            if (kind == "stablehlo.constant") {
                bool is_splat = false;
                const dp::ByteView data = op.constant(&is_splat);
                step.constant.resize(data.size() / sizeof(float));
                if (data.size() != 0) std::memcpy(step.constant.data(), data.data(), data.size());
                if (is_splat) step.constant.resize(step.size, step.constant.at(0));
            } else if (kind == "stablehlo.broadcast_in_dim") {
                if (count(main.shape(step.from[0])) != 1) unsupported(kind);
            } else if (kind != "stablehlo.add") {
                unsupported(kind);
            }
            made.steps.push_back(std::move(step));
        }
        return made;
    }

    // All work ends before the function returns, so that nothing is deferred.
    void execute(const Executable& program, dp::Launch<Buffer>& launch) {
        std::vector<const Buffer*> values(program.values);
        std::map<std::uint32_t, Buffer> made;
        for (std::size_t i = 0; i < program.arguments.size(); ++i) values[program.arguments[i]] = &launch.input(i);
        for (const Step& step : program.steps) {
            Buffer result = step.constant;
            if (step.from.size() == 1) result.assign(step.size, values[step.from[0]]->at(0));
            if (step.from.size() == 2) {
                result = *values[step.from[0]];
                const Buffer& other = *values[step.from[1]];
                std::transform(result.begin(), result.end(), other.begin(), result.begin(), std::plus<float>());
            }
            values[step.to] = &(made[step.to] = std::move(result));
        }
        for (std::size_t i = 0; i < program.outputs.size(); ++i) launch.output(i, *values[program.outputs[i]]);
    }

private:
    static constexpr std::size_t MOST = std::size_t{1} << 28;

    // The number of elements of an array, which must be one that the device can hold.
    static std::size_t count(const dp::Shape& shape) {
        if (shape.element_type != dp::ElementType::F32) {
            throw dp::Error(dp::ErrorCode::Unimplemented, to_string(shape) + ": this device has only arrays of f32");
        }
        const auto& extents = shape.dimensions;
        if (std::find(extents.begin(), extents.end(), 0) != extents.end()) return 0;
        std::size_t elements = 1;
        for (const std::int64_t extent : extents) {
            const auto factor = static_cast<std::size_t>(extent);
            if (factor > MOST / elements) {
                throw dp::Error(dp::ErrorCode::ResourceExhausted, to_string(shape) + " is too large for this device");
            }
            elements *= factor;
        }
        return elements;
    }

    [[noreturn]] static void unsupported(std::string_view op) {
        throw dp::Error(dp::ErrorCode::Unimplemented, std::string(op) + ": this device only adds");
    }
};

DEVICE_PLUGIN_EXPORT(Driver)
