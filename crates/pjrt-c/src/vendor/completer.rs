//! `dp_completer`: ends an operation of a vendor's driver.

use std::sync::Mutex;

use device_plugin::{Completer, Error, Event};
use pjrt_c_macros::c_function;

use crate::border::error::{DP_OK, dp_code, dp_error, error_code};
use crate::border::failure::{Failure, Outcome};
use crate::border::handle;
use crate::border::memory::Name;

/// Ends an operation that a function of a `dp_backend` started. If the last reference is released before it was
/// completed, the operation ends with an error.
pub struct dp_completer {
    event: Event,
    completer: Mutex<Option<Completer>>,
}

impl dp_completer {
    /// Returns the event that becomes ready when the operation has ended.
    pub(crate) fn event(&self) -> Event {
        self.event.clone()
    }
}

/// Creates a completer. A vendor that stores it in a `dp_launch` or `dp_host_array` retains it before, and releases its
/// own reference when it has completed it.
#[c_function]
pub fn dp_completer_new() -> *mut dp_completer {
    let (event, completer) = Event::pending();
    handle::give(dp_completer { event, completer: Mutex::new(Some(completer)) })
}

/// Ends the operation. `code` is `DP_OK`, or the code of the error with which it ended; `message` describes that error,
/// and may be NULL for `DP_OK`. It may be called on any thread, such as that of a driver's callback.
#[c_function]
pub fn dp_completer_complete(completer: &dp_completer, code: dp_code, message: Option<&str>) -> Outcome<()> {
    let result = if code == DP_OK {
        Ok(())
    } else {
        Err(Error::new(error_code(code)?, message.unwrap_or("the operation failed")))
    };
    let waiting = completer.completer.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
    let waiting = waiting
        .ok_or_else(|| Failure::new(pjrt::ErrorCode::FAILED_PRECONDITION, "the operation was completed before"))?;
    waiting.complete(result);
    Ok(())
}

/// Creates an error, for the functions of a `dp_backend`. `code` is one of `DP_*`, and not `DP_OK`; other codes become
/// `DP_UNKNOWN`.
#[c_function]
pub fn dp_error_new(code: dp_code, message: Name<'_>) -> *mut dp_error {
    let code = error_code(code).unwrap_or(pjrt::ErrorCode::UNKNOWN);
    handle::give(dp_error::plain(code, message))
}
