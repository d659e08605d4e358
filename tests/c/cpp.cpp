// Tests the C++ header: ownership, errors as exceptions, and moves.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <type_traits>
#include <utility>

// The headers may be included in either order, because the second one finds XLA's header by itself.
#include "device_plugin.hpp"
#ifdef WITH_PJRT
#include "device_plugin_pjrt.hpp"
#endif

namespace dp = device_plugin;

static int checks = 0;

#define CHECK(condition)                                                                     \
    do {                                                                                     \
        ++checks;                                                                            \
        if (!(condition)) {                                                                  \
            std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);     \
            std::exit(1);                                                                    \
        }                                                                                    \
    } while (0)

template <typename F>
static dp::Error failure(F call) {
    try {
        call();
    } catch (const dp::Error& error) {
        return error;
    }
    std::fprintf(stderr, "no exception\n");
    std::exit(1);
}

template <typename T>
constexpr bool moves_only = std::is_nothrow_move_constructible_v<T> && !std::is_copy_constructible_v<T> &&
                            std::is_nothrow_destructible_v<T>;
static_assert(moves_only<dp::Registry> && moves_only<dp::Plugin> && moves_only<dp::Policy> && moves_only<dp::Plan> &&
              moves_only<dp::Options> && moves_only<dp::Lease> && moves_only<dp::Discovery> && moves_only<dp::Topology>);
static_assert(std::is_nothrow_copy_constructible_v<dp::Capabilities>);

int main() {
    CHECK(!dp::version().empty());
    dp::Registry registry(dp::Discovery::isolated("/nonexistent").python(false).conventional(false));
    CHECK(registry.plugins().size() >= 1);
    const dp::Error error = failure([&] { registry.find("nosuch"); });
    CHECK(error.code() == DP_NOT_FOUND && std::string(error.what()).find("dp_registry_find: ") == 0);

    dp::Plugin plugin = registry.select(dp::Policy().prefer("gpu").fallback("cpu"));
    dp::Plugin moved = std::move(plugin);
    CHECK(!moved.name().empty() && moved.answers_to("CPU") && !moved.path() && moved.refusals().empty());
    // An object that was moved from is empty, and its functions behave as for NULL.
    CHECK(plugin.get() == nullptr && plugin.name().empty() && plugin.status() == DP_PLUGIN_NONE);
    CHECK(failure([&] { plugin.load(); }).code() == DP_INVALID_ARGUMENT);

    const PJRT_Api* api = moved.load();
    CHECK(api != nullptr && moved.clone().load() == api && moved.api_version().major == 0);
    CHECK(!moved.manifest_json().empty() && !moved.provenance().empty());
    {
        const dp::Lease lease = moved.acquire("the test");
        const dp::Plan plan = moved.configure();
        CHECK(!plan.coordinator() && !plan.to_string().empty());
    }

    const char* manifest = "{\"format_version\": \"1.0\", \"name\": \"toy\", \"aliases\": [\"gpu\"],"
                           "\"capabilities\": {\"dense_gather_factor\": 8, \"dense_scatter_factor\": 4,"
                           "\"autocast\": {\"kind\": \"xla\", \"dtypes\": [\"bf16\"], \"default_dtype\": \"bf16\"},"
                           "\"program_formats\": [\"mlir\"]}}";
    const dp::Registry own = dp::Registry::empty();
    const dp::Plugin toy = own.add_api("toy", api, manifest);
    const dp::Capabilities can = toy.capabilities();
    CHECK(can.gathers_densely(80) && !can.gathers_densely(81));
    CHECK(can.scatters_densely(25, 100) && !can.scatters_densely(24, 100) && can.scatters_densely(UINT64_MAX, 5));
    CHECK(can.autocast_kind() == std::uint32_t{DP_AUTOCAST_XLA} && can.autocast_default_dtype().has_value());
    CHECK(can.preferred_program_format() == DP_PROGRAM_FORMAT_MLIR && !can.accepts(DP_PROGRAM_FORMAT_HLO));
    const dp::Plugin plain = dp::Registry::empty().add_api("plain", api);
    const dp::Capabilities unknown = plain.capabilities();
    CHECK(!unknown.gathers_densely(1) && !unknown.scatters_densely(1, 1) && !unknown.autocast_kind());
    CHECK(unknown.preferred_program_format() == DP_PROGRAM_FORMAT_HLO && unknown.accepts(DP_PROGRAM_FORMAT_MLIR));
    const dp::Plugin selected = own.select(dp::Policy().prefer("gpu"));
    CHECK(selected.name() == "toy");

    // A result that was obtained from a temporary plugin keeps the objects that it needs. A temporary builder returns
    // itself.
    const dp::Capabilities kept = own.find("toy").capabilities();
    CHECK(kept.gathers_densely(80) && kept.get()->dense_scatter_factor == 4);
    const dp::Capabilities second = kept;
    CHECK(second.get() == kept.get() && second.preferred_program_format() == DP_PROGRAM_FORMAT_MLIR);
    const dp::Policy& policy = dp::Policy().prefer("gpu").environment(false).experimental(true);
    const dp::Plugin again = own.select(policy);
    CHECK(again.name() == "toy");
    const dp::Options& chained = dp::Options().set("i", 3).set("s", "text");
    CHECK(chained.size() == 2 && chained.at(0).int64_value == 3);

    dp::Options given;
    given.set("s", "text").set("i", 3).set("l", std::vector<std::int64_t>{1, 2}).set("f", 0.5f).set("b", true);
    const dp::Options resolved = toy.client_options(&given);
    CHECK(resolved.size() == 5 && resolved.at(1).type == DP_VALUE_INT64 && resolved.at(1).int64_value == 3);
    CHECK(failure([&] { resolved.at(5); }).code() == DP_OUT_OF_RANGE);
    dp::Options numbers;  // Each of these number types is accepted without a cast.
    numbers.set("double", 0.5).set("unsigned", 3u).set("long", 3L).set("long long", 3LL).set("short", short{3});
    CHECK(numbers.at(0).type == DP_VALUE_FLOAT && numbers.at(0).float_value == 0.5f);
    for (std::size_t i = 1; i < numbers.size(); ++i) CHECK(numbers.at(i).int64_value == 3);
    CHECK(failure([&] { numbers.set("none", static_cast<const char*>(nullptr)); }).code() == DP_INVALID_ARGUMENT);
#ifdef WITH_PJRT
    const std::vector<PJRT_NamedValue> values = dp::to_pjrt(resolved);
    CHECK(values.size() == 5 && values[0].type == PJRT_NamedValue_kString && values[0].value_size == 4);
    CHECK(values[2].type == PJRT_NamedValue_kInt64List && values[2].value_size == 2 && values[2].int64_array_value[1] == 2);
    CHECK(values[3].float_value == 0.5f && values[4].type == PJRT_NamedValue_kBool && values[4].bool_value);
    CHECK(std::string(values[4].name, values[4].name_size) == "b");
#endif

    const dp::Plugin off = own.disable(toy, "for the test");
    CHECK(toy.status() == DP_PLUGIN_STALE && off.status() == DP_PLUGIN_DISABLED);
    const dp::Plugin on = own.enable(off);
    own.remove(on);
    CHECK(own.shutdown() == 0);
    const dp::Registry leased = dp::Registry::empty();
    {
        const dp::Plugin added = leased.add_api("leased", api);
        added.load();
        const dp::Lease lease = added.acquire("the test");
        CHECK(leased.shutdown_within(std::chrono::milliseconds(-1)) == 1);
    }
    CHECK(leased.shutdown_within(std::chrono::hours(1)) == 0);
    dp::Topology topology = dp::Topology::detect();
    CHECK(topology->world_size <= 1);
    registry.clone().refresh();
    std::printf("cpp: %d checks\n", checks);
    return 0;
}
