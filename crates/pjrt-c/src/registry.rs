//! `dp_registry`: the plugins that a program knows.

use std::ffi::c_char;
use std::time::Duration;

use pjrt_sys::PJRT_Api;
use plugin_manifest::describe::descriptor::dp_descriptor;
use plugin_manifest::{Descriptor, Library, Manifest};

use plugin_registry::{PluginRegistry, Policy};

use crate::discovery::dp_discovery;
use crate::error::{dp_code, dp_error};
use crate::failure::Failure;
use crate::guard;
use crate::plugin::{dp_plugin, dp_plugin_list};
use crate::policy::dp_policy;

/// The plugins that a program knows: linked into it, registered by it, named by its user, or found on the machine.
/// Creating a registry only reads files. Only `dp_plugin_load` loads a library. The registry's plugins are shut down
/// when the last of its handles, its plugins' handles and their leases is freed.
pub struct dp_registry {
    inner: PluginRegistry,
}

/// Creates a registry of the plugins that are linked into the program, such as the embedded CPU device `cpu`, and of
/// those that `discovery` finds. NULL searches this machine with this process's environment. If a plugin is found but
/// cannot be used, this is not an error. `dp_plugin_refusal_at` returns its reasons.
///
/// # Safety
///
/// K1, K2 and K6.
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
    // SAFETY: this function's contract.
    unsafe { guard::call("dp_registry_new", out, error, body) }
}

/// Creates a registry without plugins, for plugins that the program registers.
///
/// # Safety
///
/// K1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_new_empty(out: *mut *mut dp_registry, error: *mut *mut dp_error) -> dp_code {
    let body = || Ok(guard::give(dp_registry { inner: PluginRegistry::empty() }));
    // SAFETY: this function's contract.
    unsafe { guard::call("dp_registry_new_empty", out, error, body) }
}

/// Creates another handle of the same registry. The new handle must be freed like the first.
///
/// # Safety
///
/// K1 and K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_clone(
    registry: Option<&dp_registry>,
    out: *mut *mut dp_registry,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = || Ok(guard::give(dp_registry { inner: guard::required(registry, "registry")?.inner.clone() }));
    // SAFETY: this function's contract.
    unsafe { guard::call("dp_registry_clone", out, error, body) }
}

/// Frees a handle. Ignores NULL. Plugins and leases of the registry remain valid.
///
/// # Safety
///
/// K2 and K3.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_free(registry: *mut dp_registry) {
    // SAFETY: this function's contract.
    unsafe { guard::free(registry) }
}

/// Searches for plugins and hardware again. Handles become stale if their plugin changed or is no longer found.
/// `dp_plugin_load` rejects them with `DP_FAILED_PRECONDITION`. Plugins that the program registered remain.
///
/// # Safety
///
/// K1, K2 and K6.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_refresh(registry: Option<&dp_registry>, error: *mut *mut dp_error) -> dp_code {
    let body = || {
        guard::required(registry, "registry")?.inner.refresh();
        Ok(())
    };
    // SAFETY: this function's contract.
    unsafe { guard::run("dp_registry_refresh", error, body) }
}

/// Ends the registry's use of its plugins. All handles of plugins become stale. A plugin without leases is shut down
/// now. Any other plugin is shut down with its last lease. Fills `waiting`, which may be NULL, with the number of
/// plugins that have leases. Destroy the clients first.
///
/// # Safety
///
/// K1 and K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_shutdown(
    registry: Option<&dp_registry>,
    waiting: *mut usize,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = || {
        let left = guard::required(registry, "registry")?.inner.shutdown().len();
        // SAFETY: K1 (the output is writable), by this function's contract.
        unsafe { guard::put(waiting, left) };
        Ok(())
    };
    // SAFETY: this function's contract.
    unsafe { guard::run("dp_registry_shutdown", error, body) }
}

/// Shuts the registry's plugins down like `dp_registry_shutdown`, and waits up to `timeout_ms` milliseconds for their
/// leases to be freed. Fills `waiting`, which may be NULL, with the number of plugins that still have leases.
///
/// Call this function or `dp_registry_shutdown` before the process ends. Otherwise a plugin with work in progress may
/// crash. Free your own leases first. Otherwise the call waits for them until the timeout.
///
/// # Safety
///
/// K1 and K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_shutdown_within(
    registry: Option<&dp_registry>,
    timeout_ms: u64,
    waiting: *mut usize,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = || {
        let timeout = Duration::from_millis(timeout_ms);
        let left = guard::required(registry, "registry")?.inner.shutdown_within(timeout).len();
        // SAFETY: K1 (the output is writable), by this function's contract.
        unsafe { guard::put(waiting, left) };
        Ok(())
    };
    // SAFETY: this function's contract.
    unsafe { guard::run("dp_registry_shutdown_within", error, body) }
}

/// Returns the plugins of the registry, including those that cannot be used, with the reasons. The list does not change
/// when the registry changes.
///
/// # Safety
///
/// K1 and K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_plugins(
    registry: Option<&dp_registry>,
    out: *mut *mut dp_plugin_list,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = || {
        let entries = guard::required(registry, "registry")?.inner.entries();
        Ok(guard::give(dp_plugin_list::new(entries)))
    };
    // SAFETY: this function's contract.
    unsafe { guard::call("dp_registry_plugins", out, error, body) }
}

/// Returns the plugin with that name, alias or platform name, regardless of letter case. If several plugins have it,
/// returns the best one. `DP_NOT_FOUND` if no usable plugin has it. The message lists all plugins, and why they do not
/// fit.
///
/// # Safety
///
/// K1, K2 and K4.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_find(
    registry: Option<&dp_registry>,
    name: *const c_char,
    out: *mut *mut dp_plugin,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = || {
        // SAFETY: K4 (the string is valid), by this function's contract.
        let policy = Policy::named(unsafe { guard::some_text(name, "name") }?);
        Ok(guard::give(dp_plugin::new(guard::required(registry, "registry")?.inner.select(&policy)?)))
    };
    // SAFETY: this function's contract.
    unsafe { guard::call("dp_registry_find", out, error, body) }
}

/// Returns the plugin that fits a policy best. `DP_NOT_FOUND` if none fits. The message lists all plugins, and why they do
/// not fit.
///
/// # Safety
///
/// K1 and K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_select(
    registry: Option<&dp_registry>,
    policy: Option<&dp_policy>,
    out: *mut *mut dp_plugin,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = || {
        let policy = guard::required(policy, "policy")?.policy();
        Ok(guard::give(dp_plugin::new(guard::required(registry, "registry")?.inner.select(&policy)?)))
    };
    // SAFETY: this function's contract.
    unsafe { guard::call("dp_registry_select", out, error, body) }
}

/// Registers a plugin by its description, such as what a library's `DevicePlugin_GetDescriptor` returns. Registering
/// the same plugin again has no effect. `out` receives a handle. It may be NULL.
///
/// # Safety
///
/// K1, K2 and K6.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_register(
    registry: Option<&dp_registry>,
    descriptor: *const dp_descriptor,
    out: *mut *mut dp_plugin,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = || {
        let registry = guard::required(registry, "registry")?;
        // SAFETY: K6 (the description is valid), by this function's contract.
        let entry = registry.inner.register_descriptor(unsafe { guard::descriptor(descriptor) }?)?;
        // SAFETY: K1 (the output is writable), by this function's contract.
        unsafe { guard::put_handle(out, dp_plugin::new(entry)) };
        Ok(())
    };
    // SAFETY: this function's contract.
    unsafe { guard::run("dp_registry_register", error, body) }
}

/// Registers a library by its path. `manifest_json` is its manifest, as the text of a `pjrt_plugin.json`. If it is
/// NULL, the manifest file in the folder of the library is used, if there is one. The library is not loaded. `out`
/// receives a handle. It may be NULL.
///
/// # Safety
///
/// K1, K2, K4 and K6.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_register_library(
    registry: Option<&dp_registry>,
    path: *const c_char,
    manifest_json: *const c_char,
    out: *mut *mut dp_plugin,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = || {
        let registry = guard::required(registry, "registry")?;
        // SAFETY: K4 (the string is valid), by this function's contract.
        let manifest =
            unsafe { guard::optional_text(manifest_json, "manifest_json") }?.map(Manifest::from_json).transpose()?;
        // SAFETY: K4 (the string is valid), by this function's contract.
        let entry = registry.inner.register_library(unsafe { guard::path(path, "path") }?, manifest)?;
        // SAFETY: K1 (the output is writable), by this function's contract.
        unsafe { guard::put_handle(out, dp_plugin::new(entry)) };
        Ok(())
    };
    // SAFETY: this function's contract.
    unsafe { guard::run("dp_registry_register_library", error, body) }
}

/// Registers a function table that is part of this program, or of a library that the program loaded itself.
/// `manifest_json` is the plugin's manifest, as the text of a `pjrt_plugin.json`, with the name `name`. If it is NULL,
/// only the name is known. `out` receives a handle. It may be NULL.
///
/// # Safety
///
/// K1, K2, K4 and K6.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_register_api(
    registry: Option<&dp_registry>,
    name: *const c_char,
    api: *const PJRT_Api,
    manifest_json: *const c_char,
    out: *mut *mut dp_plugin,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = || {
        let registry = guard::required(registry, "registry")?;
        // SAFETY: K4 (the string is valid), by this function's contract.
        let name = unsafe { guard::some_text(name, "name") }?;
        // SAFETY: K4 (the string is valid), by this function's contract.
        let manifest = match unsafe { guard::optional_text(manifest_json, "manifest_json") }? {
            Some(json) => Manifest::from_json(json)?,
            None => Manifest::new(name),
        };
        if manifest.name != name {
            let found = &manifest.name;
            return Err(Failure::argument(format!(
                "`name` is {name:?}, and the manifest has {found:?}; write one name"
            )));
        }
        // SAFETY: K6 (the table is valid), by this function's contract.
        let library = Library::Static(unsafe { guard::table(api, "api") }?);
        let entry = registry.inner.register_descriptor(Descriptor::new(manifest, library, std::sync::Arc::new(()))?)?;
        // SAFETY: K1 (the output is writable), by this function's contract.
        unsafe { guard::put_handle(out, dp_plugin::new(entry)) };
        Ok(())
    };
    // SAFETY: this function's contract.
    unsafe { guard::run("dp_registry_register_api", error, body) }
}

/// Replaces a plugin by the plugin with this description. Their names may differ. Handles of the replaced plugin become
/// stale. Its clients remain usable. `out` receives a handle. It may be NULL.
///
/// # Safety
///
/// K1, K2 and K6.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_replace(
    registry: Option<&dp_registry>,
    plugin: Option<&dp_plugin>,
    descriptor: *const dp_descriptor,
    out: *mut *mut dp_plugin,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = || {
        let registry = guard::required(registry, "registry")?;
        let id = guard::required(plugin, "plugin")?.id_in(&registry.inner)?;
        // SAFETY: K6 (the description is valid), by this function's contract.
        let entry = registry.inner.replace(id, unsafe { guard::descriptor(descriptor) }?)?;
        // SAFETY: K1 (the output is writable), by this function's contract.
        unsafe { guard::put_handle(out, dp_plugin::new(entry)) };
        Ok(())
    };
    // SAFETY: this function's contract.
    unsafe { guard::run("dp_registry_replace", error, body) }
}

/// Disables a plugin. It is not selected any more, and its handles become stale. Its clients remain usable. Errors
/// about the plugin contain `reason`. `out` receives a handle that can be used to enable the plugin. It may be NULL.
///
/// # Safety
///
/// K1, K2 and K4.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_disable(
    registry: Option<&dp_registry>,
    plugin: Option<&dp_plugin>,
    reason: *const c_char,
    out: *mut *mut dp_plugin,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = || {
        let registry = &guard::required(registry, "registry")?.inner;
        // SAFETY: K4 (the string is valid), by this function's contract.
        let reason = unsafe { guard::some_text(reason, "reason") }?;
        let id = registry.disable(guard::required(plugin, "plugin")?.id_in(registry)?, reason)?;
        // SAFETY: K1 (the output is writable), by this function's contract.
        unsafe { guard::put_handle(out, dp_plugin::new(registry.get(id)?)) };
        Ok(())
    };
    // SAFETY: this function's contract.
    unsafe { guard::run("dp_registry_disable", error, body) }
}

/// Enables a disabled plugin. `out` receives a handle. It may be NULL.
///
/// # Safety
///
/// K1 and K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_enable(
    registry: Option<&dp_registry>,
    plugin: Option<&dp_plugin>,
    out: *mut *mut dp_plugin,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = || {
        let registry = &guard::required(registry, "registry")?.inner;
        let entry = registry.enable(guard::required(plugin, "plugin")?.id_in(registry)?)?;
        // SAFETY: K1 (the output is writable), by this function's contract.
        unsafe { guard::put_handle(out, dp_plugin::new(entry)) };
        Ok(())
    };
    // SAFETY: this function's contract.
    unsafe { guard::run("dp_registry_enable", error, body) }
}

/// Removes a plugin from the registry. Its handles become stale. Its clients remain usable.
///
/// # Safety
///
/// K1 and K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_remove(
    registry: Option<&dp_registry>,
    plugin: Option<&dp_plugin>,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = || {
        let registry = &guard::required(registry, "registry")?.inner;
        Ok(registry.remove(guard::required(plugin, "plugin")?.id_in(registry)?)?)
    };
    // SAFETY: this function's contract.
    unsafe { guard::run("dp_registry_remove", error, body) }
}
