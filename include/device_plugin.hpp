// C++17 over include/device_plugin.h: objects that free themselves, errors as exceptions, text as std::string_view.
//
// Nothing here but inline calls of the C interface, so that the library stays usable by any compiler. Every class moves
// and does not copy; `clone` makes a second handle where there is one. Destructors do not throw.
//
// A std::string_view that a member function returns belongs to the object it was called on, and lives as long. Such a
// function cannot be called on a temporary object: `auto name = registry.find("cpu").name();` does not compile. Keep the
// object in a variable first.
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

// Lets Clang warn about a pointer that outlives the object it was asked of.
#if defined(__has_cpp_attribute)
#if __has_cpp_attribute(clang::lifetimebound)
#define DEVICE_PLUGIN_LIFETIMEBOUND [[clang::lifetimebound]]
#endif
#endif
#ifndef DEVICE_PLUGIN_LIFETIMEBOUND
#define DEVICE_PLUGIN_LIFETIMEBOUND
#endif

namespace device_plugin {

// Text of the C interface; empty for absent text.
inline std::string_view view(dp_string text) noexcept {
    return text.data == nullptr ? std::string_view() : std::string_view(text.data, text.size);
}

// Text of the C interface, or none where it is absent.
inline std::optional<std::string_view> optional_view(dp_string text) noexcept {
    if (text.data == nullptr) return std::nullopt;
    return std::string_view(text.data, text.size);
}

// Why a function failed.
class Error : public std::exception {
public:
    // Takes the error over and frees it; `code` is what the function returned.
    Error(dp_code code, dp_error* error) : code_(code) {
        const std::unique_ptr<dp_error, void (*)(dp_error*)> owned(error, dp_error_free);
        message_ = error == nullptr ? std::string("no message") : std::string(view(dp_error_message(error)));
    }

    // The kind of error, `DP_NOT_FOUND` and so on.
    dp_code code() const noexcept { return code_; }
    // What went wrong and what to do about it.
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

// Calls a function that gives an object through its last parameter but one.
template <typename T, typename F>
T* make(F call) {
    T* made = nullptr;
    dp_error* error = nullptr;
    const dp_code code = call(&made, &error);
    check(code, error);
    return made;
}

// Calls a function that gives nothing.
template <typename F>
void run(F call) {
    dp_error* error = nullptr;
    const dp_code code = call(&error);
    check(code, error);
}

}  // namespace detail

// Version of the library in use.
inline std::string_view version() noexcept { return view(dp_version()); }

// What the devices of a plugin can do and want. It keeps the plugin's handle alive that the struct belongs to.
class Capabilities {
public:
    // `owner` keeps the struct alive; without one, it belongs to somebody else and must outlive this object.
    explicit Capabilities(const dp_capabilities* raw, std::shared_ptr<const dp_plugin> owner = nullptr) noexcept
        : raw_(raw), owner_(std::move(owner)) {}

    // The struct. A library older than the header leaves out the fields beyond its `struct_size`; the functions below
    // use fields that every version has.
    const dp_capabilities* get() const noexcept DEVICE_PLUGIN_LIFETIMEBOUND { return raw_; }

    // Whether a gather along a dimension of that many elements is better lowered densely, as a product with a one-hot
    // matrix.
    bool gathers_densely(std::uint64_t elements) const noexcept {
        const std::uint64_t factor = raw_->dense_gather_factor;
        return factor != 0 && elements <= factor * 10;
    }
    // Whether a scatter of so many elements into so many is better lowered densely.
    bool scatters_densely(std::uint64_t index_elements, std::uint64_t input_elements) const noexcept {
        const std::uint64_t factor = raw_->dense_scatter_factor;
        if (factor == 0) return false;
        const bool overflows = index_elements > UINT64_MAX / factor;
        return overflows || index_elements * factor >= input_elements;
    }
    // `DP_AUTOCAST_XLA`, `DP_AUTOCAST_CUDA`, or none where the device has no automatic mixed precision.
    std::optional<std::uint32_t> autocast_kind() const noexcept {
        if (raw_->autocast_kind == 0) return std::nullopt;
        return raw_->autocast_kind;
    }
    // The type of automatic mixed precision when the user chooses none, as a number of PJRT_Buffer_Type.
    std::optional<std::uint32_t> autocast_default_dtype() const noexcept {
        if (raw_->autocast_kind == 0) return std::nullopt;
        return raw_->autocast_default_dtype;
    }
    // The form of programs the compiler likes best, `DP_PROGRAM_FORMAT_*`.
    std::uint32_t preferred_program_format() const noexcept {
        return raw_->program_formats_size == 0 ? std::uint32_t{DP_PROGRAM_FORMAT_HLO} : raw_->program_formats[0];
    }
    // Whether the compiler takes that form.
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
    // Takes an object of the C interface over.
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
    // Any type of integer whose values fit std::int64_t.
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
    // PJRT knows no double: the nearest float is passed on.
    Options& set(const std::string& name, double value) & { return set(name, static_cast<float>(value)); }
    Options& set(const std::string& name, bool value) & {
        detail::run([&](dp_error** error) { return dp_options_set_bool(get(), name.c_str(), value, error); });
        return *this;
    }

    // The same for a temporary object, which gives itself on.
    template <typename T>
    Options set(const std::string& name, const T& value) && {
        set(name, value);
        return std::move(*this);
    }

    std::size_t size() const noexcept { return dp_options_count(get()); }
    // The option at an index; its text and list belong to the options.
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

// The place of a process among those that run one program together.
class Topology {
public:
    // From the variables that torchrun, Open MPI, Slurm and others set; a process alone where there are none.
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

// What a plugin needs of one process. It is data; only `apply` sets anything.
class Plan {
public:
    explicit Plan(dp_plan* raw) noexcept : handle_(raw) {}

    // The variables, also those that stay as they are; their text belongs to the plan.
    std::vector<dp_plan_step> steps() const&& = delete;
    std::vector<dp_plan_step> steps() const& {
        std::vector<dp_plan_step> steps(dp_plan_count(get()));
        for (std::size_t i = 0; i < steps.size(); ++i) {
            steps[i].struct_size = sizeof(dp_plan_step);
            detail::run([&](dp_error** error) { return dp_plan_at(get(), i, &steps[i], error); });
        }
        return steps;
    }
    // `host:port` of the coordinator, where clients need one.
    std::optional<std::string_view> coordinator() const&& = delete;
    std::optional<std::string_view> coordinator() const& noexcept DEVICE_PLUGIN_LIFETIMEBOUND {
        return optional_view(dp_plan_coordinator(get()));
    }
    std::string_view json() const&& = delete;
    std::string_view json() const& noexcept DEVICE_PLUGIN_LIFETIMEBOUND { return view(dp_plan_json(get())); }
    // A table for people.
    std::string_view to_string() const&& = delete;
    std::string_view to_string() const& noexcept DEVICE_PLUGIN_LIFETIMEBOUND { return view(dp_plan_to_string(get())); }
    // Sets the variables in this process. At the start of the program only, before it has threads.
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
    // Why not, or what it depends on; the text belongs to the answer.
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

// The right to have a client; acquired before PJRT_Client_Create, gone after PJRT_Client_Destroy.
class Lease {
public:
    explicit Lease(dp_lease* raw) noexcept : handle_(raw) {}

private:
    detail::Handle<dp_lease, dp_lease_free> handle_;
};

// A plugin of a registry, loaded or not.
class Plugin {
public:
    // Takes an object of the C interface over.
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
    // The library's path; none for a plugin within the program.
    std::optional<std::string_view> path() const&& = delete;
    std::optional<std::string_view> path() const& noexcept DEVICE_PLUGIN_LIFETIMEBOUND {
        return optional_view(dp_plugin_path(get()));
    }
    std::string_view provenance() const&& = delete;
    std::string_view provenance() const& noexcept DEVICE_PLUGIN_LIFETIMEBOUND {
        return view(dp_plugin_provenance(get()));
    }
    // Why it cannot be used; empty for one that can.
    std::vector<std::string_view> refusals() const&& = delete;
    std::vector<std::string_view> refusals() const& {
        std::vector<std::string_view> reasons;
        for (std::size_t i = 0; i < dp_plugin_refusal_count(get()); ++i) {
            reasons.push_back(view(dp_plugin_refusal_at(get(), i)));
        }
        return reasons;
    }
    // `DP_PLUGIN_AVAILABLE` and so on.
    dp_plugin_state status() const noexcept { return dp_plugin_status(get()); }
    std::int32_t priority() const noexcept { return dp_plugin_priority(get()); }
    bool is_experimental() const noexcept { return dp_plugin_is_experimental(get()); }
    // `DP_HARDWARE_PRESENT` and so on.
    dp_presence hardware() const noexcept { return dp_plugin_hardware(get()); }
    std::string_view hardware_evidence() const&& = delete;
    std::string_view hardware_evidence() const& noexcept DEVICE_PLUGIN_LIFETIMEBOUND {
        return view(dp_plugin_hardware_evidence(get()));
    }
    // `DP_OWNERSHIP_SHARED` and so on.
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
        // The struct belongs to the handle it is asked of, so a second one is kept with it.
        std::shared_ptr<dp_plugin> owner(clone().handle_.release(), dp_plugin_free);
        const dp_capabilities* made = nullptr;
        dp_error* error = nullptr;
        const dp_code code = dp_plugin_capabilities(owner.get(), &made, &error);
        detail::check(code, error);
        return Capabilities(made, std::move(owner));
    }

    // What the plugin needs of a process at that place; nullptr is a process alone.
    Plan configure(const dp_topology* topology = nullptr) const {
        return Plan(detail::make<dp_plan>([&](dp_plan** out, dp_error** error) {
            return dp_plugin_configure(get(), topology, out, error);
        }));
    }
    // Whether the devices can run a program; `effort` is one of `DP_EFFORT_*`. Nothing is loaded.
    Support supports(std::string_view code, std::uint32_t effort, const char* format = "mlir") const {
        return Support(detail::make<dp_support>([&](dp_support** out, dp_error** error) {
            return dp_plugin_supports(get(), format, code.data(), code.size(), effort, out, error);
        }));
    }
    // Loads the plugin unless that has happened; the table stays valid until the process ends.
    const PJRT_Api* load(const dp_topology* topology = nullptr) const {
        const PJRT_Api* api = nullptr;
        dp_error* error = nullptr;
        const dp_code code = dp_plugin_load(get(), topology, &api, &error);
        detail::check(code, error);
        return api;
    }
    // The version of PJRT that the plugin, which must be loaded, speaks.
    dp_api_version api_version() const {
        dp_api_version version{};
        dp_error* error = nullptr;
        const dp_code code = dp_plugin_api_version(get(), &version, &error);
        detail::check(code, error);
        return version;
    }
    // The options for PJRT_Client_Create, checked and in the plugin's types.
    Options client_options(const Options* given = nullptr, const Plan* plan = nullptr) const {
        return Options(detail::make<dp_options>([&](dp_options** out, dp_error** error) {
            return dp_plugin_client_options(get(), plan == nullptr ? nullptr : plan->get(),
                                            given == nullptr ? nullptr : given->get(), out, error);
        }));
    }
    // The right to have a client of the plugin, which must be loaded.
    Lease acquire(const std::string& holder) const {
        return Lease(detail::make<dp_lease>([&](dp_lease** out, dp_error** error) {
            return dp_plugin_acquire(get(), holder.c_str(), out, error);
        }));
    }

    const dp_plugin* get() const noexcept DEVICE_PLUGIN_LIFETIMEBOUND { return handle_.get(); }

private:
    detail::Handle<dp_plugin, dp_plugin_free> handle_;
};

// Where plugins are looked for.
class Discovery {
public:
    // This process's environment and machine.
    Discovery() : handle_(dp_discovery_new()) {}
    // A machine whose file system lies below `root`, with an empty environment.
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

    // Whether whole libraries are read to compare them with the sha256 of their manifests.
    Discovery& verify_sha256(bool verify) & {
        detail::run([&](dp_error** error) { return dp_discovery_set_verify_sha256(handle_.get(), verify, error); });
        return *this;
    }

    // The same for a temporary object, which gives itself on.
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

// Which plugin a framework wants; without a wish, any.
class Policy {
public:
    Policy() : handle_(dp_policy_new()) {}

    // A plugin of that name or kind, such as "gpu", where no wish before fits.
    Policy& prefer(const std::string& name) & {
        detail::run([&](dp_error** error) { return dp_policy_prefer(handle_.get(), name.c_str(), error); });
        return *this;
    }
    // Exactly that plugin, where no wish before fits.
    Policy& fallback(const std::string& name) & {
        detail::run([&](dp_error** error) { return dp_policy_fallback(handle_.get(), name.c_str(), error); });
        return *this;
    }
    // Any plugin, where no wish before fits.
    Policy& any() & {
        detail::run([&](dp_error** error) { return dp_policy_any(handle_.get(), error); });
        return *this;
    }
    // Whether PJRT_DEVICE and JAX_PLATFORMS decide where the user set them.
    Policy& environment(bool decides) & {
        detail::run([&](dp_error** error) { return dp_policy_set_environment(handle_.get(), decides, error); });
        return *this;
    }
    // Whether plugins that their makers call experimental are considered.
    Policy& experimental(bool considered) & {
        detail::run([&](dp_error** error) { return dp_policy_set_experimental(handle_.get(), considered, error); });
        return *this;
    }

    // The same for a temporary object, which gives itself on.
    Policy prefer(const std::string& name) && { return std::move(prefer(name)); }
    Policy fallback(const std::string& name) && { return std::move(fallback(name)); }
    Policy any() && { return std::move(any()); }
    Policy environment(bool decides) && { return std::move(environment(decides)); }
    Policy experimental(bool considered) && { return std::move(experimental(considered)); }

    const dp_policy* get() const noexcept DEVICE_PLUGIN_LIFETIMEBOUND { return handle_.get(); }

private:
    detail::Handle<dp_policy, dp_policy_free> handle_;
};

// The plugins a program knows.
class Registry {
public:
    // Those linked into the program and those found by this process's environment. Loads nothing.
    static Registry discover() { return Registry(nullptr); }
    // Those linked into the program and those found by that search.
    explicit Registry(const Discovery& discovery) : Registry(discovery.get()) {}
    // None, to register some.
    static Registry empty() {
        return Registry(Raw{detail::make<dp_registry>(
            [](dp_registry** out, dp_error** error) { return dp_registry_new_empty(out, error); })});
    }
    // Another handle of the same registry.
    Registry clone() const {
        return Registry(Raw{detail::make<dp_registry>(
            [&](dp_registry** out, dp_error** error) { return dp_registry_clone(get(), out, error); })});
    }

    void refresh() const {
        detail::run([&](dp_error** error) { return dp_registry_refresh(get(), error); });
    }
    // Ends the use of all plugins; how many of them still have leases.
    std::size_t shutdown() const {
        std::size_t waiting = 0;
        detail::run([&](dp_error** error) { return dp_registry_shutdown(get(), &waiting, error); });
        return waiting;
    }
    // The same, and waits for the leases to be freed; how many plugins still have some when the time is up.
    std::size_t shutdown_within(std::chrono::milliseconds timeout) const {
        const auto limit = timeout.count() < 0 ? std::uint64_t{0} : static_cast<std::uint64_t>(timeout.count());
        std::size_t waiting = 0;
        detail::run([&](dp_error** error) { return dp_registry_shutdown_within(get(), limit, &waiting, error); });
        return waiting;
    }
    // All plugins as they are now, also those that cannot be used.
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
    // The plugin of that name or alias.
    Plugin find(const std::string& name) const {
        return Plugin(detail::make<dp_plugin>([&](dp_plugin** out, dp_error** error) {
            return dp_registry_find(get(), name.c_str(), out, error);
        }));
    }
    // The plugin that fits best.
    Plugin select(const Policy& policy) const {
        return Plugin(detail::make<dp_plugin>([&](dp_plugin** out, dp_error** error) {
            return dp_registry_select(get(), policy.get(), out, error);
        }));
    }
    // Registers a plugin by its description, a library by its path, or a table.
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
    // Puts a plugin, by its description, in another one's place.
    Plugin replace(const Plugin& plugin, const dp_descriptor* descriptor) const {
        return Plugin(detail::make<dp_plugin>([&](dp_plugin** out, dp_error** error) {
            return dp_registry_replace(get(), plugin.get(), descriptor, out, error);
        }));
    }
    // Switches a plugin off; the handle returned switches it on again.
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
