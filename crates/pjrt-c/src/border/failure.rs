//! Failures of functions of the C interface.

use std::any::Any;

use pjrt::ErrorCode;

/// The reason why a function failed.
pub(crate) struct Failure {
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
}

/// The result of a function's body.
pub(crate) type Outcome<T> = Result<T, Failure>;

impl Failure {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// Creates a failure for an invalid argument.
    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::INVALID_ARGUMENT, message)
    }

    /// Creates a failure for a panic. The message contains the panic's message if `payload` is a string.
    pub(crate) fn panic(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
        Self::new(ErrorCode::INTERNAL, format!("panicked: {text}"))
    }
}

impl From<plugin_manifest::Error> for Failure {
    fn from(error: plugin_manifest::Error) -> Self {
        Self::new(error.code(), error.message())
    }
}

impl From<pjrt::Error> for Failure {
    #[cold]
    fn from(error: pjrt::Error) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

impl From<::stablehlo::Error> for Failure {
    fn from(error: ::stablehlo::Error) -> Self {
        Self::argument(error.to_string())
    }
}

impl From<plugin_registry::SelectError> for Failure {
    fn from(error: plugin_registry::SelectError) -> Self {
        Self::new(ErrorCode::NOT_FOUND, error.to_string())
    }
}

impl From<plugin_registry::Error> for Failure {
    fn from(error: plugin_registry::Error) -> Self {
        use plugin_registry::Error as E;
        let code = match &error {
            E::Description { .. } => ErrorCode::INVALID_ARGUMENT,
            E::NameTaken { .. } | E::DescribedOtherwise { .. } => ErrorCode::ALREADY_EXISTS,
            E::Select(_) | E::Unknown { .. } | E::NoLibrary { .. } => ErrorCode::NOT_FOUND,
            E::Path { error, .. } | E::Configure { error, .. } | E::Supports { error, .. } => error.code(),
            E::Options(error) => error.code(),
            E::Client { error, .. } => error.code(),
            E::LeaseConflict(_) => ErrorCode::RESOURCE_EXHAUSTED,
            E::Lock { .. } | E::Load(_) => ErrorCode::UNAVAILABLE,
            _ => ErrorCode::FAILED_PRECONDITION,
        };
        Self::new(code, error.to_string())
    }
}

impl From<plugin_manifest::Faults> for Failure {
    fn from(faults: plugin_manifest::Faults) -> Self {
        Self::argument(faults.to_string())
    }
}
