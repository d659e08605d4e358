// An inference engine: a network whose weights stay on the device, run by several threads at the same time, and a
// statistic of its results that each run updates in place.
//
// cpp_engine [PLUGIN]
#include <algorithm>
#include <cstdio>
#include <future>
#include <mutex>
#include <numeric>
#include <vector>

#include "device_plugin.hpp"

namespace dp = device_plugin;
using Floats = std::vector<float>;

// The network: classes = max(x · w1 + b1, 0) · w2 + b2.
constexpr std::int64_t BATCH = 8, INPUTS = 64, HIDDEN = 32, CLASSES = 10;
constexpr int THREADS = 4, RUNS = 16;

struct Weights {
    Floats w1, b1, w2, b2;
};

static dp::Shape f32(std::vector<std::int64_t> dimensions) {
    return {dp::ElementType::F32, std::move(dimensions)};
}

static dp::Module network() {
    return dp::build("network", [](dp::FunctionBuilder& f) -> std::vector<dp::Operand> {
        const dp::Operand w1 = f.argument(f32({INPUTS, HIDDEN})), b1 = f.argument(f32({HIDDEN}));
        const dp::Operand w2 = f.argument(f32({HIDDEN, CLASSES})), b2 = f.argument(f32({CLASSES}));
        const dp::Operand x = f.argument(f32({BATCH, INPUTS}));
        const dp::Operand sums =
            f.add(f.dot_general(x, w1, {{1, 0}}), f.broadcast_in_dim(b1, f32({BATCH, HIDDEN}), {1}));
        const dp::Operand hidden = f.maximum(sums, f.splat(0, f32({BATCH, HIDDEN})));
        return {f.add(f.dot_general(hidden, w2, {{1, 0}}), f.broadcast_in_dim(b2, f32({BATCH, CLASSES}), {1}))};
    });
}

// Adds the rows of a result to the totals. The attribute lets the result have the memory of the first argument.
static dp::Module statistic() {
    return dp::build("statistic", [](dp::FunctionBuilder& f) -> std::vector<dp::Operand> {
        const dp::Operand totals = f.argument(f32({CLASSES}), dp::Attributes().donated_to(0));
        const dp::Operand result = f.argument(f32({BATCH, CLASSES}));
        const auto add = [](dp::FunctionBuilder& body, const dp::Operand& a, const dp::Operand& b) {
            return body.add(a, b);
        };
        return {f.add(totals, f.reduce(result, f.splat(0, f32({})), {0}, add))};
    });
}

class Engine {
public:
    Engine(const dp::Client& client, const Weights& weights)
        : client_(client),
          network_(client.compile(network().program_for(client))),
          statistic_(client.compile(statistic().program_for(client))),
          w1_(stream(weights.w1, f32({INPUTS, HIDDEN}))),
          b1_(client.upload(weights.b1, {HIDDEN})),
          w2_(client.upload(weights.w2, {HIDDEN, CLASSES})),
          b2_(client.upload(weights.b2, {CLASSES})),
          totals_(client.upload(Floats(CLASSES), {CLASSES})) {}

    // Any thread may call this function. The weights are lent to each run.
    Floats run(const Floats& x) {
        const dp::Buffer input = client_.upload(x, {BATCH, INPUTS});
        const dp::Buffer output = network_.execute({w1_, b1_, w2_, b2_, input}).at(0);
        {
            // Only one run can own the totals. The lock is held while the run is started, and not until it ends.
            const std::lock_guard<std::mutex> lock(mutex_);
            totals_ = statistic_.execute({std::move(totals_), output}).at(0);
        }
        return output.to_vector<float>();
    }

    Floats totals() {
        const std::lock_guard<std::mutex> lock(mutex_);
        return totals_.to_vector<float>();
    }

private:
    // Sends an array in four chunks, as if it were read from a file. The buffer can be used before they have arrived.
    dp::Buffer stream(const Floats& values, const dp::Shape& shape) const {
        const dp::Memory memory = client_.addressable_devices().at(0).default_memory();
        const dp::TransferManager manager = memory.create_transfer_manager({shape});
        dp::Buffer buffer = manager.retrieve_buffer(0);
        const std::size_t rows = (values.size() + 3) / 4;
        for (std::size_t begin = 0; begin < values.size(); begin += rows) {
            const std::size_t end = std::min(begin + rows, values.size());
            Floats chunk(values.data() + begin, values.data() + end);
            manager.transfer_owned(0, begin * sizeof(float), std::move(chunk), end == values.size());
        }
        return buffer;
    }

    dp::Client client_;
    dp::LoadedExecutable network_, statistic_;
    dp::Buffer w1_, b1_, w2_, b2_;
    std::mutex mutex_;
    dp::Buffer totals_;
};

// Small integers, so that sums are exact in any order, and a device must return the same numbers as the host.
static Floats integers(std::int64_t size, unsigned seed, int limit) {
    Floats values;
    for (std::int64_t i = 0; i < size; ++i) {
        seed = seed * 1664525u + 1013904223u;
        values.push_back(static_cast<float>(static_cast<int>((seed >> 16) % unsigned(2 * limit + 1)) - limit));
    }
    return values;
}

// The same computation on the host: x · w + b.
static Floats layer(const Floats& x, const Floats& w, const Floats& b) {
    Floats result;
    const std::size_t columns = b.size(), inner = w.size() / columns;
    for (std::size_t row = 0; row < x.size() / inner; ++row) {
        for (std::size_t column = 0; column < columns; ++column) {
            float sum = b[column];
            for (std::size_t k = 0; k < inner; ++k) sum += x[row * inner + k] * w[k * columns + column];
            result.push_back(sum);
        }
    }
    return result;
}

static Floats expected(const Floats& x, const Weights& weights) {
    Floats hidden = layer(x, weights.w1, weights.b1);
    for (float& value : hidden) value = std::max(value, 0.0f);
    return layer(hidden, weights.w2, weights.b2);
}

int main(int argc, char** argv) try {
    const dp::Registry registry = dp::Registry::discover();
    const dp::Plugin plugin = argc > 1 ? registry.find(argv[1])
                                       : registry.select(dp::Policy().environment(true).any());
    const Weights weights{integers(INPUTS * HIDDEN, 1, 1), integers(HIDDEN, 2, 1), integers(HIDDEN * CLASSES, 3, 1),
                          integers(CLASSES, 4, 1)};
    Engine engine(plugin.create_client(), weights);

    // Each thread compares its results, and returns their sums. `get` throws what its thread threw.
    bool right = true;
    std::mutex mutex;
    Floats totals(CLASSES);
    const auto work = [&](unsigned thread) {
        for (unsigned run = 0; run < RUNS; ++run) {
            const Floats x = integers(BATCH * INPUTS, 100 * thread + run, 2);
            const Floats result = engine.run(x);
            const std::lock_guard<std::mutex> lock(mutex);
            right = right && result == expected(x, weights);
            for (std::size_t i = 0; i < result.size(); ++i) totals[i % CLASSES] += result[i];
        }
    };
    std::vector<std::future<void>> threads;
    for (unsigned i = 1; i <= THREADS; ++i) threads.push_back(std::async(std::launch::async, work, i));
    for (std::future<void>& thread : threads) thread.get();
    right = right && engine.totals() == totals;

    std::printf("%s: %d threads, %d runs each with a batch of %d, the sum of all results is %g (%s)\n",
                std::string(plugin.name()).c_str(), THREADS, RUNS, static_cast<int>(BATCH),
                static_cast<double>(std::accumulate(totals.begin(), totals.end(), 0.0f)), right ? "right" : "WRONG");
    return right ? 0 : 1;
} catch (const std::exception& error) {
    std::fprintf(stderr, "cpp_engine: %s\n", error.what());
    return 1;
}
