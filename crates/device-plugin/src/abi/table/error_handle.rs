//! The object behind a `PJRT_Error*`: a boxed struct whose first word points to the function table of the error.

use std::ffi::{c_char, c_void};
use std::ptr::null_mut;

use pjrt_sys::{AbiStruct, PJRT_Error, PJRT_Error_Code, PJRT_Error_FunctionTable, PJRT_Error_PayloadVisitor};

use crate::Error;

/// The object behind a `PJRT_Error*` of this plugin.
#[repr(C)]
pub(crate) struct ErrorHandle {
    /// Points to [`FUNCTIONS`], so that a framework can read and destroy the error without the plugin's table.
    base: PJRT_Error,
    pub(crate) error: Error,
}

const FUNCTIONS: &PJRT_Error_FunctionTable = &PJRT_Error_FunctionTable {
    struct_size: PJRT_Error_FunctionTable::STRUCT_SIZE,
    instance_size: size_of::<PJRT_Error>(),
    extension_start: null_mut(),
    destroy: Some(destroy),
    message: Some(message),
    get_code: Some(get_code),
    for_each_payload: Some(for_each_payload),
};

/// Converts an error to a handle that the framework owns and destroys.
pub(crate) fn into_raw(error: Error) -> *mut PJRT_Error {
    Box::into_raw(Box::new(ErrorHandle { base: PJRT_Error { vtable: FUNCTIONS }, error })).cast()
}

/// # Safety
///
/// V2 (handles) holds for `error`, which may be null.
pub(crate) unsafe extern "C" fn destroy(error: *mut PJRT_Error) {
    if !error.is_null() {
        // SAFETY: V2 (handles): `into_raw` boxed the error, and the framework no longer uses it.
        drop(unsafe { Box::from_raw(error.cast::<ErrorHandle>()) });
    }
}

/// # Safety
///
/// V2 (handles) holds for `error`, and V3 (arrays and text) for the outputs.
unsafe extern "C" fn message(error: *const PJRT_Error, message: *mut *const c_char, size: *mut usize) {
    // SAFETY: V2 (handles) and V5 (opaque types).
    let text = unsafe { error.cast::<ErrorHandle>().as_ref() }.map_or("", |error| error.error.message());
    // SAFETY: V3 (arrays and text).
    unsafe { message.write(text.as_ptr().cast()) };
    // SAFETY: V3 (arrays and text).
    unsafe { size.write(text.len()) };
}

/// # Safety
///
/// V2 (handles) holds for `error`.
unsafe extern "C" fn get_code(error: *const PJRT_Error) -> PJRT_Error_Code {
    // SAFETY: V2 (handles) and V5 (opaque types).
    let error = unsafe { error.cast::<ErrorHandle>().as_ref() };
    PJRT_Error_Code(error.map_or(0, |error| error.error.code().as_raw()))
}

/// # Safety
///
/// V2 (handles) holds for `error`, and V4 (callbacks) for `visitor`.
pub(crate) unsafe extern "C" fn for_each_payload(
    error: *const PJRT_Error,
    visitor: PJRT_Error_PayloadVisitor,
    user_arg: *mut c_void,
) {
    // SAFETY: V2 (handles) and V5 (opaque types).
    let error = unsafe { error.cast::<ErrorHandle>().as_ref() };
    let (Some(error), Some(visitor)) = (error, visitor) else { return };
    for (key, value) in error.error.payloads() {
        // SAFETY: V4 (callbacks).
        unsafe { visitor(key.as_ptr().cast(), key.len(), value.as_ptr().cast(), value.len(), user_arg) };
    }
}
