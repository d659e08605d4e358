//! The error of the crate.

use stablehlo_cpu::{CompileError, RunError};

/// An error of the compilation or of a run on the host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The module has no function with this name.
    #[error("the module has no function `{0}`; pass the name of an outlined function")]
    NoFunction(String),
    /// The op communicates with other devices, or its result depends on the device that runs it.
    #[error("{operation}{} cannot run on the host for a device; the device must support it", at(.location))]
    NeedsDevice {
        /// Name of the op, such as `stablehlo.all_reduce`.
        operation: String,
        /// Source location of the op. Empty if no location is recorded.
        location: String,
    },
    /// An array at the function's border has a bounded dynamic dimension, so its size in bytes is not known.
    #[error("{what} {index} of function `{function}` has a bounded dimension; outline the ops around it, too")]
    Bounded {
        /// Name of the function.
        function: String,
        /// `argument` or `result`.
        what: &'static str,
        /// Index of the argument or of the result.
        index: usize,
    },
    /// The engine rejects the function. The error names the op, its types and its location.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// A run received the wrong number of arrays, or an array of the wrong size.
    #[error("function `{function}`: {message}")]
    Arrays {
        /// Name of the function.
        function: String,
        /// Names the array, its size and the expected size.
        message: String,
    },
    /// A run failed.
    #[error("function `{function}` failed on the host ({ops}): {source}")]
    Run {
        /// Name of the function.
        function: String,
        /// The ops of the function and their source locations.
        ops: String,
        /// The error of the engine.
        source: RunError,
    },
}

impl Error {
    /// Returns the name of the op that caused the error, such as `stablehlo.sort`, or `None` if no single op caused it.
    #[must_use]
    pub fn operation(&self) -> Option<&str> {
        match self {
            Self::NeedsDevice { operation, .. } => Some(operation),
            Self::Compile(error) => error.operation(),
            _ => None,
        }
    }

    /// Returns the source location of the op that caused the error, if it is recorded.
    #[must_use]
    pub fn location(&self) -> Option<&str> {
        match self {
            Self::NeedsDevice { location, .. } => Some(&**location).filter(|location| !location.is_empty()),
            Self::Compile(error) => error.location(),
            _ => None,
        }
    }
}

/// Returns the text that adds a source location to the name of an op.
pub(crate) fn at(location: &str) -> String {
    if location.is_empty() { String::new() } else { format!(" ({location})") }
}
