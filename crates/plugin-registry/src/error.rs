//! The error type of this crate. Most messages contain a remedy.

use std::io;
use std::path::{Path, PathBuf};

use plugin_manifest::Faults;

use crate::discovery::Refusal;
use crate::lease::{LeaseConflict, LeaseError};
use crate::registry::id::PluginId;
use crate::registry::loaded_file::FileChange;
use crate::registry::missing_variable::MissingVariable;
use crate::select_error::SelectError;
use crate::variables::LOCK_DIR;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The description of a plugin has faults.
    #[error("the description of plugin {name:?} has faults: {faults}")]
    Description {
        /// Name of the plugin, or path of the library or manifest if the name is unknown.
        name: String,
        /// All faults of the description.
        #[source]
        faults: Faults,
    },
    /// The program registered another plugin under the same name.
    #[error("a plugin {name:?} is already registered ({by}): choose another name for this one, or replace that one")]
    NameTaken {
        /// Name of both plugins.
        name: String,
        /// The registered plugin's library, and the code that registered it.
        by: String,
    },
    /// The program registered the same library or function table with another description.
    #[error(
        "this library or table is already registered as {name:?} with another description ({by}): pass the same \
         description, or replace that plugin"
    )]
    DescribedOtherwise {
        /// Name of the plugin in the earlier description.
        name: String,
        /// The registered plugin's library, and the code that registered it.
        by: String,
    },
    /// No plugin fits the policy.
    #[error("{0}")]
    Select(#[from] SelectError),
    /// The plugin cannot be used.
    #[error("plugin {name} cannot be used: {}", Refusal::list(refusals))]
    Refused {
        /// Name of the plugin.
        name: String,
        /// Reasons why the plugin cannot be used.
        refusals: Vec<Refusal>,
    },
    /// The plugin was disabled, replaced, unloaded or removed after the handle was created.
    #[error(
        "this handle of plugin {name} ({id}) is stale: the plugin was disabled, replaced, unloaded or removed since; \
         select it again"
    )]
    Stale {
        /// Name of the plugin.
        name: String,
        /// Id of the stale handle.
        id: PluginId,
    },
    /// The plugin is disabled.
    #[error("plugin {name} is disabled: {reason}")]
    Disabled {
        /// Name of the plugin.
        name: String,
        /// Reason why the plugin was disabled.
        reason: String,
    },
    /// A path was passed as the name of a plugin.
    #[error(
        "{path:?} is a path, not the name of a plugin: if you trust the library, pass the path to the unsafe function \
         `open_path` or `find_path`"
    )]
    PathNotName {
        /// The path.
        path: PathBuf,
    },
    /// The registry has no plugin with this id or name.
    #[error("the registry has no plugin {asked}")]
    Unknown {
        /// The id or name that was looked up.
        asked: String,
    },
    /// The plugin's description names no library.
    #[error("the description of plugin {name} names no library: add `library` to its manifest")]
    NoLibrary {
        /// Name of the plugin.
        name: String,
    },
    /// The plugin failed to compute the path of its library.
    #[error("the library of plugin {name} was not found: {error}")]
    Path {
        /// Name of the plugin.
        name: String,
        /// Error that the plugin returned.
        #[source]
        error: plugin_manifest::Error,
    },
    /// The plugin cannot be configured for this process's topology and environment.
    #[error("plugin {name} cannot be set up in this process: {error}")]
    Configure {
        /// Name of the plugin.
        name: String,
        /// Error that the plugin returned.
        #[source]
        error: plugin_manifest::Error,
    },
    /// The plugin cannot determine whether it supports a program.
    #[error("plugin {name} cannot determine whether it supports the program: {error}")]
    Supports {
        /// Name of the plugin.
        name: String,
        /// Error that the plugin returned, or the faults of the `supported_programs` table in its manifest.
        #[source]
        error: plugin_manifest::Error,
    },
    /// The process lacks environment variables that the plugin needs.
    #[error(
        "plugin {name} needs environment variables that this process does not have:{}\nStart the program with them, as \
         `pjrt env --plugin {name} -- PROGRAM` does, or let the registry set them with PluginLoadOptions::set_variables",
        lines(missing)
    )]
    Setup {
        /// Name of the plugin.
        name: String,
        /// The missing variables.
        missing: Vec<MissingVariable>,
    },
    /// The plugin is already loaded with the setup for another rank.
    #[error(
        "plugin {name} is already loaded in this process with the setup for another rank, and a library reads its \
         setup only once: choose the rank before the plugin is first loaded"
    )]
    DifferentSetup {
        /// Name of the plugin.
        name: String,
    },
    /// The library is already loaded in this process, and its file has changed since it was loaded.
    #[error("plugin {name} is already loaded in this process, and {}", changed(path, *change))]
    Replaced {
        /// Name of the plugin.
        name: String,
        /// Path of the library.
        path: PathBuf,
        /// How the file changed.
        change: FileChange,
    },
    /// The plugin was shut down and cannot be used again in this process.
    #[error("plugin {name} was shut down and cannot be loaded again in this process: start another process")]
    ShutDown {
        /// Name of the plugin.
        name: String,
    },
    /// Code of the plugin tried to load the plugin while this thread loads or shuts down the plugin.
    #[error(
        "plugin {name} is being loaded or shut down by this thread, so its own code cannot load it: return from the \
         hook first"
    )]
    Reentered {
        /// Name of the plugin.
        name: String,
    },
    /// The library could not be loaded.
    #[error("{0}")]
    Load(#[from] pjrt::LoadError),
    /// The client's options are invalid.
    #[error("{0}")]
    Options(#[source] plugin_manifest::Error),
    /// The clients of the plugin in several processes need a key-value store, and the options contain none.
    #[error(
        "the clients of plugin {name} in several processes find each other through a key-value store (at \
         {coordinator}): provide one with ClientOptions::with_key_value_store"
    )]
    NoStore {
        /// Name of the plugin.
        name: String,
        /// The address on which the coordinator of the processes listens.
        coordinator: String,
    },
    /// Another client holds the lease on the devices.
    #[error("{0}")]
    LeaseConflict(#[source] Box<LeaseConflict>),
    /// The lock file of an exclusive device cannot be opened, locked or written.
    #[error(
        "plugin {name} supports one client on the machine, and its lock {path} cannot be taken: {error}; name a \
         writable folder in {LOCK_DIR}"
    )]
    Lock {
        /// Name of the plugin.
        name: String,
        /// Path of the lock file.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        error: io::Error,
    },
    /// The plugin failed to create a client.
    #[error("plugin {name}: {error}")]
    Client {
        /// Name of the plugin.
        name: String,
        /// Error that the plugin returned.
        #[source]
        error: pjrt::Error,
    },
    /// The plugin still has clients.
    #[error(
        "plugin {name} still has {clients} client{}: first drop everything that belongs to them",
        if *clients == 1 { "" } else { "s" }
    )]
    InUse {
        /// Name of the plugin.
        name: String,
        /// Number of clients.
        clients: usize,
    },
}

/// Lists the missing variables, one on each line.
fn lines(missing: &[MissingVariable]) -> String {
    missing.iter().map(|variable| format!("\n  {variable}")).collect()
}

/// Describes how the file of a loaded library changed, and the remedy.
fn changed(path: &Path, change: FileChange) -> String {
    let path = path.display();
    match change {
        FileChange::Replaced => format!(
            "another file has replaced {path} since: start another process, or choose with PluginLoadOptions::if_replaced to \
             keep the loaded library or to load the new one beside it"
        ),
        FileChange::Overwritten => format!(
            "{path} has been overwritten in place since, so its code may be damaged: start another process, and replace \
             libraries by renaming a new file over them"
        ),
    }
}

impl Error {
    pub(crate) fn lease(name: &str, error: LeaseError) -> Self {
        match error {
            LeaseError::Conflict(conflict) => Self::LeaseConflict(Box::new(conflict)),
            LeaseError::Lock { path, error } => Self::Lock { name: name.to_owned(), path, error },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn source_is_cause() {
        let error = io::Error::from(io::ErrorKind::PermissionDenied);
        let lock = Error::Lock { name: "acme".to_owned(), path: "/locks/acme.lock".into(), error };
        let cause = lock.source().and_then(|cause| cause.downcast_ref::<io::Error>());
        assert_eq!(cause.map(io::Error::kind), Some(io::ErrorKind::PermissionDenied));
        let plugin = || plugin_manifest::Error::invalid_argument("no such option");
        for error in [
            Error::Options(plugin()),
            Error::Path { name: "acme".to_owned(), error: plugin() },
            Error::Configure { name: "acme".to_owned(), error: plugin() },
        ] {
            let cause = error.source().and_then(|cause| cause.downcast_ref::<plugin_manifest::Error>());
            assert_eq!(cause.map(plugin_manifest::Error::message), Some("no such option"), "{error}");
        }
        assert!(Error::Unknown { asked: "acme".to_owned() }.source().is_none());
    }
}
