//! The contract between a plugin and the frameworks that use it.

use crate::{
    Backend, Capabilities, Effort, EnvPlan, Environment, Error, Library, Manifest, NamedValue, OptionSchema, Ownership,
    ProcessPlan, ProcessTopology, Program, Result, Support,
};

/// A plugin: its name, its [`Backend`] or its library, and what it says of itself. Registered and exported with
/// [`macro@crate::device_plugin`].
///
/// Only the name is required. A plugin that wraps an existing PJRT library names the library instead of a backend:
///
/// ```
/// use device_plugin::{DevicePlugin, Library, device_plugin};
///
/// pub struct Example;
///
/// #[device_plugin]
/// impl DevicePlugin for Example {
///     const NAME: &'static str = "example";
///     fn library() -> Library {
///         Library::beside("libexample_pjrt.so")
///     }
/// }
/// ```
///
/// All functions are answered before a client exists, and without a device.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no plugin: it does not implement `device_plugin::DevicePlugin`",
    label = "no plugin",
    note = "write `use device_plugin::DevicePlugin;` and `#[device_plugin] impl DevicePlugin for {Self} {{ … }}`"
)]
pub trait DevicePlugin: 'static {
    /// Name by which frameworks register the plugin, and its platform name: a lower-case letter, then lower-case
    /// letters, digits and underscores.
    const NAME: &'static str;

    /// Other names by which users ask for it, such as `gpu`.
    const ALIASES: &'static [&'static str] = &[];

    /// Version of the plugin, and of a wheel made of it. [`macro@crate::device_plugin`] writes that of the crate where it
    /// is left out.
    const VERSION: &'static str = "";

    /// Whether [`Self::configure`] is the plugin's own. [`macro@crate::device_plugin`] writes `false` where that is left
    /// out, so that the library has no code that works out plans: whoever loads it has.
    #[doc(hidden)]
    const CONFIGURES: bool = true;

    /// The device. [`macro@crate::device_plugin`] writes [`NoBackend`](crate::NoBackend) where it is left out.
    type Backend: Backend;

    /// Where the PJRT library is. By default it is this one, with [`Self::Backend`] behind it.
    fn library() -> Library {
        Library::This
    }

    /// What the devices can do and want. By default what frameworks assume of a device they know nothing about.
    fn capabilities() -> Capabilities {
        Capabilities::default()
    }

    /// The options a client takes. By default all are passed on unchecked.
    fn options() -> OptionSchema {
        OptionSchema::any()
    }

    /// What to set up in each process before the plugin is loaded. By default nothing.
    fn process() -> ProcessPlan {
        ProcessPlan::default()
    }

    /// The set-up of one process. By default that of [`Self::process`]; a plugin whose set-up cannot be written as a
    /// plan computes it here, and is then configured by frameworks in Rust, C and C++ only.
    ///
    /// # Errors
    ///
    /// What the plugin cannot work with, naming the variable or rank.
    fn configure(topology: &ProcessTopology, environment: &Environment) -> Result<EnvPlan> {
        Self::process().resolve(topology, environment).map_err(Error::from)
    }

    /// Who may use the devices at once.
    fn ownership() -> Ownership {
        Ownership::Shared
    }

    /// Releases what the clients of the process share, such as a context of the driver. Called by this SDK's registry
    /// after the last client is gone, before the process ends or the plugin is forgotten. JAX and PyTorch/XLA do not
    /// call it.
    ///
    /// It is not the place to finish work: that belongs to the destructor of the [`Backend`], which every framework
    /// reaches that destroys its client.
    fn shutdown() {}

    /// Adds to the manifest what is said nowhere else: names for people, hardware, priority.
    fn manifest(manifest: Manifest) -> Manifest {
        manifest
    }

    /// Set-up that must happen once in a process, before the first client.
    ///
    /// # Errors
    ///
    /// Whatever keeps the plugin from working on this machine.
    fn initialize() -> Result<()> {
        Ok(())
    }

    /// The StableHLO versions the backend reads. Frameworks serialize programs for the current one, so a backend that
    /// pins it keeps working with newer frameworks. None leaves the choice to the framework: JAX 0.10.2, which knows
    /// 1.17.0, then takes 1.13.7, as it is 12 weeks older.
    ///
    /// JAX never serializes for a newer version than its own. What comes in another version than these, such as an
    /// artifact from a file, is refused with both versions named.
    fn stablehlo_versions() -> Option<StablehloVersions> {
        None
    }

    /// Whether the devices can run a program, told without a client or a device. By default none: then the manifest's
    /// [`SupportTable`](crate::SupportTable) counts, as far as it goes.
    fn supports(program: &Program, effort: Effort) -> Option<Support> {
        let _ = (program, effort);
        None
    }

    /// Further attributes of the plugin.
    fn attributes() -> Vec<NamedValue> {
        Vec::new()
    }
}

/// Versions of StableHLO, as major, minor and patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StablehloVersions {
    /// Newest version the backend reads.
    pub current: [i64; 3],
    /// Oldest version the backend reads.
    pub minimum: [i64; 3],
}
