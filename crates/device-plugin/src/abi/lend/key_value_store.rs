//! The key-value store of a distributed run, which the framework provides.

use std::ffi::{c_char, c_int, c_void};
use std::time::Duration;

use pjrt_sys::{
    AbiStruct, PJRT_CallbackError, PJRT_Client_Create_Args, PJRT_Error, PJRT_Error_Code, PJRT_KeyValueGetCallback,
    PJRT_KeyValueGetCallback_Args, PJRT_KeyValuePutCallback, PJRT_KeyValuePutCallback_Args,
    PJRT_KeyValueTryGetCallback, PJRT_KeyValueTryGetCallback_Args,
};

use crate::abi::table::error_handle::{ErrorHandle, into_raw};
use crate::abi::table::ffi_read;
use crate::{Error, ErrorCode, Result};

/// A store that all processes of a distributed run share. The framework provides the store. In a Rust framework, it is
/// an implementation of `pjrt::KeyValueStore`. The methods block.
pub struct KeyValueStore {
    get: PJRT_KeyValueGetCallback,
    get_arg: *mut c_void,
    put: PJRT_KeyValuePutCallback,
    put_arg: *mut c_void,
    try_get: PJRT_KeyValueTryGetCallback,
    try_get_arg: *mut c_void,
}

// SAFETY: V4 (callbacks): callbacks may be called from any thread.
unsafe impl Send for KeyValueStore {}
// SAFETY: the reason for `Send` of this type also applies here.
unsafe impl Sync for KeyValueStore {}

impl std::fmt::Debug for KeyValueStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyValueStore")
    }
}

impl KeyValueStore {
    /// # Safety
    ///
    /// V4 (callbacks) holds for the callbacks of `args`. The callbacks are valid only in a distributed run, because a
    /// framework with a single process leaves them uninitialized.
    pub(crate) unsafe fn new(args: &PJRT_Client_Create_Args) -> Self {
        Self {
            get: args.kv_get_callback,
            get_arg: args.kv_get_user_arg,
            put: args.kv_put_callback,
            put_arg: args.kv_put_user_arg,
            try_get: args.kv_try_get_callback,
            try_get_arg: args.kv_try_get_user_arg,
        }
    }

    /// Returns the value of a key. If the key is not set, waits until another process sets it.
    ///
    /// # Errors
    ///
    /// Returns `DEADLINE_EXCEEDED` if no process sets the key within `timeout`, and other errors of the framework.
    pub fn get(&self, key: &str, timeout: Duration) -> Result<Vec<u8>> {
        let callback = self.get.ok_or_else(|| missing("kv_get_callback"))?;
        let mut new_error: PJRT_CallbackError = Some(callback_error);
        let mut args = PJRT_KeyValueGetCallback_Args::new();
        args.key = key.as_ptr().cast();
        args.key_size = key.len();
        args.timeout_in_ms = c_int::try_from(timeout.as_millis()).unwrap_or(c_int::MAX);
        args.callback_error = &raw mut new_error;
        args.user_arg = self.get_arg;
        // SAFETY: V4 (callbacks).
        let error = unsafe { callback(&raw mut args) };
        // SAFETY: the callback created the error with `callback_error`, and no longer uses it.
        unsafe { take_error(error) }?;
        // SAFETY: V3 (arrays and text) for the value that the callback returned.
        unsafe { take_value(args.value, args.value_size, args.value_deleter_callback) }
    }

    /// Returns the value of a key, or `None` if it is not set.
    ///
    /// # Errors
    ///
    /// Returns the errors of the framework.
    pub fn try_get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        let callback = self.try_get.ok_or_else(|| missing("kv_try_get_callback"))?;
        let mut new_error: PJRT_CallbackError = Some(callback_error);
        let mut args = PJRT_KeyValueTryGetCallback_Args::new();
        args.key = key.as_ptr().cast();
        args.key_size = key.len();
        args.callback_error = &raw mut new_error;
        args.user_arg = self.try_get_arg;
        // SAFETY: V4 (callbacks).
        let error = unsafe { callback(&raw mut args) };
        // SAFETY: the callback created the error with `callback_error`, and no longer uses it.
        match unsafe { take_error(error) } {
            Err(error) if error.code() == ErrorCode::NOT_FOUND => return Ok(None),
            result => result?,
        }
        // SAFETY: V3 (arrays and text) for the value that the callback returned.
        unsafe { take_value(args.value, args.value_size, args.value_deleter_callback) }.map(Some)
    }

    /// Sets the value of a key for all processes.
    ///
    /// # Errors
    ///
    /// Returns the errors of the framework.
    pub fn put(&self, key: &str, value: &[u8]) -> Result<()> {
        let callback = self.put.ok_or_else(|| missing("kv_put_callback"))?;
        let mut new_error: PJRT_CallbackError = Some(callback_error);
        let mut args = PJRT_KeyValuePutCallback_Args::new();
        args.key = key.as_ptr().cast();
        args.key_size = key.len();
        args.value = value.as_ptr().cast();
        args.value_size = value.len();
        args.callback_error = &raw mut new_error;
        args.user_arg = self.put_arg;
        // SAFETY: V4 (callbacks).
        let error = unsafe { callback(&raw mut args) };
        // SAFETY: the callback created the error with `callback_error`, and no longer uses it.
        unsafe { take_error(error) }
    }
}

fn missing(callback: &str) -> Error {
    Error::failed_precondition(format!("the framework passed no {callback}"))
}

/// Creates an error for a framework's callback.
///
/// # Safety
///
/// V3 (arrays and text) holds for the message.
unsafe extern "C" fn callback_error(code: PJRT_Error_Code, message: *const c_char, size: usize) -> *mut PJRT_Error {
    // SAFETY: V3 (arrays and text), which the caller promises.
    let text = unsafe { ffi_read::slice(message.cast::<u8>(), size, "message") }.unwrap_or_default();
    into_raw(Error::new(ErrorCode::from_raw(code.0), String::from_utf8_lossy(text)))
}

/// # Safety
///
/// `error` is null or came from [`callback_error`], and the caller does not use it again.
unsafe fn take_error(error: *mut PJRT_Error) -> Result<()> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: V2 (handles): `callback_error` boxed the error, and the caller does not use it again.
    Err(unsafe { Box::from_raw(error.cast::<ErrorHandle>()) }.error)
}

/// # Safety
///
/// V3 (arrays and text) holds for the value, and V4 (callbacks) for its deleter.
unsafe fn take_value(
    value: *mut c_char,
    size: usize,
    deleter: Option<unsafe extern "C" fn(*mut c_char)>,
) -> Result<Vec<u8>> {
    // SAFETY: V3 (arrays and text), which the caller promises.
    let copy = unsafe { ffi_read::slice(value.cast::<u8>().cast_const(), size, "value") }.map(<[u8]>::to_vec);
    if let Some(deleter) = deleter.filter(|_| !value.is_null()) {
        // SAFETY: V4 (callbacks): the value is not used after this call.
        unsafe { deleter(value) };
    }
    copy
}
