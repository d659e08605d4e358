// Trains a small network to tell two arms of a spiral apart. One program computes the loss, its gradient and the new
// state. The state stays on the device, and each step updates it in place.
//
// cpp_train [PLUGIN]
#include <cmath>
#include <cstdio>
#include <vector>

#include "device_plugin.hpp"

namespace dp = device_plugin;
using dp::Operand;
using Floats = std::vector<float>;

constexpr std::int64_t POINTS = 200;                // half of them on each arm
constexpr std::int64_t WIDTHS[] = {2, 24, 24, 1};   // of the layers: a point, two hidden layers, a class
constexpr std::size_t LAYERS = std::size(WIDTHS) - 1;
constexpr double RATE = 0.3, MOMENTUM = 0.9;
constexpr int STEPS = 600;
constexpr float THRESHOLD = 0.1f;

static dp::Shape f32(std::vector<std::int64_t> dimensions) {
    return {dp::ElementType::F32, std::move(dimensions)};
}

// The weights of a layer, and the velocities with which they change.
struct Layer {
    Operand weights, bias, weights_velocity, bias_velocity;
};

// Sums an array along some dimensions.
static Operand sum(dp::FunctionBuilder& f, const Operand& x, dp::Span<const std::int64_t> dimensions) {
    const auto add = [](dp::FunctionBuilder& body, const Operand& a, const Operand& b) { return body.add(a, b); };
    return f.reduce(x, f.splat(0, f32({})), dimensions, add);
}

// One step of gradient descent with momentum: (state, points, classes) -> (state, loss).
static dp::Module step() {
    return dp::build("step", [](dp::FunctionBuilder& f) {
        // Each part of the state is donated: the result with the same number gets its memory.
        std::int32_t arguments = 0;
        const auto state = [&](const dp::Shape& shape) {
            return f.argument(shape, dp::Attributes().donated_to(arguments++));
        };
        std::vector<Layer> layers;
        for (std::size_t i = 0; i < LAYERS; ++i) {
            const dp::Shape weights = f32({WIDTHS[i], WIDTHS[i + 1]}), bias = f32({WIDTHS[i + 1]});
            Layer layer;
            layer.weights = state(weights);
            layer.bias = state(bias);
            layer.weights_velocity = state(weights);
            layer.bias_velocity = state(bias);
            layers.push_back(layer);
        }
        const Operand points = f.argument(f32({POINTS, 2})), classes = f.argument(f32({POINTS, 1}));

        // Forward: inputs[i] is the input of layer i. The hidden layers end with tanh.
        std::vector<Operand> inputs{points};
        Operand logits;
        for (std::size_t i = 0; i < LAYERS; ++i) {
            const Operand product = f.dot_general(inputs[i], layers[i].weights, {{1, 0}});
            logits = f.add(product, f.broadcast_in_dim(layers[i].bias, f32({POINTS, WIDTHS[i + 1]}), {1}));
            if (i + 1 < LAYERS) inputs.push_back(f.tanh(logits));
        }
        // The cross entropy of a class c and a logit z: max(z, 0) - z c + log(1 + exp(-|z|)).
        const Operand tail = f.log_plus_one(f.exponential(f.negate(f.abs(logits))));
        const Operand bound = f.subtract(f.maximum(logits, f.splat_like(0, logits)), f.multiply(logits, classes));
        const Operand total = sum(f, f.add(bound, tail), {0, 1});
        const Operand loss = f.multiply(total, f.splat(1.0 / POINTS, f32({})));

        // Backward: `gradient` is that of the loss with respect to the output of layer i before tanh.
        std::vector<Operand> results(4 * LAYERS);
        Operand gradient = f.subtract(f.logistic(logits), classes);
        gradient = f.multiply(gradient, f.splat_like(1.0 / POINTS, gradient));
        for (std::size_t i = LAYERS; i-- > 0;) {
            const Layer& layer = layers[i];
            // value += velocity = MOMENTUM velocity - RATE gradient
            const auto update = [&](std::size_t at, const Operand& value, const Operand& velocity, const Operand& by) {
                const Operand old = f.multiply(velocity, f.splat_like(MOMENTUM, velocity));
                results[at + 2] = f.subtract(old, f.multiply(by, f.splat_like(RATE, by)));
                results[at] = f.add(value, results[at + 2]);
            };
            update(4 * i, layer.weights, layer.weights_velocity, f.dot_general(inputs[i], gradient, {{0, 0}}));
            update(4 * i + 1, layer.bias, layer.bias_velocity, sum(f, gradient, {0}));
            if (i == 0) break;
            // The derivative of tanh is 1 - tanh².
            const Operand square = f.multiply(inputs[i], inputs[i]);
            const Operand slope = f.subtract(f.splat_like(1, square), square);
            gradient = f.multiply(f.dot_general(gradient, layer.weights, {{1, 1}}), slope);
        }
        results.push_back(loss);
        return results;
    });
}

// Numbers from -1 to 1.
static Floats random(std::int64_t size, float scale, unsigned seed) {
    Floats values;
    for (std::int64_t i = 0; i < size; ++i) {
        seed = seed * 1664525u + 1013904223u;
        values.push_back(scale * (static_cast<float>(seed >> 8) / 8388608.0f - 1));
    }
    return values;
}

int main(int argc, char** argv) try {
    const dp::Registry registry = dp::Registry::discover();
    const dp::Plugin plugin = argc > 1 ? registry.find(argv[1])
                                       : registry.select(dp::Policy().environment(true).any());
    const dp::Client client = plugin.create_client();
    const dp::LoadedExecutable program = client.compile(step().program_for(client));

    Floats points, classes;
    for (int i = 0; i < POINTS; ++i) {
        const float radius = 0.1f + 0.9f * static_cast<float>(i / 2) / (POINTS / 2);
        const float angle = 8 * radius + (i % 2 == 0 ? 0.0f : 3.14159265f);
        points.insert(points.end(), {radius * std::cos(angle), radius * std::sin(angle)});
        classes.push_back(static_cast<float>(i % 2));
    }
    const dp::Buffer points_buffer = client.upload(points, {POINTS, 2});
    const dp::Buffer classes_buffer = client.upload(classes, {POINTS, 1});
    std::vector<dp::Buffer> state;
    for (std::size_t i = 0; i < LAYERS; ++i) {
        const std::int64_t in = WIDTHS[i], out = WIDTHS[i + 1];
        const float scale = std::sqrt(3.0f / static_cast<float>(in));
        state.push_back(client.upload(random(in * out, scale, static_cast<unsigned>(i)), {in, out}));
        state.push_back(client.upload(Floats(static_cast<std::size_t>(out)), {out}));
        state.push_back(client.upload(Floats(static_cast<std::size_t>(in * out)), {in, out}));
        state.push_back(client.upload(Floats(static_cast<std::size_t>(out)), {out}));
    }

    float loss = 0;
    for (int i = 0; i <= STEPS; ++i) {
        std::vector<dp::Input> inputs;
        for (dp::Buffer& buffer : state) inputs.emplace_back(std::move(buffer));
        inputs.emplace_back(points_buffer);
        inputs.emplace_back(classes_buffer);
        state = program.execute(inputs);
        const dp::Buffer last = std::move(state.back());
        state.pop_back();
        // Only a step whose loss is printed waits for the device.
        if (i % (STEPS / 6) != 0) continue;
        loss = last.to_vector<float>().at(0);
        std::printf("step %4d: loss %.4f\n", i, static_cast<double>(loss));
    }
    std::printf("%s: the final loss is %.4f\n", std::string(plugin.name()).c_str(), static_cast<double>(loss));
    return loss < THRESHOLD ? 0 : 1;
} catch (const std::exception& error) {
    std::fprintf(stderr, "cpp_train: %s\n", error.what());
    return 1;
}
