//! Errors that occur while a plugin is loaded.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

use pjrt_types::{ApiVersion, MIN_MINOR};

use crate::error::Error;

/// An error that occurred while a plugin was loaded. It contains the path of the plugin's file and the reason for the
/// failure.
#[derive(Clone, Debug)]
pub struct LoadError {
    path: Option<PathBuf>,
    kind: LoadErrorKind,
}

/// The reason why a plugin could not be loaded, or why a function of its library could not be called.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadErrorKind {
    /// The file does not exist or cannot be opened.
    #[error("cannot open the file: {0}")]
    File(#[source] Arc<io::Error>),
    /// The dynamic loader rejects the file. The loader's message names missing libraries and symbols.
    #[error("it is not a library that can be loaded here: {0}")]
    Library(#[source] LoaderError),
    /// The library does not export `GetPjrtApi`.
    #[error("it is not a PJRT plugin, because it does not export GetPjrtApi: {0}")]
    NoEntryPoint(#[source] LoaderError),
    /// The library does not export a requested function, or this crate did not load the plugin from a library.
    #[error("it does not export the function {function}: {why}")]
    NoFunction {
        /// The function's name.
        function: String,
        /// The dynamic loader's error.
        #[source]
        why: LoaderError,
    },
    /// `GetPjrtApi` returned null.
    #[error("GetPjrtApi returned null")]
    NullTable,
    /// The address of the function table is not aligned.
    #[error("GetPjrtApi returned a misaligned pointer")]
    MisalignedTable,
    /// The function table is too short to contain its API version.
    #[error("its function table has {struct_size} bytes, but at least {needed} are required; update the plugin")]
    TruncatedTable {
        /// The `struct_size` of the table.
        struct_size: usize,
        /// Minimum size of a table that contains its API version, in bytes.
        needed: usize,
    },
    /// This crate does not support the major version of the plugin's API.
    #[error("it is built with PJRT API {found}; this program supports the major version 0, from 0.{MIN_MINOR}")]
    MajorVersion {
        /// The API version that the plugin was built with.
        found: ApiVersion,
    },
    /// The plugin's API version is too old for this crate.
    #[error(
        "it is built with PJRT API {found}, which is too old; this program supports 0.{MIN_MINOR} and later: use a \
         newer release of the plugin"
    )]
    MinorVersion {
        /// The API version that the plugin was built with.
        found: ApiVersion,
    },
    /// The function table lacks a required function.
    #[error("its function table lacks {function}")]
    MissingFunction {
        /// The function's name.
        function: &'static str,
    },
    /// `PJRT_Plugin_Initialize` returned an error. The function is called only once, so loading the plugin again
    /// returns the same error.
    #[error("it failed to initialize: {0}")]
    Initialize(#[source] Error),
}

impl LoadError {
    pub(crate) fn new(path: Option<&Path>, kind: LoadErrorKind) -> Self {
        Self { path: path.map(Path::to_owned), kind }
    }

    /// Returns the path of the plugin's file, or `None` for a plugin that this crate did not load from a file.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Returns the reason for the failure.
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

// The message of a `LoadError` already contains the message of its `kind`. Return the source of `kind`, so that error
// reporters do not print the message of `kind` twice.
impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.kind)
    }
}

/// An error of the system's dynamic loader.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct LoaderError {
    message: String,
    #[source]
    cause: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl LoaderError {
    /// Creates an error that this crate detected without calling the dynamic loader.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), cause: None }
    }

    pub(crate) fn with_cause(message: String, cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self { message, cause: Some(Arc::new(cause)) }
    }
}
