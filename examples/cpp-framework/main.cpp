// A small framework. It finds the plugins of the machine, queries the capabilities of each, lowers one program
// accordingly, and runs it.
//
// cpp_framework [--list] [--manifest FILE] [PLUGIN ...]
//
// PLUGIN is a name (`cpu`, `gpu`) or the path of a library. Without PLUGIN, the best plugin is used. FILE is a
// `pjrt_plugin.json`. It replaces the manifest of each PLUGIN that follows it.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "device_plugin.hpp"
#include "device_plugin_pjrt.hpp"
#include "lowering.hpp"
#include "pjrt.hpp"

namespace dp = device_plugin;

static std::string read(const std::string& path) {
    std::ifstream file(path);
    if (!file) throw std::runtime_error(path + " cannot be read");
    return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

static int length(std::string_view text) { return static_cast<int>(text.size()); }

static void list(const dp::Registry& registry) {
    for (const dp::Plugin& plugin : registry.plugins()) {
        const std::string_view where = plugin.provenance();
        std::printf("%.*s  (%.*s)\n", length(plugin.name()), plugin.name().data(), length(where), where.data());
        const std::string_view can = plugin.capabilities_json();
        std::printf("    capabilities %.*s\n", length(can), can.data());
        for (const std::string_view reason : plugin.refusals()) {
            std::printf("    cannot be used: %.*s\n", length(reason), reason.data());
        }
    }
}

// Computes the expected result on the host. All numbers are small integers, which bf16 represents exactly, so every
// device must return the same result.
static std::vector<float> expected(const Embedding& e, const std::vector<float>& table,
                                   const std::vector<std::int32_t>& indices, const std::vector<float>& weights) {
    std::vector<float> result(e.lookups * e.classes);
    for (std::size_t i = 0; i < e.lookups; ++i) {
        for (std::size_t j = 0; j < e.classes; ++j) {
            for (std::size_t k = 0; k < e.width; ++k) {
                const std::size_t row = static_cast<std::size_t>(indices[i]);
                result[i * e.classes + j] += table[row * e.width + k] * weights[k * e.classes + j];
            }
        }
    }
    return result;
}

// Runs the program on a plugin. Returns whether the result is right.
static bool run(const dp::Plugin& plugin) {
    const Embedding e{10, 4, 3, 2};
    const Lowering lowering = choose(plugin.capabilities(), e);

    const dp::Topology topology = dp::Topology::detect();
    const PJRT_Api* api = plugin.load(topology.get());
    const dp::Plan plan = plugin.configure(topology.get());
    const dp::Options options = plugin.client_options(nullptr, &plan);
    const dp::Lease lease = plugin.acquire("cpp_framework");

    const pjrt::Client client = pjrt::create(api, dp::to_pjrt(options));
    PJRT_Device* device = pjrt::first_device(api, client);
    const pjrt::Executable program = pjrt::compile(api, client, lower(e, lowering));

    std::vector<float> table(e.vocabulary * e.width), weights(e.width * e.classes);
    for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i % 7);
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i) - 3.0f;
    const std::vector<std::int32_t> indices = {9, 0, 4};
    const auto size = [](std::size_t n) { return static_cast<std::int64_t>(n); };
    const pjrt::Buffer inputs[] = {
        pjrt::upload(api, client, device, PJRT_Buffer_Type_F32, table, {size(e.vocabulary), size(e.width)}),
        pjrt::upload(api, client, device, PJRT_Buffer_Type_S32, indices, {size(e.lookups)}),
        pjrt::upload(api, client, device, PJRT_Buffer_Type_F32, weights, {size(e.width), size(e.classes)}),
    };
    const pjrt::Buffer output = pjrt::execute(api, program, {inputs[0].get(), inputs[1].get(), inputs[2].get()});
    const std::vector<float> result = pjrt::download(api, output, e.lookups * e.classes);

    const bool right = result == expected(e, table, indices, weights);
    std::printf("%.*s: platform %s, API %d.%d, lowered as %s:", length(plugin.name()), plugin.name().data(),
                pjrt::platform_name(api, client).c_str(), api->pjrt_api_version.major_version,
                api->pjrt_api_version.minor_version, describe(lowering).c_str());
    for (const float value : result) std::printf(" %g", static_cast<double>(value));
    std::printf(" (%s)\n", right ? "right" : "WRONG");
    return right;
}

// Returns the plugin with this name or path, with the given manifest if there is one.
static dp::Plugin open(const dp::Registry& registry, const dp::Registry& own, const std::string& what,
                       const std::string& manifest) {
    const char* json = manifest.empty() ? nullptr : manifest.c_str();
    if (what.find('/') != std::string::npos) return own.add_library(what, json);
    dp::Plugin found = registry.find(what);
    if (json == nullptr) return found;
    // Register the same table with another description.
    const std::string key = "\"name\": \"";
    const std::size_t start = manifest.find(key);
    if (start == std::string::npos) throw std::runtime_error("the manifest has no name");
    const std::size_t end = manifest.find('"', start + key.size());
    return own.add_api(manifest.substr(start + key.size(), end - start - key.size()), found.load(), json);
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
            const dp::Registry own = dp::Registry::empty();
            right = run(open(registry, own, argument, manifest)) && right;
            any = true;
        }
    }
    if (!any) right = run(registry.select(dp::Policy().any().environment(true)));
    return right ? 0 : 1;
} catch (const std::exception& error) {
    std::fprintf(stderr, "cpp_framework: %s\n", error.what());
    return 1;
}
