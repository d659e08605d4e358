//! Functions that read and free `dp_error`.

use plugin_manifest::c_view::capabilities::dp_string;

use crate::error::{DP_OK, dp_code, dp_error};
use crate::guard;
use crate::guard::text_of;

/// Returns the code of an error, or `DP_OK` for NULL.
///
/// # Safety
///
/// The caller must keep contract K2 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_error_code(error: Option<&dp_error>) -> dp_code {
    guard::get(error, DP_OK, |error| error.code.as_raw())
}

/// Returns the message of an error: the name of the function, the cause and, if there is one, a remedy. Returns a
/// string with null `data` if `error` is NULL.
///
/// # Safety
///
/// The caller must keep contract K2 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_error_message(error: Option<&dp_error>) -> dp_string {
    text_of(error, |error| Some(&error.message))
}

/// Frees an error. Ignores NULL.
///
/// # Safety
///
/// The caller must keep the contracts K2 and K3 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_error_free(error: *mut dp_error) {
    // SAFETY: K2 (objects are live) and K3 (exclusive use).
    unsafe { guard::free(error) }
}
