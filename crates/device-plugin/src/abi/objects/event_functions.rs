//! The functions of `PJRT_Event`.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;

use pjrt_sys::PJRT_Event_OnReadyCallback;
use plugin_macros::entry;

use crate::abi::table::error_handle::into_raw as error_into_raw;
use crate::abi::table::event_handle::{EventHandle, EventRef, READY, get};
use crate::abi::table::ffi_read::status;
use crate::event::Waiting;
use crate::{DevicePlugin, Error, Event, Result};

/// A framework's callback and its argument.
struct Callback {
    function: unsafe extern "C" fn(*mut pjrt_sys::PJRT_Error, *mut c_void),
    user_arg: *mut c_void,
}

// SAFETY: V4 (callbacks): callbacks may be called from any thread.
unsafe impl Send for Callback {}

impl Callback {
    fn new(function: PJRT_Event_OnReadyCallback, user_arg: *mut c_void) -> Result<Self> {
        let function = function.ok_or_else(|| Error::argument("callback is null"))?;
        Ok(Self { function, user_arg })
    }

    fn call(self, result: &Result<()>) {
        let error = result.as_ref().map_or_else(|error| error_into_raw(error.clone()), |()| null_mut());
        // SAFETY: V4 (callbacks): the callback owns the error.
        unsafe { (self.function)(error, self.user_arg) };
    }
}

/// Waits for an event. Not inlined, so that `PJRT_Event_Await` stays short for events that were created ready.
#[inline(never)]
fn wait(event: &EventHandle) -> Result<()> {
    // Keep the state alive, because a callback may destroy the handle during the wait.
    let state = Arc::clone(&event.state);
    state.wait()
}

/// Frees the handle of an event. Not inlined, so that `PJRT_Event_Destroy` stays short for events that were created
/// ready.
#[inline(never)]
fn free(event: Box<EventHandle>) {
    drop(event);
}

#[entry(hot, destroys)]
unsafe fn PJRT_Event_Destroy<P: DevicePlugin>(args: &mut pjrt_sys::PJRT_Event_Destroy_Args) -> Result<()> {
    // Pending callbacks belong to the shared state and not to the handle. The framework may therefore destroy an
    // event that is pending, even in a callback of the same event.
    if !args.event.is_null() && args.event.cast_const().cast() != &raw const READY {
        // SAFETY: V2 (handles): every handle other than `READY` is a boxed `EventHandle`, and the framework no
        // longer uses this one.
        free(unsafe { Box::from_raw(args.event.cast::<EventHandle>()) });
    }
    Ok(())
}

#[entry(hot)]
unsafe fn PJRT_Event_IsReady<P: DevicePlugin>(args: &mut pjrt_sys::PJRT_Event_IsReady_Args) -> Result<()> {
    // SAFETY: V2 (handles).
    let ready = match unsafe { get(args.event) }? {
        EventRef::Ready => true,
        EventRef::State(event) => event.state.result().is_some(),
    };
    args.is_ready = ready.into();
    Ok(())
}

#[entry]
unsafe fn PJRT_Event_Error<P: DevicePlugin>(args: &mut pjrt_sys::PJRT_Event_Error_Args) -> Result<()> {
    // SAFETY: V2 (handles).
    match unsafe { get(args.event) }? {
        EventRef::Ready => Ok(()),
        EventRef::State(event) => event.state.result().cloned().unwrap_or_else(|| {
            Err(Error::failed_precondition(
                "the event is not ready; call PJRT_Event_Await first, or wait until \
                     PJRT_Event_IsReady returns true",
            )
            .unnamed())
        }),
    }
}

#[entry(hot, no_outputs)]
unsafe fn PJRT_Event_Await<P: DevicePlugin>(args: &mut pjrt_sys::PJRT_Event_Await_Args) -> Result<()> {
    // SAFETY: V2 (handles).
    match unsafe { get(args.event) }? {
        EventRef::Ready => Ok(()),
        EventRef::State(event) => wait(event),
    }
}

#[entry(hot)]
unsafe fn PJRT_Event_OnReady<P: DevicePlugin>(args: &mut pjrt_sys::PJRT_Event_OnReady_Args) -> Result<()> {
    let callback = Callback::new(args.callback, args.user_arg)?;
    // SAFETY: V2 (handles).
    match unsafe { get(args.event) }? {
        EventRef::Ready => callback.call(&Ok(())),
        EventRef::State(event) => {
            // Keep the state alive, because the callback may destroy the handle.
            let state = Arc::clone(&event.state);
            state.when_ready(Waiting::OffThread(Box::new(move |result| callback.call(result))));
        }
    }
    Ok(())
}

#[entry]
unsafe fn PJRT_Event_Create<P: DevicePlugin>(args: &mut pjrt_sys::PJRT_Event_Create_Args) -> Result<()> {
    let state = Event::settable().into_state().ok_or_else(|| Error::internal("an event without a state"))?;
    args.event = Box::into_raw(Box::new(EventHandle { state, settable: true })).cast();
    Ok(())
}

#[entry]
unsafe fn PJRT_Event_Set<P: DevicePlugin>(args: &mut pjrt_sys::PJRT_Event_Set_Args) -> Result<()> {
    // SAFETY: V2 (handles).
    let event = unsafe { get(args.event) }?;
    let state = match event {
        EventRef::State(event) if event.settable => Arc::clone(&event.state),
        _ => {
            return Err(Error::failed_precondition(
                "the plugin sets this event; only events of PJRT_Event_Create \
                 can be set",
            )
            .unnamed());
        }
    };
    // SAFETY: V3 (arrays and text).
    let error = unsafe { status(args.error_code.0, args.error_message, args.error_message_size) }?;
    state.set(error.map_or(Ok(()), Err)).map_err(|_| Error::failed_precondition("the event is already set").unnamed())
}
