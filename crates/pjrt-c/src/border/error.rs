//! `dp_error` and `dp_code`.

use pjrt::ErrorCode;
use pjrt_c_macros::c_function;
use plugin_manifest::c_view::capabilities::dp_string;

use crate::border::failure::{Failure, Outcome};
use crate::border::text::{Text, lend};

/// The result of a function: `DP_OK`, or the code of its error. The values are those of `PJRT_Error_Code`.
pub type dp_code = u32;

/// Success.
pub const DP_OK: dp_code = 0;
/// The operation was cancelled.
pub const DP_CANCELLED: dp_code = 1;
/// An error of an unknown type.
pub const DP_UNKNOWN: dp_code = 2;
/// An argument is invalid: NULL, not UTF-8, out of range, or rejected by the plugin's schema.
pub const DP_INVALID_ARGUMENT: dp_code = 3;
/// The time limit was exceeded.
pub const DP_DEADLINE_EXCEEDED: dp_code = 4;
/// The plugin, file or list element does not exist.
pub const DP_NOT_FOUND: dp_code = 5;
/// The name is already in use.
pub const DP_ALREADY_EXISTS: dp_code = 6;
/// The use of the plugin or file is not permitted.
pub const DP_PERMISSION_DENIED: dp_code = 7;
/// A resource is exhausted. For a lease, this means that another client uses the devices.
pub const DP_RESOURCE_EXHAUSTED: dp_code = 8;
/// The operation is not possible in the current state, for example if a plan is applied after the plugin was loaded.
pub const DP_FAILED_PRECONDITION: dp_code = 9;
/// The operation was aborted because of another operation.
pub const DP_ABORTED: dp_code = 10;
/// An index or a number is out of range.
pub const DP_OUT_OF_RANGE: dp_code = 11;
/// The plugin or this library does not support the operation.
pub const DP_UNIMPLEMENTED: dp_code = 12;
/// A fault of this library or of a plugin, such as a panic.
pub const DP_INTERNAL: dp_code = 13;
/// The devices or a service cannot be reached.
pub const DP_UNAVAILABLE: dp_code = 14;
/// Data was lost or is corrupt.
pub const DP_DATA_LOSS: dp_code = 15;
/// Credentials are missing or wrong.
pub const DP_UNAUTHENTICATED: dp_code = 16;

/// The error of a function. The last parameter of a function that can fail is a `dp_error**`. It may be NULL if the
/// caller needs only the code. If the function fails and the pointer is not NULL, the function stores an error there,
/// and the caller must release it. If the function succeeds, it does not write to this pointer.
pub struct dp_error {
    pub(crate) code: ErrorCode,
    pub(crate) message: Text,
}

impl dp_error {
    pub(crate) fn new(function: &str, failure: Failure) -> Self {
        let message = Text::new(format!("{function}: {}", failure.message));
        Self { code: failure.code, message }
    }

    /// Creates an error whose message does not begin with the name of a function.
    #[cfg(feature = "vendor")]
    pub(crate) fn plain(code: ErrorCode, message: &str) -> Self {
        Self { code, message: Text::new(message) }
    }

    #[cfg(any(test, feature = "vendor"))]
    pub(crate) fn text(&self) -> &str {
        self.message.as_str()
    }
}

/// Returns the error code that a caller passed.
pub(crate) fn error_code(code: dp_code) -> Outcome<ErrorCode> {
    if (DP_CANCELLED..=DP_UNAUTHENTICATED).contains(&code) {
        return Ok(ErrorCode::from_raw(code));
    }
    Err(Failure::argument(format!("`code` is {code}; it must be one of DP_CANCELLED to DP_UNAUTHENTICATED")))
}

/// Returns the code of an error, or `DP_OK` if `error` is not an error.
#[c_function]
pub fn dp_error_code(error: &dp_error) -> dp_code {
    error.code.as_raw()
}

/// Returns the message of an error: the name of the function, the cause and, if there is one, a remedy. Returns a
/// string with null `data` if `error` is not an error.
#[c_function]
pub fn dp_error_message(error: &dp_error) -> dp_string {
    lend(Some(&error.message))
}
