//! `dp_registry`: the plugins that a program can use.

use std::ffi::c_char;
use std::time::Duration;

use pjrt_sys::PJRT_Api;
use plugin_manifest::c_view::descriptor::dp_descriptor;
use plugin_manifest::{Descriptor, Library, Manifest};

use plugin_registry::{PluginEntry, PluginId, PluginRegistry, Policy};

use crate::discovery::dp_discovery;
use crate::error::{dp_code, dp_error};
use crate::failure::{Failure, Outcome};
use crate::guard;
use crate::plugin::{dp_plugin, dp_plugin_list};
use crate::policy::dp_policy;

/// The plugins that a program can use. The program links or registers them, its user names them, or a search finds them
/// on the machine. Creating a registry only reads files. Only `dp_plugin_load` loads a library. The plugins are shut
/// down when all handles of the registry, and all handles, plans and leases of its plugins have been freed.
pub struct dp_registry {
    inner: PluginRegistry,
}

/// Runs the body of the C function named `function`, which uses a registry and has no output.
///
/// # Safety
///
/// The caller must keep contract K1 (outputs are writable) for `error`.
unsafe fn run(
    function: &'static str,
    registry: Option<&dp_registry>,
    error: *mut *mut dp_error,
    body: impl FnOnce(&PluginRegistry) -> Outcome<()>,
) -> dp_code {
    // SAFETY: K1 (outputs are writable).
    unsafe { guard::run(function, error, || body(&guard::required(registry, "registry")?.inner)) }
}

/// Runs the body of the C function named `function`. Passes the object that `body` creates to `out`.
///
/// # Safety
///
/// The caller must keep contract K1 (outputs are writable) for `out` and `error`.
unsafe fn make<T>(
    function: &'static str,
    registry: Option<&dp_registry>,
    out: *mut *mut T,
    error: *mut *mut dp_error,
    body: impl FnOnce(&PluginRegistry) -> Outcome<T>,
) -> dp_code {
    let body = || Ok(guard::give(body(&guard::required(registry, "registry")?.inner)?));
    // SAFETY: K1 (outputs are writable).
    unsafe { guard::call(function, out, error, body) }
}

/// Runs the body of the C function named `function`, which changes a plugin of a registry. Passes a handle of the
/// plugin that `body` returns to `out`, unless `out` is null.
///
/// # Safety
///
/// The caller must keep contract K1 (outputs are writable) for `out` and `error`.
unsafe fn update(
    function: &'static str,
    registry: Option<&dp_registry>,
    out: *mut *mut dp_plugin,
    error: *mut *mut dp_error,
    body: impl FnOnce(&PluginRegistry) -> Outcome<PluginEntry>,
) -> dp_code {
    let body = |registry: &PluginRegistry| {
        let plugin = dp_plugin::new(body(registry)?);
        // SAFETY: K1 (outputs are writable).
        unsafe { guard::put_handle(out, plugin) };
        Ok(())
    };
    // SAFETY: K1 (outputs are writable).
    unsafe { run(function, registry, error, body) }
}

/// Returns the id of a plugin, or an error if the plugin does not belong to this registry.
fn id_of(plugin: Option<&dp_plugin>, registry: &PluginRegistry) -> Outcome<PluginId> {
    guard::required(plugin, "plugin")?.id_in(registry)
}

/// Creates a registry of the plugins that are linked into the program, such as the embedded CPU device `cpu`, and of
/// the plugins that a search with `discovery` finds. NULL searches this machine with the environment of this process. A
/// plugin that is found but cannot be used is not an error. `dp_plugin_refusal_at` returns the reasons.
///
/// # Safety
///
/// The caller must keep the contracts K1, K2 and K6 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_new(
    discovery: Option<&dp_discovery>,
    out: *mut *mut dp_registry,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = || {
        let inner = match discovery {
            Some(discovery) => PluginRegistry::with(discovery.settings()),
            None => PluginRegistry::discover(),
        };
        Ok(guard::give(dp_registry { inner }))
    };
    // SAFETY: K1 (outputs are writable).
    unsafe { guard::call("dp_registry_new", out, error, body) }
}

/// Creates a registry without plugins. The program registers plugins itself.
///
/// # Safety
///
/// The caller must keep contract K1 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_new_empty(out: *mut *mut dp_registry, error: *mut *mut dp_error) -> dp_code {
    let body = || Ok(guard::give(dp_registry { inner: PluginRegistry::empty() }));
    // SAFETY: K1 (outputs are writable).
    unsafe { guard::call("dp_registry_new_empty", out, error, body) }
}

/// Creates another handle of the same registry. The caller frees it with `dp_registry_free`.
///
/// # Safety
///
/// The caller must keep the contracts K1 and K2 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_clone(
    registry: Option<&dp_registry>,
    out: *mut *mut dp_registry,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = |registry: &PluginRegistry| Ok(dp_registry { inner: registry.clone() });
    // SAFETY: K1 (outputs are writable).
    unsafe { make("dp_registry_clone", registry, out, error, body) }
}

/// Frees a handle of a registry. Ignores NULL. Handles of plugins and leases of the registry remain valid.
///
/// # Safety
///
/// The caller must keep the contracts K2 and K3 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_free(registry: *mut dp_registry) {
    // SAFETY: K2 (objects are live) and K3 (exclusive use).
    unsafe { guard::free(registry) }
}

/// Searches for plugins and hardware again. Handles of a plugin become stale if the plugin changed or is no longer
/// found. `dp_plugin_load` rejects stale handles with `DP_FAILED_PRECONDITION`. Plugins that the program registered
/// remain.
///
/// # Safety
///
/// The caller must keep the contracts K1, K2 and K6 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_refresh(registry: Option<&dp_registry>, error: *mut *mut dp_error) -> dp_code {
    let body = |registry: &PluginRegistry| {
        registry.refresh();
        Ok(())
    };
    // SAFETY: K1 (outputs are writable).
    unsafe { run("dp_registry_refresh", registry, error, body) }
}

/// Shuts down the registry's plugins. All handles of plugins become stale. A plugin without leases is shut down now.
/// Any other plugin is shut down when its last lease is freed. Fills `waiting`, which may be NULL, with the number of
/// plugins that have leases. Destroy the clients before this call.
///
/// # Safety
///
/// The caller must keep the contracts K1 and K2 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_shutdown(
    registry: Option<&dp_registry>,
    waiting: *mut usize,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = |registry: &PluginRegistry| {
        let left = registry.shutdown().len();
        // SAFETY: K1 (outputs are writable).
        unsafe { guard::put(waiting, left) };
        Ok(())
    };
    // SAFETY: K1 (outputs are writable).
    unsafe { run("dp_registry_shutdown", registry, error, body) }
}

/// Shuts down the registry's plugins like `dp_registry_shutdown`, and waits up to `timeout_ms` milliseconds for their
/// leases to be freed. Fills `waiting`, which may be NULL, with the number of plugins that still have leases.
///
/// Call this function or `dp_registry_shutdown` before the process ends. Otherwise a plugin with work in progress may
/// crash. Free your own leases first, because the call waits for them until the timeout.
///
/// # Safety
///
/// The caller must keep the contracts K1 and K2 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_shutdown_within(
    registry: Option<&dp_registry>,
    timeout_ms: u64,
    waiting: *mut usize,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = |registry: &PluginRegistry| {
        let left = registry.shutdown_within(Duration::from_millis(timeout_ms)).len();
        // SAFETY: K1 (outputs are writable).
        unsafe { guard::put(waiting, left) };
        Ok(())
    };
    // SAFETY: K1 (outputs are writable).
    unsafe { run("dp_registry_shutdown_within", registry, error, body) }
}

/// Returns a list of the registry's plugins, including plugins that cannot be used. The list does not change when the
/// registry changes.
///
/// # Safety
///
/// The caller must keep the contracts K1 and K2 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_plugins(
    registry: Option<&dp_registry>,
    out: *mut *mut dp_plugin_list,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = |registry: &PluginRegistry| Ok(dp_plugin_list::new(registry.entries()));
    // SAFETY: K1 (outputs are writable).
    unsafe { make("dp_registry_plugins", registry, out, error, body) }
}

/// Returns the plugin with this name, alias or platform name, regardless of letter case. If several plugins match,
/// returns the one that ranks highest. Returns `DP_NOT_FOUND` if no usable plugin matches. The error lists all plugins
/// with the reasons why they do not match.
///
/// # Safety
///
/// The caller must keep the contracts K1, K2 and K4 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_find(
    registry: Option<&dp_registry>,
    name: *const c_char,
    out: *mut *mut dp_plugin,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = |registry: &PluginRegistry| {
        // SAFETY: K4 (strings end in NUL).
        let policy = Policy::named(unsafe { guard::some_text(name, "name") }?);
        Ok(dp_plugin::new(registry.select(&policy)?))
    };
    // SAFETY: K1 (outputs are writable).
    unsafe { make("dp_registry_find", registry, out, error, body) }
}

/// Returns the plugin that a policy selects. Returns `DP_NOT_FOUND` if it selects no plugin. The error lists all
/// plugins with the reasons why they do not match.
///
/// # Safety
///
/// The caller must keep the contracts K1 and K2 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_select(
    registry: Option<&dp_registry>,
    policy: Option<&dp_policy>,
    out: *mut *mut dp_plugin,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = |registry: &PluginRegistry| {
        let policy = guard::required(policy, "policy")?.policy();
        Ok(dp_plugin::new(registry.select(&policy)?))
    };
    // SAFETY: K1 (outputs are writable).
    unsafe { make("dp_registry_select", registry, out, error, body) }
}

/// Registers a plugin by its description, for example the description that `DevicePlugin_GetDescriptor` of a library
/// returns. Registering the same plugin again has no effect. `out` receives a handle of the plugin and may be NULL.
///
/// # Safety
///
/// The caller must keep the contracts K1, K2 and K6 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_register(
    registry: Option<&dp_registry>,
    descriptor: *const dp_descriptor,
    out: *mut *mut dp_plugin,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = |registry: &PluginRegistry| {
        // SAFETY: K6 (descriptions keep D1 to D5).
        Ok(registry.register_descriptor(unsafe { guard::descriptor(descriptor) }?)?)
    };
    // SAFETY: K1 (outputs are writable).
    unsafe { update("dp_registry_register", registry, out, error, body) }
}

/// Registers a library by its path. `manifest_json` is its manifest in the format of a `pjrt_plugin.json`. If it is
/// NULL, the manifest file in the folder of the library is used, if there is one. The library is not loaded. `out`
/// receives a handle of the plugin and may be NULL.
///
/// # Safety
///
/// The caller must keep the contracts K1, K2, K4 and K6 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_register_library(
    registry: Option<&dp_registry>,
    path: *const c_char,
    manifest_json: *const c_char,
    out: *mut *mut dp_plugin,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = |registry: &PluginRegistry| {
        // SAFETY: K4 (strings end in NUL).
        let manifest =
            unsafe { guard::optional_text(manifest_json, "manifest_json") }?.map(Manifest::from_json).transpose()?;
        // SAFETY: K4 (strings end in NUL).
        let path = unsafe { guard::path(path, "path") }?;
        // SAFETY: K6 (plugins keep their contracts).
        Ok(unsafe { registry.register_library(path, manifest) }?)
    };
    // SAFETY: K1 (outputs are writable).
    unsafe { update("dp_registry_register_library", registry, out, error, body) }
}

/// Registers a function table of this program, or of a library that the program loaded itself. `manifest_json` is the
/// plugin's manifest in the format of a `pjrt_plugin.json`, and must contain the name `name`. If it is NULL, the
/// manifest contains only the name. `out` receives a handle of the plugin and may be NULL.
///
/// # Safety
///
/// The caller must keep the contracts K1, K2, K4 and K6 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_register_api(
    registry: Option<&dp_registry>,
    name: *const c_char,
    api: *const PJRT_Api,
    manifest_json: *const c_char,
    out: *mut *mut dp_plugin,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = |registry: &PluginRegistry| {
        // SAFETY: K4 (strings end in NUL).
        let name = unsafe { guard::some_text(name, "name") }?;
        // SAFETY: K4 (strings end in NUL).
        let manifest = match unsafe { guard::optional_text(manifest_json, "manifest_json") }? {
            Some(json) => Manifest::from_json(json)?,
            None => Manifest::new(name),
        };
        if manifest.name != name {
            let found = &manifest.name;
            return Err(Failure::argument(format!("`name` is {name:?}, but the manifest has {found:?}; use one name")));
        }
        // SAFETY: K6 (tables keep C1 to C11).
        let library = Library::Static(unsafe { guard::table(api, "api") }?);
        Ok(registry.register_descriptor(Descriptor::new(manifest, library, std::sync::Arc::new(()))?)?)
    };
    // SAFETY: K1 (outputs are writable).
    unsafe { update("dp_registry_register_api", registry, out, error, body) }
}

/// Replaces `plugin` with the plugin that `descriptor` describes. The names of the two plugins may differ. Handles of
/// the replaced plugin become stale. Clients of the replaced plugin remain usable. `out` receives a handle of the new
/// plugin and may be NULL.
///
/// # Safety
///
/// The caller must keep the contracts K1, K2 and K6 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_replace(
    registry: Option<&dp_registry>,
    plugin: Option<&dp_plugin>,
    descriptor: *const dp_descriptor,
    out: *mut *mut dp_plugin,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = |registry: &PluginRegistry| {
        let id = id_of(plugin, registry)?;
        // SAFETY: K6 (descriptions keep D1 to D5).
        Ok(registry.replace(id, unsafe { guard::descriptor(descriptor) }?)?)
    };
    // SAFETY: K1 (outputs are writable).
    unsafe { update("dp_registry_replace", registry, out, error, body) }
}

/// Disables a plugin. It is no longer selected, and its handles become stale. Its clients remain usable. Errors about
/// the plugin contain `reason`. `out` receives a new handle for `dp_registry_enable`, and may be NULL.
///
/// # Safety
///
/// The caller must keep the contracts K1, K2 and K4 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_disable(
    registry: Option<&dp_registry>,
    plugin: Option<&dp_plugin>,
    reason: *const c_char,
    out: *mut *mut dp_plugin,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = |registry: &PluginRegistry| {
        // SAFETY: K4 (strings end in NUL).
        let reason = unsafe { guard::some_text(reason, "reason") }?;
        let id = registry.disable(id_of(plugin, registry)?, reason)?;
        Ok(registry.get(id)?)
    };
    // SAFETY: K1 (outputs are writable).
    unsafe { update("dp_registry_disable", registry, out, error, body) }
}

/// Enables a disabled plugin. `out` receives a handle of the plugin and may be NULL.
///
/// # Safety
///
/// The caller must keep the contracts K1 and K2 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_enable(
    registry: Option<&dp_registry>,
    plugin: Option<&dp_plugin>,
    out: *mut *mut dp_plugin,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = |registry: &PluginRegistry| Ok(registry.enable(id_of(plugin, registry)?)?);
    // SAFETY: K1 (outputs are writable).
    unsafe { update("dp_registry_enable", registry, out, error, body) }
}

/// Removes a plugin from the registry. Its handles become stale. Its clients remain usable.
///
/// # Safety
///
/// The caller must keep the contracts K1 and K2 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_remove(
    registry: Option<&dp_registry>,
    plugin: Option<&dp_plugin>,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = |registry: &PluginRegistry| Ok(registry.remove(id_of(plugin, registry)?)?);
    // SAFETY: K1 (outputs are writable).
    unsafe { run("dp_registry_remove", registry, error, body) }
}
