//! A plugin in a registry, whether or not it is loaded.

use std::fmt;
use std::sync::Arc;

use plugin_manifest::{Capabilities, Descriptor, EnvPlan, Environment, Manifest, ProcessTopology};
#[cfg(feature = "stablehlo")]
use plugin_manifest::{Depth, Program, Support};

use super::core::PluginRegistry;
use super::id::PluginId;
use super::record::Record;
use crate::discovery::Candidate;
use crate::error::Error;
use crate::hardware::HardwareStatus;

/// A plugin in a registry, loaded or not. The plugin may be unusable. [`Self::status`] and [`Self::candidate`] return
/// the reasons.
#[derive(Clone)]
pub struct PluginEntry {
    pub(super) registry: PluginRegistry,
    pub(super) id: PluginId,
    pub(super) record: Arc<Record>,
}

/// The state of a plugin, determined without loading it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// This registry has not loaded the plugin, and discovery found no reason against loading it.
    Available,
    /// This registry loaded the plugin. The field is the number of clients of its library.
    Loaded(usize),
    /// The plugin cannot be used. The refusals of its candidate state the reasons.
    Refused,
    /// The plugin is disabled. The field is the reason.
    Disabled(String),
    /// The entry is stale, because the plugin was changed or removed.
    Stale,
}

impl PluginEntry {
    /// Returns the plugin's id in its registry.
    pub fn id(&self) -> PluginId {
        self.id
    }

    /// Returns the plugin's name.
    pub fn name(&self) -> &str {
        &self.record.manifest.name
    }

    /// Returns the plugin's manifest. If the plugin has no manifest of its own, returns the built-in manifest of the
    /// device with its name, or a manifest with only the known names and priority.
    pub fn manifest(&self) -> &Manifest {
        &self.record.manifest
    }

    /// Returns the capabilities of the plugin's devices, as declared by the plugin and overridden by the user's
    /// environment variable.
    pub fn capabilities(&self) -> &Capabilities {
        &self.record.manifest.capabilities
    }

    /// Returns the plugin's description, or `None` if its library is unknown or its manifest is invalid.
    pub fn descriptor(&self) -> Option<&Descriptor> {
        self.record.descriptor.as_ref()
    }

    /// Returns the results of discovery: the plugin's library, the place where the plugin was found, and any reasons
    /// why the plugin cannot be used.
    pub fn candidate(&self) -> &Candidate {
        &self.record.candidate
    }

    /// Returns whether the plugin's hardware was found when the registry was created or last refreshed.
    pub fn hardware(&self) -> Arc<HardwareStatus> {
        self.record.hardware()
    }

    /// Returns whether the plugin has this name, alias or platform name, regardless of letter case.
    pub fn answers_to(&self, name: &str) -> bool {
        self.record.answers_to(name)
    }

    /// Returns the registry that contains this entry.
    pub fn registry(&self) -> &PluginRegistry {
        &self.registry
    }

    /// Returns the state of the plugin, without loading it.
    pub fn status(&self) -> Status {
        match self.registry.check(self.id, self.name()) {
            Err(Error::Disabled { reason, .. }) => Status::Disabled(reason),
            Err(_) => Status::Stale,
            Ok(()) if !self.record.candidate.refusals.is_empty() => Status::Refused,
            Ok(()) => match &*self.record.guard() {
                Some(guard) => Status::Loaded(guard.library().clients()),
                None => Status::Available,
            },
        }
    }

    /// Returns the environment variables and the client options that the plugin needs in a process with this topology.
    /// Does not set any variable.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Refused`] or [`Error::NoLibrary`] if the plugin cannot be used, or [`Error::Configure`] if the
    /// plugin does not support this topology.
    pub fn plan(&self, topology: &ProcessTopology, environment: &Environment) -> Result<EnvPlan, Error> {
        let failed = |error| Error::Configure { name: self.name().to_owned(), error };
        self.usable()?.configure(topology, environment).map_err(failed)
    }

    /// Returns whether the plugin's devices can run a program, without a client and without loading the plugin. If the
    /// plugin is linked into the program, a function of the plugin determines the result. For any other plugin, the
    /// `supported_programs` table in its manifest determines the result.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Refused`] or [`Error::NoLibrary`] if the plugin cannot be used, or [`Error::Supports`] if the
    /// table has faults or the plugin's function failed.
    #[cfg(feature = "stablehlo")]
    pub fn supports(&self, program: &Program, depth: Depth) -> Result<Support, Error> {
        let failed = |error| Error::Supports { name: self.name().to_owned(), error };
        self.usable()?.supports(program, depth).map_err(failed)
    }

    /// Returns the plugin's description, or an error with the reasons why the plugin cannot be used.
    pub(super) fn usable(&self) -> Result<&Descriptor, Error> {
        let name = self.name().to_owned();
        let refusals = &self.record.candidate.refusals;
        if !refusals.is_empty() {
            return Err(Error::Refused { name, refusals: refusals.clone() });
        }
        self.record.descriptor.as_ref().ok_or(Error::NoLibrary { name })
    }
}

impl fmt::Debug for PluginEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PluginEntry").field("name", &self.name()).field("id", &self.id).finish_non_exhaustive()
    }
}
