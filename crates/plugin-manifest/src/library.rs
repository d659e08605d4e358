//! The location of a plugin's PJRT library.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::{Result, StaticApi};

/// The source of a plugin's `PJRT_Api`, as the plugin declares it.
///
/// A location can be relative to the file that declares it. The registry resolves a location to a
/// `plugin_registry::Location`, which is absolute.
#[derive(Clone)]
#[non_exhaustive]
pub enum Library {
    /// A `Backend` in Rust, in the library or program that describes the plugin.
    This,
    /// A file in the folder of the library or manifest that describes the plugin. [`Library::beside`] creates it.
    #[non_exhaustive]
    Beside {
        /// The name of the file.
        file: String,
    },
    /// A path, or a bare file name for which the dynamic loader searches. [`Library::path`] creates it.
    #[non_exhaustive]
    Path {
        /// The path.
        path: PathBuf,
    },
    /// A path that is known only at run time, such as one read from an environment variable. [`Library::computed`]
    /// creates it.
    #[non_exhaustive]
    Computed {
        /// The function that returns the path.
        path: Arc<dyn Fn() -> Result<PathBuf> + Send + Sync>,
    },
    /// A PJRT table within this program.
    Static(StaticApi),
}

impl Library {
    /// Returns the location of a file in the folder of the library or manifest that describes the plugin.
    ///
    /// # Safety
    ///
    /// The library is a PJRT plugin that can be trusted ([contract](pjrt_sys::contracts) R1). Safe code loads it.
    pub unsafe fn beside(file: impl Into<String>) -> Self {
        Self::Beside { file: file.into() }
    }

    /// Returns the location of a file whose path is known only at run time.
    ///
    /// # Safety
    ///
    /// The library is a PJRT plugin that can be trusted ([contract](pjrt_sys::contracts) R1). Safe code loads it.
    pub unsafe fn computed(path: impl Fn() -> Result<PathBuf> + Send + Sync + 'static) -> Self {
        Self::Computed { path: Arc::new(path) }
    }

    /// Returns the location of the file with this path.
    ///
    /// # Safety
    ///
    /// The library is a PJRT plugin that can be trusted ([contract](pjrt_sys::contracts) R1). Safe code loads it.
    pub unsafe fn path(path: impl Into<PathBuf>) -> Self {
        Self::Path { path: path.into() }
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::This => f.write_str("This"),
            Self::Beside { file } => write!(f, "Beside({file:?})"),
            Self::Path { path } => write!(f, "Path({path:?})"),
            Self::Computed { .. } => f.write_str("Computed"),
            Self::Static(_) => f.write_str("Static"),
        }
    }
}
