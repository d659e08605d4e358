//! Failures of requests.

use std::sync::Arc;

use pjrt::{Error, ErrorCode};

use crate::wire::messages::Failure;

/// The result of a request. A failure is shared by the handles that the request creates.
pub(crate) type Outcome<T> = Result<T, Arc<Failure>>;

/// Returns the failure for an error of the plugin.
pub(crate) fn fail(error: Error) -> Arc<Failure> {
    Arc::new(Failure::from(&error))
}

pub(crate) fn invalid(message: &str) -> Arc<Failure> {
    Arc::new(Failure::of(ErrorCode::INVALID_ARGUMENT, message))
}

pub(crate) fn exhausted(message: &str) -> Arc<Failure> {
    Arc::new(Failure::of(ErrorCode::RESOURCE_EXHAUSTED, message))
}

pub(crate) fn no_memory(bytes: u64) -> Arc<Failure> {
    exhausted(&format!("the server has no memory for {bytes} bytes"))
}
