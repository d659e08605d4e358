// Calls on temporary objects whose result would point into freed memory. `cargo xtask c-tests` compiles this file once
// per CASE. Case 0 compiles. Each other case is rejected, because it calls a deleted function.
#include "device_plugin.hpp"
#ifdef WITH_PJRT
#include "device_plugin_pjrt.hpp"
#endif

namespace dp = device_plugin;

void with_temporary(const dp::Registry& registry) {
#if CASE == 0
    const dp::Capabilities can = registry.find("cpu").capabilities();
    const dp::Plugin plugin = registry.find("cpu");
    const std::string_view name = plugin.name();
    for (const std::string_view alias : plugin.aliases()) (void)alias;
    const dp::Options options = registry.find("cpu").client_options();
#ifdef WITH_PJRT
    const std::vector<PJRT_NamedValue> values = dp::to_pjrt(options);
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
    const auto steps = registry.find("cpu").configure().steps();
#elif CASE == 6
    const dp_option option = dp::Options().set("a", 1).at(0);
#elif CASE == 7
    const std::string_view table = registry.find("cpu").configure().to_string();
#elif CASE == 8
    const auto reasons = registry.find("cpu").supports("", 0).reasons();
#elif CASE == 9
    const std::vector<PJRT_NamedValue> values = dp::to_pjrt(registry.find("cpu").client_options());
#endif
}
