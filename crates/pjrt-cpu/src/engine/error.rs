//! What can go wrong at compile time and at run time.

use std::error::Error;
use std::fmt;

/// Why a program was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompileErrorKind {
    /// The program is legal, this engine does not run it (yet).
    Unsupported,
    /// The program breaks a rule of the StableHLO specification.
    Invalid,
}

/// A program was refused; the message names the op, its types and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileError {
    kind: CompileErrorKind,
    message: String,
}

impl CompileError {
    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        CompileError { kind: CompileErrorKind::Unsupported, message: message.into() }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        CompileError { kind: CompileErrorKind::Invalid, message: message.into() }
    }

    /// Whose fault it is: the engine's (unsupported) or the program's (invalid).
    pub fn kind(&self) -> CompileErrorKind {
        self.kind
    }

    /// What was wrong.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Says which op of the program the error is about.
    pub(crate) fn at(mut self, place: impl FnOnce() -> String) -> Self {
        if !self.message.contains(" (in ") {
            self.message = format!("{} (in {})", self.message, place());
        }
        self
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            CompileErrorKind::Unsupported => "unsupported",
            CompileErrorKind::Invalid => "invalid program",
        };
        write!(f, "{kind}: {}", self.message)
    }
}

impl Error for CompileError {}

/// Why a run did not finish.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunError {
    /// The inputs do not fit the program's parameters.
    Input(String),
    /// A buffer of this many bytes could not be allocated.
    OutOfMemory(usize),
    /// The handler of a custom call failed; the message names its target.
    CustomCall(String),
    /// A buffer would exceed the limit of its pool.
    LimitReached {
        /// Bytes of the buffer.
        wanted: usize,
        /// Bytes in use.
        in_use: usize,
        /// Bytes that may be.
        limit: usize,
    },
    /// Another member of the launch failed, or left this one waiting for ever.
    Launch(String),
    /// A rule of the engine was broken; please report it.
    Internal(String),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Input(message) => write!(f, "input: {message}"),
            RunError::OutOfMemory(bytes) => {
                write!(f, "out of memory: {bytes} bytes could not be allocated")
            }
            RunError::CustomCall(message) => f.write_str(message),
            RunError::LimitReached { wanted, in_use, limit } => {
                write!(f, "out of memory: {wanted} bytes wanted, {in_use} of at most {limit} bytes in use")
            }
            RunError::Launch(message) => write!(f, "the launch failed: {message}"),
            RunError::Internal(message) => write!(f, "internal error of the CPU engine: {message}"),
        }
    }
}

impl Error for RunError {}
