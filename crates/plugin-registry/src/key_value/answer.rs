//! The results of operations on key-value stores.

use std::time::Duration;

use pjrt::ErrorCode;

/// The result of an operation on a key-value store. An error consists of a code and a message.
pub(super) type Answer<T> = Result<T, (ErrorCode, String)>;

/// Returns the error for a key that was not set before the timeout.
pub(super) fn late<T>(key: &str, timeout: Duration, store: &str) -> Answer<T> {
    let message =
        format!("key {key:?} was not set in {store} within {timeout:?}: check that all processes are running");
    Err((ErrorCode::DEADLINE_EXCEEDED, message))
}
