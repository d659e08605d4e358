//! Calls that the mutants themselves make to the device.

use std::ptr::{from_mut, null_mut};

use pjrt_sys::{AbiStruct, PJRT_Error, PJRT_Error_Code, PJRT_Error_Destroy_Args, PJRT_Event, Slot, slot};

use super::tables::{Place, real};

/// Calls a function of the device. Returns the error, or null after success or if the device lacks the function.
pub(crate) fn perform<S>(args: &mut S::Args) -> *mut PJRT_Error
where
    S: Slot<Table: Place, Return = *mut PJRT_Error>,
{
    let Some(function) = real::<S>() else { return null_mut() };
    // SAFETY: M1 (calls): the mutant passes objects of the caller or of its own.
    unsafe { function(from_mut(args)) }
}

/// Calls a function of the device. Returns the arguments with the results, or `None` if the call fails.
pub(crate) fn ask<S>(fill: impl FnOnce(&mut S::Args)) -> Option<S::Args>
where
    S: Slot<Table: Place, Return = *mut PJRT_Error>,
{
    let mut args = S::Args::new();
    fill(&mut args);
    let error = perform::<S>(&mut args);
    if error.is_null() {
        return Some(args);
    }
    destroy(error);
    None
}

/// Destroys an error.
fn destroy(error: *mut PJRT_Error) {
    let mut args = PJRT_Error_Destroy_Args::new();
    args.error = error;
    if let Some(function) = real::<slot::PJRT_Error_Destroy>() {
        // SAFETY: M1 (calls): this function owns the error.
        unsafe { function(&raw mut args) };
    }
}

/// Creates an error.
pub(crate) fn error(code: PJRT_Error_Code, message: &str) -> *mut PJRT_Error {
    let event = settable_event();
    set(event, code, message);
    let mut args = pjrt_sys::PJRT_Event_Error_Args::new();
    args.event = event;
    perform::<slot::PJRT_Event_Error>(&mut args)
}

/// Creates an event that is not ready.
pub(crate) fn settable_event() -> *mut PJRT_Event {
    ask::<slot::PJRT_Event_Create>(|_| ()).map_or(null_mut(), |args| args.event)
}

/// Creates an event that is ready.
pub(crate) fn ready_event() -> *mut PJRT_Event {
    let event = settable_event();
    set(event, PJRT_Error_Code(0), "");
    event
}

/// Completes an event, with an error if the code is not 0.
pub(crate) fn set(event: *mut PJRT_Event, code: PJRT_Error_Code, message: &str) {
    ask::<slot::PJRT_Event_Set>(|args| {
        args.event = event;
        args.error_code = code;
        args.error_message = message.as_ptr().cast();
        args.error_message_size = message.len();
    });
}

/// Waits for an event.
pub(crate) fn wait(event: *mut PJRT_Event) {
    ask::<slot::PJRT_Event_Await>(|args| args.event = event);
}
