//! `dp_plugin`: a plugin of a registry, loaded or not.

use std::ffi::c_char;
use std::ptr;
use std::sync::OnceLock;

use device_plugin::describe::capabilities::{CCapabilities, dp_capabilities, dp_string};
use device_plugin::describe::descriptor::dp_topology;
use device_plugin::{EnvPlan, Environment, Ownership, ProcessTopology};
use pjrt::ErrorCode;
use pjrt_sys::PJRT_Api;

use crate::{HardwarePresence, LoadOptions, LoadedPlugin, PluginEntry, PluginId, PluginRegistry, Status};

use super::error::{dp_code, dp_error};
use super::guard::{self, Call, Failure, Outcome};
use super::lease::dp_lease;
use super::options::dp_options;
use super::plan::dp_plan;
use super::text::{NO_TEXT, Text};

/// A plugin of a registry: what it says of itself, and the way to load it. Handles of one plugin are independent: each
/// keeps its own text.
pub struct dp_plugin {
    pub(super) entry: PluginEntry,
    name: Text,
    aliases: Vec<Text>,
    refusals: Vec<Text>,
    path: Option<Text>,
    // Made when asked for, once.
    provenance: OnceLock<Text>,
    evidence: OnceLock<Text>,
    manifest: OnceLock<Text>,
    capabilities_json: OnceLock<Text>,
    capabilities: OnceLock<CCapabilities>,
}

impl dp_plugin {
    pub(super) fn new(entry: PluginEntry) -> Self {
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

    /// The plugin, which was loaded before.
    fn loaded(&self) -> Outcome<LoadedPlugin> {
        if self.entry.status() == Status::Available {
            let message = format!("{} is not loaded; call dp_plugin_load first", self.entry.name());
            return Err(Failure::new(ErrorCode::FAILED_PRECONDITION, message));
        }
        // This finds it again, or says what is wrong.
        Ok(self.entry.load()?)
    }

    /// Its id, in its own registry only.
    pub(super) fn id_in(&self, registry: &PluginRegistry) -> Outcome<PluginId> {
        if self.entry.registry().is(registry) {
            return Ok(self.entry.id());
        }
        Err(Failure::argument(format!("`plugin`, {:?}, is one of another registry", self.entry.name())))
    }
}

/// The plugins of a registry at one moment.
pub struct dp_plugin_list {
    plugins: Vec<dp_plugin>,
}

impl dp_plugin_list {
    pub(super) fn new(entries: Vec<PluginEntry>) -> Self {
        Self { plugins: entries.into_iter().map(dp_plugin::new).collect() }
    }
}

/// Frees a list and the plugins borrowed from it; NULL is nothing.
///
/// # Safety
///
/// K2 and K3.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_plugin_list_free(list: *mut dp_plugin_list) {
    // SAFETY: this function's contract.
    unsafe { guard::free(list) }
}

/// How many plugins the list has; 0 for NULL.
///
/// # Safety
///
/// K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_plugin_list_count(list: *const dp_plugin_list) -> usize {
    // SAFETY: this function's contract.
    unsafe { guard::get(0, |call| Ok(call.object(list, "list")?.plugins.len())) }
}

/// The plugin at `index`, counted from 0, borrowed from the list; `dp_plugin_clone` makes it the caller's. NULL beyond
/// the end.
///
/// # Safety
///
/// K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_plugin_list_at(list: *const dp_plugin_list, index: usize) -> *const dp_plugin {
    let body = |call: &Call| Ok(ptr::from_ref(guard::at(&call.object(list, "list")?.plugins, index)?));
    // SAFETY: this function's contract.
    unsafe { guard::get(ptr::null(), body) }
}

/// Another handle of the same plugin, to be freed by the caller.
///
/// # Safety
///
/// K1 and K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_plugin_clone(
    plugin: *const dp_plugin,
    out: *mut *mut dp_plugin,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = |call: &Call| Ok(guard::give(dp_plugin::new(call.object(plugin, "plugin")?.entry.clone())));
    // SAFETY: this function's contract.
    unsafe { guard::call("dp_plugin_clone", out, error, body) }
}

/// Frees a handle that is the caller's; NULL is nothing. The plugin stays loaded.
///
/// # Safety
///
/// K2 and K3.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_plugin_free(plugin: *mut dp_plugin) {
    // SAFETY: this function's contract.
    unsafe { guard::free(plugin) }
}

/// # Safety
///
/// K2.
unsafe fn text(plugin: *const dp_plugin, text: impl FnOnce(&dp_plugin) -> Option<&Text>) -> dp_string {
    let body = |call: &Call| Ok(text(call.object(plugin, "plugin")?).map_or(NO_TEXT, Text::lend));
    // SAFETY: this function's contract.
    unsafe { guard::get(NO_TEXT, body) }
}

/// The plugin's name.
///
/// # Safety
///
/// K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_plugin_name(plugin: *const dp_plugin) -> dp_string {
    // SAFETY: this function's contract.
    unsafe { text(plugin, |plugin| Some(&plugin.name)) }
}

/// How many other names it goes by; 0 for NULL.
///
/// # Safety
///
/// K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_plugin_alias_count(plugin: *const dp_plugin) -> usize {
    // SAFETY: this function's contract.
    unsafe { guard::get(0, |call| Ok(call.object(plugin, "plugin")?.aliases.len())) }
}

/// Another name it goes by, such as `gpu`. Absent beyond the end.
///
/// # Safety
///
/// K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_plugin_alias_at(plugin: *const dp_plugin, index: usize) -> dp_string {
    // SAFETY: this function's contract.
    unsafe { text(plugin, |plugin| plugin.aliases.get(index)) }
}

/// Whether a user who writes `name` may mean this plugin: its name, an alias or a platform name, in any case.
///
/// # Safety
///
/// K2 and K4.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_plugin_answers_to(plugin: *const dp_plugin, name: *const c_char) -> bool {
    let body = |call: &Call| Ok(call.object(plugin, "plugin")?.entry.answers_to(call.text(name, "name")?));
    // SAFETY: this function's contract.
    unsafe { guard::get(false, body) }
}

/// The library's path, with U+FFFD for what is no UTF-8. Absent for a plugin within the program, and where the path is
/// known only when it is loaded.
///
/// # Safety
///
/// K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_plugin_path(plugin: *const dp_plugin) -> dp_string {
    // SAFETY: this function's contract.
    unsafe { text(plugin, |plugin| plugin.path.as_ref()) }
}

/// Where it was found, for people.
///
/// # Safety
///
/// K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_plugin_provenance(plugin: *const dp_plugin) -> dp_string {
    let provenance = |plugin: &dp_plugin| Text::new(plugin.entry.candidate().provenance.to_string());
    // SAFETY: this function's contract.
    unsafe { text(plugin, |plugin| Some(plugin.provenance.get_or_init(|| provenance(plugin)))) }
}

/// How many reasons there are why it cannot be used; 0 for one that can, and for NULL.
///
/// # Safety
///
/// K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_plugin_refusal_count(plugin: *const dp_plugin) -> usize {
    // SAFETY: this function's contract.
    unsafe { guard::get(0, |call| Ok(call.object(plugin, "plugin")?.refusals.len())) }
}

/// A reason why it cannot be used, with the remedy. Absent beyond the end.
///
/// # Safety
///
/// K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_plugin_refusal_at(plugin: *const dp_plugin, index: usize) -> dp_string {
    // SAFETY: this function's contract.
    unsafe { text(plugin, |plugin| plugin.refusals.get(index)) }
}

/// What can be said of a plugin without loading it.
pub type dp_plugin_state = u32;

/// The handle is NULL.
pub const DP_PLUGIN_NONE: dp_plugin_state = 0;
/// It can be loaded, as far as its file tells.
pub const DP_PLUGIN_AVAILABLE: dp_plugin_state = 1;
/// Its registry loaded it.
pub const DP_PLUGIN_LOADED: dp_plugin_state = 2;
/// It cannot be used; `dp_plugin_refusal_at` says why.
pub const DP_PLUGIN_REFUSED: dp_plugin_state = 3;
/// It is switched off.
pub const DP_PLUGIN_DISABLED: dp_plugin_state = 4;
/// It was switched off, replaced or removed after this handle was made: ask the registry again.
pub const DP_PLUGIN_STALE: dp_plugin_state = 5;

/// What can be said of the plugin now.
///
/// # Safety
///
/// K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_plugin_status(plugin: *const dp_plugin) -> dp_plugin_state {
    let body = |call: &Call| {
        Ok(match call.object(plugin, "plugin")?.entry.status() {
            Status::Available => DP_PLUGIN_AVAILABLE,
            Status::Loaded(_) => DP_PLUGIN_LOADED,
            Status::Refused => DP_PLUGIN_REFUSED,
            Status::Disabled(_) => DP_PLUGIN_DISABLED,
            Status::Stale => DP_PLUGIN_STALE,
        })
    };
    // SAFETY: this function's contract.
    unsafe { guard::get(DP_PLUGIN_NONE, body) }
}

/// The larger is preferred among plugins that fit; 0 for NULL. JAX gives plugins 400.
///
/// # Safety
///
/// K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_plugin_priority(plugin: *const dp_plugin) -> i32 {
    // SAFETY: this function's contract.
    unsafe { guard::get(0, |call| Ok(call.object(plugin, "plugin")?.entry.manifest().priority)) }
}

/// Whether its makers call it unfinished.
///
/// # Safety
///
/// K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_plugin_is_experimental(plugin: *const dp_plugin) -> bool {
    // SAFETY: this function's contract.
    unsafe { guard::get(false, |call| Ok(call.object(plugin, "plugin")?.entry.manifest().experimental)) }
}

/// Whether hardware is there.
pub type dp_presence = u32;

/// Nothing says how to see it, or this system cannot be asked.
pub const DP_HARDWARE_UNKNOWN: dp_presence = 0;
/// A sign of it was seen.
pub const DP_HARDWARE_PRESENT: dp_presence = 1;
/// None of its signs was seen.
pub const DP_HARDWARE_ABSENT: dp_presence = 2;

/// Whether the plugin's hardware is there, seen by device nodes and PCI devices, without loading it.
///
/// # Safety
///
/// K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_plugin_hardware(plugin: *const dp_plugin) -> dp_presence {
    let body = |call: &Call| {
        Ok(match call.object(plugin, "plugin")?.entry.hardware().presence {
            HardwarePresence::Unknown => DP_HARDWARE_UNKNOWN,
            HardwarePresence::Present => DP_HARDWARE_PRESENT,
            HardwarePresence::Absent => DP_HARDWARE_ABSENT,
        })
    };
    // SAFETY: this function's contract.
    unsafe { guard::get(DP_HARDWARE_UNKNOWN, body) }
}

/// What says whether its hardware is there, for people.
///
/// # Safety
///
/// K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_plugin_hardware_evidence(plugin: *const dp_plugin) -> dp_string {
    let evidence = |plugin: &dp_plugin| Text::new(plugin.entry.hardware().to_string());
    // SAFETY: this function's contract.
    unsafe { text(plugin, |plugin| Some(plugin.evidence.get_or_init(|| evidence(plugin)))) }
}

/// How many clients a plugin's devices bear.
pub type dp_ownership = u32;

/// Any number, in any number of processes.
pub const DP_OWNERSHIP_SHARED: dp_ownership = 0;
/// One in each process.
pub const DP_OWNERSHIP_PER_PROCESS: dp_ownership = 1;
/// One on the machine.
pub const DP_OWNERSHIP_EXCLUSIVE: dp_ownership = 2;

/// How many clients its devices bear.
///
/// # Safety
///
/// K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_plugin_ownership(plugin: *const dp_plugin) -> dp_ownership {
    let body = |call: &Call| {
        Ok(match call.object(plugin, "plugin")?.entry.manifest().ownership {
            Ownership::PerProcess => DP_OWNERSHIP_PER_PROCESS,
            Ownership::Exclusive => DP_OWNERSHIP_EXCLUSIVE,
            _ => DP_OWNERSHIP_SHARED,
        })
    };
    // SAFETY: this function's contract.
    unsafe { guard::get(DP_OWNERSHIP_SHARED, body) }
}

/// All it says of itself, as the text of a `pjrt_plugin.json`.
///
/// # Safety
///
/// K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_plugin_manifest_json(plugin: *const dp_plugin) -> dp_string {
    let manifest = |plugin: &dp_plugin| Text::new(plugin.entry.manifest().to_json());
    // SAFETY: this function's contract.
    unsafe { text(plugin, |plugin| Some(plugin.manifest.get_or_init(|| manifest(plugin)))) }
}

/// What its devices can do and want, as JSON: the object `capabilities` of the manifest. What is left out is what
/// frameworks assume of a device they do not know.
///
/// # Safety
///
/// K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_plugin_capabilities_json(plugin: *const dp_plugin) -> dp_string {
    let json = |plugin: &dp_plugin| Text::new(plugin.entry.capabilities().to_json());
    // SAFETY: this function's contract.
    unsafe { text(plugin, |plugin| Some(plugin.capabilities_json.get_or_init(|| json(plugin)))) }
}

/// What its devices can do and want, borrowed from the plugin, also before it is loaded and without a client.
/// `struct_size` says how far this library knows the struct; look at no field beyond it.
///
/// # Safety
///
/// K1 and K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_plugin_capabilities(
    plugin: *const dp_plugin,
    out: *mut *const dp_capabilities,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = |call: &Call| {
        let plugin = call.object(plugin, "plugin")?;
        if plugin.capabilities.get().is_none() {
            let made = CCapabilities::new(plugin.entry.capabilities())?;
            // Another thread may have been faster; then its one stays.
            let _ = plugin.capabilities.set(made);
        }
        let made = plugin.capabilities.get().ok_or_else(|| Failure::argument("the capabilities are gone"))?;
        Ok(ptr::from_ref::<dp_capabilities>(made))
    };
    // SAFETY: this function's contract.
    unsafe { guard::call("dp_plugin_capabilities", out, error, body) }
}

/// What the plugin needs of a process at that place: variables, options, a coordinator. Nothing is set. NULL for
/// `topology` is a process alone.
///
/// # Safety
///
/// K1, K2 and K5.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_plugin_configure(
    plugin: *const dp_plugin,
    topology: *const dp_topology,
    out: *mut *mut dp_plan,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = |call: &Call| {
        let plugin = call.object(plugin, "plugin")?;
        let topology = call.topology(topology)?.unwrap_or_else(ProcessTopology::single);
        let plan = plugin.entry.plan(&topology, &Environment::of_this_process())?;
        Ok(guard::give(dp_plan::new(plan, plugin.entry.clone())))
    };
    // SAFETY: this function's contract.
    unsafe { guard::call("dp_plugin_configure", out, error, body) }
}

/// Loads the plugin's library, unless that has happened in this process, initializes it, and gives its function table,
/// which stays valid until the process ends. NULL for `topology` is a process alone, or whatever the plugin was loaded
/// for before. `DP_FAILED_PRECONDITION` where the process lacks variables the plugin needs (`dp_plan_apply`), where it
/// was loaded for another place, and where the handle is stale.
///
/// # Safety
///
/// K1, K2, K5 and K6.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_plugin_load(
    plugin: *const dp_plugin,
    topology: *const dp_topology,
    out: *mut *const PJRT_Api,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = |call: &Call| {
        let plugin = call.object(plugin, "plugin")?;
        let mut options = LoadOptions::new();
        if let Some(topology) = call.topology(topology)? {
            options = options.topology(topology);
        }
        Ok(plugin.entry.load_with(&options)?.plugin().api().as_raw())
    };
    // SAFETY: this function's contract.
    unsafe { guard::call("dp_plugin_load", out, error, body) }
}

/// A version of PJRT's C interface.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dp_api_version {
    /// Versions of different major numbers do not fit each other.
    pub major: i32,
    /// Grows with each addition.
    pub minor: i32,
}

/// The version of PJRT that a loaded plugin speaks.
///
/// # Safety
///
/// K1 and K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_plugin_api_version(
    plugin: *const dp_plugin,
    out: *mut dp_api_version,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = |call: &Call| {
        let version = call.object(plugin, "plugin")?.loaded()?.api_version();
        Ok(dp_api_version { major: version.major, minor: version.minor })
    };
    // SAFETY: this function's contract.
    unsafe { guard::call("dp_plugin_api_version", out, error, body) }
}

/// The options for `PJRT_Client_Create`: those of the plan, then those found with the plugin, then those given; checked
/// and converted to the types the plugin's schema names, with its defaults. `DP_INVALID_ARGUMENT` names all that are
/// wrong. `plan` and `given` may be NULL.
///
/// # Safety
///
/// K1 and K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_plugin_client_options(
    plugin: *const dp_plugin,
    plan: *const dp_plan,
    given: *const dp_options,
    out: *mut *mut dp_options,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = |call: &Call| {
        let plugin = call.object(plugin, "plugin")?;
        let Some(descriptor) = plugin.entry.descriptor() else {
            return Err(Failure::new(ErrorCode::FAILED_PRECONDITION, "the plugin cannot be used; see its refusals"));
        };
        let nothing = EnvPlan::default();
        let plan = call.optional(plan).map_or(&nothing, dp_plan::plan);
        let mut all = plugin.entry.candidate().create_options.clone();
        all.extend(call.optional(given).map(dp_options::to_values).unwrap_or_default());
        Ok(guard::give(dp_options::from_values(descriptor.client_options(plan, &all)?)))
    };
    // SAFETY: this function's contract.
    unsafe { guard::call("dp_plugin_client_options", out, error, body) }
}

/// Acquires the right to have a client of the plugin, which must be loaded. `holder` is told to others who ask for it
/// meanwhile. `DP_RESOURCE_EXHAUSTED` names the one who has it.
///
/// # Safety
///
/// K1, K2 and K4.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_plugin_acquire(
    plugin: *const dp_plugin,
    holder: *const c_char,
    out: *mut *mut dp_lease,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = |call: &Call| {
        let (plugin, holder) = (call.object(plugin, "plugin")?, call.some_text(holder, "holder")?);
        Ok(guard::give(dp_lease::new(plugin.loaded()?.lease(holder)?)))
    };
    // SAFETY: this function's contract.
    unsafe { guard::call("dp_plugin_acquire", out, error, body) }
}
