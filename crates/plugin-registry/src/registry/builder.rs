//! Builds a registry.

use std::sync::{Arc, OnceLock, RwLock};

use super::core::{Core, PluginRegistry};
use super::table::Table;
use crate::discovery::Discovery;
use crate::hardware::HardwareProbe;
use crate::lease::LockFolder;

/// Builds a [`PluginRegistry`].
#[derive(Debug, Default)]
pub struct RegistryBuilder {
    discovery: Option<Discovery>,
    probe: Option<HardwareProbe>,
    locks: Option<LockFolder>,
    linked: bool,
    searches_when_needed: bool,
}

impl RegistryBuilder {
    /// Adds the plugins that a search finds.
    #[must_use]
    pub fn discovery(mut self, discovery: Discovery) -> Self {
        self.discovery = Some(discovery);
        self
    }

    /// Adds the plugins that are linked into the program: the embedded CPU device (with the feature `cpu`), and plugins
    /// that registered themselves with `#[device_plugin]`.
    #[must_use]
    pub fn linked(mut self) -> Self {
        self.linked = true;
        self
    }

    /// Uses this probe to look for hardware, instead of a probe of this machine.
    #[must_use]
    pub fn hardware(mut self, probe: HardwareProbe) -> Self {
        self.probe = Some(probe);
        self
    }

    /// Keeps the lock files of exclusive devices in this folder, instead of the folder of [`LockFolder::of_this_user`].
    #[must_use]
    pub fn locks(mut self, locks: LockFolder) -> Self {
        self.locks = Some(locks);
        self
    }

    /// Delays the search until its results are first needed. By default, [`Self::build`] runs the search.
    pub(crate) fn search_when_needed(mut self) -> Self {
        self.searches_when_needed = true;
        self
    }

    /// Builds the registry and runs its first search. Faults of the plugins that the search finds are recorded in their
    /// entries.
    pub fn build(self) -> PluginRegistry {
        let registry = PluginRegistry(Arc::new(Core {
            discovery: self.discovery,
            locks: self.locks.unwrap_or_else(LockFolder::of_this_user),
            table: RwLock::new(Table::new(self.probe.unwrap_or_else(HardwareProbe::of_this_machine))),
            first_search: OnceLock::new(),
        }));
        if self.linked {
            registry.add_linked();
        }
        if !self.searches_when_needed {
            registry.refresh();
        }
        registry
    }
}

impl PluginRegistry {
    /// Creates a registry of the plugins that are linked into the program and the plugins that are found on this
    /// machine, with this process's environment. Only reads files, and does not load any plugin.
    pub fn discover() -> Self {
        Self::with(Discovery::from_environment())
    }

    /// Creates a registry of the plugins that are linked into the program and the plugins that a search finds.
    pub fn with(discovery: Discovery) -> Self {
        Self::builder().linked().discovery(discovery).build()
    }

    /// Creates a registry without plugins.
    pub fn empty() -> Self {
        Self::builder().build()
    }

    /// Returns a builder of a registry. The registry is empty by default.
    pub fn builder() -> RegistryBuilder {
        RegistryBuilder::default()
    }

    /// Returns the global registry of the process, which [`open`](crate::open) uses. It contains the same plugins as
    /// the registry of [`Self::discover`]. Its search runs when the results are first needed, with the environment that
    /// the process had when this function was first called.
    ///
    /// The registry is never dropped. Use [`Self::shutdown_within`] to shut down its plugins.
    pub fn global() -> &'static Self {
        static GLOBAL: OnceLock<PluginRegistry> = OnceLock::new();
        GLOBAL.get_or_init(|| {
            Self::builder().linked().discovery(Discovery::from_environment()).search_when_needed().build()
        })
    }
}
