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

    /// Looks for hardware with this probe instead of one of this machine.
    #[must_use]
    pub fn hardware(mut self, probe: HardwareProbe) -> Self {
        self.probe = Some(probe);
        self
    }

    /// Keeps the lock files of exclusive devices in this folder instead of the user's.
    #[must_use]
    pub fn locks(mut self, locks: LockFolder) -> Self {
        self.locks = Some(locks);
        self
    }

    /// Runs the search when its result is first needed, instead of when the registry is built.
    pub(crate) fn search_when_needed(mut self) -> Self {
        self.searches_when_needed = true;
        self
    }

    /// Builds the registry and runs its first search. Faults of the plugins found are recorded in their entries.
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
    /// Creates a registry of the plugins linked into the program and those found on this machine, with this process's
    /// environment. Reads files and loads nothing.
    pub fn discover() -> Self {
        Self::with(Discovery::from_environment())
    }

    /// Creates a registry of the plugins linked into the program and those that a search finds.
    pub fn with(discovery: Discovery) -> Self {
        Self::builder().linked().discovery(discovery).build()
    }

    /// Creates a registry without plugins.
    pub fn empty() -> Self {
        Self::builder().build()
    }

    /// Builds a registry step by step, beginning with an empty one.
    pub fn builder() -> RegistryBuilder {
        RegistryBuilder::default()
    }

    /// Returns the registry of the process, which [`open`](crate::open) uses. It has the plugins of [`Self::discover`].
    /// It searches when the result is first needed, with the environment that the process had when this function was
    /// first called.
    ///
    /// The registry is never dropped. [`Self::shutdown_within`] shuts its plugins down.
    pub fn global() -> &'static Self {
        static GLOBAL: OnceLock<PluginRegistry> = OnceLock::new();
        GLOBAL.get_or_init(|| {
            Self::builder().linked().discovery(Discovery::from_environment()).search_when_needed().build()
        })
    }
}
