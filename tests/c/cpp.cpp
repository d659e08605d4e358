// Tests finding and describing plugins through device_plugin.hpp: ownership, errors, text and moves. It also compiles
// without exceptions and RTTI.
#include <chrono>
#include <type_traits>
#include <vector>

#include "check.hpp"

// The headers may be included in either order, because the second one finds XLA's header by itself.
#ifdef WITH_PJRT
#include "device_plugin_pjrt.hpp"
#endif

using dp::ErrorCode;

template <typename T>
constexpr bool is_handle = sizeof(T) == sizeof(void*) && std::is_nothrow_default_constructible_v<T> &&
                           std::is_nothrow_copy_constructible_v<T> && std::is_nothrow_copy_assignable_v<T> &&
                           std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T>;
static_assert(is_handle<dp::Registry> && is_handle<dp::Plugin> && is_handle<dp::Policy> && is_handle<dp::Plan> &&
              is_handle<dp::Options> && is_handle<dp::Lease> && is_handle<dp::Discovery> && is_handle<dp::Support> &&
              is_handle<dp::DetectedTopology>);
static_assert(std::is_nothrow_copy_constructible_v<dp::Capabilities>);
static_assert(std::is_same_v<std::variant_alternative_t<DP_VALUE_FLOAT, dp::Value>, float>);
static_assert(DP_FEATURE_INT64_LIST == DP_VALUE_INT64_LIST && DP_FEATURE_BOOL == DP_VALUE_BOOL);

static const char* const MANIFEST =
    "{\"format_version\": \"1.1\", \"name\": \"toy\", \"aliases\": [\"gpu\", \"first\"],"
    " \"capabilities\": {\"dense_gather_factor\": 8, \"dense_scatter_factor\": 4,"
    "   \"autocast\": {\"kind\": \"xla\", \"dtypes\": [\"bf16\", \"f16\"], \"default_dtype\": \"bf16\"},"
    "   \"program_formats\": [\"mlir\"], \"donation\": false, \"mixed_dot\": \"float_and_integer\","
    "   \"layout\": {\"tiled\": {\"tile\": [8, 128], \"max_padding\": 1.25}}, \"int64\": \"dot_on_host\","
    "   \"host_callbacks\": {\"partitioned\": false, \"empty_arrays\": true}, \"memory_stats\": \"with_limit\","
    "   \"dlpack_host_device\": \"tpu_host\", \"remapped_dtypes\": {\"f64\": \"f32\"}, \"tuple_args_threshold\": 9,"
    "   \"memory_kinds\": {\"names\": [\"device\", \"pinned_host\"], \"default\": \"device\"},"
    "   \"features\": {\"vendor.answer\": 42, \"vendor.list\": [1, 2], \"vendor.text\": \"yes\"}},"
    " \"process\": {\"environment\": ["
    "   {\"variable\": \"TOY_DEVICES\", \"value\": \"2\", \"reason\": \"for the test\"}]},"
    " \"supported_programs\": {\"complete\": true, \"operations\": {\"stablehlo.add\": {\"types\": [\"f32\"]}}}}";

static void capabilities(const dp::Registry& own) {
    // The result keeps the objects that it needs.
    const dp::Capabilities can = own.find("toy").capabilities();
    CHECK(can.gathers_densely(80) && !can.gathers_densely(81) && can.dense_gather_factor() == 8);
    CHECK(can.scatters_densely(25, 100) && !can.scatters_densely(24, 100) && can.scatters_densely(UINT64_MAX, 5));
    CHECK(can.autocast_kind() == dp::AutocastKind::Xla && can.autocast_default_dtype() == dp::ElementType::BF16);
    CHECK(can.autocast_dtypes() == std::vector<dp::ElementType>{dp::ElementType::BF16, dp::ElementType::F16});
    CHECK(can.preferred_program_format() == dp::ProgramFormat::Mlir && !can.accepts(dp::ProgramFormat::Hlo));
    CHECK(!can.donation() && can.default_memory_kind() == "device" && can.memory_kinds()[1] == "pinned_host");
    CHECK(can.mixed_dot() == dp::MixedDot::FloatAndInteger && can.int64_policy() == dp::Int64Policy::DotOnHost);
    CHECK(can.layout_policy() == dp::Layout::Tiled && can.layout_tile() == (std::array<std::uint32_t, 2>{8, 128}));
    CHECK(can.layout_max_padding() == 1.25f && can.host_callbacks() && !can.host_callbacks_partitioned());
    CHECK(can.host_callbacks_empty_arrays() && can.memory_stats() == dp::MemoryStatsReport::WithLimit);
    CHECK(can.dlpack_host_device() == dp::DlpackDevice::TpuHost && can.tuple_args_threshold() == 9);
    CHECK(can.remapped_dtypes()[0].from == dp::ElementType::F64 && can.remapped_dtypes()[0].to == dp::ElementType::F32);
    for (const dp::Feature& feature : can.features()) {
        if (feature.name == "vendor.answer") CHECK(feature.value == dp::Value(std::int64_t{42}));
        if (feature.name == "vendor.list") CHECK(feature.value == dp::Value(std::vector<std::int64_t>{1, 2}));
        if (feature.name == "vendor.text") CHECK(feature.value == dp::Value(std::string("yes")));
    }
    CHECK(can.features().size() == 3);
    const dp::Capabilities second = can;
    CHECK(second.get() == can.get());

    const dp::Registry other = dp::Registry::without_plugins();
    const dp::Capabilities plain = other.add_api("plain", own.find("toy").load()).capabilities();
    for (const dp::Capabilities& unknown : {plain, dp::Capabilities()}) {
        CHECK(!unknown.gathers_densely(1) && !unknown.scatters_densely(1, 1));
        CHECK(unknown.dlpack_device() == dp::DlpackDevice::None && unknown.supported_dtypes().empty());
        CHECK(unknown.autocast_kind() == dp::AutocastKind::None && unknown.autocast_dtypes().empty());
        CHECK(unknown.preferred_program_format() == dp::ProgramFormat::Hlo && unknown.accepts(dp::ProgramFormat::Mlir));
        CHECK(unknown.layout_tile()[1] == 0 && unknown.stablehlo_current() == (std::array<std::uint32_t, 3>{}));
        CHECK(unknown.features().empty() && unknown.default_memory_kind().empty());
        CHECK(unknown.int64_policy() == dp::Int64Policy::Native && unknown.spmd() == dp::Spmd::Supported);
    }
    // A struct of an older library ends earlier.
    dp_capabilities old{};
    old.struct_size = offsetof(dp_capabilities, dense_scatter_factor);
    old.dense_gather_factor = 7;
    old.dense_scatter_factor = 9;
    const dp::Capabilities cut(&old);
    CHECK(cut.dense_gather_factor() == 7 && cut.dense_scatter_factor() == 0 && cut.dot_algorithms().empty());
}

static void options(const dp::Plugin& toy) {
    dp::Options given;
    CHECK(!given && given.empty() && given.size() == 0 && !given.find("s"));
    given.set("s", "text").set("i", 3).set("l", std::vector<std::int64_t>{1, 2}).set("f", 0.5f).set("b", true);
    const dp::Options resolved = toy.client_options(given);
    CHECK(resolved.size() == 5 && resolved.at(1).name == "i" && resolved.at(1).value == dp::Value(std::int64_t{3}));
    CHECK(resolved.find("s") == dp::Value(std::string("text")) && !resolved.find("none"));
    CHECK(resolved.find("l") == dp::Value(std::vector<std::int64_t>{1, 2}) && resolved.find("b") == dp::Value(true));
    FAILS(ErrorCode::OutOfRange, "`index` is 5", resolved.at(5, error));
    dp::Options numbers;  // Each of these number types is accepted without a cast.
    numbers.set("double", 0.5).set("unsigned", 3u).set("long", 3L).set("long long", 3LL).set("short", short{3});
    numbers.set("size", std::size_t{3});
    CHECK(numbers.at(0).value == dp::Value(0.5f));
    for (std::size_t i = 1; i < numbers.size(); ++i) CHECK(numbers.at(i).value == dp::Value(std::int64_t{3}));
    numbers.set("list", {1}).set("string", std::string(300, 'x')).set(std::string_view("view"), std::string_view("v"));
    CHECK(numbers.find("list") == dp::Value(std::vector<std::int64_t>{1}));
    CHECK(numbers.find("string") == dp::Value(std::string(300, 'x')));
    FAILS(ErrorCode::InvalidArgument, "larger than", numbers.set("large", UINT64_MAX, error));
    dp::Error before(ErrorCode::Unknown, "before");
    CHECK(!dp::Options().find("none", &before) && !before);
    FAILS(ErrorCode::InvalidArgument, "`value` is NULL", numbers.set("none", static_cast<const char*>(nullptr), error));
    FAILS(ErrorCode::InvalidArgument, "`name` is NULL", numbers.set({}, 1, error));
    FAILS(ErrorCode::InvalidArgument, "`name` is empty", numbers.set("", 1, error));
    FAILS(ErrorCode::InvalidArgument, "NUL", numbers.set(std::string_view("a\0b", 3), 1, error));
    FAILS(ErrorCode::InvalidArgument, "UTF-8", numbers.set("\xff", 1, error));
    // A temporary object returns itself. A copy is the same object.
    const dp::Options chained = dp::Options().set("i", 3).set("s", "text");
    CHECK(chained.size() == 2 && chained.at(0).value == dp::Value(std::int64_t{3}));
    dp::Options same = chained;
    same.set("third", 3);
    CHECK(chained.size() == 3);
    std::size_t visited = 0;
    for (const dp::Option& option : dp::Options().set("a", 1).set("b", 2)) visited += option.name.size();
    CHECK(visited == 2);
#ifdef WITH_PJRT
    const std::vector<PJRT_NamedValue> values = dp::to_pjrt(resolved);
    CHECK(values.size() == 5 && values[0].type == PJRT_NamedValue_kString && values[0].value_size == 4);
    CHECK(values[2].type == PJRT_NamedValue_kInt64List && values[2].value_size == 2);
    CHECK(values[2].int64_array_value[1] == 2);
    CHECK(values[3].float_value == 0.5f && values[4].type == PJRT_NamedValue_kBool && values[4].bool_value);
    CHECK(std::string(values[4].name, values[4].name_size) == "b");
    const dp::Options empty;
    CHECK(dp::to_pjrt(empty).empty());
#endif
}

static void all() {
    CHECK(!dp::version().empty() && dp::is_compatible());
    const dp::Registry registry = cpu_registry();
    CHECK(registry.plugins().size() == 1);
    FAILS(ErrorCode::NotFound, "dp_registry_find: ", registry.find("nosuch", error));
    FAILS(ErrorCode::InvalidArgument, "`registry` is NULL", dp::Registry().plugins(error));
    for (const dp::Plugin& plugin : registry.plugins()) CHECK(plugin.name() == CPU && plugin.refusals().empty());
    const dp::PluginList list = registry.plugins();
    CHECK(list[0].name() == CPU && list.begin() + 1 == list.end());
    // A plugin of a temporary list.
    const dp::Plugin first = registry.plugins()[0];
    CHECK(first.answers_to("PJRT_CPU") && !first.answers_to({"pjrt_cpu\0", 9}) && !first.answers_to("cuda"));

    dp::Plugin plugin = registry.select(dp::Policy().prefer("gpu").fallback(CPU));
    dp::Plugin moved = std::move(plugin);
    CHECK(moved.name() == CPU && !moved.path().empty() && moved.status() == dp::PluginState::Available);
    // An object that was moved from is empty, and its functions behave as for NULL.
    CHECK(!plugin && plugin.get() == nullptr && plugin.name().empty() && plugin.status() == dp::PluginState::None);
    FAILS(ErrorCode::InvalidArgument, "`plugin` is NULL", plugin.load({}, error));
    FAILS(ErrorCode::InvalidArgument, "`plugin` is NULL", plugin.capabilities(error));
    FAILS(ErrorCode::InvalidArgument, "`plan` is NULL", dp::Plan().steps(error));

    FAILS(ErrorCode::FailedPrecondition, "is not loaded", moved.api_version(error));
    const PJRT_Api* api = moved.load();
    CHECK(api != nullptr && dp::Plugin(moved).load() == api && moved.api_version().major == 0);
    CHECK(moved.api_version().minor > 0 && moved.status() == dp::PluginState::Loaded);
    CHECK(!moved.manifest_json().empty() && !moved.provenance().empty() && !moved.hardware_evidence().empty());
    CHECK(moved.hardware() == dp::HardwarePresence::Unknown && moved.ownership() == dp::Ownership::Shared);
    CHECK(!moved.is_experimental() && moved.priority() >= 0);
    {
        const dp::Lease lease = moved.acquire("the test");
        const dp::Plan plan = moved.configure();
        CHECK(lease && plan.coordinator().empty() && !plan.to_string().empty() && !plan.json().empty());
        CHECK(plan.steps().empty() && plan.options().empty());
    }

    const dp::Registry own = dp::Registry::without_plugins();
    const dp::Plugin toy = own.add_api("toy", api, MANIFEST);
    CHECK(toy.aliases() == std::vector<std::string_view>{"gpu", "first"} && !toy.capabilities_json().empty());
    CHECK(own.select(dp::Policy().prefer("gpu")) && own.select({}) && own.select(dp::Policy().any().environment(true)));
    const dp::Policy& policy = dp::Policy().prefer("gpu").environment(false).experimental(true);
    CHECK(own.select(policy).answers_to("toy"));
    FAILS(ErrorCode::NotFound, "dp_registry_select", own.select(dp::Policy().fallback("nosuch"), error));
    FAILS(ErrorCode::InvalidArgument, "manifest", own.add_api("bad", api, "{", error));
    FAILS(ErrorCode::InvalidArgument, "`descriptor` is NULL", own.add(nullptr, error));
    const dp::PlanStep step = toy.configure().steps().at(0);
    CHECK(step.variable == "TOY_DEVICES" && step.value == "2" && step.reason == "for the test" && !step.current);
    CHECK(step.changes && !step.overrides);
    toy.configure().apply();
    CHECK(std::getenv("TOY_DEVICES") == std::string("2") && toy.configure().steps()[0].current == "2");
    capabilities(own);
    options(toy);

    const dp::Support support = toy.supports(
        "func.func @main(%x: tensor<f32>) -> tensor<f32> {\n %r = stablehlo.exponential %x : tensor<f32>\n"
        " return %r : tensor<f32>\n}\n",
        dp::Depth::Names);
    CHECK(support.no() && support.answer() == dp::SupportAnswer::No && support.reasons().size() == 1);
    CHECK(!support.json().empty() && !support.yes() && !support.maybe());
    FAILS(ErrorCode::InvalidArgument, "depth", toy.supports("", dp::Depth{9}, "mlir", error));

    const dp::Plugin off = own.disable(toy, "for the test");
    CHECK(toy.status() == dp::PluginState::Stale && off.status() == dp::PluginState::Disabled);
    FAILS(ErrorCode::FailedPrecondition, "", toy.load({}, error));
    const dp::Plugin on = own.enable(off);
    own.remove(on);
    CHECK(own.shutdown() == 0);
    const dp::Registry leased = dp::Registry::without_plugins();
    {
        const dp::Plugin added = leased.add_api("leased", api);
        added.load();
        const dp::Lease lease = added.acquire("the test");
        CHECK(leased.shutdown_within(std::chrono::milliseconds(-1)) == 1);
    }
    CHECK(leased.shutdown_within(std::chrono::hours(1)) == 0);
    const dp::DetectedTopology topology = dp::DetectedTopology::detect();
    CHECK(topology->world_size <= 1 && moved.load(topology) == api && dp::DetectedTopology().get() == nullptr);
    dp::Registry(registry).refresh();
}

int main() {
    all();
    CHECK(dp::object_count() == 0);
    return done("cpp");
}
