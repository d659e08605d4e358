//! What a `PJRT_Event*` points to: a reference to a pending state, or one static for every event that was created ready.

use std::sync::Arc;

use pjrt_sys::PJRT_Event;

use crate::event::Pending;
use crate::{Error, Event, Result};

/// Its address stands for every event that is ready without an error, so such events need no allocation.
pub(crate) static READY: u8 = 0;

/// What a `PJRT_Event*` refers to.
pub(crate) enum EventRef<'a> {
    Ready,
    State(&'a EventHandle),
}

/// What a `PJRT_Event*` other than the static points to.
pub(crate) struct EventHandle {
    pub(crate) state: Arc<Pending>,
    /// Whether the framework created the event, and so may set it.
    pub(crate) settable: bool,
}

/// Gives an event to the framework, which destroys it.
#[inline]
pub(crate) fn into_raw(event: Event) -> *mut PJRT_Event {
    match event.into_state() {
        None => (&raw const READY).cast_mut().cast(),
        Some(state) => Box::into_raw(Box::new(EventHandle { state, settable: false })).cast(),
    }
}

/// Finds what an event of the framework refers to.
///
/// # Safety
///
/// V2 for `event`.
pub(crate) unsafe fn get<'a>(event: *mut PJRT_Event) -> Result<EventRef<'a>> {
    if event.cast_const().cast() == &raw const READY {
        return Ok(EventRef::Ready);
    }
    // SAFETY: V2 (handles) and V5 (opaque types), an event that is neither null nor the static is such a handle.
    let handle = unsafe { event.cast::<EventHandle>().as_ref() };
    handle.map(EventRef::State).ok_or_else(|| Error::argument("event is null"))
}
