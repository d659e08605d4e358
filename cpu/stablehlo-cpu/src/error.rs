//! Errors at compile time and at run time.

use std::fmt;

/// The reason why a program was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompileErrorKind {
    /// The program is valid, but the engine does not support it.
    Unsupported,
    /// The program breaks a rule of the StableHLO specification.
    Invalid,
    /// The program needs more memory than the machine has left.
    TooLarge,
}

/// The error for a rejected program. If an op caused the error, the message names the op, its types and its location.
///
/// The engine checks the whole program for unsupported ops. [`CompileError::all`] returns one error for each of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
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

    #[cfg(feature = "math")]
    pub(crate) fn too_large(message: impl Into<String>) -> Self {
        Self::new(CompileErrorKind::TooLarge, message.into())
    }

    /// Returns the reason why the program was rejected.
    pub fn kind(&self) -> CompileErrorKind {
        self.kind
    }

    /// Returns a description of the error, and of the op that caused it if there is one.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the name of the op that caused the error, such as `stablehlo.sort`, or `None` if no single op caused it.
    pub fn operation(&self) -> Option<&str> {
        self.operation.as_deref()
    }

    /// Returns the source location of the op, such as `model.py:12:4`, or `None` if no single op caused the error.
    pub fn location(&self) -> Option<&str> {
        self.location.as_deref()
    }

    /// Returns this error and the errors of other ops, in program order. Each op appears once.
    pub fn all(&self) -> impl Iterator<Item = &CompileError> {
        std::iter::once(self).chain(&self.others)
    }

    /// Adds the op that caused the error to the message, unless the message already names an op.
    pub(crate) fn at<P: Into<Place>>(mut self, place: impl FnOnce() -> P) -> Self {
        if !self.message.contains(" (in ") {
            let place = place().into();
            self.message = format!("{} (in {})", self.message, place.description);
            (self.operation, self.location) = (place.operation, place.location);
        }
        self
    }

    /// Returns the first error, and adds the others to the errors that [`all`](Self::all) returns. Returns `None` if
    /// `errors` is empty.
    pub(crate) fn together(errors: Vec<CompileError>) -> Option<Self> {
        let mut errors = errors.into_iter();
        let mut first = errors.next()?;
        first.others.extend(errors);
        Some(first)
    }
}

impl CompileError {
    /// Creates the error of a pass of `stablehlo-passes`. The message names the pass, the op, its types and its
    /// sharding.
    pub(crate) fn of_pass(name: &str, error: &stablehlo::Error) -> Self {
        let signature = error.signature().map_or_else(String::new, |signature| format!("; the op is {signature}"));
        let plain = Self::from(error.clone());
        Self { message: format!("pass `{name}`: {}{signature}", plain.message), ..plain }
    }
}

/// Converts an error of `stablehlo-passes`.
impl From<stablehlo::Error> for CompileError {
    fn from(error: stablehlo::Error) -> Self {
        let kind = match error.kind() {
            stablehlo::ErrorKind::Unsupported => CompileErrorKind::Unsupported,
            _ => CompileErrorKind::Invalid,
        };
        let (operation, location) = (error.op().map(str::to_owned), error.location().map(str::to_owned));
        Self { operation, location, ..Self::new(kind, error.to_string()) }
    }
}

/// The position of an op in a program.
pub(crate) struct Place {
    pub(crate) operation: Option<String>,
    pub(crate) location: Option<String>,
    /// A text that names the op, its types, its function and its location.
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
            CompileErrorKind::TooLarge => "out of memory",
        };
        write!(f, "{kind}: {}", self.message)?;
        match self.others.len() {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

/// The reason why a run failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The inputs do not match the program's parameters.
    #[error("input: {0}")]
    Input(String),
    /// A buffer of this many bytes could not be allocated.
    #[error("out of memory: {0} bytes could not be allocated")]
    OutOfMemory(usize),
    /// The handler of a custom call failed. The message names the target of the call.
    #[error("{0}")]
    CustomCall(String),
    /// A buffer would exceed the limit of its pool.
    #[error("out of memory: cannot allocate {wanted} bytes, because {in_use} of at most {limit} bytes are in use")]
    LimitReached {
        /// Requested bytes.
        wanted: usize,
        /// Bytes in use.
        in_use: usize,
        /// Maximum bytes in use.
        limit: usize,
    },
    /// The values that a run needs at the same time do not fit in the memory that is left. The run did not start.
    #[error(
        "out of memory: the run needs {wanted} bytes for its values, and {available} bytes are available; \
         the largest values are {}",
        largest.iter().map(|(bytes, op)| format!("{bytes} bytes by {op}")).collect::<Vec<_>>().join(", ")
    )]
    TooLarge {
        /// Bytes of the temporary values and results that exist at the same time.
        wanted: usize,
        /// Bytes that the pool and the machine have left.
        available: usize,
        /// The sizes in bytes of the largest values, and the ops that define them.
        largest: Vec<(usize, String)>,
    },
    /// Another member of the launch failed, or this member would have waited forever for another member.
    #[error("the launch failed: {0}")]
    Launch(String),
    /// A request through [`Stop`](crate::Stop) ended the run.
    #[error("the run was stopped before its end")]
    Stopped,
    /// The size of a bounded dimension is out of range.
    #[error("{0}")]
    Size(String),
    /// An internal error in the engine. Please report it.
    #[error("internal error of the CPU engine: {0}")]
    Internal(String),
}
