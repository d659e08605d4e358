// A C++17 interface to include/device_plugin.h. Objects free themselves, errors are exceptions, and text is returned as
// std::string_view.
//
// This header contains only inline calls of the C interface, so that the library can be used with any compiler. Every
// class can be moved but not copied. Some have a function `clone`, which creates a second handle. Destructors do not
// throw.
//
// A std::string_view that a member function returns belongs to the object on which it was called, and is valid as long
// as that object. Such a function cannot be called on a temporary object: `auto name = registry.find("cpu").name();`
// does not compile. Keep the object in a variable first.
//
// To pass options on to PJRT_Client_Create, include device_plugin_pjrt.hpp.
#ifndef DEVICE_PLUGIN_HPP
#define DEVICE_PLUGIN_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "device_plugin.h"

// Lets Clang warn about a pointer that outlives the object from which it was obtained.
#if defined(__has_cpp_attribute)
#if __has_cpp_attribute(clang::lifetimebound)
#define DEVICE_PLUGIN_LIFETIMEBOUND [[clang::lifetimebound]]
#endif
#endif
#ifndef DEVICE_PLUGIN_LIFETIMEBOUND
#define DEVICE_PLUGIN_LIFETIMEBOUND
#endif

namespace device_plugin {

// Converts text of the C interface. Absent text becomes empty.
inline std::string_view view(dp_string text) noexcept {
    return text.data == nullptr ? std::string_view() : std::string_view(text.data, text.size);
}

// Converts text of the C interface. Returns no value for absent text.
inline std::optional<std::string_view> optional_view(dp_string text) noexcept {
    if (text.data == nullptr) return std::nullopt;
    return std::string_view(text.data, text.size);
}

// The reason why a function failed.
class Error : public std::exception {
public:
    // Takes ownership of the error and frees it. `code` is the result of the function.
    Error(dp_code code, dp_error* error) : code_(code) {
        const std::unique_ptr<dp_error, void (*)(dp_error*)> owned(error, dp_error_free);
        message_ = error == nullptr ? std::string("no message") : std::string(view(dp_error_message(error)));
    }

    // The kind of error, such as `DP_NOT_FOUND`.
    dp_code code() const noexcept { return code_; }
    // The cause of the error, and a remedy.
    const char* what() const noexcept override { return message_.c_str(); }

private:
    dp_code code_;
    std::string message_;
};

namespace detail {

inline void check(dp_code code, dp_error* error) {
    if (code != DP_OK) throw Error(code, error);
}

// Frees an object of the C interface.
template <typename T, void (*Free)(T*)>
struct Deleter {
    void operator()(T* object) const noexcept { Free(object); }
};

template <typename T, void (*Free)(T*)>
using Handle = std::unique_ptr<T, Deleter<T, Free>>;

// Calls a function that returns an object through its second-to-last parameter.
template <typename T, typename F>
T* make(F call) {
    T* made = nullptr;
    dp_error* error = nullptr;
    const dp_code code = call(&made, &error);
    check(code, error);
    return made;
}

// Calls a function that returns no object.
template <typename F>
void run(F call) {
    dp_error* error = nullptr;
    const dp_code code = call(&error);
    check(code, error);
}

}  // namespace detail

// Version of the library in use.
inline std::string_view version() noexcept { return view(dp_version()); }

// The capabilities of a plugin's devices. This object keeps the plugin's handle alive, which owns the struct.
class Capabilities {
public:
    // `owner` keeps the struct alive. Without an owner, the caller must keep the struct alive longer than this object.
    explicit Capabilities(const dp_capabilities* raw, std::shared_ptr<const dp_plugin> owner = nullptr) noexcept
        : raw_(raw), owner_(std::move(owner)) {}

    // The struct. If the library is older than the header, fields beyond `struct_size` do not exist. The functions
    // below only use fields that every version has.
    const dp_capabilities* get() const noexcept DEVICE_PLUGIN_LIFETIMEBOUND { return raw_; }

    // Whether to lower a gather along a dimension of that many elements densely, as a product with a one-hot matrix.
    bool gathers_densely(std::uint64_t elements) const noexcept {
        const std::uint64_t factor = raw_->dense_gather_factor;
        return factor != 0 && elements <= factor * 10;
    }
    // Whether to lower a scatter of `index_elements` into `input_elements` elements densely.
    bool scatters_densely(std::uint64_t index_elements, std::uint64_t input_elements) const noexcept {
        const std::uint64_t factor = raw_->dense_scatter_factor;
        if (factor == 0) return false;
        const bool overflows = index_elements > UINT64_MAX / factor;
        return overflows || index_elements * factor >= input_elements;
    }
    // `DP_AUTOCAST_XLA` or `DP_AUTOCAST_CUDA`. No value if the device does not support automatic mixed precision.
    std::optional<std::uint32_t> autocast_kind() const noexcept {
        if (raw_->autocast_kind == 0) return std::nullopt;
        return raw_->autocast_kind;
    }
    // The type of automatic mixed precision if the user chooses none, as a number of PJRT_Buffer_Type.
    std::optional<std::uint32_t> autocast_default_dtype() const noexcept {
        if (raw_->autocast_kind == 0) return std::nullopt;
        return raw_->autocast_default_dtype;
    }
    // The preferred program format of the compiler, `DP_PROGRAM_FORMAT_*`.
    std::uint32_t preferred_program_format() const noexcept {
        return raw_->program_formats_size == 0 ? std::uint32_t{DP_PROGRAM_FORMAT_HLO} : raw_->program_formats[0];
    }
    // Whether the compiler accepts this program format.
    bool accepts(std::uint32_t format) const noexcept {
        if (raw_->program_formats_size == 0) return format == DP_PROGRAM_FORMAT_HLO || format == DP_PROGRAM_FORMAT_MLIR;
        for (std::size_t i = 0; i < raw_->program_formats_size; ++i) {
            if (raw_->program_formats[i] == format) return true;
        }
        return false;
    }
    // Whether a program may reuse the memory of its inputs for its outputs.
    bool donation() const noexcept { return raw_->donation != 0; }

private:
    const dp_capabilities* raw_;
    std::shared_ptr<const dp_plugin> owner_;
};

// Options of a client.
class Options {
public:
    Options() : handle_(dp_options_new()) {}
    // Takes ownership of an object of the C interface.
    explicit Options(dp_options* raw) noexcept : handle_(raw) {}

    Options& set(const std::string& name, const std::string& value) & {
        detail::run([&](dp_error** error) {
            return dp_options_set_string(get(), name.c_str(), value.c_str(), error);
        });
        return *this;
    }
    Options& set(const std::string& name, const char* value) & {
        detail::run([&](dp_error** error) { return dp_options_set_string(get(), name.c_str(), value, error); });
        return *this;
    }
    // Accepts any type of integer whose values fit std::int64_t.
    template <typename T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool> &&
                                               (sizeof(T) < sizeof(std::int64_t) || std::is_signed_v<T>),
                                           int> = 0>
    Options& set(const std::string& name, T value) & {
        detail::run([&](dp_error** error) {
            return dp_options_set_int64(get(), name.c_str(), static_cast<std::int64_t>(value), error);
        });
        return *this;
    }
    Options& set(const std::string& name, const std::vector<std::int64_t>& value) & {
        detail::run([&](dp_error** error) {
            return dp_options_set_int64_list(get(), name.c_str(), value.data(), value.size(), error);
        });
        return *this;
    }
    Options& set(const std::string& name, float value) & {
        detail::run([&](dp_error** error) { return dp_options_set_float(get(), name.c_str(), value, error); });
        return *this;
    }
    // PJRT has no double, so the nearest float is passed.
    Options& set(const std::string& name, double value) & { return set(name, static_cast<float>(value)); }
    Options& set(const std::string& name, bool value) & {
        detail::run([&](dp_error** error) { return dp_options_set_bool(get(), name.c_str(), value, error); });
        return *this;
    }

    // The same for a temporary object. Returns the object.
    template <typename T>
    Options set(const std::string& name, const T& value) && {
        set(name, value);
        return std::move(*this);
    }

    std::size_t size() const noexcept { return dp_options_count(get()); }
    // The option at an index. Its text and list belong to the options.
    dp_option at(std::size_t index) const&& = delete;
    dp_option at(std::size_t index) const& {
        dp_option option{};
        option.struct_size = sizeof(option);
        detail::run([&](dp_error** error) { return dp_options_at(get(), index, &option, error); });
        return option;
    }

    dp_options* get() noexcept DEVICE_PLUGIN_LIFETIMEBOUND { return handle_.get(); }
    const dp_options* get() const noexcept DEVICE_PLUGIN_LIFETIMEBOUND { return handle_.get(); }

private:
    detail::Handle<dp_options, dp_options_free> handle_;
};

// The position of this process among the processes that run one program together.
class Topology {
public:
    // Detects the topology from the variables that torchrun, Open MPI, Slurm and others set. Without such variables, it
    // is a single process.
    static Topology detect() {
        return Topology(detail::make<dp_topology>(
            [](dp_topology** out, dp_error** error) { return dp_topology_detect(out, error); }));
    }

    const dp_topology* get() const noexcept DEVICE_PLUGIN_LIFETIMEBOUND { return handle_.get(); }
    const dp_topology* operator->() const noexcept { return handle_.get(); }

private:
    explicit Topology(dp_topology* raw) noexcept : handle_(raw) {}
    detail::Handle<dp_topology, dp_topology_free> handle_;
};

// The environment variables, client options and coordinator that a plugin needs in one process. Only `apply` sets the
// variables.
class Plan {
public:
    explicit Plan(dp_plan* raw) noexcept : handle_(raw) {}

    // The variables, including those that keep their values. Their text belongs to the plan.
    std::vector<dp_plan_step> steps() const&& = delete;
    std::vector<dp_plan_step> steps() const& {
        std::vector<dp_plan_step> steps(dp_plan_count(get()));
        for (std::size_t i = 0; i < steps.size(); ++i) {
            steps[i].struct_size = sizeof(dp_plan_step);
            detail::run([&](dp_error** error) { return dp_plan_at(get(), i, &steps[i], error); });
        }
        return steps;
    }
    // `host:port` of the coordinator, if clients need one.
    std::optional<std::string_view> coordinator() const&& = delete;
    std::optional<std::string_view> coordinator() const& noexcept DEVICE_PLUGIN_LIFETIMEBOUND {
        return optional_view(dp_plan_coordinator(get()));
    }
    std::string_view json() const&& = delete;
    std::string_view json() const& noexcept DEVICE_PLUGIN_LIFETIMEBOUND { return view(dp_plan_json(get())); }
    // Formats the plan as a table for display.
    std::string_view to_string() const&& = delete;
    std::string_view to_string() const& noexcept DEVICE_PLUGIN_LIFETIMEBOUND { return view(dp_plan_to_string(get())); }
    // Sets the variables in this process. Call it only at the start of the program, before it starts threads.
    void apply() const {
        detail::run([&](dp_error** error) { return dp_plan_apply(get(), error); });
    }

    const dp_plan* get() const noexcept DEVICE_PLUGIN_LIFETIMEBOUND { return handle_.get(); }

private:
    detail::Handle<dp_plan, dp_plan_free> handle_;
};

// Whether a plugin's devices can run a program.
class Support {
public:
    explicit Support(dp_support* raw) noexcept : handle_(raw) {}

    bool yes() const noexcept { return dp_support_answer(get()) == DP_SUPPORT_YES; }
    bool no() const noexcept { return dp_support_answer(get()) == DP_SUPPORT_NO; }
    bool maybe() const noexcept { return dp_support_answer(get()) == DP_SUPPORT_MAYBE; }
    // The reasons for an answer other than yes. The text belongs to the answer.
    std::vector<std::string_view> reasons() const&& = delete;
    std::vector<std::string_view> reasons() const& {
        std::vector<std::string_view> reasons;
        for (std::size_t i = 0; i < dp_support_reason_count(get()); ++i) {
            reasons.push_back(view(dp_support_reason_at(get(), i)));
        }
        return reasons;
    }
    std::string_view json() const&& = delete;
    std::string_view json() const& noexcept DEVICE_PLUGIN_LIFETIMEBOUND { return view(dp_support_json(get())); }

    const dp_support* get() const noexcept DEVICE_PLUGIN_LIFETIMEBOUND { return handle_.get(); }

private:
    detail::Handle<dp_support, dp_support_free> handle_;
};

// Records that a client uses the plugin's devices, and keeps the plugin from being shut down. Acquire it before
// PJRT_Client_Create, and free it after PJRT_Client_Destroy.
class Lease {
public:
    explicit Lease(dp_lease* raw) noexcept : handle_(raw) {}

private:
    detail::Handle<dp_lease, dp_lease_free> handle_;
};

// A plugin of a registry, loaded or not.
class Plugin {
public:
    // Takes ownership of an object of the C interface.
    explicit Plugin(dp_plugin* raw) noexcept : handle_(raw) {}

    Plugin clone() const {
        return Plugin(detail::make<dp_plugin>(
            [&](dp_plugin** out, dp_error** error) { return dp_plugin_clone(get(), out, error); }));
    }

    std::string_view name() const&& = delete;
    std::string_view name() const& noexcept DEVICE_PLUGIN_LIFETIMEBOUND { return view(dp_plugin_name(get())); }
    std::vector<std::string_view> aliases() const&& = delete;
    std::vector<std::string_view> aliases() const& {
        std::vector<std::string_view> names;
        for (std::size_t i = 0; i < dp_plugin_alias_count(get()); ++i) names.push_back(view(dp_plugin_alias_at(get(), i)));
        return names;
    }
    bool answers_to(const std::string& name) const noexcept { return dp_plugin_answers_to(get(), name.c_str()); }
    // The library's path. No value if the plugin is part of the program or computes its path when it is loaded.
    std::optional<std::string_view> path() const&& = delete;
    std::optional<std::string_view> path() const& noexcept DEVICE_PLUGIN_LIFETIMEBOUND {
        return optional_view(dp_plugin_path(get()));
    }
    std::string_view provenance() const&& = delete;
    std::string_view provenance() const& noexcept DEVICE_PLUGIN_LIFETIMEBOUND {
        return view(dp_plugin_provenance(get()));
    }
    // The reasons why the plugin cannot be used. Empty if it can be used.
    std::vector<std::string_view> refusals() const&& = delete;
    std::vector<std::string_view> refusals() const& {
        std::vector<std::string_view> reasons;
        for (std::size_t i = 0; i < dp_plugin_refusal_count(get()); ++i) {
            reasons.push_back(view(dp_plugin_refusal_at(get(), i)));
        }
        return reasons;
    }
    // The state, such as `DP_PLUGIN_AVAILABLE`.
    dp_plugin_state status() const noexcept { return dp_plugin_status(get()); }
    std::int32_t priority() const noexcept { return dp_plugin_priority(get()); }
    bool is_experimental() const noexcept { return dp_plugin_is_experimental(get()); }
    // Whether the hardware was found, such as `DP_HARDWARE_PRESENT`.
    dp_presence hardware() const noexcept { return dp_plugin_hardware(get()); }
    std::string_view hardware_evidence() const&& = delete;
    std::string_view hardware_evidence() const& noexcept DEVICE_PLUGIN_LIFETIMEBOUND {
        return view(dp_plugin_hardware_evidence(get()));
    }
    // The number of clients that the devices support, such as `DP_OWNERSHIP_SHARED`.
    dp_ownership ownership() const noexcept { return dp_plugin_ownership(get()); }
    std::string_view manifest_json() const&& = delete;
    std::string_view manifest_json() const& noexcept DEVICE_PLUGIN_LIFETIMEBOUND {
        return view(dp_plugin_manifest_json(get()));
    }
    std::string_view capabilities_json() const&& = delete;
    std::string_view capabilities_json() const& noexcept DEVICE_PLUGIN_LIFETIMEBOUND {
        return view(dp_plugin_capabilities_json(get()));
    }
    Capabilities capabilities() const {
        // The struct belongs to the handle from which it was obtained, so keep a second handle with it.
        std::shared_ptr<dp_plugin> owner(clone().handle_.release(), dp_plugin_free);
        const dp_capabilities* made = nullptr;
        dp_error* error = nullptr;
        const dp_code code = dp_plugin_capabilities(owner.get(), &made, &error);
        detail::check(code, error);
        return Capabilities(made, std::move(owner));
    }

    // The environment that the plugin needs in a process with this topology. nullptr means a single process.
    Plan configure(const dp_topology* topology = nullptr) const {
        return Plan(detail::make<dp_plan>([&](dp_plan** out, dp_error** error) {
            return dp_plugin_configure(get(), topology, out, error);
        }));
    }
    // Whether the devices can run a program. `depth` is one of `DP_DEPTH_*`. Does not load the plugin.
    Support supports(std::string_view code, std::uint32_t depth, const char* format = "mlir") const {
        return Support(detail::make<dp_support>([&](dp_support** out, dp_error** error) {
            return dp_plugin_supports(get(), format, code.data(), code.size(), depth, out, error);
        }));
    }
    // Loads the plugin, unless it is already loaded. The table is valid until the process ends.
    const PJRT_Api* load(const dp_topology* topology = nullptr) const {
        const PJRT_Api* api = nullptr;
        dp_error* error = nullptr;
        const dp_code code = dp_plugin_load(get(), topology, &api, &error);
        detail::check(code, error);
        return api;
    }
    // The version of PJRT that the plugin implements. The plugin must be loaded.
    dp_api_version api_version() const {
        dp_api_version version{};
        dp_error* error = nullptr;
        const dp_code code = dp_plugin_api_version(get(), &version, &error);
        detail::check(code, error);
        return version;
    }
    // The options for PJRT_Client_Create, after they were checked and converted to the plugin's types.
    Options client_options(const Options* given = nullptr, const Plan* plan = nullptr) const {
        return Options(detail::make<dp_options>([&](dp_options** out, dp_error** error) {
            return dp_plugin_client_options(get(), plan == nullptr ? nullptr : plan->get(),
                                            given == nullptr ? nullptr : given->get(), out, error);
        }));
    }
    // Acquires the lease that is required to create a client. The plugin must be loaded. Errors of other programs that
    // cannot acquire a lease name `holder`.
    Lease acquire(const std::string& holder) const {
        return Lease(detail::make<dp_lease>([&](dp_lease** out, dp_error** error) {
            return dp_plugin_acquire(get(), holder.c_str(), out, error);
        }));
    }

    const dp_plugin* get() const noexcept DEVICE_PLUGIN_LIFETIMEBOUND { return handle_.get(); }

private:
    detail::Handle<dp_plugin, dp_plugin_free> handle_;
};

// Describes the machine that is searched for plugins.
class Discovery {
public:
    // Describes this machine, with this process's environment.
    Discovery() : handle_(dp_discovery_new()) {}
    // Describes a machine whose file system is below `root`, with an empty environment.
    static Discovery isolated(const std::string& root) {
        return Discovery(detail::make<dp_discovery>([&](dp_discovery** out, dp_error** error) {
            return dp_discovery_new_isolated(root.c_str(), out, error);
        }));
    }

    Discovery& variable(const std::string& name, const std::string& value) & {
        detail::run([&](dp_error** error) {
            return dp_discovery_set_variable(handle_.get(), name.c_str(), value.c_str(), error);
        });
        return *this;
    }
    Discovery& home(const std::string& folder) & {
        detail::run([&](dp_error** error) { return dp_discovery_set_home(handle_.get(), folder.c_str(), error); });
        return *this;
    }
    Discovery& python(bool read) & {
        detail::run([&](dp_error** error) { return dp_discovery_set_python(handle_.get(), read, error); });
        return *this;
    }
    Discovery& conventional(bool search) & {
        detail::run([&](dp_error** error) { return dp_discovery_set_conventional(handle_.get(), search, error); });
        return *this;
    }

    // Sets whether whole libraries are read to compare them with the sha256 in their manifests.
    Discovery& verify_sha256(bool verify) & {
        detail::run([&](dp_error** error) { return dp_discovery_set_verify_sha256(handle_.get(), verify, error); });
        return *this;
    }

    // The same for a temporary object. Returns the object.
    Discovery variable(const std::string& name, const std::string& value) && { return std::move(variable(name, value)); }
    Discovery home(const std::string& folder) && { return std::move(home(folder)); }
    Discovery python(bool read) && { return std::move(python(read)); }
    Discovery conventional(bool search) && { return std::move(conventional(search)); }
    Discovery verify_sha256(bool verify) && { return std::move(verify_sha256(verify)); }

    const dp_discovery* get() const noexcept DEVICE_PLUGIN_LIFETIMEBOUND { return handle_.get(); }

private:
    explicit Discovery(dp_discovery* raw) noexcept : handle_(raw) {}
    detail::Handle<dp_discovery, dp_discovery_free> handle_;
};

// The criteria by which a plugin is selected: preferences, in order. Without preferences, any plugin fits.
class Policy {
public:
    Policy() : handle_(dp_policy_new()) {}

    // Prefers a plugin with that name or kind, such as "gpu", unless its hardware is absent. Applies if no earlier
    // preference fits.
    Policy& prefer(const std::string& name) & {
        detail::run([&](dp_error** error) { return dp_policy_prefer(handle_.get(), name.c_str(), error); });
        return *this;
    }
    // Prefers the plugin with that name, alias or platform name, whether or not its hardware was found. Applies if no
    // earlier preference fits.
    Policy& fallback(const std::string& name) & {
        detail::run([&](dp_error** error) { return dp_policy_fallback(handle_.get(), name.c_str(), error); });
        return *this;
    }
    // Prefers any plugin whose hardware is not absent. Applies if no earlier preference fits.
    Policy& any() & {
        detail::run([&](dp_error** error) { return dp_policy_any(handle_.get(), error); });
        return *this;
    }
    // Sets whether PJRT_DEVICE and JAX_PLATFORMS take precedence if the user set them.
    Policy& environment(bool decides) & {
        detail::run([&](dp_error** error) { return dp_policy_set_environment(handle_.get(), decides, error); });
        return *this;
    }
    // Sets whether experimental plugins are considered. By default, they rank after all others.
    Policy& experimental(bool considered) & {
        detail::run([&](dp_error** error) { return dp_policy_set_experimental(handle_.get(), considered, error); });
        return *this;
    }

    // The same for a temporary object. Returns the object.
    Policy prefer(const std::string& name) && { return std::move(prefer(name)); }
    Policy fallback(const std::string& name) && { return std::move(fallback(name)); }
    Policy any() && { return std::move(any()); }
    Policy environment(bool decides) && { return std::move(environment(decides)); }
    Policy experimental(bool considered) && { return std::move(experimental(considered)); }

    const dp_policy* get() const noexcept DEVICE_PLUGIN_LIFETIMEBOUND { return handle_.get(); }

private:
    detail::Handle<dp_policy, dp_policy_free> handle_;
};

// The plugins that are linked into the program, registered by it, or found on the machine.
class Registry {
public:
    // Creates a registry of the plugins that are linked into the program and those that a search of this machine finds
    // with this process's environment. Does not load any plugin.
    static Registry discover() { return Registry(nullptr); }
    // Creates a registry of the plugins that are linked into the program and those that this search finds.
    explicit Registry(const Discovery& discovery) : Registry(discovery.get()) {}
    // Creates a registry without plugins, for plugins that the program registers.
    static Registry empty() {
        return Registry(Raw{detail::make<dp_registry>(
            [](dp_registry** out, dp_error** error) { return dp_registry_new_empty(out, error); })});
    }
    // Returns another handle of the same registry.
    Registry clone() const {
        return Registry(Raw{detail::make<dp_registry>(
            [&](dp_registry** out, dp_error** error) { return dp_registry_clone(get(), out, error); })});
    }

    void refresh() const {
        detail::run([&](dp_error** error) { return dp_registry_refresh(get(), error); });
    }
    // Shuts down all plugins. A plugin with leases is shut down when its last lease is freed. Returns the number of
    // plugins with leases.
    std::size_t shutdown() const {
        std::size_t waiting = 0;
        detail::run([&](dp_error** error) { return dp_registry_shutdown(get(), &waiting, error); });
        return waiting;
    }
    // Shuts down all plugins, and waits until all leases are freed or the timeout expires. Returns the number of
    // plugins that still have leases.
    std::size_t shutdown_within(std::chrono::milliseconds timeout) const {
        const auto limit = timeout.count() < 0 ? std::uint64_t{0} : static_cast<std::uint64_t>(timeout.count());
        std::size_t waiting = 0;
        detail::run([&](dp_error** error) { return dp_registry_shutdown_within(get(), limit, &waiting, error); });
        return waiting;
    }
    // The current plugins, including those that cannot be used.
    std::vector<Plugin> plugins() const {
        const detail::Handle<dp_plugin_list, dp_plugin_list_free> list(detail::make<dp_plugin_list>(
            [&](dp_plugin_list** out, dp_error** error) { return dp_registry_plugins(get(), out, error); }));
        std::vector<Plugin> plugins;
        for (std::size_t i = 0; i < dp_plugin_list_count(list.get()); ++i) {
            const dp_plugin* borrowed = dp_plugin_list_at(list.get(), i);
            plugins.emplace_back(detail::make<dp_plugin>(
                [&](dp_plugin** out, dp_error** error) { return dp_plugin_clone(borrowed, out, error); }));
        }
        return plugins;
    }
    // The plugin with that name, alias or platform name. Throws an error if no usable plugin has it.
    Plugin find(const std::string& name) const {
        return Plugin(detail::make<dp_plugin>([&](dp_plugin** out, dp_error** error) {
            return dp_registry_find(get(), name.c_str(), out, error);
        }));
    }
    // The plugin that fits the policy best. Throws an error if none fits.
    Plugin select(const Policy& policy) const {
        return Plugin(detail::make<dp_plugin>([&](dp_plugin** out, dp_error** error) {
            return dp_registry_select(get(), policy.get(), out, error);
        }));
    }
    // Registers a plugin by its description (`add`), its library's path (`add_library`) or its table (`add_api`).
    Plugin add(const dp_descriptor* descriptor) const {
        return Plugin(detail::make<dp_plugin>([&](dp_plugin** out, dp_error** error) {
            return dp_registry_register(get(), descriptor, out, error);
        }));
    }
    Plugin add_library(const std::string& path, const char* manifest_json = nullptr) const {
        return Plugin(detail::make<dp_plugin>([&](dp_plugin** out, dp_error** error) {
            return dp_registry_register_library(get(), path.c_str(), manifest_json, out, error);
        }));
    }
    Plugin add_api(const std::string& name, const PJRT_Api* api, const char* manifest_json = nullptr) const {
        return Plugin(detail::make<dp_plugin>([&](dp_plugin** out, dp_error** error) {
            return dp_registry_register_api(get(), name.c_str(), api, manifest_json, out, error);
        }));
    }
    // Replaces a plugin with the one that the description describes.
    Plugin replace(const Plugin& plugin, const dp_descriptor* descriptor) const {
        return Plugin(detail::make<dp_plugin>([&](dp_plugin** out, dp_error** error) {
            return dp_registry_replace(get(), plugin.get(), descriptor, out, error);
        }));
    }
    // Disables a plugin. The returned handle can be used to enable it.
    Plugin disable(const Plugin& plugin, const std::string& reason) const {
        return Plugin(detail::make<dp_plugin>([&](dp_plugin** out, dp_error** error) {
            return dp_registry_disable(get(), plugin.get(), reason.c_str(), out, error);
        }));
    }
    Plugin enable(const Plugin& plugin) const {
        return Plugin(detail::make<dp_plugin>([&](dp_plugin** out, dp_error** error) {
            return dp_registry_enable(get(), plugin.get(), out, error);
        }));
    }
    void remove(const Plugin& plugin) const {
        detail::run([&](dp_error** error) { return dp_registry_remove(get(), plugin.get(), error); });
    }

    const dp_registry* get() const noexcept DEVICE_PLUGIN_LIFETIMEBOUND { return handle_.get(); }

private:
    struct Raw {
        dp_registry* object;
    };
    explicit Registry(Raw raw) noexcept : handle_(raw.object) {}
    explicit Registry(const dp_discovery* discovery)
        : handle_(detail::make<dp_registry>([&](dp_registry** out, dp_error** error) {
              return dp_registry_new(discovery, out, error);
          })) {}
    detail::Handle<dp_registry, dp_registry_free> handle_;
};

}  // namespace device_plugin

#endif  // DEVICE_PLUGIN_HPP
