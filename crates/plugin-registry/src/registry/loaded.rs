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

/// A loaded plugin. It creates clients whose options are checked, and that hold a lease on devices which support only one
/// client.
///
/// [`Self::plugin`] returns the [`pjrt::Plugin`] behind it, which has neither checks nor leases.
#[derive(Clone)]
pub struct LoadedPlugin {
    entry: PluginEntry,
    plugin: Plugin,
    setup: Setup,
    missing: Vec<MissingVariable>,
    /// The entry's description, or the library's own if the entry has none.
    descriptor: Descriptor,
    /// Owned by the registry, so that a handle stored somewhere does not keep the plugin from being shut down.
    guard: Weak<ShutdownGuard>,
}

/// The right to create a client, held until the client is destroyed. See [`LoadedPlugin::lease`].
#[derive(Debug)]
pub struct ClientLease {
    // Dropped first, so that no lock on the device is held when the plugin is shut down.
    _lease: Option<Lease>,
    _guard: ClientGuard,
}

impl PluginEntry {
    /// Loads the plugin as a single process. Does the same as [`Self::load_with`] with the default options.
    ///
    /// # Errors
    ///
    /// In the cases of [`Self::load_with`].
    pub fn load(&self) -> Result<LoadedPlugin, Error> {
        self.load_with(&PluginLoadOptions::new())
    }

    /// Loads the plugin's library and initializes it, unless this process has done so. A library is loaded once, even
    /// if several registries and threads load it. The setup of the first load applies to all of them.
    ///
    /// # Errors
    ///
    /// - [`Error::Stale`], [`Error::Disabled`] or [`Error::Refused`] if this entry cannot be used;
    /// - [`Error::Setup`] if the process lacks variables that the plugin needs;
    /// - [`Error::DifferentSetup`] if the plugin was loaded for another position among processes;
    /// - [`Error::Replaced`] if the library's file changed since it was loaded;
    /// - [`Error::ShutDown`] if the plugin was shut down, which it supports only once in a process;
    /// - [`Error::Load`] if the dynamic loader or the plugin failed.
    pub fn load_with(&self, options: &PluginLoadOptions<'_>) -> Result<LoadedPlugin, Error> {
        self.registry.check(self.id, self.name())?;
        let descriptor = self.usable()?;
        let location = resolve(descriptor)?;
        let check = |path: &Path| self.registry.check_file(&self.record, path);
        let library = ProcessLibrary::at(&location).newest(options);
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
    /// library exports (`DevicePlugin_GetDescriptor`). Otherwise it is the entry's description.
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// Returns the plugin without the registry's checks. A client made by [`Plugin::client`] holds no lease, its options
    /// are not checked, and the registry may shut the plugin down while it exists.
    pub fn plugin(&self) -> &Plugin {
        &self.plugin
    }

    /// Returns the position among processes for which the plugin was loaded.
    pub fn topology(&self) -> &ProcessTopology {
        self.setup.topology()
    }

    /// Returns the environment plan with which the plugin was loaded.
    pub fn env_plan(&self) -> &EnvPlan {
        self.setup.plan()
    }

    /// Returns the recommended variables that the process did not have when this call loaded the plugin. The plugin uses
    /// its defaults for them.
    pub fn missing_variables(&self) -> &[MissingVariable] {
        &self.missing
    }

    /// Creates a client. Its options are the plan's, then the discovered ones, then `options`, checked and converted by
    /// the plugin's schema. If the devices support only one client, the client holds a lease on them until its last
    /// handle, buffer and executable are dropped.
    ///
    /// # Errors
    ///
    /// - [`Error::Stale`] or [`Error::Disabled`] if the entry cannot be used any more;
    /// - [`Error::Options`] with all faults of the options;
    /// - [`Error::NoStore`] if the clients of several processes need a key-value store;
    /// - [`Error::LeaseConflict`], which names the holder, if another client has the devices;
    /// - [`Error::Client`] if the plugin failed.
    #[track_caller]
    pub fn client(&self, options: &ClientOptions) -> Result<Client, Error> {
        let caller = panic::Location::caller();
        self.client_labelled(&format!("{}:{}", caller.file(), caller.line()), options)
    }

    /// Creates a client as [`Self::client`] does. Other programs that request the same devices see the label in their
    /// error.
    ///
    /// # Errors
    ///
    /// In the cases of [`Self::client`].
    pub fn client_labelled(&self, label: &str, options: &ClientOptions) -> Result<Client, Error> {
        let (entry, name) = (&self.entry, self.entry.name());
        entry.registry().check(entry.id(), name)?;
        let plan = self.setup.plan();
        let mut given = entry.candidate().create_options.clone();
        given.extend_from_slice(options.values());
        let values = self.descriptor.client_options(plan, &given).map_err(Error::Options)?;
        if let (Some(coordinator), None) = (plan.coordinator(), options.key_value_store()) {
            return Err(Error::NoStore { name: name.to_owned(), coordinator: coordinator.to_string() });
        }
        let options = options.clone().with_values(values).keeping(Arc::new(self.lease(label)?));
        tracing::debug!(plugin = %name, label, "creating a client");
        self.plugin.client(&options).map_err(|error| Error::Client { name: name.to_owned(), error })
    }

    /// Acquires the right to create a client by other means than [`Self::client`], such as the plugin's C table. While
    /// the lease lives, the plugin is not shut down. If its devices support only one client, other clients are refused,
    /// with this label in the error.
    ///
    /// # Errors
    ///
    /// - [`Error::Stale`] or [`Error::Disabled`] if the entry cannot be used any more;
    /// - [`Error::Setup`] if the process lacks variables that clients need;
    /// - [`Error::LeaseConflict`], which names the holder, if another client has the devices.
    pub fn lease(&self, label: &str) -> Result<ClientLease, Error> {
        let (entry, name) = (&self.entry, self.entry.name());
        entry.registry().check(entry.id(), name)?;
        let stale = || Error::Stale { name: name.to_owned(), id: entry.id() };
        let guard = self.guard.upgrade().ok_or_else(stale)?;
        self.setup.check_client_variables(name)?;
        // Use the plugin's own name, whatever name it was found by.
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
