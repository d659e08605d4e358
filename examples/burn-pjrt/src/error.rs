//! Errors of the backend.

/// An error of this backend, the registry, the plugin or a program.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// This backend does not support the operation.
    #[error("the PJRT backend does not support {operation}: {reason}")]
    Unsupported {
        /// Name of the operation in `burn-ir`.
        operation: String,
        /// The unsupported feature of the operation, or an alternative.
        reason: String,
    },
    /// The plugin declares that its device does not support an element type.
    #[error("the plugin `{plugin}` does not support elements of type {dtype}; it supports {supported}")]
    DType {
        /// Name of the plugin.
        plugin: String,
        /// The element type in Burn.
        dtype: String,
        /// The element types that the plugin supports, separated by commas.
        supported: String,
    },
    /// The registry could not find or load the plugin, or could not create a client.
    #[error("{0}")]
    Registry(String),
    /// The plugin failed to transfer data, or to compile or run a program.
    #[error("{0}")]
    Plugin(#[from] pjrt::Error),
    /// The lowering of an operation produced an invalid program. This is a bug in this backend.
    #[error("lowering {operation} failed: {message}")]
    Lowering {
        /// Name of the operation in `burn-ir`.
        operation: String,
        /// Error message of the builder.
        message: String,
    },
    /// An earlier program, which should have computed the tensor, failed.
    #[error("an earlier program, which computes this tensor, failed: {0}")]
    Earlier(std::sync::Arc<Self>),
    /// An operation uses a tensor that does not exist on the device.
    #[error("tensor {0} does not exist on the device; another thread may have consumed it at the same time")]
    Missing(u64),
}

impl From<plugin_registry::Error> for Error {
    fn from(error: plugin_registry::Error) -> Self {
        Self::Registry(error.to_string())
    }
}

/// Creates an error without the name of the operation. The caller adds the name with [`Error::in_operation`].
impl From<stablehlo::Error> for Error {
    fn from(error: stablehlo::Error) -> Self {
        Self::Lowering { operation: String::new(), message: error.to_string() }
    }
}

impl Error {
    /// Adds the name of the operation to an error of lowering that has no name yet.
    pub(crate) fn in_operation(self, name: impl FnOnce() -> String) -> Self {
        match self {
            Self::Lowering { operation, message } if operation.is_empty() => {
                Self::Lowering { operation: name(), message }
            }
            other => other,
        }
    }

    pub(crate) fn unsupported(operation: &str, reason: impl Into<String>) -> Self {
        Self::Unsupported { operation: operation.to_owned(), reason: reason.into() }
    }
}
