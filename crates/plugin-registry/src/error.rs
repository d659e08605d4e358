//! The errors of this crate, each with a remedy.

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
    /// A description has faults.
    #[error("the description of plugin {name:?} has faults: {faults}")]
    Description {
        /// The plugin's name, or the file if the name is unknown.
        name: String,
        /// All faults.
        #[source]
        faults: Faults,
    },
    /// The program registered another plugin under that name.
    #[error("a plugin {name:?} is already registered ({by}): choose another name for this one, or replace that one")]
    NameTaken {
        /// The name.
        name: String,
        /// The other plugin: its library and who registered it.
        by: String,
    },
    /// The program registered the same library or table with another description.
    #[error(
        "this library or table is already registered as {name:?} with another description ({by}): pass the same \
         description, or replace that plugin"
    )]
    DescribedOtherwise {
        /// The name in the earlier description.
        name: String,
        /// Its library and who registered it.
        by: String,
    },
    /// No plugin fits a policy.
    #[error("{0}")]
    Select(#[from] SelectError),
    /// The plugin cannot be used.
    #[error("plugin {name} cannot be used: {}", Refusal::list(refusals))]
    Refused {
        /// The plugin.
        name: String,
        /// The reasons.
        refusals: Vec<Refusal>,
    },
    /// The plugin was disabled, replaced, unloaded or removed since the handle was made.
    #[error(
        "this handle of plugin {name} ({id}) is stale: the plugin was disabled, replaced, unloaded or removed since; \
         select it again"
    )]
    Stale {
        /// The plugin.
        name: String,
        /// The handle.
        id: PluginId,
    },
    /// The plugin is disabled.
    #[error("plugin {name} is disabled: {reason}")]
    Disabled {
        /// The plugin.
        name: String,
        /// The reason.
        reason: String,
    },
    /// The registry has no plugin with that id or name.
    #[error("the registry has no plugin {asked}")]
    Unknown {
        /// The id or name.
        asked: String,
    },
    /// The description names no library.
    #[error("the description of plugin {name} names no library: add `library` to its manifest")]
    NoLibrary {
        /// The plugin.
        name: String,
    },
    /// The plugin failed to compute the path of its library.
    #[error("the library of plugin {name} was not found: {error}")]
    Path {
        /// The plugin.
        name: String,
        /// The plugin's error.
        #[source]
        error: plugin_manifest::Error,
    },
    /// The plugin cannot work in a process at this position among processes.
    #[error("plugin {name} cannot be set up in this process: {error}")]
    Configure {
        /// The plugin.
        name: String,
        /// The plugin's error.
        #[source]
        error: plugin_manifest::Error,
    },
    /// The plugin cannot determine whether it supports a program.
    #[error("plugin {name} cannot determine whether it supports the program: {error}")]
    Supports {
        /// The plugin.
        name: String,
        /// The plugin's error, or the faults of the table in its manifest.
        #[source]
        error: plugin_manifest::Error,
    },
    /// The process lacks variables that the plugin needs.
    #[error(
        "plugin {name} needs environment variables that this process does not have:{}\nStart the program with them, as \
         `pjrt env --plugin {name} -- PROGRAM` does, or let the registry set them with PluginLoadOptions::set_variables",
        lines(missing)
    )]
    Setup {
        /// The plugin.
        name: String,
        /// The variables.
        missing: Vec<MissingVariable>,
    },
    /// The plugin is already loaded with the setup of another position among processes.
    #[error(
        "plugin {name} is already loaded in this process with the setup for another rank, and a library reads its \
         setup only once: choose the rank before the plugin is first loaded"
    )]
    DifferentSetup {
        /// The plugin.
        name: String,
    },
    /// The library is loaded in this process, and its file has changed since.
    #[error("plugin {name} is already loaded in this process, and {}", changed(path, *change))]
    Replaced {
        /// The plugin.
        name: String,
        /// The library's file.
        path: PathBuf,
        /// How the file changed.
        change: FileChange,
    },
    /// The plugin was shut down and cannot be used again in this process.
    #[error("plugin {name} was shut down and cannot be loaded again in this process: start another process")]
    ShutDown {
        /// The plugin.
        name: String,
    },
    /// The library could not be loaded.
    #[error("{0}")]
    Load(#[from] pjrt::LoadError),
    /// The client's options have faults.
    #[error("{0}")]
    Options(#[source] plugin_manifest::Error),
    /// The plugin's clients need a key-value store in a program of several processes.
    #[error(
        "the clients of plugin {name} in several processes find each other through a key-value store (at \
         {coordinator}): provide one with ClientOptions::with_key_value_store"
    )]
    NoStore {
        /// The plugin.
        name: String,
        /// The address on which the coordinator listens.
        coordinator: String,
    },
    /// Another client holds the lease on the devices.
    #[error("{0}")]
    LeaseConflict(#[source] Box<LeaseConflict>),
    /// The lock of an exclusive device cannot be taken.
    #[error(
        "plugin {name} supports one client on the machine, and its lock {path} cannot be taken: {error}; name a \
         writable folder in {LOCK_DIR}"
    )]
    Lock {
        /// The plugin.
        name: String,
        /// The lock file.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// The plugin failed to create a client.
    #[error("plugin {name}: {error}")]
    Client {
        /// The plugin.
        name: String,
        /// The plugin's error.
        #[source]
        error: pjrt::Error,
    },
    /// The plugin has clients.
    #[error(
        "plugin {name} still has {clients} client{}: first drop everything that belongs to them",
        if *clients == 1 { "" } else { "s" }
    )]
    InUse {
        /// The plugin.
        name: String,
        /// Their number.
        clients: usize,
    },
}

/// Returns the variables, each on a line of its own.
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
