//! The libraries that a user names. Loading a library runs its code, so this is the only file of the command with
//! unsafe code.
#![allow(unsafe_code)]

#[cfg(feature = "full")]
use std::path::Path;

#[cfg(feature = "full")]
use device_plugin::{Descriptor, Manifest};
#[cfg(feature = "full")]
use plugin_registry::PluginRegistry;
use plugin_registry::{Error, PluginEntry};

/// Returns the plugin with this name, or in the library at this path.
pub(crate) fn find(plugin: &str) -> Result<PluginEntry, String> {
    let found = match plugin_registry::find(plugin) {
        // SAFETY: R1 (the library is trusted): the user who names a library trusts it, and the command has no more
        // privileges than this user.
        Err(Error::PathNotName { path }) => unsafe { plugin_registry::find_path(path) },
        found => found,
    };
    found.map_err(|error| match cfg!(feature = "cpu") {
        false if plugin == "cpu" => {
            format!("{error}; the feature `cpu` of the package pjrt-cli has the embedded device")
        }
        _ => error.to_string(),
    })
}

/// Registers the library at a path.
#[cfg(feature = "full")]
pub(crate) fn register(registry: &PluginRegistry, path: &Path, manifest: Manifest) -> Result<PluginEntry, Error> {
    // SAFETY: R1 (the library is trusted): as in `find`.
    unsafe { registry.register_library(path, Some(manifest)) }
}

/// Returns the description that the library at a path exports.
#[cfg(feature = "full")]
pub(crate) fn describe(path: impl AsRef<Path>) -> Result<Option<Descriptor>, Error> {
    // SAFETY: R1 (the library is trusted): as in `find`.
    unsafe { plugin_registry::describe(path) }
}
