//! Errors that layers create, and the codes and messages of the plugin's errors.

use std::collections::HashSet;
use std::ffi::{c_char, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use pjrt_sys::{
    AbiStruct, PJRT_Error, PJRT_Error_Code, PJRT_Error_Destroy_Args, PJRT_Error_ForEachPayload_Args,
    PJRT_Error_FunctionTable, PJRT_Error_GetCode_Args, PJRT_Error_Message_Args, PJRT_Error_PayloadVisitor, slot,
};
use pjrt_types::ErrorCode;

use super::raw_call::{destroy_error, send};
use crate::core::memory;
use crate::core::tables::Copies;
use crate::function::ForwardedFunction;
use crate::layer_error::LayerError;

/// An error that a layer created. Its first word points to [`FUNCTIONS`], so that the framework can call these
/// functions without the main table.
#[repr(C)]
struct OwnError {
    base: PJRT_Error,
    error: LayerError,
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

/// The addresses of the live errors that layers created. They distinguish these errors from the plugin's errors, whose
/// contents only the plugin can interpret.
static LIVE: LazyLock<Mutex<HashSet<usize>>> = LazyLock::new(Mutex::default);
/// The number of live errors that layers created. If it is 0, a call does not lock [`LIVE`].
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn is_own(error: usize) -> bool {
    COUNT.load(Ordering::Acquire) > 0 && LIVE.lock().unwrap_or_else(PoisonError::into_inner).contains(&error)
}

/// Creates the error for a call of the function `name`, which a plugin with the API version 0.`minor` does not have.
pub(in crate::core) fn missing(minor: u32, name: &str) -> LayerError {
    LayerError::new(ErrorCode::UNIMPLEMENTED, format!("the plugin of API 0.{minor} does not have {name}"))
}

/// Converts an error to a handle for the framework, which must destroy it.
pub(in crate::core) fn into_raw(error: LayerError) -> *mut PJRT_Error {
    let raw = Box::into_raw(Box::new(OwnError { base: PJRT_Error { vtable: FUNCTIONS }, error }));
    LIVE.lock().unwrap_or_else(PoisonError::into_inner).insert(raw.addr());
    COUNT.fetch_add(1, Ordering::Release);
    raw.cast()
}

/// Destroys an error if a layer created it.
pub(in crate::core) fn destroy_own(error: *mut PJRT_Error) {
    if COUNT.load(Ordering::Acquire) > 0 && LIVE.lock().unwrap_or_else(PoisonError::into_inner).remove(&error.addr()) {
        COUNT.fetch_sub(1, Ordering::Release);
        // SAFETY: L4 (errors): `into_raw` created the error, which was live until now.
        drop(unsafe { Box::from_raw(error.cast::<OwnError>()) });
    }
}

/// Destroys an error of a layer or of the plugin. Does nothing if `error` is null.
///
/// # Safety
///
/// Contract L4: `error` must be null, or a live error that the framework has not received.
pub(in crate::core) unsafe fn discard(plugin: &Copies, error: *mut PJRT_Error) {
    if is_own(error.addr()) {
        destroy_own(error);
    } else {
        // SAFETY: this function's contract: the error is null or belongs to the plugin, and the framework has not
        // received it.
        unsafe { destroy_error(plugin, error) };
    }
}

/// # Safety
///
/// Contract L4: `error` must be null, or a live error that a layer created.
unsafe fn own<'a>(error: *const PJRT_Error) -> Option<&'a LayerError> {
    // SAFETY: this function's contract.
    unsafe { error.cast::<OwnError>().as_ref() }.map(|own| &own.error)
}

/// # Safety
///
/// Contract L4: `error` must be null, or a live error that a layer created.
unsafe extern "C" fn destroy(error: *mut PJRT_Error) {
    destroy_own(error);
}

/// # Safety
///
/// Contract L4 must hold for `error`, and contract L2 for the outputs.
unsafe extern "C" fn message(error: *const PJRT_Error, message: *mut *const c_char, size: *mut usize) {
    // SAFETY: L4 (errors): the error is live.
    let text = unsafe { own(error) }.map_or("", |error| error.message.as_str());
    // SAFETY: L2 (arguments): the output is writable.
    unsafe { message.write(text.as_ptr().cast()) };
    // SAFETY: L2 (arguments): the output is writable.
    unsafe { size.write(text.len()) };
}

/// # Safety
///
/// Contract L4 must hold for `error`.
unsafe extern "C" fn get_code(error: *const PJRT_Error) -> PJRT_Error_Code {
    // SAFETY: L4 (errors): the error is live.
    PJRT_Error_Code(unsafe { own(error) }.map_or(0, |error| error.code.as_raw()))
}

/// # Safety
///
/// This function has no requirements, because errors of layers have no payloads.
unsafe extern "C" fn for_each_payload(_: *const PJRT_Error, _: PJRT_Error_PayloadVisitor, _: *mut c_void) {}

/// Returns whether a function takes an error, so that its forwarder must recognize errors that layers created.
pub(in crate::core) const fn is_error_function<S: ForwardedFunction>() -> bool {
    S::ID == slot::PJRT_Error_Destroy::ID
        || S::ID == slot::PJRT_Error_Message::ID
        || S::ID == slot::PJRT_Error_GetCode::ID
        || S::ID == slot::PJRT_Error_ForEachPayload::ID
}

/// Handles a call of an error function if a layer created the error. Returns `None` for other errors.
///
/// # Safety
///
/// Contract L2: `args` must be null, or the arguments of a call of `S`.
pub(in crate::core) unsafe fn answer<S: ForwardedFunction>(args: *mut u8) -> Option<*mut PJRT_Error> {
    // The field `error` has the same offset in the four structs.
    const ERROR: usize = std::mem::offset_of!(PJRT_Error_Destroy_Args, error);
    if args.is_null() {
        return None;
    }
    // SAFETY: L2 (arguments): the struct contains the field `error`.
    let error = unsafe { memory::read::<*mut PJRT_Error>(args.wrapping_add(ERROR)) };
    if !is_own(error.addr()) {
        return None;
    }
    if S::ID == slot::PJRT_Error_Destroy::ID {
        destroy_own(error);
    } else if S::ID == slot::PJRT_Error_Message::ID {
        let args = args.cast::<PJRT_Error_Message_Args>();
        // SAFETY: L2 (arguments): the output is within the struct.
        let text = unsafe { &raw mut (*args).message };
        // SAFETY: L2 (arguments): the output is within the struct.
        let size = unsafe { &raw mut (*args).message_size };
        // SAFETY: L2 (arguments) and L4 (errors): the outputs are writable, and the error is live.
        unsafe { message(error, text, size) };
    } else if S::ID == slot::PJRT_Error_GetCode::ID {
        // SAFETY: L4 (errors): the error is live, and a layer created it.
        let code = unsafe { get_code(error) };
        let args = args.cast::<PJRT_Error_GetCode_Args>();
        // SAFETY: L2 (arguments): the output is within the struct.
        let place = unsafe { &raw mut (*args).code };
        // SAFETY: L2 (arguments): the output is writable.
        unsafe { place.write(code) };
    }
    Some(null_mut())
}

/// Returns the code and message of a live error of a layer or of the plugin.
///
/// # Safety
///
/// Contract L4: `error` must be a live error.
pub(in crate::core) unsafe fn describe(plugin: &Copies, error: *mut PJRT_Error) -> LayerError {
    if is_own(error.addr())
        // SAFETY: L4 (errors): the error is live, and a layer created it.
        && let Some(error) = unsafe { own(error) }
    {
        return error.clone();
    }
    let mut code = PJRT_Error_GetCode_Args { error, ..PJRT_Error_GetCode_Args::new() };
    // SAFETY: L4 (errors): the error is live.
    let failed = unsafe { send::<slot::PJRT_Error_GetCode>(plugin, &mut code) };
    debug_assert!(failed.is_none_or(<*mut _>::is_null), "the code of an error has no error");
    let mut text = PJRT_Error_Message_Args { error, ..PJRT_Error_Message_Args::new() };
    // SAFETY: L4 (errors): the error is live.
    unsafe { send::<slot::PJRT_Error_Message>(plugin, &mut text) };
    // SAFETY: L1 (plugin): the message is readable for its length until the error is destroyed.
    let message = unsafe { memory::text(text.message.cast(), text.message_size) };
    LayerError::new(ErrorCode::from_raw(code.code.0), message)
}

const _: () = {
    use std::mem::offset_of;
    const AT: usize = offset_of!(PJRT_Error_Destroy_Args, error);
    assert!(AT == offset_of!(PJRT_Error_Message_Args, error));
    assert!(AT == offset_of!(PJRT_Error_GetCode_Args, error));
    assert!(AT == offset_of!(PJRT_Error_ForEachPayload_Args, error));
};
