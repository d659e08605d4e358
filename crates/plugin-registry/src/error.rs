//! The errors of this crate, each with a remedy.

use std::fmt;
use std::io;
use std::path::PathBuf;

use plugin_manifest::Faults;

use crate::discovery::Refusal;
use crate::lease::{LeaseConflict, LeaseError};
use crate::registry::id::PluginId;
use crate::registry::loaded_file::FileChange;
use crate::registry::missing_variable::MissingVariable;
use crate::select_error::SelectError;
use crate::variables::LOCK_DIR;

/// An error of this crate.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A description has faults.
    Description {
        /// The plugin's name, or the file if the name is unknown.
        name: String,
        /// All faults.
        faults: Faults,
    },
    /// The program registered another plugin under that name.
    NameTaken {
        /// The name.
        name: String,
        /// The other plugin: its library and who registered it.
        by: String,
    },
    /// The program registered the same library or table with another description.
    DescribedOtherwise {
        /// The name in the earlier description.
        name: String,
        /// Its library and who registered it.
        by: String,
    },
    /// No plugin fits a policy.
    Select(SelectError),
    /// The plugin cannot be used.
    Refused {
        /// The plugin.
        name: String,
        /// The reasons.
        refusals: Vec<Refusal>,
    },
    /// The plugin was disabled, replaced, unloaded or removed since the handle was made.
    Stale {
        /// The plugin.
        name: String,
        /// The handle.
        id: PluginId,
    },
    /// The plugin is disabled.
    Disabled {
        /// The plugin.
        name: String,
        /// The reason.
        reason: String,
    },
    /// The registry has no plugin with that id or name.
    Unknown {
        /// The id or name.
        asked: String,
    },
    /// The description names no library.
    NoLibrary {
        /// The plugin.
        name: String,
    },
    /// The plugin failed to compute the path of its library.
    Path {
        /// The plugin.
        name: String,
        /// The plugin's error.
        error: Box<plugin_manifest::Error>,
    },
    /// The plugin cannot work in a process at this position among processes.
    Configure {
        /// The plugin.
        name: String,
        /// The plugin's error.
        error: Box<plugin_manifest::Error>,
    },
    /// The plugin cannot determine whether it supports a program.
    Supports {
        /// The plugin.
        name: String,
        /// The plugin's error, or the faults of the table in its manifest.
        error: Box<plugin_manifest::Error>,
    },
    /// The process lacks variables that the plugin needs.
    Setup {
        /// The plugin.
        name: String,
        /// The variables.
        missing: Vec<MissingVariable>,
    },
    /// The plugin is already loaded with the setup of another position among processes.
    DifferentSetup {
        /// The plugin.
        name: String,
    },
    /// The library is loaded in this process, and its file has changed since.
    Replaced {
        /// The plugin.
        name: String,
        /// The library's file.
        path: PathBuf,
        /// How the file changed.
        change: FileChange,
    },
    /// The plugin was shut down and cannot be used again in this process.
    ShutDown {
        /// The plugin.
        name: String,
    },
    /// The library could not be loaded.
    Load(pjrt::LoadError),
    /// The client's options have faults.
    Options(Box<plugin_manifest::Error>),
    /// The plugin's clients need a key-value store in a program of several processes.
    NoStore {
        /// The plugin.
        name: String,
        /// The address on which the coordinator listens.
        coordinator: String,
    },
    /// Another client holds the lease on the devices.
    LeaseConflict(Box<LeaseConflict>),
    /// The lock of an exclusive device cannot be taken.
    Lock {
        /// The plugin.
        name: String,
        /// The lock file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The plugin failed to create a client.
    Client {
        /// The plugin.
        name: String,
        /// The plugin's error.
        error: pjrt::Error,
    },
    /// The plugin has clients.
    InUse {
        /// The plugin.
        name: String,
        /// Their number.
        clients: usize,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Description { name, faults } => write!(f, "the description of plugin {name:?} has faults: {faults}"),
            Self::NameTaken { name, by } => write!(
                f,
                "a plugin {name:?} is already registered ({by}): choose another name for this one, or replace that one"
            ),
            Self::DescribedOtherwise { name, by } => write!(
                f,
                "this library or table is already registered as {name:?} with another description ({by}): give the \
                 same description, or replace that plugin"
            ),
            Self::Select(error) => error.fmt(f),
            Self::Refused { name, refusals } => {
                write!(f, "plugin {name} cannot be used: ")?;
                for (index, refusal) in refusals.iter().enumerate() {
                    write!(f, "{}{refusal}", if index == 0 { "" } else { "; " })?;
                }
                Ok(())
            }
            Self::Stale { name, id } => write!(
                f,
                "this handle of plugin {name} ({id}) is stale: the plugin was disabled, replaced, unloaded or removed \
                 since; select it again"
            ),
            Self::Disabled { name, reason } => write!(f, "plugin {name} is disabled: {reason}"),
            Self::Unknown { asked } => write!(f, "the registry has no plugin {asked}"),
            Self::NoLibrary { name } => {
                write!(f, "the description of plugin {name} names no library: add `library` to its manifest")
            }
            Self::Path { name, error } => write!(f, "the library of plugin {name} was not found: {error}"),
            Self::Supports { name, error } => {
                write!(f, "plugin {name} cannot determine whether it supports the program: {error}")
            }
            Self::Configure { name, error } => write!(f, "plugin {name} cannot be set up in this process: {error}"),
            Self::Setup { name, missing } => {
                write!(f, "plugin {name} needs environment variables that this process does not have:")?;
                for variable in missing {
                    write!(f, "\n  {variable}")?;
                }
                write!(
                    f,
                    "\nStart the program with them, as `pjrt env --plugin {name} -- PROGRAM` does, or let the registry \
                     set them with LoadOptions::set_variables"
                )
            }
            Self::DifferentSetup { name } => write!(
                f,
                "plugin {name} is loaded in this process with the setup of another position among processes, and a \
                 library reads its setup once: choose the position before the plugin is first loaded"
            ),
            Self::Replaced { name, path, change: FileChange::Replaced } => write!(
                f,
                "plugin {name} is loaded in this process, and another file has replaced {} since: start another \
                 process, or choose with LoadOptions::if_replaced to keep the loaded library or to load the new one \
                 beside it",
                path.display()
            ),
            Self::Replaced { name, path, change: FileChange::Overwritten } => write!(
                f,
                "plugin {name} is loaded in this process, and {} has been overwritten in place since, so its code may \
                 be damaged: start another process, and replace libraries by renaming a new file over them",
                path.display()
            ),
            Self::ShutDown { name } => {
                write!(f, "plugin {name} was shut down, which it supports once in a process: start another process")
            }
            Self::Load(error) => error.fmt(f),
            Self::Options(error) => error.fmt(f),
            Self::NoStore { name, coordinator } => write!(
                f,
                "the clients of plugin {name} in several processes find each other through a key-value store (at \
                 {coordinator}): provide one with ClientOptions::with_key_value_store"
            ),
            Self::LeaseConflict(conflict) => conflict.fmt(f),
            Self::Lock { name, path, error } => write!(
                f,
                "plugin {name} supports one client on the machine, and its lock {} cannot be taken: {error}; name a \
                 writable folder in {LOCK_DIR}",
                path.display()
            ),
            Self::Client { name, error } => write!(f, "plugin {name}: {error}"),
            Self::InUse { name, clients } => {
                let s = if *clients == 1 { "" } else { "s" };
                write!(f, "plugin {name} has {clients} client{s} alive: first drop everything that belongs to them")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Description { faults, .. } => Some(faults),
            Self::Select(error) => Some(error),
            Self::Path { error, .. }
            | Self::Configure { error, .. }
            | Self::Supports { error, .. }
            | Self::Options(error) => Some(&**error),
            Self::Load(error) => Some(error),
            Self::LeaseConflict(conflict) => Some(conflict),
            Self::Lock { error, .. } => Some(error),
            Self::Client { error, .. } => Some(error),
            _ => None,
        }
    }
}

impl From<SelectError> for Error {
    fn from(error: SelectError) -> Self {
        Self::Select(error)
    }
}

impl From<pjrt::LoadError> for Error {
    fn from(error: pjrt::LoadError) -> Self {
        Self::Load(error)
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
