//! A plugin of a registry, not yet loaded.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use device_plugin::{
    Capabilities, Descriptor, Effort, EnvPlan, Environment, Manifest, ProcessTopology, Program, Support,
};

use super::library::{Shared, Source};
use super::loaded::LoadedPlugin;
use super::record::Record;
use super::setup::LoadOptions;
use super::{PluginId, PluginRegistry};
use crate::discovery::Candidate;
use crate::error::Error;
use crate::hardware::Sighting;

/// A plugin of a registry. It may be loaded or not, and is no promise that it can be.
#[derive(Clone)]
pub struct PluginEntry {
    registry: PluginRegistry,
    id: PluginId,
    record: Arc<Record>,
}

/// What can be said of a plugin without loading it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// It can be loaded, as far as its file tells.
    Available,
    /// This registry loaded it; the number of its clients.
    Loaded(usize),
    /// It cannot be used; its candidate says why.
    Refused,
    /// It is switched off; why.
    Disabled(String),
    /// The handle is stale.
    Stale,
}

impl PluginEntry {
    pub(super) fn new(registry: PluginRegistry, id: PluginId, record: Arc<Record>) -> Self {
        Self { registry, id, record }
    }

    /// Its handle.
    pub fn id(&self) -> PluginId {
        self.id
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.record.manifest.name
    }

    /// What it says of itself; a plugin without a manifest says only its names.
    pub fn manifest(&self) -> &Manifest {
        &self.record.manifest
    }

    /// What its devices can do and want, as the plugin says it and the user changed it.
    pub fn capabilities(&self) -> &Capabilities {
        &self.record.manifest.capabilities
    }

    /// Its description; none where it cannot be used.
    pub fn descriptor(&self) -> Option<&Descriptor> {
        self.record.descriptor.as_ref()
    }

    /// Its library, where it was found, and what speaks against it.
    pub fn candidate(&self) -> &Candidate {
        &self.record.candidate
    }

    /// Whether its hardware is there, as seen when the registry was made or last refreshed.
    pub fn hardware(&self) -> Arc<Sighting> {
        self.record.hardware()
    }

    /// Whether a user who writes `name` may mean this plugin.
    pub fn answers_to(&self, name: &str) -> bool {
        self.record.answers_to(name)
    }

    /// Its registry.
    pub fn registry(&self) -> &PluginRegistry {
        &self.registry
    }

    /// What can be said of it without loading it.
    pub fn status(&self) -> Status {
        match self.registry.check(self.id, self.name()) {
            Err(Error::Disabled { reason, .. }) => Status::Disabled(reason),
            Err(_) => Status::Stale,
            Ok(()) if !self.record.candidate.refusals.is_empty() => Status::Refused,
            Ok(()) => match &*self.record.used() {
                Some(used) => Status::Loaded(used.shared().clients()),
                None => Status::Available,
            },
        }
    }

    /// What it needs of a process at that place. Nothing is set.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] where it cannot be used; [`Error::Configure`] with what it cannot work with.
    pub fn plan(&self, topology: &ProcessTopology, environment: &Environment) -> Result<EnvPlan, Error> {
        let failed = |error| Error::Configure { name: self.name().to_owned(), error: Box::new(error) };
        self.usable()?.configure(topology, environment).map_err(failed)
    }

    /// Whether its devices can run a program, told without a client: the plugin's own answer where its code is at hand,
    /// else that of the table in its manifest. Nothing is loaded.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] where it cannot be used; [`Error::Supports`] with what is wrong with the table, or what keeps
    /// the plugin from telling.
    pub fn supports(&self, program: &Program, effort: Effort) -> Result<Support, Error> {
        let failed = |error| Error::Supports { name: self.name().to_owned(), error: Box::new(error) };
        self.usable()?.supports(program, effort).map_err(failed)
    }

    /// Loads the plugin for a process alone, as [`Self::load_with`] does.
    ///
    /// # Errors
    ///
    /// Those of [`Self::load_with`].
    pub fn load(&self) -> Result<LoadedPlugin, Error> {
        self.load_with(&LoadOptions::new())
    }

    /// Loads the plugin's library, unless that has happened in this process, and initializes it. It happens once for
    /// each library, however many registries and threads ask; what the first set up holds for all.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`], [`Error::Disabled`], [`Error::Refused`]; [`Error::Setup`] where the process lacks variables
    /// the plugin needs; [`Error::OtherSetup`] where it was loaded for another place among processes;
    /// [`Error::Replaced`] where its file changed since it was loaded; [`Error::ShutDown`]; [`Error::Load`] with what the library's loader or the plugin says.
    pub fn load_with(&self, options: &LoadOptions<'_>) -> Result<LoadedPlugin, Error> {
        self.registry.check(self.id, self.name())?;
        let descriptor = self.usable()?;
        let source = Source::of(descriptor)?;
        let check = |path: &Path| self.registry.check_file(&self.record, path);
        let (used, setup, outstanding) =
            Shared::of(&source).newest(options).load(&source, descriptor, options, check)?;
        self.registry.keep(self.id, &self.record, &used)?;
        Ok(LoadedPlugin::new(self.clone(), descriptor, &used, setup, outstanding))
    }

    /// Whether its manifest is its own.
    pub(super) fn is_described(&self) -> bool {
        self.record.described
    }

    fn usable(&self) -> Result<&Descriptor, Error> {
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
