//! A loaded plugin and its clients.

use std::fmt;
use std::panic;
use std::path::Path;
use std::sync::{Arc, Weak};

use pjrt::{Client, ClientOptions, Plugin};
use plugin_manifest::{Descriptor, EnvPlan, ProcessTopology};

use super::entry::PluginEntry;
use super::library::{ClientGuard, Load, ProcessLibrary, ShutdownGuard, resolve};
use super::load_options::PluginLoadOptions;
use super::missing_variable::MissingVariable;
use super::setup::Setup;
use crate::error::Error;
use crate::lease::Lease;

/// A loaded plugin, which creates clients. The options of the clients are checked. If the plugin's devices support only
/// one client, the client holds a lease on the devices.
///
/// [`Self::plugin`] returns the underlying [`pjrt::Plugin`], whose clients have unchecked options and hold no lease.
#[derive(Clone)]
pub struct LoadedPlugin {
    entry: PluginEntry,
    plugin: Plugin,
    setup: Setup,
    missing: Vec<MissingVariable>,
    /// The entry's description. If the entry has no manifest of its own, this is the description that the library
    /// exports, if any.
    descriptor: Descriptor,
    /// The registry owns the guard, so that a stored `LoadedPlugin` does not prevent the plugin's shutdown.
    guard: Weak<ShutdownGuard>,
}

/// The right to create a client, held until the client is destroyed. See [`LoadedPlugin::lease`].
#[derive(Debug)]
pub struct ClientLease {
    // Dropped before `_guard`, so that no lock on the device is held when the plugin is shut down.
    _lease: Option<Lease>,
    _guard: ClientGuard,
}

impl PluginEntry {
    /// Loads the plugin for a single process, as [`Self::load_with`] does with the default options.
    ///
    /// # Errors
    ///
    /// Returns an error if [`Self::load_with`] returns an error.
    pub fn load(&self) -> Result<LoadedPlugin, Error> {
        self.load_with(&PluginLoadOptions::new())
    }

    /// Loads the plugin's library and initializes the plugin, unless this process has already done so. A library is
    /// loaded only once, even if several registries and threads load it. The setup of the first load applies to all
    /// later loads.
    ///
    /// # Errors
    ///
    /// - [`Error::Stale`], [`Error::Disabled`] or [`Error::Refused`] if this entry cannot be used;
    /// - [`Error::Path`] or [`Error::NoLibrary`] if the path of the library is unknown;
    /// - [`Error::Configure`] if the plugin does not support the process topology;
    /// - [`Error::Setup`] if the process lacks variables that the plugin needs;
    /// - [`Error::DifferentSetup`] if the plugin was loaded with the setup for another rank;
    /// - [`Error::Replaced`] if the library's file has changed since it was loaded;
    /// - [`Error::ShutDown`] if the plugin was shut down and cannot be loaded again in this process;
    /// - [`Error::Reentered`] if a hook of the plugin called this function while this thread loads or shuts down the
    ///   plugin;
    /// - [`Error::Load`] if the dynamic loader or the plugin failed.
    pub fn load_with(&self, options: &PluginLoadOptions<'_>) -> Result<LoadedPlugin, Error> {
        self.registry.check(self.id, self.name())?;
        let descriptor = self.usable()?;
        let location = resolve(descriptor)?;
        let check = |path: &Path| self.registry.check_file(&self.record, path);
        let library = ProcessLibrary::at(&location).newest(self.name(), options)?;
        let load = library.load(&location, descriptor, options, check)?;
        self.registry.keep(self.id, &self.record, &load.guard)?;
        Ok(LoadedPlugin::new(self.clone(), descriptor, load))
    }
}

impl LoadedPlugin {
    fn new(entry: PluginEntry, descriptor: &Descriptor, load: Load) -> Self {
        let Load { guard, setup, missing } = load;
        let own = guard.own_descriptor().filter(|_| !entry.record.has_own_manifest);
        let descriptor = own.unwrap_or(descriptor).clone();
        Self { entry, plugin: guard.plugin().clone(), setup, missing, descriptor, guard: Arc::downgrade(&guard) }
    }

    /// Returns the plugin's entry in the registry.
    pub fn entry(&self) -> &PluginEntry {
        &self.entry
    }

    /// Returns the plugin's description. If the library was found without a manifest, this is the description that the
    /// library exports (`DevicePlugin_GetDescriptor`), if any. Otherwise, it is the entry's description.
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// Returns the plugin without the registry's checks. A client from [`Plugin::client`] holds no lease, and its
    /// options are not checked. The registry may shut the plugin down while this client exists.
    pub fn plugin(&self) -> &Plugin {
        &self.plugin
    }

    /// Returns the process topology for which the plugin was loaded.
    pub fn topology(&self) -> &ProcessTopology {
        self.setup.topology()
    }

    /// Returns the environment plan that applied when the plugin was loaded.
    pub fn env_plan(&self) -> &EnvPlan {
        self.setup.plan()
    }

    /// Returns the recommended variables that were not set in the process when the plugin was loaded. The plugin uses
    /// its defaults instead. The list is empty if an earlier call had already loaded the plugin.
    pub fn missing_variables(&self) -> &[MissingVariable] {
        &self.missing
    }

    /// Creates a client. The client's options are those of the environment plan, then those that discovery found, then
    /// `options`. If an option occurs several times, its last value applies. The plugin's schema checks and converts
    /// the options. If the devices support only one client, the client holds a lease on the devices until its last
    /// handle, buffer and executable are dropped.
    ///
    /// # Errors
    ///
    /// - [`Error::Stale`] or [`Error::Disabled`] if the entry can no longer be used;
    /// - [`Error::Options`] with all faults of the options;
    /// - [`Error::NoStore`] if the clients of several processes need a key-value store;
    /// - [`Error::Setup`] if the process lacks variables that clients need;
    /// - [`Error::LeaseConflict`] with the holder if another client holds the lease on the devices;
    /// - [`Error::Lock`] if the lock file of the devices cannot be opened, locked or written;
    /// - [`Error::Client`] if the plugin failed to create the client.
    #[track_caller]
    pub fn client(&self, options: &ClientOptions) -> Result<Client, Error> {
        let caller = panic::Location::caller();
        self.client_labelled(&format!("{}:{}", caller.file(), caller.line()), options)
    }

    /// Creates a client as [`Self::client`] does. If another client is rejected because this client holds the lease on
    /// the devices, the error contains `label`.
    ///
    /// # Errors
    ///
    /// Returns an error if [`Self::client`] returns an error.
    pub fn client_labelled(&self, label: &str, options: &ClientOptions) -> Result<Client, Error> {
        let (entry, name) = (&self.entry, self.entry.name());
        entry.registry().check(entry.id(), name)?;
        let plan = self.setup.plan();
        let mut given = entry.candidate().create_options.clone();
        given.extend_from_slice(options.values());
        let values = self.descriptor.client_options(plan, &given).map_err(Error::Options)?;
        if let (Some(coordinator), None) = (&plan.coordinator, options.key_value_store()) {
            return Err(Error::NoStore { name: name.to_owned(), coordinator: coordinator.to_string() });
        }
        let options = options.clone().with_values(values).keeping(Arc::new(self.lease(label)?));
        tracing::debug!(plugin = %name, label, "creating a client");
        self.plugin.client(&options).map_err(|error| Error::Client { name: name.to_owned(), error })
    }

    /// Acquires the right to create a client by other means than [`Self::client`], for example through the plugin's C
    /// function table. The plugin is not shut down while the lease exists. If the plugin's devices support only one
    /// client, other clients are rejected with an error that contains this label.
    ///
    /// # Errors
    ///
    /// - [`Error::Stale`] or [`Error::Disabled`] if the entry can no longer be used;
    /// - [`Error::Setup`] if the process lacks variables that clients need;
    /// - [`Error::LeaseConflict`] with the holder if another client holds the lease on the devices;
    /// - [`Error::Lock`] if the lock file of the devices cannot be opened, locked or written.
    pub fn lease(&self, label: &str) -> Result<ClientLease, Error> {
        let (entry, name) = (&self.entry, self.entry.name());
        entry.registry().check(entry.id(), name)?;
        let stale = || Error::Stale { name: name.to_owned(), id: entry.id() };
        let guard = self.guard.upgrade().ok_or_else(stale)?;
        self.setup.check_client_variables(name)?;
        // Use the plugin's own name, so that a lease does not depend on the name by which the plugin was found.
        let manifest = self.descriptor.manifest();
        let lease = Lease::acquire(&manifest.name, manifest.ownership, label, entry.registry().locks())
            .map_err(|error| Error::lease(name, error))?;
        Ok(ClientLease { _lease: lease, _guard: guard.count_client() })
    }
}

impl fmt::Debug for LoadedPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadedPlugin").field("entry", &self.entry).field("plugin", &self.plugin).finish_non_exhaustive()
    }
}
