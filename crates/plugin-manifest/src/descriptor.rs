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
    /// Input that the plugin does not support.
    fn configure(&self, topology: &ProcessTopology, environment: &Environment) -> Option<Result<EnvPlan>> {
        let _ = (topology, environment);
        None
    }

    /// Returns whether the devices can run a program, or `None` if only the table in the manifest describes that.
    ///
    /// # Errors
    ///
    /// Anything that prevents the plugin from answering.
    fn supports(&self, program: &Program, depth: Depth) -> Option<Result<Support>> {
        let _ = (program, depth);
        None
    }

    /// Called once, after the last client is destroyed.
    fn shutdown(&self) {}
}

/// Hooks of a plugin that has no code of its own.
impl Hooks for () {}

/// The complete description of a plugin: a [`Manifest`], a [`Library`] and [`Hooks`].
#[derive(Clone)]
pub struct Descriptor {
    manifest: Manifest,
    library: Library,
    hooks: Arc<dyn Hooks>,
}

impl Descriptor {
    /// A description whose manifest has not been checked. A plugin library that leaves the check to its readers is
    /// smaller. Readers of the description must call [`Self::checked`].
    pub fn unchecked(manifest: Manifest, library: Library, hooks: Arc<dyn Hooks>) -> Self {
        Self { manifest, library, hooks }
    }

    /// Returns the description if its manifest is valid.
    ///
    /// # Errors
    ///
    /// All faults of the manifest.
    pub fn checked(self) -> Result<Self, Faults> {
        self.manifest.validate()?;
        Ok(self)
    }

    /// The description of a plugin.
    ///
    /// # Errors
    ///
    /// All faults of the manifest.
    pub fn new(manifest: Manifest, library: Library, hooks: Arc<dyn Hooks>) -> Result<Self, Faults> {
        Self { manifest, library, hooks }.checked()
    }

    /// The plugin's manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The location of its PJRT library.
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// The set-up of one process: the plugin's own, or the plan of its manifest.
    ///
    /// # Errors
    ///
    /// Input that the plugin does not support. A panic of the plugin is an `INTERNAL` error.
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

    /// Whether the plugin's devices can run a program, determined without a client: the plugin's own answer, or that of
    /// the table in its manifest.
    ///
    /// # Errors
    ///
    /// Faults of the table, and anything that prevents the plugin from answering. A panic of the plugin is an
    /// `INTERNAL` error.
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

    /// The options to pass to the plugin, converted to the types of the schema: those of the process's plan, then those
    /// of the user.
    ///
    /// # Errors
    ///
    /// All faults of the options, as `INVALID_ARGUMENT`.
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
    /// `INTERNAL` for a panic of the plugin.
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
