//! A plugin from a framework's point of view: its description, the location of its library, and its hooks.

use std::fmt;
use std::sync::Arc;

use crate::contain::contain;
use crate::diagnostic::Faults;
use crate::{
    Depth, EnvPlan, Environment, Error, Library, Manifest, NamedValue, ProcessTopology, Program, Result, Support,
};

/// The code that a plugin provides in addition to its library.
pub trait Hooks: Send + Sync + 'static {
    /// Returns the set-up of one process, or `None` if the plan in the manifest is complete.
    ///
    /// # Errors
    ///
    /// Returns an error if the plugin does not support this topology or environment.
    fn configure(&self, topology: &ProcessTopology, environment: &Environment) -> Option<Result<EnvPlan>> {
        let _ = (topology, environment);
        None
    }

    /// Returns whether the devices can run a program, or `None` if only the manifest describes the supported programs.
    ///
    /// # Errors
    ///
    /// Returns an error if the plugin cannot determine the answer.
    fn supports(&self, program: &Program, depth: Depth) -> Option<Result<Support>> {
        let _ = (program, depth);
        None
    }

    /// Shuts down the plugin. Called once, after the last client is destroyed.
    fn shutdown(&self) {}
}

/// Hooks of a plugin that does not need any.
impl Hooks for () {}

/// The complete description of a plugin: a [`Manifest`], a [`Library`] and [`Hooks`].
#[derive(Clone)]
pub struct Descriptor {
    manifest: Manifest,
    library: Library,
    hooks: Arc<dyn Hooks>,
}

impl Descriptor {
    /// Creates a description without checking its manifest. A plugin library that leaves the check to its readers is
    /// smaller. Readers of the description must call [`Self::checked`].
    pub fn unchecked(manifest: Manifest, library: Library, hooks: Arc<dyn Hooks>) -> Self {
        Self { manifest, library, hooks }
    }

    /// Returns the description if its manifest is valid.
    ///
    /// # Errors
    ///
    /// Returns an error if the manifest has faults. The error contains all of them.
    pub fn checked(self) -> Result<Self, Faults> {
        self.manifest.validate()?;
        Ok(self)
    }

    /// Creates the description of a plugin and checks its manifest.
    ///
    /// # Errors
    ///
    /// Returns an error if the manifest has faults. The error contains all of them.
    pub fn new(manifest: Manifest, library: Library, hooks: Arc<dyn Hooks>) -> Result<Self, Faults> {
        Self { manifest, library, hooks }.checked()
    }

    /// Returns the plugin's manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns the location of the plugin's PJRT library.
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// Returns the set-up of one process, from the plugin's hook or from the plan in its manifest.
    ///
    /// # Errors
    ///
    /// Returns an error if the plugin does not support this topology or environment, or if the plan is invalid. A panic
    /// of the plugin becomes an `INTERNAL` error.
    pub fn configure(&self, topology: &ProcessTopology, environment: &Environment) -> Result<EnvPlan> {
        let name = &self.manifest.name;
        let own = contain(|| self.hooks.configure(topology, environment).transpose());
        let plan = match own.map_err(|error| error.context(format!("configure of {name}")))? {
            Some(plan) => plan,
            None => self.manifest.process.resolve(topology, environment)?,
        };
        plan.can_be_set().map_err(|error| error.context(format!("configure of {name}")))?;
        Ok(plan)
    }

    /// Determines without a client whether the plugin's devices can run a program. A program whose StableHLO version
    /// the manifest excludes is not supported. For any other program, the answer comes from the plugin's hook or from
    /// the table in its manifest.
    ///
    /// # Errors
    ///
    /// Returns an error if the table is invalid, or if the plugin cannot determine the answer. A panic of the plugin
    /// becomes an `INTERNAL` error.
    #[cfg(feature = "stablehlo")]
    pub fn supports(&self, program: &Program, depth: Depth) -> Result<Support> {
        if let Some(no) = self.manifest.refuses_version(program) {
            return Ok(no);
        }
        let own = contain(|| self.hooks.supports(program, depth).transpose());
        match own.map_err(|error| error.context(format!("supports of {}", self.manifest.name)))? {
            Some(support) => Ok(support),
            None => self.manifest.supports(program, depth).map_err(Error::from),
        }
    }

    /// Returns the options for `PJRT_Client_Create`, converted to the types of the schema. `given` contains the user's
    /// options. Each of them replaces the option of the process plan that has the same name.
    ///
    /// # Errors
    ///
    /// Returns an `INVALID_ARGUMENT` error if options are invalid. The error contains all faults.
    pub fn client_options(&self, plan: &EnvPlan, given: &[NamedValue]) -> Result<Vec<NamedValue>> {
        let mut all = plan.create_options().to_vec();
        all.extend_from_slice(given);
        let resolved = self.manifest.create_options.resolve(&all);
        resolved.map_err(|faults| Error::invalid_argument(format!("options of {}: {faults}", self.manifest.name)))
    }

    /// Runs the plugin's shutdown hook.
    ///
    /// # Errors
    ///
    /// Returns `INTERNAL` if the hook panics.
    pub fn shutdown(&self) -> Result<()> {
        contain(|| {
            self.hooks.shutdown();
            Ok(())
        })
        .map_err(|error| error.context(format!("shutdown of {}", self.manifest.name)))
    }
}

impl fmt::Debug for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Descriptor").field("name", &self.manifest.name).field("library", &self.library).finish()
    }
}
