//! Errors of the system's dynamic loader.

use std::error::Error;
use std::sync::Arc;

/// An error of the system's dynamic loader.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct LoaderError {
    message: String,
    #[source]
    cause: Option<Arc<dyn Error + Send + Sync>>,
}

impl LoaderError {
    /// Creates an error that this crate detected without calling the dynamic loader.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), cause: None }
    }

    pub(crate) fn with_cause(message: String, cause: impl Error + Send + Sync + 'static) -> Self {
        Self { message, cause: Some(Arc::new(cause)) }
    }
}
