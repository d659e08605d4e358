//! The contract between a plugin and the frameworks that use it.

use crate::{
    Backend, Capabilities, Depth, EnvPlan, Environment, Error, Library, Manifest, NamedValue, OptionSchema, Ownership,
    ProcessPlan, ProcessTopology, Program, Result, StablehloVersions, Support,
};

/// A plugin: its name, its [`Backend`] or its library, and its description. Register and export it with
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
/// All functions are called before a client exists, and must not need a device.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a plugin, because it does not implement `device_plugin::DevicePlugin`",
    label = "`DevicePlugin` is not implemented",
    note = "write `use device_plugin::DevicePlugin;` and `#[device_plugin] impl DevicePlugin for {Self} {{ … }}`"
)]
pub trait DevicePlugin: 'static {
    /// Name by which frameworks register the plugin, and its platform name: a lower-case letter, then lower-case
    /// letters, digits and underscores.
    const NAME: &'static str;

    /// Other names by which users select the plugin, such as `gpu`.
    const ALIASES: &'static [&'static str] = &[];

    /// Version of the plugin, and of wheels built from it. If it is omitted, [`macro@crate::device_plugin`] inserts the
    /// version of the crate.
    const VERSION: &'static str = "";

    /// Whether the plugin overrides [`Self::configure`]. If it does not, [`macro@crate::device_plugin`] inserts
    /// `false`, so that the library contains no code to resolve plans. The program that loads it has that code.
    #[doc(hidden)]
    const CONFIGURES: bool = true;

    /// The device. If it is omitted, [`macro@crate::device_plugin`] inserts [`NoBackend`](crate::NoBackend).
    type Backend: Backend;

    /// The location of the PJRT library. By default this library, with [`Self::Backend`] behind it.
    fn library() -> Library {
        Library::This
    }

    /// The capabilities of the devices. By default these are the values that frameworks assume about an unknown device.
    fn capabilities() -> Capabilities {
        Capabilities::default()
    }

    /// The options that a client takes. By default all are passed on unchecked.
    fn options() -> OptionSchema {
        OptionSchema::any()
    }

    /// Set-up of each process before the plugin is loaded. By default there is none.
    fn process() -> ProcessPlan {
        ProcessPlan::default()
    }

    /// The set-up of one process. By default it follows from [`Self::process`]. A plugin whose set-up cannot be
    /// expressed as a plan computes it here. Only frameworks in Rust, C and C++ can then configure it.
    ///
    /// # Errors
    ///
    /// If the plugin does not support the input. The error names the variable or the rank.
    fn configure(topology: &ProcessTopology, environment: &Environment) -> Result<EnvPlan> {
        Self::process().resolve(topology, environment).map_err(Error::from)
    }

    /// The clients that may use the devices at the same time.
    fn ownership() -> Ownership {
        Ownership::Shared
    }

    /// Releases resources that the clients of the process share, such as a context of the driver. This SDK's registry
    /// calls it after the last client is destroyed, and before the process ends or the plugin is unregistered. JAX and
    /// PyTorch/XLA do not call it.
    ///
    /// Do not wait for work in progress here. Wait for it in the destructor of the [`Backend`], which runs in every
    /// framework that destroys its client.
    fn shutdown() {}

    /// Adds properties to the manifest that no other function sets: display names, hardware, priority.
    fn manifest(manifest: Manifest) -> Manifest {
        manifest
    }

    /// Set-up that must happen once in a process, before the first client.
    ///
    /// # Errors
    ///
    /// If the plugin cannot work on this machine.
    fn initialize() -> Result<()> {
        Ok(())
    }

    /// The StableHLO versions that the backend reads. Frameworks serialize programs for the current one, so a backend
    /// that pins it keeps working with newer frameworks. With `None` the framework chooses. For example, JAX 0.10.2,
    /// which supports 1.17.0, then uses 1.13.7, because that version is 12 weeks older.
    ///
    /// JAX never serializes for a newer version than its own. The SDK rejects programs in other versions, such as an
    /// artifact from a file, with an error that names both versions.
    fn stablehlo_versions() -> Option<StablehloVersions> {
        None
    }

    /// Whether the devices can run a program, determined without a client or a device. By default `None`: the answer
    /// then comes from the manifest's [`SupportTable`](crate::SupportTable), if there is one.
    fn supports(program: &Program, depth: Depth) -> Option<Support> {
        let _ = (program, depth);
        None
    }

    /// Additional attributes of the plugin.
    fn attributes() -> Vec<NamedValue> {
        Vec::new()
    }
}
