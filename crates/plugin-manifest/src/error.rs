//! The error of every fallible operation of a plugin.

use std::fmt;

use crate::ErrorCode;

/// The error of a failed operation: a status code, a message for the user, and named payloads.
///
/// An error has the size of one pointer, so that `Result` is small. Almost all results are `Ok`.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {}", .0.code, .0.message)]
pub struct Error(Box<Data>);

#[derive(Clone, PartialEq, Eq)]
struct Data {
    code: ErrorCode,
    message: String,
    payloads: Vec<(String, Vec<u8>)>,
    /// Whether the name of the C function must still be added to the message.
    nameless: bool,
}

/// Result of an operation of a plugin. The default error type is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Creates an error with this code. [`ErrorCode::OK`] is not an error and becomes [`ErrorCode::UNKNOWN`].
    #[cold]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let code = if code == ErrorCode::OK { ErrorCode::UNKNOWN } else { code };
        Self(Box::new(Data { code, message: message.into(), payloads: Vec::new(), nameless: false }))
    }

    /// Creates an error for a caller that passed an invalid argument.
    pub fn invalid_argument(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::INVALID_ARGUMENT, message)
    }

    /// Creates an error for an invalid argument of a C function. The SDK adds the function's name to the message.
    #[doc(hidden)]
    pub fn argument(message: impl Into<String>) -> Self {
        Self::invalid_argument(message).unnamed()
    }

    /// Requests that the SDK prefix the message with the name of the C function.
    #[doc(hidden)]
    #[must_use]
    pub fn unnamed(mut self) -> Self {
        self.0.nameless = true;
        self
    }

    /// Prefixes the message with the name of the C function if [`Self::unnamed`] requested this prefix.
    #[doc(hidden)]
    #[must_use]
    pub fn named(mut self, function: &str) -> Self {
        if !std::mem::take(&mut self.0.nameless) {
            return self;
        }
        self.context(function)
    }

    /// Creates an error for an operation that the plugin does not support. Frameworks use a fallback if they have one.
    pub fn unimplemented(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::UNIMPLEMENTED, message)
    }

    /// Creates an error for an operation that is not valid in the current state of the object on which it is called.
    pub fn failed_precondition(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::FAILED_PRECONDITION, message)
    }

    /// Creates an error for a plugin or a device that violated one of its own guarantees.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::INTERNAL, message)
    }

    /// Creates an error for a device that ran out of memory or of another resource.
    pub fn resource_exhausted(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::RESOURCE_EXHAUSTED, message)
    }

    /// Adds a named payload. Frameworks can read the payloads.
    #[must_use]
    pub fn with_payload(mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        self.0.payloads.push((name.into(), value.into()));
        self
    }

    /// Prefixes the message with `context: `.
    #[must_use]
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        self.0.message = format!("{context}: {}", self.0.message);
        self
    }

    /// Returns the status code.
    pub fn code(&self) -> ErrorCode {
        self.0.code
    }

    /// Returns the message, without the status code and the payloads.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the names and values of the payloads.
    pub fn payloads(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.payloads.iter().map(|(name, value)| (name.as_str(), value.as_slice()))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
