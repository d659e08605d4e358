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
///
/// What is unsupported is looked for in the whole program: [`CompileError::all`] lists every op at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileError {
    kind: CompileErrorKind,
    message: String,
    operation: Option<String>,
    location: Option<String>,
    others: Vec<CompileError>,
}

impl CompileError {
    fn new(kind: CompileErrorKind, message: String) -> Self {
        CompileError { kind, message, operation: None, location: None, others: Vec::new() }
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Self::new(CompileErrorKind::Unsupported, message.into())
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(CompileErrorKind::Invalid, message.into())
    }

    /// Whose fault it is: the engine's (unsupported) or the program's (invalid).
    pub fn kind(&self) -> CompileErrorKind {
        self.kind
    }

    /// What was wrong, with the first op at fault.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The op at fault, such as `stablehlo.sort`; none where it is the whole program.
    pub fn operation(&self) -> Option<&str> {
        self.operation.as_deref()
    }

    /// Where the op came from, such as `model.py:12:4`.
    pub fn location(&self) -> Option<&str> {
        self.location.as_deref()
    }

    /// This error and those of other ops, in program order. Each op is named once.
    pub fn all(&self) -> impl Iterator<Item = &CompileError> {
        std::iter::once(self).chain(&self.others)
    }

    /// Says which op of the program the error is about.
    pub(crate) fn at<P: Into<Place>>(mut self, place: impl FnOnce() -> P) -> Self {
        if !self.message.contains(" (in ") {
            let place = place().into();
            self.message = format!("{} (in {})", self.message, place.description);
            (self.operation, self.location) = (place.operation, place.location);
        }
        self
    }

    /// One error of several.
    pub(crate) fn together(errors: Vec<CompileError>) -> Option<Self> {
        let mut errors = errors.into_iter();
        let mut first = errors.next()?;
        first.others.extend(errors);
        Some(first)
    }
}

/// Where in a program an op is.
pub(crate) struct Place {
    pub(crate) operation: Option<String>,
    pub(crate) location: Option<String>,
    /// The op with its types, its function and its location.
    pub(crate) description: String,
}

impl From<String> for Place {
    fn from(description: String) -> Self {
        Place { operation: None, location: None, description }
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            CompileErrorKind::Unsupported => "unsupported",
            CompileErrorKind::Invalid => "invalid program",
        };
        write!(f, "{kind}: {}", self.message)?;
        match self.others.len() {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
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
    /// [`Stop`](super::Stop) ended it.
    Stopped,
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
            RunError::Stopped => f.write_str("the run was stopped before its end"),
            RunError::Internal(message) => write!(f, "internal error of the CPU engine: {message}"),
        }
    }
}

impl Error for RunError {}
