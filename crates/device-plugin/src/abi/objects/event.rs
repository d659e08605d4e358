//! `PJRT_Event`: a counted pending state, or one static for every event that was born ready.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;

use pjrt_sys::{PJRT_Event, PJRT_Event_OnReadyCallback};

use crate::abi::objects::error::into_raw as error_into_raw;
use crate::abi::table::entry::entries;
use crate::abi::table::ffi_read::status;
use crate::event::{Pending, Waiting};
use crate::{Error, Event, Result};

/// Its address is every event that is ready without an error: nothing to allocate, count or free.
static READY: u8 = 0;

/// What a `PJRT_Event*` refers to.
enum EventRef<'a> {
    Ready,
    State(&'a EventHandle),
}

/// What a `PJRT_Event*` other than the static points to.
struct EventHandle {
    state: Arc<Pending>,
    /// Whether the framework made the event, and so may set it.
    settable: bool,
}

/// Gives an event to the framework, which destroys it.
#[inline]
pub(crate) fn into_raw(event: Event) -> *mut PJRT_Event {
    match event.into_state() {
        None => (&raw const READY).cast_mut().cast(),
        Some(state) => Box::into_raw(Box::new(EventHandle { state, settable: false })).cast(),
    }
}

/// # Safety
///
/// V2 for `event`.
unsafe fn get<'a>(event: *mut PJRT_Event) -> Result<EventRef<'a>> {
    if event.cast_const().cast() == &raw const READY {
        return Ok(EventRef::Ready);
    }
    // SAFETY: V2 and V5, an event that is neither null nor the static is such a handle.
    let handle = unsafe { event.cast::<EventHandle>().as_ref() };
    handle.map(EventRef::State).ok_or_else(|| Error::argument("event is null"))
}

/// A framework's callback and its argument.
struct Callback {
    function: unsafe extern "C" fn(*mut pjrt_sys::PJRT_Error, *mut c_void),
    user_arg: *mut c_void,
}

// SAFETY: V4, callbacks may be called from any thread.
unsafe impl Send for Callback {}

impl Callback {
    fn new(function: PJRT_Event_OnReadyCallback, user_arg: *mut c_void) -> Result<Self> {
        let function = function.ok_or_else(|| Error::argument("callback is null"))?;
        Ok(Self { function, user_arg })
    }

    fn call(self, result: &Result<()>) {
        let error = result.as_ref().map_or_else(|error| error_into_raw(error.clone()), |()| null_mut());
        // SAFETY: V4; the callback owns the error.
        unsafe { (self.function)(error, self.user_arg) };
    }
}

entries! {
    PJRT_Event_Destroy(args) {
        // Callbacks that wait stay with the state, so an event may go while pending, and inside its own callback.
        if !args.event.is_null() && args.event.cast_const().cast() != &raw const READY {
            // SAFETY: V2, this came from a box of this file and is given up.
            drop(unsafe { Box::from_raw(args.event.cast::<EventHandle>()) });
        }
        Ok(())
    }

    PJRT_Event_IsReady(args) {
        // SAFETY: V2.
        let ready = match unsafe { get(args.event) }? {
            EventRef::Ready => true,
            EventRef::State(event) => event.state.result().is_some(),
        };
        args.is_ready = ready.into();
        Ok(())
    }

    PJRT_Event_Error(args) {
        // SAFETY: V2.
        match unsafe { get(args.event) }? {
            EventRef::Ready => Ok(()),
            EventRef::State(event) => event.state.result().cloned().unwrap_or_else(|| {
                Err(Error::failed_precondition("the event is not ready; call PJRT_Event_Await, or ask PJRT_Event_IsReady first").unnamed())
            }),
        }
    }

    PJRT_Event_Await(args) {
        // SAFETY: V2.
        match unsafe { get(args.event) }? {
            EventRef::Ready => Ok(()),
            EventRef::State(event) => {
                // The state outlives the handle, should a callback destroy that meanwhile.
                let state = Arc::clone(&event.state);
                state.wait()
            }
        }
    }

    PJRT_Event_OnReady(args) {
        let callback = Callback::new(args.callback, args.user_arg)?;
        // SAFETY: V2.
        match unsafe { get(args.event) }? {
            EventRef::Ready => callback.call(&Ok(())),
            EventRef::State(event) => {
                // The callback may destroy the event, and with it the handle.
                let state = Arc::clone(&event.state);
                state.when_ready(Waiting::Away(Box::new(move |result| callback.call(result))));
            }
        }
        Ok(())
    }

    PJRT_Event_Create(args) {
        let state = Event::settable().into_state().ok_or_else(|| Error::internal("an event without a state"))?;
        args.event = Box::into_raw(Box::new(EventHandle { state, settable: true })).cast();
        Ok(())
    }

    PJRT_Event_Set(args) {
        // SAFETY: V2.
        let event = unsafe { get(args.event) }?;
        let state = match event {
            EventRef::State(event) if event.settable => Arc::clone(&event.state),
            _ => return Err(Error::failed_precondition("the plugin sets this event; only events of PJRT_Event_Create can be set").unnamed()),
        };
        // SAFETY: V3.
        let error = unsafe { status(args.error_code.0, args.error_message, args.error_message_size) }?;
        state.set(error.map_or(Ok(()), Err)).map_err(|_| {
            Error::failed_precondition("the event is already set").unnamed()
        })
    }
}
