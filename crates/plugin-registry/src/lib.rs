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
//! A [`PluginRegistry`] has the plugins that the program registers, that are linked into it, that the user names in the
//! environment, and that are installed. [`discovery`] lists the places and their order. The registry reads files and
//! loads nothing by itself. [`PluginRegistry::select`] selects a plugin by a [`Policy`], or returns why no plugin fits.
//! [`PluginEntry::load`] loads a plugin once in a process, with the setup it needs. [`LoadedPlugin::client`] creates a
//! client. [`open`] does the first two steps at once, by a name or a path.
//!
//! # Three types for a plugin
//!
//! | type | state |
//! |---|---|
//! | [`discovery::Candidate`] | found in a place; may be unusable, with the reasons |
//! | [`PluginEntry`] | has a place in a registry and can be selected; not necessarily loaded |
//! | [`LoadedPlugin`] | its library is loaded and its setup is checked; creates clients |
//!
//! Each of them has the library's [`Location`].
//!
//! # Features
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `cpu` | yes | the embedded CPU device, under the name `cpu` |
//! | `jit` | no | code for loops of programs on the embedded device, with the compiler Cranelift |
//! | `stablehlo` | yes | `PluginEntry::supports`, which reads StableHLO and HLO programs |
//! | `hazards` | yes | a check that refuses programs known to crash XLA's plugins |
//! | `redis` | no | key-value stores on a Redis server |
//! | `etcd` | no | key-value stores in an etcd cluster |
//!
//! # Trust
//!
//! A plugin is native code that runs in this process. The creator of a registry guarantees that its libraries may be
//! loaded, so no function here is `unsafe` for that reason. [Contract](pjrt::contracts) R1 states what this means, and
//! which checks of [`discovery`] allow such a guarantee for a whole machine. A caller of [`open`] guarantees it for the
//! library that it names.

mod describe;
pub mod discovery;
mod error;
mod hardware;
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
pub use open::{find, names, open};
pub use policy::Policy;
pub use registry::{
    ClientLease, FileChange, IfReplaced, LoadedPlugin, MissingVariable, PluginEntry, PluginId, PluginLoadOptions,
    PluginRegistry, ProcessEnvironment, RegistryBuilder, Status,
};
pub use select_error::{RejectReason, Rejected, SelectError};

/// Compiles and runs README's example.
#[cfg(all(doctest, feature = "cpu"))]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// Compiles and runs the book's chapter.
#[cfg(all(doctest, feature = "cpu", feature = "stablehlo"))]
#[doc = include_str!("../../../book/src/registry.md")]
struct Book;

/// Tests the examples of the package's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct PackageReadme;
