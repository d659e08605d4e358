//! `dp_error` and `dp_code`.

use pjrt::ErrorCode;

use super::guard::{self, Failure};
use device_plugin::describe::capabilities::dp_string;

use super::text::{NO_TEXT, Text};

/// How a function ended: `DP_OK`, or the kind of its error. The numbers are those of `PJRT_Error_Code`.
pub type dp_code = u32;

/// Success.
pub const DP_OK: dp_code = 0;
/// The operation was cancelled.
pub const DP_CANCELLED: dp_code = 1;
/// An error of no known kind.
pub const DP_UNKNOWN: dp_code = 2;
/// An argument is wrong: NULL, not UTF-8, out of range, or refused by the plugin's schema.
pub const DP_INVALID_ARGUMENT: dp_code = 3;
/// Time ran out.
pub const DP_DEADLINE_EXCEEDED: dp_code = 4;
/// There is no such plugin, file or entry.
pub const DP_NOT_FOUND: dp_code = 5;
/// The name is taken.
pub const DP_ALREADY_EXISTS: dp_code = 6;
/// The plugin or file may not be used.
pub const DP_PERMISSION_DENIED: dp_code = 7;
/// Something is used up; for a lease: another holder has the devices.
pub const DP_RESOURCE_EXHAUSTED: dp_code = 8;
/// The call came at the wrong time, such as a plan applied after the plugin was loaded.
pub const DP_FAILED_PRECONDITION: dp_code = 9;
/// The operation was given up because of another one.
pub const DP_ABORTED: dp_code = 10;
/// A number is outside its range.
pub const DP_OUT_OF_RANGE: dp_code = 11;
/// The plugin or this library cannot do it.
pub const DP_UNIMPLEMENTED: dp_code = 12;
/// A fault of this library or of a plugin, such as a panic.
pub const DP_INTERNAL: dp_code = 13;
/// The devices or a service cannot be reached.
pub const DP_UNAVAILABLE: dp_code = 14;
/// Data was lost or is corrupt.
pub const DP_DATA_LOSS: dp_code = 15;
/// Credentials are missing or wrong.
pub const DP_UNAUTHENTICATED: dp_code = 16;

/// Why a function failed. Functions that can fail take a `dp_error**` as their last parameter: it may be NULL where the
/// caller only wants the code; on failure it is filled with an error that the caller frees, on success it is left alone.
pub struct dp_error {
    code: ErrorCode,
    message: Text,
}

impl dp_error {
    pub(super) fn new(function: &str, failure: Failure) -> *mut Self {
        let message = Text::new(format!("{function}: {}", failure.message));
        guard::give(Self { code: failure.code, message })
    }

    #[cfg(test)]
    pub(super) fn text(&self) -> &str {
        self.message.as_str()
    }
}

/// The kind of an error; `DP_OK` for NULL.
///
/// # Safety
///
/// K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_error_code(error: *const dp_error) -> dp_code {
    // SAFETY: this function's contract.
    unsafe { guard::get(DP_OK, |call| Ok(call.object(error, "error")?.code.as_raw())) }
}

/// What went wrong, beginning with the name of the function, and what to do about it. Absent for NULL.
///
/// # Safety
///
/// K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_error_message(error: *const dp_error) -> dp_string {
    // SAFETY: this function's contract.
    unsafe { guard::get(NO_TEXT, |call| Ok(call.object(error, "error")?.message.lend())) }
}

/// Frees an error; NULL is nothing.
///
/// # Safety
///
/// K2 and K3.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_error_free(error: *mut dp_error) {
    // SAFETY: this function's contract.
    unsafe { guard::free(error) }
}
