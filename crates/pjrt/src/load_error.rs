//! Why a plugin could not be loaded.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

use pjrt_types::{ApiVersion, MIN_MINOR};

use crate::error::Error;

/// Why a plugin could not be loaded.
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
    /// The dynamic loader refuses the file; its words, which name missing libraries and symbols.
    Library(String),
    /// The library has no function `GetPjrtApi`; the dynamic loader's words.
    NoEntryPoint(String),
    /// The library lacks a function it was said to have; the dynamic loader's words.
    NoFunction {
        /// Its name.
        function: String,
        /// The loader's words.
        why: String,
    },
    /// `GetPjrtApi` returned null.
    NullTable,
    /// The table's address is not aligned.
    MisalignedTable,
    /// The table ends before what every version has.
    TruncatedTable {
        /// Size the table announces.
        struct_size: usize,
        /// Size needed at least.
        needed: usize,
    },
    /// A major version this crate does not know.
    MajorVersion {
        /// The plugin's version.
        found: ApiVersion,
    },
    /// A version older than this crate can drive.
    MinorVersion {
        /// The plugin's version.
        found: ApiVersion,
    },
    /// The table lacks a function nothing works without.
    MissingFunction {
        /// Its name.
        function: &'static str,
    },
    /// `PJRT_Plugin_Initialize` reported an error. It runs once; loading again reports the same error.
    Initialize(Error),
}

impl LoadError {
    pub(crate) fn new(path: Option<&Path>, kind: LoadErrorKind) -> Self {
        Self { path: path.map(Path::to_owned), kind }
    }

    /// File of the plugin; none for a plugin within the program.
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
                write!(f, "its function table announces {struct_size} bytes; {needed} are needed at least")
            }
            Self::MajorVersion { found } => {
                write!(f, "it is built with PJRT API {found}; this program drives 0.{MIN_MINOR} and later of major 0")
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
