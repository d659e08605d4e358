//! `dp_registry`: the plugins that a program can use.

use crate::border::error::{dp_code, dp_error};
use crate::border::guard::Out;
use crate::border::handle::Owned;
use crate::border::memory::Name;
use pjrt_c_macros::c_function;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pjrt_sys::PJRT_Api;
use plugin_manifest::c_view::descriptor::dp_descriptor;
use plugin_manifest::{Descriptor, Library, Manifest, StaticApi};

use plugin_registry::{PluginEntry, PluginRegistry, Policy};

use crate::border::failure::{Failure, Outcome};
use crate::registry::discovery::dp_discovery;
use crate::registry::discovery::of_this_process;
use crate::registry::plugin::{dp_plugin, dp_plugin_list};
use crate::registry::policy::dp_policy;

/// The plugins that a program can use. The program links or registers them, its user names them, or a search finds them
/// on the machine. Creating a registry only reads files. Only `dp_plugin_load` loads a library. The plugins are shut
/// down when the registry, its plugins, and their plans, leases and clients have been released.
pub struct dp_registry {
    inner: PluginRegistry,
}

/// Passes the plugin of an entry to the caller if the caller needs it.
fn give(out: Out<Owned<dp_plugin>>, entry: PluginEntry) -> Outcome<()> {
    out.put(Owned(dp_plugin::new(entry)));
    Ok(())
}

/// Creates a registry of the plugins that are linked into the program, and of the plugins that a search with
/// `discovery` finds. NULL searches this machine like the settings of `dp_discovery_new`. A plugin that is found but
/// cannot be used is not an error. `dp_plugin_refusal_at` returns the reasons.
#[c_function]
pub fn dp_registry_new(discovery: Option<&dp_discovery>) -> Outcome<Owned<dp_registry>> {
    let settings = discovery.map_or_else(of_this_process, dp_discovery::settings);
    Ok(Owned(dp_registry { inner: PluginRegistry::with(settings) }))
}

/// Creates a registry without plugins. The program registers plugins itself.
#[c_function]
pub fn dp_registry_new_empty() -> Outcome<Owned<dp_registry>> {
    Ok(Owned(dp_registry { inner: PluginRegistry::empty() }))
}

/// Searches for plugins and hardware again. Handles of a plugin become stale if the plugin changed or is no longer
/// found. `dp_plugin_load` rejects stale handles with `DP_FAILED_PRECONDITION`. Plugins that the program registered
/// remain.
#[c_function]
pub fn dp_registry_refresh(registry: &dp_registry) -> Outcome<()> {
    registry.inner.refresh();
    Ok(())
}

/// Shuts down the registry's plugins. All handles of plugins become stale. A plugin without leases is shut down now.
/// Any other plugin is shut down when its last lease is freed. Fills `waiting`, which may be NULL, with the number of
/// plugins that have leases. Destroy the clients before this call.
#[c_function]
pub fn dp_registry_shutdown(registry: &dp_registry, waiting: Out<usize>) -> Outcome<()> {
    waiting.put(registry.inner.shutdown().len());
    Ok(())
}

/// Shuts down the registry's plugins like `dp_registry_shutdown`, and waits up to `timeout_ms` milliseconds for their
/// leases to be freed. Fills `waiting`, which may be NULL, with the number of plugins that still have leases.
///
/// Call this function or `dp_registry_shutdown` before the process ends. Otherwise a plugin with work in progress may
/// crash. Free your own leases first, because the call waits for them until the timeout.
#[c_function]
pub fn dp_registry_shutdown_within(registry: &dp_registry, timeout_ms: u64, waiting: Out<usize>) -> Outcome<()> {
    waiting.put(registry.inner.shutdown_within(Duration::from_millis(timeout_ms)).len());
    Ok(())
}

/// Returns a list of the registry's plugins, including plugins that cannot be used. The list does not change when the
/// registry changes.
#[c_function]
pub fn dp_registry_plugins(registry: &dp_registry) -> Outcome<Owned<dp_plugin_list>> {
    Ok(Owned(dp_plugin_list::new(registry.inner.entries())))
}

/// Returns the plugin with this name, alias or platform name, regardless of letter case. If several plugins match,
/// returns the one that ranks highest. Returns `DP_NOT_FOUND` if no usable plugin matches. The error lists all plugins
/// with the reasons why they do not match.
#[c_function]
pub fn dp_registry_find(registry: &dp_registry, name: Name<'_>) -> Outcome<Owned<dp_plugin>> {
    Ok(Owned(dp_plugin::new(registry.inner.select(&Policy::named(name))?)))
}

/// Returns the plugin that a policy selects. Returns `DP_NOT_FOUND` if it selects no plugin. The error lists all
/// plugins with the reasons why they do not match.
#[c_function]
pub fn dp_registry_select(registry: &dp_registry, policy: &dp_policy) -> Outcome<Owned<dp_plugin>> {
    Ok(Owned(dp_plugin::new(registry.inner.select(&policy.policy())?)))
}

/// Registers a plugin by its description, for example the description that `DevicePlugin_GetDescriptor` of a library
/// returns. Registering the same plugin again has no effect. `out` receives a handle of the plugin and may be NULL.
#[c_function]
pub fn dp_registry_register(registry: &dp_registry, descriptor: Descriptor, out: Out<Owned<dp_plugin>>) -> Outcome<()> {
    give(out, registry.inner.register_descriptor(descriptor)?)
}

/// Registers a library by its path. `manifest_json` is its manifest in the format of a `pjrt_plugin.json`. If it is
/// NULL, the manifest file in the folder of the library is used, if there is one. The library is not loaded. `out`
/// receives a handle of the plugin and may be NULL.
#[c_function]
pub fn dp_registry_register_library(
    registry: &dp_registry,
    path: PathBuf,
    manifest_json: Option<&str>,
    out: Out<Owned<dp_plugin>>,
) -> Outcome<()> {
    let manifest = manifest_json.map(Manifest::from_json).transpose()?;
    // SAFETY: K5 (plugins keep their contracts).
    give(out, unsafe { registry.inner.register_library(path, manifest) }?)
}

/// Registers a function table of this program, or of a library that the program loaded itself. `manifest_json` is the
/// plugin's manifest in the format of a `pjrt_plugin.json`, and must contain the name `name`. If it is NULL, the
/// manifest contains only the name. `out` receives a handle of the plugin and may be NULL.
#[c_function]
pub fn dp_registry_register_api(
    registry: &dp_registry,
    name: Name<'_>,
    api: StaticApi,
    manifest_json: Option<&str>,
    out: Out<Owned<dp_plugin>>,
) -> Outcome<()> {
    let manifest = match manifest_json {
        Some(json) => Manifest::from_json(json)?,
        None => Manifest::new(name),
    };
    if manifest.name != name {
        let found = &manifest.name;
        return Err(Failure::argument(format!("`name` is {name:?}, but the manifest has {found:?}; use one name")));
    }
    let library = Library::Static(api);
    give(out, registry.inner.register_descriptor(Descriptor::new(manifest, library, Arc::new(()))?)?)
}

/// Replaces `plugin` with the plugin that `descriptor` describes. The names of the two plugins may differ. Handles of
/// the replaced plugin become stale. Clients of the replaced plugin remain usable. `out` receives a handle of the new
/// plugin and may be NULL.
#[c_function]
pub fn dp_registry_replace(
    registry: &dp_registry,
    plugin: &dp_plugin,
    descriptor: Descriptor,
    out: Out<Owned<dp_plugin>>,
) -> Outcome<()> {
    let id = plugin.id_in(&registry.inner)?;
    give(out, registry.inner.replace(id, descriptor)?)
}

/// Disables a plugin. It is no longer selected, and its handles become stale. Its clients remain usable. Errors about
/// the plugin contain `reason`. `out` receives a new handle for `dp_registry_enable`, and may be NULL.
#[c_function]
pub fn dp_registry_disable(
    registry: &dp_registry,
    plugin: &dp_plugin,
    reason: Name<'_>,
    out: Out<Owned<dp_plugin>>,
) -> Outcome<()> {
    let id = registry.inner.disable(plugin.id_in(&registry.inner)?, reason)?;
    give(out, registry.inner.get(id)?)
}

/// Enables a disabled plugin. `out` receives a handle of the plugin and may be NULL.
#[c_function]
pub fn dp_registry_enable(registry: &dp_registry, plugin: &dp_plugin, out: Out<Owned<dp_plugin>>) -> Outcome<()> {
    give(out, registry.inner.enable(plugin.id_in(&registry.inner)?)?)
}

/// Removes a plugin from the registry. Its handles become stale. Its clients remain usable.
#[c_function]
pub fn dp_registry_remove(registry: &dp_registry, plugin: &dp_plugin) -> Outcome<()> {
    Ok(registry.inner.remove(plugin.id_in(&registry.inner)?)?)
}
