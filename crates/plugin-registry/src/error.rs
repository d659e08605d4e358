//! What a registry refuses, and the remedy.

use std::fmt;
use std::io;
use std::path::PathBuf;

use device_plugin::Faults;

use crate::discovery::Refusal;
use crate::lease::{Held, LeaseError};
use crate::registry::{FileChange, Outstanding, PluginId};
use crate::select::SelectError;

/// An error of this crate.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A description has faults.
    Description {
        /// The plugin, as far as its name is known.
        name: String,
        /// All faults.
        faults: Faults,
    },
    /// The program registered another plugin of that name.
    NameTaken {
        /// The name.
        name: String,
        /// The other plugin: its library and who registered it.
        by: String,
    },
    /// The program registered the same library or table with another description.
    DescribedOtherwise {
        /// The name it has there.
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
        /// Why.
        refusals: Vec<Refusal>,
    },
    /// The plugin was disabled, replaced, unloaded or removed since the handle was made.
    Stale {
        /// The plugin.
        name: String,
        /// The handle.
        id: PluginId,
    },
    /// The plugin is switched off.
    Disabled {
        /// The plugin.
        name: String,
        /// Why.
        reason: String,
    },
    /// There is no plugin of that id or name.
    Unknown {
        /// What was asked for.
        asked: String,
    },
    /// The description names no library.
    NoLibrary {
        /// The plugin.
        name: String,
    },
    /// The path of the library could not be computed.
    Path {
        /// The plugin.
        name: String,
        /// The plugin's words.
        error: Box<device_plugin::Error>,
    },
    /// The plugin cannot work in such a process.
    Configure {
        /// The plugin.
        name: String,
        /// The plugin's words.
        error: Box<device_plugin::Error>,
    },
    /// The plugin cannot tell whether it supports a program.
    Supports {
        /// The plugin.
        name: String,
        /// The plugin's words, or the faults of its table.
        error: Box<device_plugin::Error>,
    },
    /// The process lacks variables the plugin needs.
    Setup {
        /// The plugin.
        name: String,
        /// The variables.
        outstanding: Vec<Outstanding>,
    },
    /// The plugin is loaded, with the set-up of another process.
    OtherSetup {
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
    /// The plugin was shut down, which happens once in a process.
    ShutDown {
        /// The plugin.
        name: String,
    },
    /// The library could not be loaded.
    Load(pjrt::LoadError),
    /// The client's options have faults.
    Options(Box<device_plugin::Error>),
    /// The plugin's clients need a key-value store in such a process.
    NoStore {
        /// The plugin.
        name: String,
        /// Where the coordinator is to listen.
        coordinator: String,
    },
    /// Another client has the device.
    Held(Box<Held>),
    /// The lock of an exclusive device cannot be taken.
    Lock {
        /// The plugin.
        name: String,
        /// The lock's file.
        path: PathBuf,
        /// The system's words.
        error: io::Error,
    },
    /// The plugin refused to create a client.
    Client {
        /// The plugin.
        name: String,
        /// Its words.
        error: pjrt::Error,
    },
    /// The plugin has clients.
    InUse {
        /// The plugin.
        name: String,
        /// How many.
        clients: usize,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Description { name, faults } => write!(f, "the description of plugin {name:?} is wrong: {faults}"),
            Self::NameTaken { name, by } => write!(
                f,
                "a plugin {name:?} is registered already ({by}): give this one another name, or replace that one"
            ),
            Self::DescribedOtherwise { name, by } => write!(
                f,
                "this library or table is registered already as {name:?}, with another description ({by}): give the same \
                 one, or replace that plugin"
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
                write!(f, "plugin {name} cannot tell which programs it supports: {error}")
            }
            Self::Configure { name, error } => write!(f, "plugin {name} cannot be set up in this process: {error}"),
            Self::Setup { name, outstanding } => {
                write!(f, "plugin {name} needs environment variables this process does not have:")?;
                for variable in outstanding {
                    write!(f, "\n  {variable}")?;
                }
                write!(
                    f,
                    "\nStart the program with them, as `pjrt env --plugin {name} -- PROGRAM` does, or let the registry \
                     set them with LoadOptions::set_variables"
                )
            }
            Self::OtherSetup { name } => write!(
                f,
                "plugin {name} is loaded in this process, set up for another place among processes; a library reads \
                 its set-up once: choose the place before it is first loaded"
            ),
            Self::Replaced { name, path, change: FileChange::Replaced } => write!(
                f,
                "plugin {name} is loaded in this process, and {} has been replaced by another file since: start \
                 another process, or choose with LoadOptions::if_replaced to keep the loaded library or to load the \
                 new one beside it",
                path.display()
            ),
            Self::Replaced { name, path, change: FileChange::Overwritten } => write!(
                f,
                "plugin {name} is loaded in this process, and {} has been overwritten in place since, so its code may \
                 be damaged: start another process, and replace libraries by renaming a new file over them",
                path.display()
            ),
            Self::ShutDown { name } => {
                write!(f, "plugin {name} was shut down, which happens once in a process: start another process")
            }
            Self::Load(error) => error.fmt(f),
            Self::Options(error) => error.fmt(f),
            Self::NoStore { name, coordinator } => write!(
                f,
                "the processes' clients of plugin {name} find each other through a key-value store (at {coordinator}): \
                 give one with ClientOptions::with_key_value_store"
            ),
            Self::Held(held) => held.fmt(f),
            Self::Lock { name, path, error } => write!(
                f,
                "plugin {name} bears one client on the machine, and its lock {} cannot be taken: {error}; name a \
                 folder that can be written to in PJRT_LOCK_DIR",
                path.display()
            ),
            Self::Client { name, error } => write!(f, "plugin {name}: {error}"),
            Self::InUse { name, clients } => {
                let s = if *clients == 1 { "" } else { "s" };
                write!(f, "plugin {name} has {clients} client{s} alive: drop all that belongs to them first")
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
            Self::Held(error) => Some(error),
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
            LeaseError::Held(held) => Self::Held(Box::new(held)),
            LeaseError::Lock { path, error } => Self::Lock { name: name.to_owned(), path, error },
        }
    }
}
