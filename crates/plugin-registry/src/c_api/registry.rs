//! `dp_registry`: the plugins a program knows.

use std::ffi::c_char;
use std::ptr::NonNull;

use device_plugin::describe::descriptor::dp_descriptor;
use device_plugin::{Descriptor, Library, Manifest, StaticApi};
use pjrt_sys::PJRT_Api;

use crate::{PluginRegistry, Policy};

use super::discovery::dp_discovery;
use super::error::{dp_code, dp_error};
use super::guard::{self, Call, Failure, Outcome};
use super::plugin::{dp_plugin, dp_plugin_list};
use super::policy::dp_policy;

/// The plugins a program knows: linked into it, registered by it, named by its user, or found on the machine. A registry
/// reads files; it loads nothing before `dp_plugin_load`. When the last of its handles, of its plugins' and of their
/// leases is freed, its plugins are shut down.
pub struct dp_registry {
    inner: PluginRegistry,
}

/// Makes a registry of the plugins linked into the program, among them the embedded CPU device `cpu`, and of those that
/// `discovery` finds; NULL looks at this process's environment and machine. What is wrong with a plugin that was found
/// is told by the plugin (`dp_plugin_refusal_at`) and is no error here.
///
/// # Safety
///
/// K1, K2 and K6.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_new(
    discovery: *const dp_discovery,
    out: *mut *mut dp_registry,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = |call: &Call| {
        let inner = match call.optional(discovery) {
            Some(discovery) => PluginRegistry::with(discovery.settings()),
            None => PluginRegistry::discover(),
        };
        Ok(guard::give(dp_registry { inner }))
    };
    // SAFETY: this function's contract.
    unsafe { guard::call("dp_registry_new", out, error, body) }
}

/// Makes a registry without plugins, to register some.
///
/// # Safety
///
/// K1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_new_empty(out: *mut *mut dp_registry, error: *mut *mut dp_error) -> dp_code {
    let body = |_: &Call| Ok(guard::give(dp_registry { inner: PluginRegistry::empty() }));
    // SAFETY: this function's contract.
    unsafe { guard::call("dp_registry_new_empty", out, error, body) }
}

/// Another handle of the same registry, to be freed like the first.
///
/// # Safety
///
/// K1 and K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_clone(
    registry: *const dp_registry,
    out: *mut *mut dp_registry,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = |call: &Call| Ok(guard::give(dp_registry { inner: call.object(registry, "registry")?.inner.clone() }));
    // SAFETY: this function's contract.
    unsafe { guard::call("dp_registry_clone", out, error, body) }
}

/// Frees a handle; NULL is nothing. Plugins and leases of the registry stay valid.
///
/// # Safety
///
/// K2 and K3.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_free(registry: *mut dp_registry) {
    // SAFETY: this function's contract.
    unsafe { guard::free(registry) }
}

/// Searches and looks for hardware again. Handles of plugins that are no longer found, or that changed, become stale:
/// `dp_plugin_load` refuses them with `DP_FAILED_PRECONDITION`. What the program registered stays.
///
/// # Safety
///
/// K1, K2 and K6.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_refresh(registry: *const dp_registry, error: *mut *mut dp_error) -> dp_code {
    let body = |call: &Call| {
        call.object(registry, "registry")?.inner.refresh();
        Ok(())
    };
    // SAFETY: this function's contract.
    unsafe { guard::run("dp_registry_refresh", error, body) }
}

/// Ends the registry's use of its plugins: all handles of plugins become stale, and each plugin is shut down, now or, if
/// it has leases, with the last of them. Fills `waiting` with the number of plugins that still have some; it may be
/// NULL. Destroy the clients first.
///
/// # Safety
///
/// K1 and K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_shutdown(
    registry: *const dp_registry,
    waiting: *mut usize,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = |call: &Call| {
        let left = call.object(registry, "registry")?.inner.shutdown().len();
        call.put(waiting, left);
        Ok(())
    };
    // SAFETY: this function's contract.
    unsafe { guard::run("dp_registry_shutdown", error, body) }
}

/// The plugins of the registry as they are now, also those that cannot be used and say why. The list stays as it is
/// whatever happens to the registry.
///
/// # Safety
///
/// K1 and K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_plugins(
    registry: *const dp_registry,
    out: *mut *mut dp_plugin_list,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = |call: &Call| {
        let entries = call.object(registry, "registry")?.inner.entries();
        Ok(guard::give(dp_plugin_list::new(entries)))
    };
    // SAFETY: this function's contract.
    unsafe { guard::call("dp_registry_plugins", out, error, body) }
}

/// The plugin of that name, alias or platform name, in any case; the best where several have it. `DP_NOT_FOUND` where
/// none has it, or none that can be used: the message lists all plugins and why not.
///
/// # Safety
///
/// K1, K2 and K4.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_find(
    registry: *const dp_registry,
    name: *const c_char,
    out: *mut *mut dp_plugin,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = |call: &Call| {
        let policy = Policy::named(call.some_text(name, "name")?);
        Ok(guard::give(dp_plugin::new(call.object(registry, "registry")?.inner.select(&policy)?)))
    };
    // SAFETY: this function's contract.
    unsafe { guard::call("dp_registry_find", out, error, body) }
}

/// The plugin that fits a policy best. `DP_NOT_FOUND` where none does: the message lists all plugins and why not.
///
/// # Safety
///
/// K1 and K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_select(
    registry: *const dp_registry,
    policy: *const dp_policy,
    out: *mut *mut dp_plugin,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = |call: &Call| {
        let policy = call.object(policy, "policy")?.policy();
        Ok(guard::give(dp_plugin::new(call.object(registry, "registry")?.inner.select(&policy)?)))
    };
    // SAFETY: this function's contract.
    unsafe { guard::call("dp_registry_select", out, error, body) }
}

/// Registers a plugin by its description, such as what a library's `DevicePlugin_GetDescriptor` returns. Registering the
/// same plugin again changes nothing. `out`, which may be NULL, gets a handle.
///
/// # Safety
///
/// K1, K2 and K6.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_register(
    registry: *const dp_registry,
    descriptor: *const dp_descriptor,
    out: *mut *mut dp_plugin,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = |call: &Call| {
        let registry = call.object(registry, "registry")?;
        let entry = registry.inner.register_descriptor(call.descriptor(descriptor)?)?;
        call.put_handle(out, dp_plugin::new(entry));
        Ok(())
    };
    // SAFETY: this function's contract.
    unsafe { guard::run("dp_registry_register", error, body) }
}

/// Registers a library by its path. `manifest_json` is what it says of itself, as the text of a `pjrt_plugin.json`; NULL
/// takes the manifest beside the library, where there is one. It is not loaded. `out`, which may be NULL, gets a handle.
///
/// # Safety
///
/// K1, K2, K4 and K6.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_register_library(
    registry: *const dp_registry,
    path: *const c_char,
    manifest_json: *const c_char,
    out: *mut *mut dp_plugin,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = |call: &Call| {
        let registry = call.object(registry, "registry")?;
        let manifest = call.optional_text(manifest_json, "manifest_json")?.map(Manifest::from_json).transpose()?;
        let entry = registry.inner.register_library(call.path(path, "path")?, manifest)?;
        call.put_handle(out, dp_plugin::new(entry));
        Ok(())
    };
    // SAFETY: this function's contract.
    unsafe { guard::run("dp_registry_register_library", error, body) }
}

/// Registers a function table that is part of this program, or of a library that the program loaded itself.
/// `manifest_json` is what the plugin says of itself, as the text of a `pjrt_plugin.json`; NULL says nothing but the
/// name. The name in it must be `name`. `out`, which may be NULL, gets a handle.
///
/// # Safety
///
/// K1, K2, K4 and K6.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_register_api(
    registry: *const dp_registry,
    name: *const c_char,
    api: *const PJRT_Api,
    manifest_json: *const c_char,
    out: *mut *mut dp_plugin,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = |call: &Call| {
        let registry = call.object(registry, "registry")?;
        let name = call.some_text(name, "name")?;
        let manifest = match call.optional_text(manifest_json, "manifest_json")? {
            Some(json) => Manifest::from_json(json)?,
            None => Manifest::new(name),
        };
        if manifest.name != name {
            let found = &manifest.name;
            return Err(Failure::argument(format!("`name` is {name:?}, and the manifest's {found:?}; write one name")));
        }
        let library = Library::Static(call.table(api, "api")?);
        let entry = registry.inner.register_descriptor(Descriptor::new(manifest, library, std::sync::Arc::new(()))?)?;
        call.put_handle(out, dp_plugin::new(entry));
        Ok(())
    };
    // SAFETY: this function's contract.
    unsafe { guard::run("dp_registry_register_api", error, body) }
}

/// Puts a plugin, by its description, in another one's place, whatever their names. Handles of the other one become
/// stale; its clients live on. `out`, which may be NULL, gets a handle.
///
/// # Safety
///
/// K1, K2 and K6.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_replace(
    registry: *const dp_registry,
    plugin: *const dp_plugin,
    descriptor: *const dp_descriptor,
    out: *mut *mut dp_plugin,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = |call: &Call| {
        let registry = call.object(registry, "registry")?;
        let id = call.object(plugin, "plugin")?.id_in(&registry.inner)?;
        let entry = registry.inner.replace(id, call.descriptor(descriptor)?)?;
        call.put_handle(out, dp_plugin::new(entry));
        Ok(())
    };
    // SAFETY: this function's contract.
    unsafe { guard::run("dp_registry_replace", error, body) }
}

/// Switches a plugin off: it is not selected any more, and its handles become stale; its clients live on. `reason` is
/// told to those who ask for it. `out`, which may be NULL, gets a handle with which to switch it on again.
///
/// # Safety
///
/// K1, K2 and K4.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_disable(
    registry: *const dp_registry,
    plugin: *const dp_plugin,
    reason: *const c_char,
    out: *mut *mut dp_plugin,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = |call: &Call| {
        let registry = &call.object(registry, "registry")?.inner;
        let reason = call.some_text(reason, "reason")?;
        let id = registry.disable(call.object(plugin, "plugin")?.id_in(registry)?, reason)?;
        call.put_handle(out, dp_plugin::new(registry.get(id)?));
        Ok(())
    };
    // SAFETY: this function's contract.
    unsafe { guard::run("dp_registry_disable", error, body) }
}

/// Switches a plugin on again. `out`, which may be NULL, gets a handle.
///
/// # Safety
///
/// K1 and K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_enable(
    registry: *const dp_registry,
    plugin: *const dp_plugin,
    out: *mut *mut dp_plugin,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = |call: &Call| {
        let registry = &call.object(registry, "registry")?.inner;
        let entry = registry.enable(call.object(plugin, "plugin")?.id_in(registry)?)?;
        call.put_handle(out, dp_plugin::new(entry));
        Ok(())
    };
    // SAFETY: this function's contract.
    unsafe { guard::run("dp_registry_enable", error, body) }
}

/// Takes a plugin out of the registry. Its handles become stale; its clients live on.
///
/// # Safety
///
/// K1 and K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_registry_remove(
    registry: *const dp_registry,
    plugin: *const dp_plugin,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = |call: &Call| {
        let registry = &call.object(registry, "registry")?.inner;
        Ok(registry.remove(call.object(plugin, "plugin")?.id_in(registry)?)?)
    };
    // SAFETY: this function's contract.
    unsafe { guard::run("dp_registry_remove", error, body) }
}

impl Call {
    /// A description of a plugin.
    fn descriptor(&self, descriptor: *const dp_descriptor) -> Outcome<Descriptor> {
        if descriptor.is_null() {
            return Err(Failure::argument("`descriptor` is NULL; it must point to a dp_descriptor"));
        }
        // SAFETY: K6, as promised to whoever made this `Call`: it keeps D1 to D3.
        Ok(unsafe { Descriptor::from_raw(descriptor) }?)
    }

    /// A function table.
    fn table(&self, api: *const PJRT_Api, parameter: &str) -> Outcome<StaticApi> {
        let Some(table) = NonNull::new(api.cast_mut()) else {
            return Err(Failure::argument(format!("`{parameter}` is NULL; it must point to a PJRT_Api")));
        };
        // SAFETY: K6, as promised to whoever made this `Call`: it keeps C1 to C9.
        Ok(unsafe { StaticApi::new(table.as_ptr()) })
    }
}
