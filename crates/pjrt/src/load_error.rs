//! An error from loading a plugin.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

use pjrt_types::{ApiVersion, MIN_MINOR};

use crate::error::Error;

/// An error from loading a plugin.
#[derive(Clone, Debug)]
pub struct LoadError {
    path: Option<PathBuf>,
    kind: LoadErrorKind,
}

/// The step of loading that failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LoadErrorKind {
    /// The file does not exist or cannot be opened.
    File(Arc<io::Error>),
    /// The dynamic loader rejects the file. Contains its message, which names missing libraries and symbols.
    Library(String),
    /// The library has no function `GetPjrtApi`. Contains the dynamic loader's message.
    NoEntryPoint(String),
    /// The library lacks a requested function.
    NoFunction {
        /// The function's name.
        function: String,
        /// The dynamic loader's message.
        why: String,
    },
    /// `GetPjrtApi` returned null.
    NullTable,
    /// The table's address is not aligned.
    MisalignedTable,
    /// The table is shorter than in every supported version.
    TruncatedTable {
        /// The size that the table announces.
        struct_size: usize,
        /// Minimum size.
        needed: usize,
    },
    /// This crate does not support the plugin's major version.
    MajorVersion {
        /// The plugin's version.
        found: ApiVersion,
    },
    /// The plugin's version is too old for this crate.
    MinorVersion {
        /// The plugin's version.
        found: ApiVersion,
    },
    /// The table lacks a required function.
    MissingFunction {
        /// The function's name.
        function: &'static str,
    },
    /// `PJRT_Plugin_Initialize` reported an error. It runs once; loading again reports the same error.
    Initialize(Error),
}

impl LoadError {
    pub(crate) fn new(path: Option<&Path>, kind: LoadErrorKind) -> Self {
        Self { path: path.map(Path::to_owned), kind }
    }

    /// File of the plugin. `None` for an embedded plugin.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The step that failed.
    pub fn kind(&self) -> &LoadErrorKind {
        &self.kind
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "plugin {}: {}", path.display(), self.kind),
            None => write!(f, "embedded plugin: {}", self.kind),
        }
    }
}

impl fmt::Display for LoadErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(why) => write!(f, "cannot open the file: {why}"),
            Self::Library(why) => write!(f, "not a library that can be loaded here: {why}"),
            Self::NoEntryPoint(why) => write!(f, "not a PJRT plugin, it has no function GetPjrtApi: {why}"),
            Self::NoFunction { function, why } => write!(f, "it has no function {function}: {why}"),
            Self::NullTable => f.write_str("GetPjrtApi returned null"),
            Self::MisalignedTable => f.write_str("GetPjrtApi returned a misaligned pointer"),
            Self::TruncatedTable { struct_size, needed } => {
                write!(f, "its function table announces {struct_size} bytes; at least {needed} are needed")
            }
            Self::MajorVersion { found } => {
                write!(f, "it is built with PJRT API {found}; this program supports major 0 from 0.{MIN_MINOR}")
            }
            Self::MinorVersion { found } => write!(
                f,
                "it is built with PJRT API {found}, which is too old; this program drives 0.{MIN_MINOR} and later: \
                 use a newer release of the plugin"
            ),
            Self::MissingFunction { function } => write!(f, "its function table lacks {function}"),
            Self::Initialize(error) => write!(f, "it failed to initialize: {error}"),
        }
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.kind)
    }
}

impl std::error::Error for LoadErrorKind {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File(error) => Some(error),
            Self::Initialize(error) => Some(error),
            _ => None,
        }
    }
}
