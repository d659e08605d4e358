//! `dp_plugin`: a plugin of a registry. The plugin may be loaded or not.

use crate::border::error::{dp_code, dp_error};
use crate::border::handle::Owned;
use crate::border::memory::Name;
use pjrt_c_macros::c_function;
use std::sync::OnceLock;

use pjrt::ErrorCode;
use pjrt_sys::PJRT_Api;
use plugin_manifest::c_view::capabilities::{CCapabilities, dp_capabilities, dp_string};
use plugin_manifest::c_view::descriptor::dp_topology;
use plugin_manifest::{EnvPlan, Environment, Ownership, ProcessTopology};

use plugin_registry::{
    HardwarePresence, LoadedPlugin, PluginEntry, PluginId, PluginLoadOptions, PluginRegistry, Status,
};

use crate::border::failure::{Failure, Outcome};
use crate::border::memory;
use crate::border::text::Text;
use crate::border::text::lend;
use crate::registry::lease::dp_lease;
use crate::registry::options::dp_options;
use crate::registry::plan::dp_plan;

/// A handle of a plugin in a registry. The handle contains the description of the plugin, and owns the strings that its
/// functions return. Handles of the same plugin are independent of each other.
pub struct dp_plugin {
    pub(crate) entry: PluginEntry,
    name: Text,
    aliases: Vec<Text>,
    refusals: Vec<Text>,
    path: Option<Text>,
    // Each of the following values is created once, when it is first needed.
    provenance: OnceLock<Text>,
    evidence: OnceLock<Text>,
    manifest: OnceLock<Text>,
    capabilities_json: OnceLock<Text>,
    capabilities: OnceLock<CCapabilities>,
}

impl dp_plugin {
    pub(crate) fn new(entry: PluginEntry) -> Self {
        let candidate = entry.candidate();
        Self {
            name: Text::new(entry.name()),
            aliases: entry.manifest().aliases.iter().map(Text::new).collect(),
            refusals: candidate.refusals.iter().map(|refusal| Text::new(refusal.to_string())).collect(),
            path: candidate.location.path().map(|path| Text::new(path.to_string_lossy())),
            provenance: OnceLock::new(),
            evidence: OnceLock::new(),
            manifest: OnceLock::new(),
            capabilities_json: OnceLock::new(),
            capabilities: OnceLock::new(),
            entry,
        }
    }

    /// Returns the loaded plugin. Returns a failure if the plugin is not loaded, or if the registry refuses it.
    fn loaded(&self) -> Outcome<LoadedPlugin> {
        if self.entry.status() == Status::Available {
            let message = format!("{} is not loaded; call dp_plugin_load first", self.entry.name());
            return Err(Failure::new(ErrorCode::FAILED_PRECONDITION, message));
        }
        // If the plugin is loaded, `load` returns it. Otherwise, `load` returns the reason why the plugin cannot be
        // loaded.
        Ok(self.entry.load()?)
    }

    /// Returns the id of the plugin, or an error if the plugin belongs to another registry.
    pub(crate) fn id_in(&self, registry: &PluginRegistry) -> Outcome<PluginId> {
        if self.entry.registry().is(registry) {
            return Ok(self.entry.id());
        }
        Err(Failure::argument(format!("`plugin`, {:?}, belongs to another registry", self.entry.name())))
    }
}

/// A snapshot of the plugins of a registry.
pub struct dp_plugin_list {
    plugins: Vec<PluginEntry>,
}

impl dp_plugin_list {
    pub(crate) fn new(entries: Vec<PluginEntry>) -> Self {
        Self { plugins: entries }
    }
}

/// Returns the number of plugins in the list, or 0 for NULL.
#[c_function]
pub fn dp_plugin_list_count(list: &dp_plugin_list) -> usize {
    list.plugins.len()
}

/// Returns the plugin at `index`, counted from 0.
#[c_function]
pub fn dp_plugin_list_at(list: &dp_plugin_list, index: usize) -> Outcome<Owned<dp_plugin>> {
    Ok(Owned(dp_plugin::new(memory::at(&list.plugins, index)?.clone())))
}

/// Returns the name of the plugin, or a string with null `data` if `plugin` is NULL.
#[c_function]
pub fn dp_plugin_name(plugin: &dp_plugin) -> dp_string {
    lend(Some(&plugin.name))
}

/// Returns the number of aliases of the plugin, or 0 for NULL.
#[c_function]
pub fn dp_plugin_alias_count(plugin: &dp_plugin) -> usize {
    plugin.aliases.len()
}

/// Returns the alias at `index`, counted from 0, such as `gpu`. Returns a string with null `data` if `index` is too
/// large, or if `plugin` is NULL.
#[c_function]
pub fn dp_plugin_alias_at(plugin: &dp_plugin, index: usize) -> dp_string {
    lend(plugin.aliases.get(index))
}

/// Returns whether `name` is the plugin's name, an alias or a platform name, regardless of letter case.
#[c_function]
pub fn dp_plugin_answers_to(plugin: &dp_plugin, name: &str) -> bool {
    plugin.entry.answers_to(name)
}

/// Returns the path of the plugin's library, with U+FFFD for bytes that are not UTF-8. Returns a string with null
/// `data` if the plugin is linked into the program, or if its path is not known before it is loaded. Also returns such
/// a string if `plugin` is NULL.
#[c_function]
pub fn dp_plugin_path(plugin: &dp_plugin) -> dp_string {
    lend(plugin.path.as_ref())
}

/// Returns a description of the location at which the plugin was found, for display. Returns a string with null `data`
/// if `plugin` is NULL.
#[c_function]
pub fn dp_plugin_provenance(plugin: &dp_plugin) -> dp_string {
    let provenance = |plugin: &dp_plugin| Text::new(plugin.entry.candidate().provenance.to_string());
    lend(Some(plugin.provenance.get_or_init(|| provenance(plugin))))
}

/// Returns the number of reasons why the plugin cannot be used. Returns 0 for a usable plugin and for NULL.
#[c_function]
pub fn dp_plugin_refusal_count(plugin: &dp_plugin) -> usize {
    plugin.refusals.len()
}

/// Returns the reason at `index`, counted from 0, why the plugin cannot be used, with a remedy. Returns a string with
/// null `data` if `index` is too large, or if `plugin` is NULL.
#[c_function]
pub fn dp_plugin_refusal_at(plugin: &dp_plugin, index: usize) -> dp_string {
    lend(plugin.refusals.get(index))
}

/// The state of a plugin, determined without loading it.
pub type dp_plugin_state = u32;

/// The argument is not a plugin, or this header does not define a value for the state.
pub const DP_PLUGIN_NONE: dp_plugin_state = 0;
/// The plugin is not loaded, and discovery found no reason against its use.
pub const DP_PLUGIN_AVAILABLE: dp_plugin_state = 1;
/// The registry has loaded the plugin.
pub const DP_PLUGIN_LOADED: dp_plugin_state = 2;
/// The plugin cannot be used. `dp_plugin_refusal_at` returns the reasons.
pub const DP_PLUGIN_REFUSED: dp_plugin_state = 3;
/// The plugin is disabled.
pub const DP_PLUGIN_DISABLED: dp_plugin_state = 4;
/// The plugin was disabled, replaced or removed after this handle was created. Look it up in the registry again.
pub const DP_PLUGIN_STALE: dp_plugin_state = 5;

/// Returns the state of the plugin.
#[c_function]
pub fn dp_plugin_status(plugin: &dp_plugin) -> dp_plugin_state {
    match plugin.entry.status() {
        Status::Available => DP_PLUGIN_AVAILABLE,
        Status::Loaded(_) => DP_PLUGIN_LOADED,
        Status::Refused => DP_PLUGIN_REFUSED,
        Status::Disabled(_) => DP_PLUGIN_DISABLED,
        Status::Stale => DP_PLUGIN_STALE,
        // The registry may add states for which this header does not define a value.
        _ => DP_PLUGIN_NONE,
    }
}

/// Returns the priority of the plugin, or 0 for NULL. Among suitable plugins, the plugin with the highest priority is
/// preferred. JAX registers its plugins with priority 400.
#[c_function]
pub fn dp_plugin_priority(plugin: &dp_plugin) -> i32 {
    plugin.entry.manifest().priority
}

/// Returns whether the manifest declares the plugin experimental, or false for NULL.
#[c_function]
pub fn dp_plugin_is_experimental(plugin: &dp_plugin) -> bool {
    plugin.entry.manifest().experimental
}

/// The result of the search for a plugin's hardware in the machine.
pub type dp_presence = u32;

/// The manifest does not describe the hardware, or the operating system does not list devices of this kind.
pub const DP_HARDWARE_UNKNOWN: dp_presence = 0;
/// A device node or a PCI device of the plugin was found.
pub const DP_HARDWARE_PRESENT: dp_presence = 1;
/// The manifest lists devices, and discovery found no such device on this machine.
pub const DP_HARDWARE_ABSENT: dp_presence = 2;

/// Returns whether the plugin's hardware was found in the machine, according to device nodes and PCI devices. Does not
/// load the plugin.
#[c_function]
pub fn dp_plugin_hardware(plugin: &dp_plugin) -> dp_presence {
    match plugin.entry.hardware().presence {
        HardwarePresence::Unknown => DP_HARDWARE_UNKNOWN,
        HardwarePresence::Present => DP_HARDWARE_PRESENT,
        HardwarePresence::Absent => DP_HARDWARE_ABSENT,
    }
}

/// Returns the evidence for the result of `dp_plugin_hardware`, for display. Returns a string with null `data` if
/// `plugin` is NULL.
#[c_function]
pub fn dp_plugin_hardware_evidence(plugin: &dp_plugin) -> dp_string {
    let evidence = |plugin: &dp_plugin| Text::new(plugin.entry.hardware().to_string());
    lend(Some(plugin.evidence.get_or_init(|| evidence(plugin))))
}

/// The number of clients that a plugin's devices support at the same time.
pub type dp_ownership = u32;

/// Any number of clients in any number of processes.
pub const DP_OWNERSHIP_SHARED: dp_ownership = 0;
/// One client in each process.
pub const DP_OWNERSHIP_PER_PROCESS: dp_ownership = 1;
/// One client on the machine.
pub const DP_OWNERSHIP_EXCLUSIVE: dp_ownership = 2;

/// Returns the number of clients that the devices of the plugin support at the same time, or `DP_OWNERSHIP_SHARED` for
/// NULL.
#[c_function]
pub fn dp_plugin_ownership(plugin: &dp_plugin) -> dp_ownership {
    match plugin.entry.manifest().ownership {
        Ownership::PerProcess => DP_OWNERSHIP_PER_PROCESS,
        Ownership::Exclusive => DP_OWNERSHIP_EXCLUSIVE,
        _ => DP_OWNERSHIP_SHARED,
    }
}

/// Returns the manifest of the plugin in the format of a `pjrt_plugin.json`, or a string with null `data` if `plugin`
/// is NULL.
#[c_function]
pub fn dp_plugin_manifest_json(plugin: &dp_plugin) -> dp_string {
    let manifest = |plugin: &dp_plugin| Text::new(plugin.entry.manifest().to_json());
    lend(Some(plugin.manifest.get_or_init(|| manifest(plugin))))
}

/// Returns the capabilities of the plugin's devices as JSON, in the format of the manifest's object `capabilities`.
/// Omitted fields have the values that frameworks assume for an unknown device. Returns a string with null `data` if
/// `plugin` is NULL.
#[c_function]
pub fn dp_plugin_capabilities_json(plugin: &dp_plugin) -> dp_string {
    let json = |plugin: &dp_plugin| Text::new(plugin.entry.capabilities().to_json());
    lend(Some(plugin.capabilities_json.get_or_init(|| json(plugin))))
}

/// Returns the capabilities of the plugin's devices, borrowed from the plugin handle. The plugin need not be loaded. Do
/// not read fields beyond `struct_size`.
#[c_function]
pub fn dp_plugin_capabilities(plugin: &dp_plugin) -> Outcome<*const dp_capabilities> {
    if plugin.capabilities.get().is_none() {
        let made = CCapabilities::new(plugin.entry.capabilities())?;
        // If another thread has set the capabilities in the meantime, keep those and drop `made`.
        let _ = plugin.capabilities.set(made);
    }
    let made = plugin
        .capabilities
        .get()
        .ok_or_else(|| Failure::argument("the capabilities of the plugin were already freed"))?;
    Ok(made.as_ptr())
}

/// Creates a plan for a process whose position among all processes is `topology`. The plan contains the variables, the
/// client options and the coordinator that the plugin needs. This function does not set the variables. NULL for
/// `topology` means a single process.
#[c_function]
pub fn dp_plugin_configure(plugin: &dp_plugin, topology: Option<ProcessTopology>) -> Outcome<Owned<dp_plan>> {
    let topology = topology.unwrap_or_else(ProcessTopology::single);
    let plan = plugin.entry.plan(&topology, &Environment::of_this_process())?;
    Ok(Owned(dp_plan::new(plan, plugin.entry.clone())))
}

/// Loads and initializes the plugin's library, unless this process has already done so. Returns the function table,
/// which is valid until the process ends. If the plugin is already loaded, NULL for `topology` means the topology of
/// that load. Otherwise, it means a single process. Returns `DP_FAILED_PRECONDITION` if the process lacks variables
/// that the plugin needs (`dp_plan_apply`), if the plugin was loaded with another topology, or if the handle is stale.
#[c_function]
pub fn dp_plugin_load(plugin: &dp_plugin, topology: Option<ProcessTopology>) -> Outcome<*const PJRT_Api> {
    let mut options = PluginLoadOptions::new();
    if let Some(topology) = topology {
        options = options.topology(topology);
    }
    Ok(plugin.entry.load_with(&options)?.plugin().api().as_raw())
}

/// A version of the PJRT C API.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dp_api_version {
    /// Major version. Different major versions are incompatible.
    pub major: i32,
    /// Minor version. It increases with each addition.
    pub minor: i32,
}

/// Returns the version of the PJRT C API that a loaded plugin implements.
#[c_function]
pub fn dp_plugin_api_version(plugin: &dp_plugin) -> Outcome<dp_api_version> {
    let version = plugin.loaded()?.plugin().api_version();
    Ok(dp_api_version { major: version.major, minor: version.minor })
}

/// Returns the options for `PJRT_Client_Create`: first the options of the plan, then the options that were found with
/// the plugin, then `given`. A later option replaces an earlier option with the same name. The options are checked
/// against the plugin's schema and converted to the schema's types. Defaults of the schema are added. If options are
/// invalid, returns `DP_INVALID_ARGUMENT`, and the error names all invalid options. If the plugin cannot be used,
/// returns `DP_FAILED_PRECONDITION`. `plan` and `given` may be NULL.
#[c_function]
pub fn dp_plugin_client_options(
    plugin: &dp_plugin,
    plan: Option<&dp_plan>,
    given: Option<&dp_options>,
) -> Outcome<Owned<dp_options>> {
    let usable = plugin.entry.descriptor().filter(|_| plugin.entry.candidate().is_usable());
    let Some(descriptor) = usable else {
        return Err(Failure::new(
            ErrorCode::FAILED_PRECONDITION,
            "the plugin cannot be used; dp_plugin_refusal_at returns the reasons",
        ));
    };
    let nothing = EnvPlan::default();
    let plan = plan.map_or(&nothing, dp_plan::plan);
    let mut all = plugin.entry.candidate().create_options.clone();
    all.extend(given.map(dp_options::to_values).unwrap_or_default());
    Ok(Owned(dp_options::from_values(descriptor.client_options(plan, &all)?)))
}

/// Acquires a lease of the plugin, which must be loaded. `holder` appears in the errors of other programs that cannot
/// acquire a lease because of this one. If another holder prevents the lease, returns `DP_RESOURCE_EXHAUSTED`, and the
/// error names the holder.
#[c_function]
pub fn dp_plugin_acquire(plugin: &dp_plugin, holder: Name<'_>) -> Outcome<Owned<dp_lease>> {
    Ok(Owned(dp_lease::new(plugin.loaded()?.lease(holder)?)))
}
