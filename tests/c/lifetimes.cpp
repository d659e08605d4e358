// Calls on temporary objects whose result would point into freed memory. `cargo xtask c-tests` compiles this file once
// per CASE. Case 0 compiles. Each other case is rejected, because it calls a deleted function.
#include "device_plugin.hpp"
#ifdef WITH_PJRT
#include "device_plugin_pjrt.hpp"
#endif

namespace dp = device_plugin;

void with_temporary(const dp::Registry& registry, const dp::Client& client, const dp::LoadedExecutable& loaded) {
#if CASE == 0
    const dp::Capabilities can = registry.find("cpu").capabilities();
    const dp::Plugin plugin = registry.plugins()[0];
    const std::string_view name = plugin.name();
    for (const std::string_view alias : plugin.aliases()) (void)alias;
    for (const dp::Plugin& each : registry.plugins()) (void)each;
    const dp::Options options = registry.find("cpu").client_options();
    const dp::Option option = dp::Options().set("a", 1).at(0);
    for (const dp::Option& each : client.devices()[0].attributes()) (void)each;
    const std::string kind = client.devices()[0].kind(), layout = loaded.execute({})[0].layout();
    const std::vector<float> values = client.upload({1.0f}, {1}).to_vector<float>();
    const std::string bytes = loaded.executable().serialize().to_string();
    const dp::LoadedExecutable again = client.deserialize_and_load(loaded.executable().serialize());
#ifdef WITH_PJRT
    const std::vector<PJRT_NamedValue> named = dp::to_pjrt(options);
#endif
    (void)can, (void)name, (void)options;
#elif CASE == 1
    const std::string_view name = registry.find("cpu").name();
#elif CASE == 2
    for (const std::string_view alias : registry.find("cpu").aliases()) (void)alias;
#elif CASE == 3
    const std::string_view json = registry.find("cpu").capabilities_json();
#elif CASE == 4
    const auto reasons = registry.find("cpu").refusals();
#elif CASE == 5
    const std::string_view name = registry.plugins()[0].name();
#elif CASE == 6
    const std::string_view message = dp::Error(dp::ErrorCode::Unknown, "text").message();
#elif CASE == 7
    const std::string_view table = registry.find("cpu").configure().to_string();
#elif CASE == 8
    const auto reasons = registry.find("cpu").supports("", dp::Depth::Names).reasons();
#elif CASE == 9
    const std::string_view bytes = loaded.executable().serialize().view();
#elif CASE == 10
    const std::string_view code = loaded.executable().optimized_program().code();
#elif CASE == 11
    PJRT_Buffer* raw = client.upload({1.0f}, {1}).raw();
#elif CASE == 12
    PJRT_Client* raw = registry.find("cpu").create_client().raw();
#elif CASE == 13
    const dp_topology* topology = dp::DetectedTopology::detect().topology();
#elif CASE == 14
    const dp_shape shape = dp::Shape{dp::ElementType::F32, {2}}.raw();
#elif CASE == 15
    dp::SettableEvent settable = client.create_event();
    const dp::SettableEvent copy = settable;
#elif CASE == 16
    const std::vector<PJRT_NamedValue> values = dp::to_pjrt(registry.find("cpu").client_options());
#endif
}
