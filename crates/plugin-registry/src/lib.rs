//! Opens PJRT plugins for a framework: the embedded CPU device by its name, others by the path of their library.
//!
//! # Trust
//!
//! A plugin is native code that runs in this process. Naming a library here is the decision to trust it, as naming a
//! program to run is; it must keep the contract of `docs/safety.md`. This crate makes that decision for nobody: it
//! opens only what it is told to open.

#[cfg(feature = "capi")]
pub mod c_api;
pub mod discovery;

use std::fmt;
use std::path::Path;

use pjrt::{LoadError, Plugin};

/// Name of the embedded device.
#[cfg(feature = "cpu")]
const CPU: &str = "cpu";

/// Why a plugin could not be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The text is neither a plugin's name nor a file.
    Unknown {
        /// The text.
        name: String,
    },
    /// The library was found, and refused.
    Load(LoadError),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name } => write!(
                f,
                "no plugin {name:?}: it is not a file, and the names known are {}",
                if names().is_empty() { "none".to_owned() } else { names().join(", ") }
            ),
            Self::Load(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unknown { .. } => None,
            Self::Load(error) => Some(error),
        }
    }
}

/// Names that [`open`] knows without a file.
pub fn names() -> &'static [&'static str] {
    &[
        #[cfg(feature = "cpu")]
        CPU,
    ]
}

/// Opens a plugin by name (`cpu`, the embedded device) or by the path of its shared library. Opening it again gives
/// the same plugin.
///
/// # Errors
///
/// [`OpenError::Unknown`] for a text that is neither, [`OpenError::Load`] for a file that is no plugin this SDK can
/// drive.
pub fn open(name: &str) -> Result<Plugin, OpenError> {
    #[cfg(feature = "cpu")]
    if name == CPU {
        return Plugin::from_static(pjrt_cpu::Cpu::api()).map_err(OpenError::Load);
    }
    if !Path::new(name).exists() {
        return Err(OpenError::Unknown { name: name.to_owned() });
    }
    // SAFETY: C1 to C9 are the promise of whoever named the library; see "Trust" above.
    unsafe { Plugin::load(name) }.map_err(OpenError::Load)
}

/// Compiles and runs README's example.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
