//! The object behind a `PJRT_Event*`: a reference to a pending state, or one static for all events that were created
//! ready.

use std::sync::Arc;

use pjrt_sys::PJRT_Event;

use crate::event::Pending;
use crate::{Error, Event, Result};

/// The static whose address represents every event that is ready without an error. Such events need no allocation.
pub(crate) static READY: u8 = 0;

/// The event to which a `PJRT_Event*` refers.
pub(crate) enum EventRef<'a> {
    Ready,
    State(&'a EventHandle),
}

/// The object behind a `PJRT_Event*` that is not the static.
pub(crate) struct EventHandle {
    pub(crate) state: Arc<Pending>,
    /// Whether the framework created the event and may therefore set it.
    pub(crate) settable: bool,
}

/// Passes an event to the framework, which destroys it.
#[inline]
pub(crate) fn into_raw(event: Event) -> *mut PJRT_Event {
    match event.into_state() {
        None => (&raw const READY).cast_mut().cast(),
        Some(state) => Box::into_raw(Box::new(EventHandle { state, settable: false })).cast(),
    }
}

/// Returns the event to which the framework's handle refers.
///
/// # Safety
///
/// V2 (handles) holds for `event`.
pub(crate) unsafe fn get<'a>(event: *mut PJRT_Event) -> Result<EventRef<'a>> {
    if event.cast_const().cast() == &raw const READY {
        return Ok(EventRef::Ready);
    }
    // SAFETY: V2 (handles) and V5 (opaque types), an event that is neither null nor the static is such a handle.
    let handle = unsafe { event.cast::<EventHandle>().as_ref() };
    handle.map(EventRef::State).ok_or_else(|| Error::argument("event is null"))
}
