// Finding, choosing and loading plugins.
#ifndef DEVICE_PLUGIN_REGISTRY_HPP
#define DEVICE_PLUGIN_REGISTRY_HPP

#include <optional>

#include "base.hpp"
#include "capabilities.hpp"
#include "registry.h"

DEVICE_PLUGIN_NAMESPACE_BEGIN

class Client;
class KeyValueStore;
class TopologyDescription;

// The state of a plugin, determined without loading it.
enum class PluginState : std::uint32_t {
    None = DP_PLUGIN_NONE,
    Available = DP_PLUGIN_AVAILABLE,
    Loaded = DP_PLUGIN_LOADED,
    Refused = DP_PLUGIN_REFUSED,
    Disabled = DP_PLUGIN_DISABLED,
    Stale = DP_PLUGIN_STALE,
};
// Whether a plugin's hardware was found in the machine.
enum class HardwarePresence : std::uint32_t {
    Unknown = DP_HARDWARE_UNKNOWN,
    Present = DP_HARDWARE_PRESENT,
    Absent = DP_HARDWARE_ABSENT,
};
// The number of clients that a plugin's devices support at the same time.
enum class Ownership : std::uint32_t {
    Shared = DP_OWNERSHIP_SHARED,
    PerProcess = DP_OWNERSHIP_PER_PROCESS,
    Exclusive = DP_OWNERSHIP_EXCLUSIVE,
};
// Whether a plugin's devices can run a program.
enum class SupportAnswer : std::uint32_t {
    None = DP_SUPPORT_NONE,
    Yes = DP_SUPPORT_YES,
    No = DP_SUPPORT_NO,
    Maybe = DP_SUPPORT_MAYBE,
};
// What is checked to find out whether the devices can run a program. Each depth includes those before it.
enum class Depth : std::uint32_t {
    Names = DP_DEPTH_NAMES,
    Attributes = DP_DEPTH_ATTRIBUTES,
    Types = DP_DEPTH_TYPES,
    Compile = DP_DEPTH_COMPILE,
};
// The devices of a host that a process uses, in dp_topology.
enum class DeviceShare : std::uint32_t {
    Default = DP_DEVICE_SHARE_DEFAULT,
    One = DP_DEVICE_SHARE_ONE,
    All = DP_DEVICE_SHARE_ALL,
};
// How to find the PJRT library, in dp_descriptor.
enum class LibraryKind : std::uint32_t {
    This = DP_LIBRARY_THIS,
    Beside = DP_LIBRARY_BESIDE,
    Path = DP_LIBRARY_PATH,
    Computed = DP_LIBRARY_COMPUTED,
};
// The type of a Value: its index().
enum class ValueType : std::uint32_t {
    String = DP_VALUE_STRING,
    Int64 = DP_VALUE_INT64,
    Int64List = DP_VALUE_INT64_LIST,
    Float = DP_VALUE_FLOAT,
    Bool = DP_VALUE_BOOL,
};

// A named value.
struct Option {
    std::string name;
    Value value;
};

// Options of a client, or attributes that a plugin reports.
class Options : public detail::Settings<Options, dp_options, dp_options_new> {
public:
    Options set(std::string_view name, std::string_view value, Error* error = nullptr) {
        return change(error, dp_options_set_string, detail::Text(name), detail::Text(value));
    }
    Options set(std::string_view name, const char* value, Error* error = nullptr) {
        return change(error, dp_options_set_string, detail::Text(name), value);
    }
    template <typename T, std::enable_if_t<detail::is_number<T>, int> = 0>
    Options set(std::string_view name, T value, Error* error = nullptr) {
        return change_integer(error, dp_options_set_int64, name, value);
    }
    Options set(std::string_view name, Span<const std::int64_t> value, Error* error = nullptr) {
        return change(error, dp_options_set_int64_list, detail::Text(name), value.data(), value.size());
    }
    Options set(std::string_view name, std::initializer_list<std::int64_t> value, Error* error = nullptr) {
        return set(name, Span<const std::int64_t>(value), error);
    }
    Options set(std::string_view name, float value, Error* error = nullptr) {
        return change(error, dp_options_set_float, detail::Text(name), value);
    }
    // PJRT has no double, so the nearest float is passed.
    Options set(std::string_view name, double value, Error* error = nullptr) {
        return set(name, static_cast<float>(value), error);
    }
    Options set(std::string_view name, bool value, Error* error = nullptr) {
        return change(error, dp_options_set_bool, detail::Text(name), value);
    }

    std::size_t size() const noexcept { return dp_options_count(get()); }
    bool empty() const noexcept { return size() == 0; }
    // The option at an index.
    [[nodiscard]] Option at(std::size_t index, Error* error = nullptr) const {
        const auto raw = detail::call<dp_option>(error, dp_options_at, get(), index);
        return {std::string(detail::view(raw.name)), detail::value(raw.type, raw)};
    }
    // The value of an option. No value if there is no such option.
    [[nodiscard]] std::optional<Value> find(std::string_view name, Error* error = nullptr) const {
        if (error != nullptr) error->clear();
        for (std::size_t i = 0; i < size(); ++i) {
            const auto raw = detail::call<dp_option>(error, dp_options_at, get(), i);
            if (error != nullptr && *error) break;
            if (detail::view(raw.name) == name) return detail::value(raw.type, raw);
        }
        return std::nullopt;
    }

    // Visits the options, by value.
    class Iterator {
    public:
        using value_type = Option;
        using reference = Option;
        using pointer = void;
        using difference_type = std::ptrdiff_t;
        using iterator_category = std::input_iterator_tag;

        Iterator(const Options* options, std::size_t index) noexcept : options_(options), index_(index) {}
        Option operator*() const { return options_->at(index_); }
        Iterator& operator++() noexcept {
            ++index_;
            return *this;
        }
        Iterator operator++(int) noexcept { return Iterator(options_, index_++); }
        friend bool operator==(const Iterator& a, const Iterator& b) noexcept { return a.index_ == b.index_; }
        friend bool operator!=(const Iterator& a, const Iterator& b) noexcept { return a.index_ != b.index_; }

    private:
        const Options* options_;
        std::size_t index_;
    };
    Iterator begin() const noexcept DEVICE_PLUGIN_LIFETIMEBOUND { return Iterator(this, 0); }
    Iterator end() const noexcept DEVICE_PLUGIN_LIFETIMEBOUND { return Iterator(this, size()); }
};

// The detected position of this process among the processes that run one program together.
class DetectedTopology : public detail::Object<DetectedTopology, dp_detected_topology> {
public:
    // Reads the variables that torchrun, Open MPI, Slurm and others set. Without such variables, it is a single
    // process.
    [[nodiscard]] static DetectedTopology detect(Error* error = nullptr) {
        return detail::call<DetectedTopology>(error, dp_topology_detect);
    }
    // The position. nullptr if this object is empty.
    const dp_topology* topology() const&& = delete;
    const dp_topology* topology() const& noexcept DEVICE_PLUGIN_LIFETIMEBOUND {
        return dp_detected_topology_get(get());
    }
    const dp_topology* operator->() const&& = delete;
    const dp_topology* operator->() const& noexcept DEVICE_PLUGIN_LIFETIMEBOUND { return topology(); }
};

// A topology as a parameter. Without a value, it is a single process.
class TopologyView {
public:
    constexpr TopologyView(const dp_topology* raw = nullptr) noexcept : raw_(raw) {}
    TopologyView(const DetectedTopology& detected) noexcept : raw_(detected.topology()) {}
    const dp_topology* get() const noexcept { return raw_; }

private:
    const dp_topology* raw_;
};

// A variable of a plan.
struct PlanStep {
    std::string variable;
    std::string value;
    // The value when the plan was created. No value if the variable was not set.
    std::optional<std::string> current;
    // Why the plugin needs the variable.
    std::string reason;
    // Whether applying the plan changes the variable.
    bool changes;
    // Whether it must be set before the plugin is loaded, and not only before a client is created.
    bool before_load;
    // Whether it replaces an existing value.
    bool overrides;
};

// The environment variables, client options and coordinator that a plugin needs in one process.
class Plan : public detail::Object<Plan, dp_plan> {
public:
    // The variables, including those that keep their values, in the order in which they are set.
    [[nodiscard]] std::vector<PlanStep> steps(Error* error = nullptr) const {
        if (error != nullptr) error->clear();
        std::vector<PlanStep> steps;
        // Without a plan, the first call fails.
        const std::size_t size = json().data() == nullptr ? 1 : dp_plan_count(get());
        for (std::size_t i = 0; i < size; ++i) {
            const auto raw = detail::call<dp_plan_step>(error, dp_plan_at, get(), i);
            if (error != nullptr && *error) return {};
            const auto text = [](dp_string lent) { return std::string(detail::view(lent)); };
            const auto has = [&](std::uint32_t flag) { return (raw.flags & flag) != 0; };
            steps.push_back({text(raw.variable), text(raw.value), std::nullopt, text(raw.reason), has(DP_STEP_CHANGES),
                             has(DP_STEP_BEFORE_LOAD), has(DP_STEP_OVERRIDES)});
            if (raw.current.data != nullptr) steps.back().current = text(raw.current);
        }
        return steps;
    }
    // The options for the client.
    DEVICE_PLUGIN_GET(Options, options, dp_plan_options)
    // `host:port` of the coordinator. Empty if clients need none.
    DEVICE_PLUGIN_TEXT(coordinator, dp_plan_coordinator)
    DEVICE_PLUGIN_TEXT(json, dp_plan_json)
    // The plan as a table for display.
    DEVICE_PLUGIN_TEXT(to_string, dp_plan_to_string)
    // Sets the variables in this process. Call it only at the start of the program, before it starts threads.
    void apply(Error* error = nullptr) const { detail::run(error, dp_plan_apply, get()); }
};

// Whether a plugin's devices can run a program, and the reasons for any answer other than yes.
class Support : public detail::Object<Support, dp_support> {
public:
    SupportAnswer answer() const noexcept { return static_cast<SupportAnswer>(dp_support_answer(get())); }
    bool yes() const noexcept { return answer() == SupportAnswer::Yes; }
    bool no() const noexcept { return answer() == SupportAnswer::No; }
    bool maybe() const noexcept { return answer() == SupportAnswer::Maybe; }
    std::vector<std::string_view> reasons() const&& = delete;
    [[nodiscard]] std::vector<std::string_view> reasons() const& DEVICE_PLUGIN_LIFETIMEBOUND {
        std::vector<std::string_view> reasons;
        const std::size_t size = dp_support_reason_count(get());
        for (std::size_t i = 0; i < size; ++i) reasons.push_back(detail::view(dp_support_reason_at(get(), i)));
        return reasons;
    }
    DEVICE_PLUGIN_TEXT(json, dp_support_json)
};

// Records that a client uses the plugin's devices, and keeps the plugin from being shut down. A Client holds its own.
// Acquire one before PJRT_Client_Create, and drop it after PJRT_Client_Destroy.
class Lease : public detail::Object<Lease, dp_lease> {};

// The version of a table of PJRT: `major` and `minor`.
using ApiVersion = dp_api_version;

// A plugin of a registry, loaded or not.
class Plugin : public detail::Object<Plugin, dp_plugin> {
public:
    DEVICE_PLUGIN_TEXT(name, dp_plugin_name)
    std::vector<std::string_view> aliases() const&& = delete;
    [[nodiscard]] std::vector<std::string_view> aliases() const& DEVICE_PLUGIN_LIFETIMEBOUND {
        std::vector<std::string_view> names;
        const std::size_t size = dp_plugin_alias_count(get());
        for (std::size_t i = 0; i < size; ++i) names.push_back(detail::view(dp_plugin_alias_at(get(), i)));
        return names;
    }
    // Whether this is the plugin's name, an alias or a platform name, regardless of letter case.
    bool answers_to(std::string_view name) const {
        const detail::Text text(name);
        return !text.has_nul() && dp_plugin_answers_to(get(), text);
    }
    // The library's path. Empty if the plugin is part of the program or computes its path when it is loaded.
    DEVICE_PLUGIN_TEXT(path, dp_plugin_path)
    // Where the plugin was found, for display.
    DEVICE_PLUGIN_TEXT(provenance, dp_plugin_provenance)
    // The reasons why the plugin cannot be used, with remedies. Empty if it can be used.
    std::vector<std::string_view> refusals() const&& = delete;
    [[nodiscard]] std::vector<std::string_view> refusals() const& DEVICE_PLUGIN_LIFETIMEBOUND {
        std::vector<std::string_view> reasons;
        const std::size_t size = dp_plugin_refusal_count(get());
        for (std::size_t i = 0; i < size; ++i) reasons.push_back(detail::view(dp_plugin_refusal_at(get(), i)));
        return reasons;
    }
    PluginState status() const noexcept { return static_cast<PluginState>(dp_plugin_status(get())); }
    std::int32_t priority() const noexcept { return dp_plugin_priority(get()); }
    bool is_experimental() const noexcept { return dp_plugin_is_experimental(get()); }
    HardwarePresence hardware() const noexcept { return static_cast<HardwarePresence>(dp_plugin_hardware(get())); }
    DEVICE_PLUGIN_TEXT(hardware_evidence, dp_plugin_hardware_evidence)
    Ownership ownership() const noexcept { return static_cast<Ownership>(dp_plugin_ownership(get())); }
    DEVICE_PLUGIN_TEXT(manifest_json, dp_plugin_manifest_json)
    DEVICE_PLUGIN_TEXT(capabilities_json, dp_plugin_capabilities_json)
    [[nodiscard]] Capabilities capabilities(Error* error = nullptr) const {
        const auto* raw = detail::call<const dp_capabilities*>(error, dp_plugin_capabilities, get());
        return raw == nullptr ? Capabilities() : Capabilities(raw, Plugin(*this).release());
    }

    // The environment that the plugin needs in a process with this topology.
    [[nodiscard]] Plan configure(TopologyView topology = {}, Error* error = nullptr) const {
        return detail::call<Plan>(error, dp_plugin_configure, get(), topology.get());
    }
    // Whether the devices can run a program. Does not load the plugin.
    [[nodiscard]] Support supports(ByteView code, Depth depth, std::string_view format = "mlir",
                                   Error* error = nullptr) const {
        return detail::call<Support>(error, dp_plugin_supports, get(), detail::Text(format), code.data(), code.size(),
                                     static_cast<std::uint32_t>(depth));
    }
    // Loads the plugin, unless it is already loaded. The table is valid until the process ends.
    const PJRT_Api* load(TopologyView topology = {}, Error* error = nullptr) const {
        return detail::call<const PJRT_Api*>(error, dp_plugin_load, get(), topology.get());
    }
    // The version of PJRT that the plugin implements. The plugin must be loaded.
    DEVICE_PLUGIN_GET(ApiVersion, api_version, dp_plugin_api_version)
    // The options for PJRT_Client_Create, after they were checked and converted to the plugin's types.
    [[nodiscard]] Options client_options(const Options& given = {}, const Plan& plan = {},
                                         Error* error = nullptr) const {
        return detail::call<Options>(error, dp_plugin_client_options, get(), plan.get(), given.get());
    }
    // Acquires the lease that PJRT_Client_Create requires. The plugin must be loaded. Errors of other programs that
    // cannot acquire a lease name `holder`.
    [[nodiscard]] Lease acquire(std::string_view holder, Error* error = nullptr) const {
        return detail::call<Lease>(error, dp_plugin_acquire, get(), detail::Text(holder));
    }

    // Creates a client, and loads the plugin if it is not loaded. `store` connects the processes of one computation.
    // The client holds a lease. This and the functions below are in client.hpp.
    [[nodiscard]] Client create_client(const Options& options = {}, Error* error = nullptr) const;
    [[nodiscard]] Client create_client(const Options& options, const KeyValueStore& store,
                                       Error* error = nullptr) const;
    // Describes a topology that the plugin knows by a name such as `v5e:2x2`, without its devices.
    [[nodiscard]] TopologyDescription create_topology(std::string_view name, const Options& options = {},
                                                      Error* error = nullptr) const;
    [[nodiscard]] TopologyDescription deserialize_topology(ByteView serialized, Error* error = nullptr) const;
};

// Describes the machine that is searched for plugins. Without settings, this machine, with this process's environment.
class Discovery : public detail::Settings<Discovery, dp_discovery, dp_discovery_new> {
public:
    // Describes a machine whose file system is below `root`, with an empty environment.
    [[nodiscard]] static Discovery isolated(std::string_view root, Error* error = nullptr) {
        return detail::call<Discovery>(error, dp_discovery_new_isolated, detail::Text(root));
    }

    // An environment variable for the search.
    Discovery variable(std::string_view name, std::string_view value, Error* error = nullptr) {
        return change(error, dp_discovery_set_variable, detail::Text(name), detail::Text(value));
    }
    // The home folder of the user.
    Discovery home(std::string_view folder, Error* error = nullptr) {
        return change(error, dp_discovery_set_home, detail::Text(folder));
    }
    // Whether to search Python environments. The default is true.
    Discovery python(bool read, Error* error = nullptr) { return change(error, dp_discovery_set_python, read); }
    // Whether to search conventional folders and for conventional file names. The default is true.
    Discovery conventional(bool search, Error* error = nullptr) {
        return change(error, dp_discovery_set_conventional, search);
    }
    // Whether to read whole libraries, to compare them with the sha256 in their manifests. The default is false.
    Discovery verify_sha256(bool verify, Error* error = nullptr) {
        return change(error, dp_discovery_set_verify_sha256, verify);
    }
};

// The criteria by which a plugin is selected: preferences, in order. Without preferences, any plugin fits.
class Policy : public detail::Settings<Policy, dp_policy, dp_policy_new> {
public:
    // Prefers a plugin with that name or kind, such as "gpu", unless its hardware is absent. Applies if no earlier
    // preference fits.
    Policy prefer(std::string_view name, Error* error = nullptr) {
        return change(error, dp_policy_prefer, detail::Text(name));
    }
    // Prefers the plugin with that name, alias or platform name, whether or not its hardware was found. Applies if no
    // earlier preference fits.
    Policy fallback(std::string_view name, Error* error = nullptr) {
        return change(error, dp_policy_fallback, detail::Text(name));
    }
    // Prefers any plugin whose hardware is not absent. Applies if no earlier preference fits.
    Policy any(Error* error = nullptr) { return change(error, dp_policy_any); }
    // Whether PJRT_DEVICE and JAX_PLATFORMS take precedence if the user set them. The default is false.
    Policy environment(bool decides, Error* error = nullptr) {
        return change(error, dp_policy_set_environment, decides);
    }
    // Whether experimental plugins are considered. By default, they rank after all others.
    Policy experimental(bool considered, Error* error = nullptr) {
        return change(error, dp_policy_set_experimental, considered);
    }
};

// Plugins, for loops. The list does not change when the registry changes.
class PluginList {
public:
    PluginList() noexcept = default;
    explicit PluginList(std::vector<Plugin> plugins) noexcept : plugins_(std::move(plugins)) {}

    std::size_t size() const noexcept { return plugins_.size(); }
    bool empty() const noexcept { return plugins_.empty(); }
    const Plugin* begin() const noexcept DEVICE_PLUGIN_LIFETIMEBOUND { return plugins_.data(); }
    const Plugin* end() const noexcept DEVICE_PLUGIN_LIFETIMEBOUND { return plugins_.data() + plugins_.size(); }
    const Plugin& operator[](std::size_t index) const& noexcept DEVICE_PLUGIN_LIFETIMEBOUND { return plugins_[index]; }
    // By value, so that a plugin of a temporary list remains valid.
    Plugin operator[](std::size_t index) const&& noexcept { return plugins_[index]; }

private:
    std::vector<Plugin> plugins_;
};

// The plugins that are linked into the program, registered by it, or found on the machine.
class Registry : public detail::Object<Registry, dp_registry> {
public:
    // Creates a registry of the plugins that are linked into the program, and of those that the search finds. Does not
    // load any plugin.
    [[nodiscard]] static Registry discover(const Discovery& discovery = {}, Error* error = nullptr) {
        return detail::call<Registry>(error, dp_registry_new, discovery.get());
    }
    // Creates a registry without plugins, for plugins that the program registers.
    [[nodiscard]] static Registry without_plugins(Error* error = nullptr) {
        return detail::call<Registry>(error, dp_registry_new_empty);
    }

    // Searches again. Plugins that changed or are no longer found become stale.
    void refresh(Error* error = nullptr) const { detail::run(error, dp_registry_refresh, get()); }
    // Shuts down all plugins. A plugin with leases is shut down when its last lease is freed. Returns the number of
    // plugins with leases.
    std::size_t shutdown(Error* error = nullptr) const {
        std::size_t waiting = 0;
        detail::run(error, dp_registry_shutdown, get(), &waiting);
        return waiting;
    }
    // Shuts down all plugins, and waits until all leases are freed or the timeout expires. Returns the number of
    // plugins that still have leases.
    template <typename Rep, typename Period>
    std::size_t shutdown_within(std::chrono::duration<Rep, Period> timeout, Error* error = nullptr) const {
        std::size_t waiting = 0;
        detail::run(error, dp_registry_shutdown_within, get(), detail::milliseconds(timeout), &waiting);
        return waiting;
    }
    // The current plugins, including those that cannot be used.
    [[nodiscard]] PluginList plugins(Error* error = nullptr) const {
        struct List : detail::Object<List, dp_plugin_list> {};
        const auto list = detail::call<List>(error, dp_registry_plugins, get());
        return PluginList(detail::list<Plugin>(error, dp_plugin_list_count(list.get()), dp_plugin_list_at, list.get()));
    }
    // The plugin with that name, alias or platform name. Fails with NotFound if no usable plugin has it.
    [[nodiscard]] Plugin find(std::string_view name, Error* error = nullptr) const {
        return detail::call<Plugin>(error, dp_registry_find, get(), detail::Text(name));
    }
    // The plugin that fits the policy best. Fails with NotFound if none fits.
    [[nodiscard]] Plugin select(const Policy& policy, Error* error = nullptr) const {
        const Policy given = policy ? policy : Policy::create();
        return detail::call<Plugin>(error, dp_registry_select, get(), given.get());
    }
    // Registers a plugin by its description, its library's path, or its table. Without a manifest, that of the library
    // applies, or none.
    Plugin add(const dp_descriptor* descriptor, Error* error = nullptr) const {
        return detail::call<Plugin>(error, dp_registry_register, get(), descriptor);
    }
    Plugin add_library(std::string_view path, std::string_view manifest_json = {}, Error* error = nullptr) const {
        return detail::call<Plugin>(error, dp_registry_register_library, get(), detail::Text(path),
                                    detail::Text(manifest_json));
    }
    Plugin add_api(std::string_view name, const PJRT_Api* api, std::string_view manifest_json = {},
                   Error* error = nullptr) const {
        return detail::call<Plugin>(error, dp_registry_register_api, get(), detail::Text(name), api,
                                    detail::Text(manifest_json));
    }
    // Replaces a plugin with the one that the description describes.
    Plugin replace(const Plugin& plugin, const dp_descriptor* descriptor, Error* error = nullptr) const {
        return detail::call<Plugin>(error, dp_registry_replace, get(), plugin.get(), descriptor);
    }
    // Disables a plugin. Returns an object with which it can be enabled.
    Plugin disable(const Plugin& plugin, std::string_view reason, Error* error = nullptr) const {
        return detail::call<Plugin>(error, dp_registry_disable, get(), plugin.get(), detail::Text(reason));
    }
    Plugin enable(const Plugin& plugin, Error* error = nullptr) const {
        return detail::call<Plugin>(error, dp_registry_enable, get(), plugin.get());
    }
    void remove(const Plugin& plugin, Error* error = nullptr) const {
        detail::run(error, dp_registry_remove, get(), plugin.get());
    }
};

DEVICE_PLUGIN_NAMESPACE_END

#endif  // DEVICE_PLUGIN_REGISTRY_HPP
