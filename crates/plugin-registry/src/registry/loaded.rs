//! A plugin that is loaded, and its clients.

use std::fmt;
use std::ops::Deref;
use std::panic::Location;
use std::sync::{Arc, Weak};

use device_plugin::{Descriptor, EnvPlan, ProcessTopology};
use pjrt::{Client, ClientOptions, Plugin};

use super::PluginEntry;
use super::library::{Guest, Use};
use super::setup::{Outstanding, Setup};
use crate::error::Error;
use crate::lease::Lease;

/// A plugin that is loaded. It is a [`Plugin`] with the registry's care: options are checked, and devices that bear
/// one client are held by one.
///
/// A client made with [`Plugin::client`] of the plugin within has none of that.
#[derive(Clone)]
pub struct LoadedPlugin {
    entry: PluginEntry,
    plugin: Plugin,
    setup: Setup,
    unapplied: Vec<Outstanding>,
    /// The entry's, or the library's own where the entry has none.
    descriptor: Descriptor,
    /// Held by the registry, so that a handle kept somewhere does not keep the plugin from being shut down.
    used: Weak<Use>,
}

/// The right to have a client, which a client of the registry holds until it is gone; see [`LoadedPlugin::lease`].
#[derive(Debug)]
pub struct ClientLease {
    // The lock goes first: a plugin is shut down with nobody holding its device.
    _lease: Option<Lease>,
    _guest: Guest,
}

impl LoadedPlugin {
    pub(super) fn new(
        entry: PluginEntry,
        descriptor: &Descriptor,
        used: &Arc<Use>,
        setup: Setup,
        unapplied: Vec<Outstanding>,
    ) -> Self {
        let own = used.own().filter(|_| !entry.is_described());
        let descriptor = own.unwrap_or(descriptor).clone();
        Self { entry, plugin: used.plugin().clone(), setup, unapplied, descriptor, used: Arc::downgrade(used) }
    }

    /// Its entry in the registry.
    pub fn entry(&self) -> &PluginEntry {
        &self.entry
    }

    /// Its description: the entry's, or what the library says of itself, where it was found without a manifest and
    /// exports a description (`DevicePlugin_GetDescriptor`).
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// The plugin itself.
    pub fn plugin(&self) -> &Plugin {
        &self.plugin
    }

    /// The place among processes it was loaded for.
    pub fn topology(&self) -> &ProcessTopology {
        self.setup.topology()
    }

    /// The set-up it was loaded with.
    pub fn env_plan(&self) -> &EnvPlan {
        self.setup.plan()
    }

    /// Variables the plugin would like and the process did not have when this call loaded it.
    pub fn unapplied(&self) -> &[Outstanding] {
        &self.unapplied
    }

    /// Creates a client. Options are checked and converted by the plugin's schema, after those of the set-up and the
    /// discovered ones. A device that bears one client is held until the last handle of the client, its buffers and
    /// executables is gone.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`], [`Error::Disabled`]; [`Error::Options`] with all faults; [`Error::NoStore`];
    /// [`Error::Held`], which names who holds the device; [`Error::Client`] with the plugin's words.
    #[track_caller]
    pub fn client(&self, options: &ClientOptions) -> Result<Client, Error> {
        let place = Location::caller();
        self.client_labelled(&format!("{}:{}", place.file(), place.line()), options)
    }

    /// Creates a client as [`Self::client`] does, for one who is told to others by that label.
    ///
    /// # Errors
    ///
    /// Those of [`Self::client`].
    pub fn client_labelled(&self, label: &str, options: &ClientOptions) -> Result<Client, Error> {
        let (entry, name) = (&self.entry, self.entry.name());
        entry.registry().check(entry.id(), name)?;
        let plan = self.setup.plan();
        let mut given = entry.candidate().create_options.clone();
        given.extend_from_slice(options.values());
        let values = self.descriptor.client_options(plan, &given).map_err(|error| Error::Options(Box::new(error)))?;
        if let (Some(coordinator), None) = (plan.coordinator(), options.key_value_store()) {
            return Err(Error::NoStore { name: name.to_owned(), coordinator: coordinator.to_string() });
        }
        let options = options.clone().with_values(values).keeping(Arc::new(self.lease(label)?));
        tracing::debug!(plugin = %name, label, "creating a client");
        self.plugin.client(&options).map_err(|error| Error::Client { name: name.to_owned(), error })
    }
}

impl LoadedPlugin {
    /// The right to have a client, for who creates it other than by [`Self::client`]: through the plugin's C table.
    /// While it lives the plugin is not shut down, and devices that bear one client are refused to others, who are told
    /// the label.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`], [`Error::Disabled`]; [`Error::Setup`] where the process lacks variables that clients need;
    /// [`Error::Held`], which names who holds the device.
    pub fn lease(&self, label: &str) -> Result<ClientLease, Error> {
        let (entry, name) = (&self.entry, self.entry.name());
        entry.registry().check(entry.id(), name)?;
        let stale = || Error::Stale { name: name.to_owned(), id: entry.id() };
        let used = self.used.upgrade().ok_or_else(stale)?;
        self.setup.ready_for_client(name)?;
        // By the plugin's own name, whatever name it was found under.
        let manifest = self.descriptor.manifest();
        let lock = Lease::acquire(&manifest.name, manifest.ownership, label, entry.registry().locks())
            .map_err(|error| Error::lease(name, error))?;
        Ok(ClientLease { _lease: lock, _guest: used.admit() })
    }
}

impl Deref for LoadedPlugin {
    type Target = Plugin;

    fn deref(&self) -> &Plugin {
        &self.plugin
    }
}

impl fmt::Debug for LoadedPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadedPlugin").field("entry", &self.entry).field("plugin", &self.plugin).finish_non_exhaustive()
    }
}
