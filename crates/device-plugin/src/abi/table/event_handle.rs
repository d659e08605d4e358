//! The object behind a `PJRT_Event*`: an [`EventHandle`] or, for every event that was created ready without an error,
//! the static [`READY`].

use std::sync::Arc;

use pjrt_sys::PJRT_Event;

use crate::event::Pending;
use crate::{Error, Event, Result};

/// The static whose address represents every event that was created ready without an error. Such an event needs no
/// allocation.
pub(crate) static READY: u8 = 0;

/// The event to which a `PJRT_Event*` refers.
pub(crate) enum EventRef<'a> {
    Ready,
    State(&'a EventHandle),
}

/// The object behind a `PJRT_Event*` that is not the address of [`READY`].
pub(crate) struct EventHandle {
    pub(crate) state: Arc<Pending>,
    /// Whether the framework created the event and may therefore set it.
    pub(crate) settable: bool,
}

/// Converts an event to a handle that the framework owns and destroys.
#[inline]
pub(crate) fn into_raw(event: Event) -> *mut PJRT_Event {
    match event.into_state() {
        None => (&raw const READY).cast_mut().cast(),
        Some(state) => box_pending(state),
    }
}

#[inline(never)]
fn box_pending(state: Arc<Pending>) -> *mut PJRT_Event {
    Box::into_raw(Box::new(EventHandle { state, settable: false })).cast()
}

/// Returns the event to which the framework's handle refers.
///
/// # Safety
///
/// V2 (handles) holds for `event`.
#[inline]
pub(crate) unsafe fn get<'a>(event: *mut PJRT_Event) -> Result<EventRef<'a>> {
    if event.cast_const().cast() == &raw const READY {
        return Ok(EventRef::Ready);
    }
    // SAFETY: V2 (handles) and V5 (opaque types): a pointer that is neither null nor the address of `READY` points to
    // an `EventHandle`.
    let handle = unsafe { event.cast::<EventHandle>().as_ref() };
    handle.map(EventRef::State).ok_or_else(null_event_error)
}

#[cold]
#[inline(never)]
fn null_event_error() -> Error {
    Error::argument("event is null")
}
