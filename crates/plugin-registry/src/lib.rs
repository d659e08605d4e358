//! Finds the PJRT plugins of a machine, selects one, and loads it for a framework.
//!
//! ```
//! # #[cfg(feature = "cpu")] {
//! use pjrt::ClientOptions;
//! use plugin_registry::{PluginRegistry, Policy};
//!
//! let registry = PluginRegistry::builder().linked().build(); // or PluginRegistry::discover()
//! let plugin = registry.select(&Policy::prefer("gpu").or("cpu"))?.load()?;
//! let client = plugin.client(&ClientOptions::new())?;
//! assert_eq!(client.platform_name()?, "pjrt_cpu");
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`PluginRegistry`] contains the plugins that the program registers, the plugins that are linked into the program,
//! the plugins that the user names in the environment, and the installed plugins. [`discovery`] lists the searched
//! places and their order. Building a registry only reads files and does not load any plugin.
//! [`PluginRegistry::select`] selects a plugin by a [`Policy`], or returns the reasons why no plugin fits.
//! [`PluginEntry::load`] checks the environment variables that the plugin needs, and loads the plugin once in a
//! process. [`LoadedPlugin::client`] creates a client. [`open`] selects and loads a plugin by its name in one step, and
//! [`open_path`] by the path of its library.
//!
//! # Three types for a plugin
//!
//! | type | state |
//! |---|---|
//! | [`discovery::Candidate`] | found by a search, with the reasons if it cannot be used |
//! | [`PluginEntry`] | has an id in a registry and can be selected if it is usable |
//! | [`LoadedPlugin`] | creates clients, because its library is loaded and its setup is checked |
//!
//! A candidate contains the [`Location`] of its library. The other two types provide access to the candidate.
//!
//! # Features
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `cpu` | yes | the embedded CPU device, under the name `cpu` |
//! | `jit` | no | compiles loops of programs for the embedded CPU device with Cranelift |
//! | `stablehlo` | yes | `PluginEntry::supports`, which reads StableHLO and HLO programs |
//! | `hazards` | yes | a check that rejects programs known to crash XLA's plugins |
//! | `redis` | no | key-value stores on a Redis server |
//! | `etcd` | no | key-value stores in an etcd cluster |
//! | `install` | no | `install`, which installs plugins from Python package indexes |
//!
//! # Trust
//!
//! A plugin is native code that runs in this process. The creator of a registry guarantees that the libraries in it can
//! be trusted, so loading a plugin by name does not require `unsafe`. Functions that take the path of a library are
//! `unsafe`, because the path can lead to any code. [Contract](pjrt::contracts) R1 states what the guarantee means, and
//! which checks of [`discovery`] allow it for a whole machine.

mod describe;
pub mod discovery;
mod error;
mod hardware;
#[cfg(feature = "install")]
pub mod install;
pub mod key_value;
mod lease;
mod location;
#[cfg(test)]
mod messages;
mod open;
mod policy;
mod registry;
pub mod select;
mod select_error;
mod variables;

pub use describe::describe;
pub use error::Error;
pub use hardware::{HardwarePresence, HardwareProbe, HardwareStatus};
pub use lease::{LeaseConflict, LeaseHolder, LockFolder};
pub use location::Location;
pub use open::{find, find_path, names, open, open_path};
pub use policy::Policy;
pub use registry::{
    ClientLease, FileChange, IfReplaced, LoadedPlugin, MissingVariable, PluginEntry, PluginId, PluginLoadOptions,
    PluginRegistry, ProcessEnvironment, RegistryBuilder, Status,
};
pub use select_error::{RejectReason, Rejected, SelectError};

/// Compiles and runs the example in the repository's README.
#[cfg(all(doctest, feature = "cpu"))]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// Compiles and runs the examples in the book's chapter about the registry.
#[cfg(all(doctest, feature = "cpu", feature = "stablehlo"))]
#[doc = include_str!("../../../book/src/registry.md")]
struct Book;

/// Compiles and runs the examples in the package's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct PackageReadme;
