//! Functions of the caller that the plugin calls when its hardware or its process fails.

use std::ffi::c_void;

use pjrt::extensions::{Callbacks, SliceFailure};
use pjrt_c_macros::c_function;
use plugin_manifest::c_view::capabilities::dp_string;

use crate::border::error::{dp_code, dp_error, error_code};
use crate::border::failure::Outcome;
use crate::border::foreign::Foreign;
use crate::border::memory;
use crate::border::text::Text;
use crate::client::dp_client;
use crate::extensions::info::extension;

/// The reason why a TPU slice failed. The values are those of `PJRT_Callback_Tpu_SliceFailureType`.
pub type dp_slice_failure = i32;

/// The reason is unknown.
pub const DP_SLICE_FAILURE_UNKNOWN: dp_slice_failure = 0;
/// The network between the chips could not be initialized.
pub const DP_SLICE_FAILURE_INIT_ERROR: dp_slice_failure = 1;
/// A worker's heartbeat is missing.
pub const DP_SLICE_FAILURE_WORKER_UNAVAILABLE: dp_slice_failure = 2;
/// A task restarts repeatedly.
pub const DP_SLICE_FAILURE_FLAPPING_TASK: dp_slice_failure = 3;
/// Software injected the failure.
pub const DP_SLICE_FAILURE_INJECTED: dp_slice_failure = 4;
/// A chip's driver reports an error.
pub const DP_SLICE_FAILURE_CHIP_DRIVER_ERROR: dp_slice_failure = 5;

/// A function that learns that a TPU slice failed. `context` is the pointer that was passed with it. The function may
/// run on any thread.
pub type dp_slice_failure_callback = Option<unsafe extern "C" fn(context: *mut c_void, failure: dp_slice_failure)>;

/// A function that learns why the plugin is about to end the process. `context` is the pointer that was passed with it.
/// `message` is valid during the call. The function may run on any thread.
pub type dp_fatal_error_callback =
    Option<unsafe extern "C" fn(context: *mut c_void, code: dp_code, message: dp_string)>;

/// Calls `callback` whenever the client's TPU slice fails. It cannot be unregistered, so it and `context` must stay
/// valid until the process ends.
#[c_function]
pub fn dp_client_on_slice_failure(
    client: &dp_client,
    callback: dp_slice_failure_callback,
    context: *mut c_void,
) -> Outcome<()> {
    let callback = memory::function(callback, "callback")?;
    let callbacks = extension::<Callbacks>(&client.inner.plugin(), "Callback")?;
    let context = Foreign(context);
    Ok(callbacks.on_slice_failure(&client.inner, move |failure| {
        // SAFETY: K5 (functions of the caller): it was passed together with the context.
        unsafe { callback(context.get(), failure.0) };
    })?)
}

/// Calls `callback` before the plugin ends the process because of an error. It cannot be unregistered, so it and
/// `context` must stay valid until the process ends.
#[c_function]
pub fn dp_client_on_fatal_error(
    client: &dp_client,
    callback: dp_fatal_error_callback,
    context: *mut c_void,
) -> Outcome<()> {
    let callback = memory::function(callback, "callback")?;
    let callbacks = extension::<Callbacks>(&client.inner.plugin(), "Callback")?;
    let context = Foreign(context);
    Ok(callbacks.on_fatal_error(&client.inner, move |code, message| {
        let message = Text::new(message);
        // SAFETY: K5 (functions of the caller): it was passed together with the context.
        unsafe { callback(context.get(), code.as_raw(), message.lend()) };
    })?)
}

/// Calls the functions of `dp_client_on_slice_failure`, for example to test them.
#[c_function]
pub fn dp_client_report_slice_failure(client: &dp_client, failure: dp_slice_failure) -> Outcome<()> {
    let callbacks = extension::<Callbacks>(&client.inner.plugin(), "Callback")?;
    Ok(callbacks.report_slice_failure(&client.inner, SliceFailure(failure))?)
}

/// Calls the functions of `dp_client_on_fatal_error`, for example to test them. `code` is not `DP_OK`. The process does
/// not end.
#[c_function]
pub fn dp_client_report_fatal_error(client: &dp_client, code: dp_code, message: &str) -> Outcome<()> {
    let callbacks = extension::<Callbacks>(&client.inner.plugin(), "Callback")?;
    Ok(callbacks.report_fatal_error(&client.inner, error_code(code)?, message)?)
}
