//! The registry: the plugins that a program registered, that its user named, and that were found on the machine.
//!
//! Three types represent a plugin. A [`Candidate`](crate::discovery::Candidate) was found by a search and may be
//! unusable. A [`PluginEntry`] is a candidate with an id in a registry. A [`LoadedPlugin`] has its library loaded and
//! its setup checked, and creates clients.
//!
//! The modules build on each other. `library` contains the process-wide state of each loaded library. `record` and
//! `table` contain the state of one registry, and `core` the handles that share this state. `entry` and `loaded`
//! contain the public types. `register` adds plugins, `merge` refreshes them, and `lifecycle` lists and selects them
//! and ends their use. `target` derives the restrictions on programs from a plugin's capabilities.

mod builder;
mod core;
mod ended_plugins;
mod entry;
pub(crate) mod id;
mod library;
mod lifecycle;
mod load_options;
mod loaded;
pub(crate) mod loaded_file;
mod manifest;
mod merge;
pub(crate) mod missing_variable;
pub(crate) mod record;
mod register;
mod setup;
mod table;
#[cfg(feature = "stablehlo")]
mod target;

pub use self::core::PluginRegistry;
pub use builder::RegistryBuilder;
pub use entry::{PluginEntry, Status};
pub use id::PluginId;
pub use load_options::{IfReplaced, PluginLoadOptions, ProcessEnvironment};
pub use loaded::{ClientLease, LoadedPlugin};
pub use loaded_file::FileChange;
pub use missing_variable::MissingVariable;
