//! Errors that layers return to the framework.

use pjrt_types::ErrorCode;

/// An error that a layer returns to the framework.
#[derive(Clone, Debug)]
pub struct LayerError {
    /// The code that the framework receives.
    pub code: ErrorCode,
    /// The message that the framework receives.
    pub message: String,
}

impl LayerError {
    /// Creates an error.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}
