// A small framework. It finds the plugins of the machine, reads what each declares about its devices, lowers one
// program accordingly, and runs it.
//
// cpp_framework [--list] [--manifest FILE] [PLUGIN ...]
//
// PLUGIN is a name (`cpu`, `gpu`) or the path of a library. Without PLUGIN, the best plugin is used. FILE is a
// `pjrt_plugin.json`. It replaces the manifest of each PLUGIN that follows it.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "device_plugin.hpp"

namespace dp = device_plugin;
using dp::ElementType;

// rows = table[indices]; result = rows · weights.
struct Embedding {
    std::int64_t vocabulary;  // rows of the table
    std::int64_t width;       // columns of the table, rows of the weights
    std::int64_t lookups;     // indices
    std::int64_t classes;     // columns of the weights
};

struct Lowering {
    bool dense_gather;  // one-hot · table instead of a gather
    bool bf16;          // compute the product in bf16 and sum in f32
};

// Chooses by the capabilities that the plugin declares. There is no name of a device in this file.
static Lowering choose(const dp::Capabilities& can, const Embedding& e) {
    return {can.gathers_densely(static_cast<std::uint64_t>(e.vocabulary)),
            can.autocast_kind() == dp::AutocastKind::Xla && can.autocast_default_dtype() == ElementType::BF16};
}

static dp::Module lower(const Embedding& e, const Lowering& lowering) {
    return dp::build("embedding", [&](dp::FunctionBuilder& f) -> std::vector<dp::Operand> {
        const dp::Operand table = f.argument(dp::Shape{ElementType::F32, {e.vocabulary, e.width}});
        const dp::Operand indices = f.argument(dp::Shape{ElementType::S32, {e.lookups}});
        const dp::Operand weights = f.argument(dp::Shape{ElementType::F32, {e.width, e.classes}});
        dp::Operand rows;
        if (lowering.dense_gather) {
            const dp::Type grid(dp::Shape{ElementType::S32, {e.lookups, e.vocabulary}});
            const dp::Operand one_hot = f.compare(f.iota(grid, 1), f.broadcast_in_dim(indices, grid, {0}), "EQ");
            const dp::Shape floats{ElementType::F32, {e.lookups, e.vocabulary}};
            rows = f.dot_general(f.convert(one_hot, floats), table, {{1, 0}});
        } else {
            // The builder has no method for `gather`, so name the op and its attributes as MLIR writes them.
            const dp::Operand column = f.reshape(indices, dp::Shape{ElementType::S32, {e.lookups, 1}});
            const char* const numbers = "#stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], "
                                        "start_index_map = [0], index_vector_dim = 1>";
            rows = f.op("stablehlo.gather", {table, column},
                        dp::Attributes().add("dimension_numbers", numbers).integers("slice_sizes", {1, e.width}));
        }
        if (!lowering.bf16) return {f.dot_general(rows, weights, {{1, 0}})};
        const dp::Operand short_rows = f.convert(rows, dp::Shape{ElementType::BF16, {e.lookups, e.width}});
        const dp::Operand short_weights = f.convert(weights, dp::Shape{ElementType::BF16, {e.width, e.classes}});
        // The result of `f.dot_general` would be bf16.
        const char* const numbers =
            "#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>";
        return {f.op("stablehlo.dot_general", {short_rows, short_weights},
                     dp::Attributes().add("dot_dimension_numbers", numbers),
                     {dp::Shape{ElementType::F32, {e.lookups, e.classes}}})};
    });
}

// Computes the expected result on the host. All numbers are small integers, which bf16 represents exactly, so every
// device must return the same result.
static std::vector<float> expected(const Embedding& e, const std::vector<float>& table,
                                   const std::vector<std::int32_t>& indices, const std::vector<float>& weights) {
    std::vector<float> result;
    for (const std::int32_t row : indices) {
        for (std::int64_t j = 0; j < e.classes; ++j) {
            float sum = 0;
            for (std::int64_t k = 0; k < e.width; ++k) {
                sum += table[static_cast<std::size_t>(row * e.width + k)] *
                       weights[static_cast<std::size_t>(k * e.classes + j)];
            }
            result.push_back(sum);
        }
    }
    return result;
}

// Runs the program on a plugin. Returns whether the result is right.
static bool run(const dp::Plugin& plugin) {
    const Embedding e{10, 4, 3, 2};
    const Lowering lowering = choose(plugin.capabilities(), e);

    // Sets the variables that the plugin needs, unless it is already loaded, and passes on the options of the plan.
    const dp::DetectedTopology topology = dp::DetectedTopology::detect();
    const dp::Plan plan = plugin.configure(topology);
    if (plugin.status() != dp::PluginState::Loaded) plan.apply();
    plugin.load(topology);
    const dp::Client client = plugin.create_client(plugin.client_options({}, plan));
    const dp::LoadedExecutable program = client.compile(lower(e, lowering).program_for(client));

    std::vector<float> table, weights;
    for (int i = 0; i < e.vocabulary * e.width; ++i) table.push_back(static_cast<float>(i % 7));
    for (int i = 0; i < e.width * e.classes; ++i) weights.push_back(static_cast<float>(i - 3));
    const std::vector<std::int32_t> indices = {9, 0, 4};
    const std::vector<dp::Buffer> outputs = program.execute({client.upload(table, {e.vocabulary, e.width}),
                                                             client.upload(indices, {e.lookups}),
                                                             client.upload(weights, {e.width, e.classes})});
    const std::vector<float> result = outputs.at(0).to_vector<float>();

    const bool right = result == expected(e, table, indices, weights);
    const dp::ApiVersion api = plugin.api_version();
    std::printf("%s: platform %s, API %d.%d, lowered as %s, product in %s:", std::string(plugin.name()).c_str(),
                client.platform_name().c_str(), static_cast<int>(api.major), static_cast<int>(api.minor),
                lowering.dense_gather ? "one-hot dot_general" : "gather", lowering.bf16 ? "bf16" : "f32");
    for (const float value : result) std::printf(" %g", static_cast<double>(value));
    std::printf(" (%s)\n", right ? "right" : "WRONG");
    return right;
}

static void list(const dp::Registry& registry) {
    for (const dp::Plugin& plugin : registry.plugins()) {
        std::printf("%s  (%s)\n    capabilities %s\n", std::string(plugin.name()).c_str(),
                    std::string(plugin.provenance()).c_str(), std::string(plugin.capabilities_json()).c_str());
        for (const std::string_view reason : plugin.refusals()) {
            std::printf("    cannot be used: %s\n", std::string(reason).c_str());
        }
    }
}

static std::string read(const std::string& path) {
    std::ifstream file(path);
    if (!file) throw std::runtime_error(path + " cannot be read");
    return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

// Returns the plugin with this name or path. With a manifest, registers its library in a registry of its own.
static dp::Plugin open(const dp::Registry& registry, const std::string& what, const std::string& manifest) {
    std::string path = what;
    if (what.find('/') == std::string::npos) {
        const dp::Plugin plugin = registry.find(what);
        if (manifest.empty()) return plugin;
        path = plugin.path();
    }
    return dp::Registry::without_plugins().add_library(path, manifest.empty() ? std::string_view() : manifest);
}

int main(int argc, char** argv) try {
    const dp::Registry registry = dp::Registry::discover();
    bool right = true, any = false;
    std::string manifest;
    for (int i = 1; i < argc; ++i) {
        const std::string argument = argv[i];
        if (argument == "--list") {
            list(registry);
            any = true;
        } else if (argument == "--manifest" && i + 1 < argc) {
            manifest = read(argv[++i]);
        } else {
            right = run(open(registry, argument, manifest)) && right;
            any = true;
        }
    }
    if (!any) right = run(registry.select(dp::Policy().any().environment(true)));
    return right ? 0 : 1;
} catch (const std::exception& error) {
    std::fprintf(stderr, "cpp_framework: %s\n", error.what());
    return 1;
}
