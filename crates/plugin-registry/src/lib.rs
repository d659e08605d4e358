//! Finds the PJRT plugins of a machine, chooses one, and opens it for a framework.
//!
//! ```
//! use pjrt::ClientOptions;
//! use plugin_registry::{PluginRegistry, Policy};
//!
//! let registry = PluginRegistry::builder().linked().build(); // or PluginRegistry::discover()
//! let plugin = registry.select(&Policy::prefer("gpu").or("cpu"))?.load()?;
//! let client = plugin.client(&ClientOptions::new())?;
//! assert_eq!(client.platform_name()?, "pjrt_cpu");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`PluginRegistry`] knows plugins that the program registers, that are linked into it, that the user names in the
//! environment, and that are installed ([`discovery`] has the places, in order). It reads files and loads nothing until
//! it is told to. A [`Policy`] says which plugin is wanted; [`PluginRegistry::select`] finds it, or says of each plugin
//! why not. [`PluginEntry::load`] loads it once in a process, with the set-up it needs. [`LoadedPlugin::client`] makes
//! a client when the framework decides to.
//!
//! # Trust
//!
//! A plugin is native code that runs in this process. Who makes a registry vouches for what it may load, and no
//! function here is `unsafe` for it: [contract](pjrt::contracts) R1 says what that means and what
//! [`discovery`] does so that it can be said of a machine. [`open`] vouches for the library it is told to open.

#[cfg(feature = "capi")]
pub mod c_api;
mod describe;
pub mod discovery;
mod error;
mod hardware;
pub mod key_value;
mod lease;
mod open;
mod policy;
mod registry;
pub mod select;

pub use describe::describe;
pub use error::Error;
pub use hardware::{Machine, Presence, Sighting};
pub use lease::{Held, Holder, LockFolder};
pub use open::{find, names, open};
pub use policy::Policy;
pub use registry::{
    ClientLease, FileChange, IfReplaced, LoadOptions, LoadedPlugin, Outstanding, PluginEntry, PluginId, PluginRegistry,
    ProcessEnvironment, RegistryBuilder, Status,
};
pub use select::SelectError;

/// Compiles and runs README's example.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// Compiles and runs the book's chapter.
#[cfg(doctest)]
#[doc = include_str!("../../../book/src/registry.md")]
struct Book;

/// Tests the examples of the package's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct PackageReadme;
