//! The results of operations on key-value stores.

use std::time::Duration;

use pjrt::ErrorCode;

/// The result of a store's operation, with the code and message of an error.
pub(super) type Answer<T> = Result<T, (ErrorCode, String)>;

/// The error for a key that was not set in time.
pub(super) fn late<T>(key: &str, timeout: Duration, store: &str) -> Answer<T> {
    let message =
        format!("key {key:?} was not set in {store} within {timeout:?}: check that all processes are running");
    Err((ErrorCode::DEADLINE_EXCEEDED, message))
}
