//! The trait that describes a plugin to frameworks.

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
///         // SAFETY: R1 (the library is trusted): it is this vendor's PJRT plugin.
///         unsafe { Library::beside("libexample_pjrt.so") }
///     }
/// }
/// ```
///
/// All functions except [`Self::shutdown`] may be called before a client exists. These functions must work on a machine
/// without a device.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a plugin, because it does not implement `device_plugin::DevicePlugin`",
    label = "`DevicePlugin` is not implemented",
    note = "write `use device_plugin::DevicePlugin;` and `#[device_plugin] impl DevicePlugin for {Self} {{ … }}`"
)]
pub trait DevicePlugin: 'static {
    /// Name by which frameworks register the plugin. It is also the platform name. It begins with a lower-case letter,
    /// and contains only lower-case letters, digits and underscores.
    const NAME: &'static str;

    /// Returns the name. The interface for vendors in C overrides this function, because the name of such a plugin is
    /// not known when this library is compiled.
    #[doc(hidden)]
    fn name() -> &'static str {
        Self::NAME
    }

    /// Other names by which users select the plugin, such as `gpu`.
    const ALIASES: &'static [&'static str] = &[];

    /// Version of the plugin, and of wheels built from it. If it is omitted, [`macro@crate::device_plugin`] inserts the
    /// version of the crate.
    const VERSION: &'static str = "";

    /// Whether the plugin overrides [`Self::configure`]. If it does not, [`macro@crate::device_plugin`] inserts
    /// `false`, so that the library does not contain the code that resolves a [`ProcessPlan`]. The program that loads
    /// the library contains this code.
    #[doc(hidden)]
    const CONFIGURES: bool = true;

    /// The backend, which drives the devices. If it is omitted, [`macro@crate::device_plugin`] inserts
    /// [`NoBackend`](crate::NoBackend).
    type Backend: Backend;

    /// Returns the location of the PJRT library. By default it is the library that contains [`Self::Backend`].
    fn library() -> Library {
        Library::This
    }

    /// Returns the capabilities of the devices. The default contains the values that frameworks assume for an unknown
    /// device.
    fn capabilities() -> Capabilities {
        Capabilities::default()
    }

    /// Returns the options that a client accepts. By default all options are passed on unchecked.
    fn options() -> OptionSchema {
        OptionSchema::any()
    }

    /// Returns the set-up that each process needs before the plugin is loaded. By default there is none.
    fn process() -> ProcessPlan {
        ProcessPlan::default()
    }

    /// Computes the set-up of one process. The default resolves the plan of [`Self::process`]. Override this function
    /// if a plan cannot express the set-up. In that case, only frameworks in Rust, C and C++ can configure the process.
    ///
    /// # Errors
    ///
    /// Returns an error if the plugin does not support the topology or the environment. The error names the environment
    /// variable or the rank at fault.
    fn configure(topology: &ProcessTopology, environment: &Environment) -> Result<EnvPlan> {
        Self::process().resolve(topology, environment).map_err(Error::from)
    }

    /// Returns which clients may use the devices at the same time. By default any number of clients may share them.
    fn ownership() -> Ownership {
        Ownership::Shared
    }

    /// Releases resources that the clients of the process share, such as a context of the driver. The registry of this
    /// SDK calls this function after the last client is destroyed, before the process ends or the plugin is
    /// unregistered. JAX and PyTorch/XLA do not call it.
    ///
    /// Do not wait for work in progress in this function. Wait in the destructor of the [`Backend`] instead, because it
    /// runs in every framework that destroys its client.
    fn shutdown() {}

    /// Adds to the manifest the properties that no other function of this trait sets, such as display names, hardware
    /// and priority.
    fn manifest(manifest: Manifest) -> Manifest {
        manifest
    }

    /// Runs the set-up that must happen once in a process, before the first client is created.
    ///
    /// # Errors
    ///
    /// Returns an error if the plugin cannot work on this machine.
    fn initialize() -> Result<()> {
        Ok(())
    }

    /// Returns the StableHLO versions that the backend reads. Frameworks serialize programs for
    /// [`StablehloVersions::current`], so a backend that sets a fixed version keeps working with newer frameworks. If
    /// the result is `None`, the framework chooses the version. For example, JAX 0.10.2 supports 1.17.0 but serializes
    /// for 1.13.7, because it chooses a version that is 12 weeks older.
    ///
    /// JAX never serializes for a newer version than its own. The SDK rejects a portable artifact of another version,
    /// such as an artifact from a file. The error names the version of the artifact and the versions that the backend
    /// reads.
    fn stablehlo_versions() -> Option<StablehloVersions> {
        None
    }

    /// Returns whether the devices can run a program, without a client or a device. If the result is `None`, which is
    /// the default, the manifest's [`SupportTable`](crate::SupportTable) determines the answer, if there is one.
    fn supports(program: &Program, depth: Depth) -> Option<Support> {
        let _ = (program, depth);
        None
    }

    /// Returns additional attributes of the plugin.
    fn attributes() -> Vec<NamedValue> {
        Vec::new()
    }
}
