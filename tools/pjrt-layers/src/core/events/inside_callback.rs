//! Marks callbacks of events.

use std::cell::Cell;

thread_local! {
    /// Number of nested callbacks of events that run on this thread.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Returns whether this thread is in a callback of an event.
pub(in crate::core) fn is_inside_callback() -> bool {
    // While a thread ends, the counter may already be destroyed, and the thread does not run a callback.
    DEPTH.try_with(|depth| depth.get() > 0).unwrap_or(false)
}

/// While this value lives, a callback of an event runs on this thread.
pub(in crate::core) struct InsideCallback;

impl InsideCallback {
    pub(in crate::core) fn new() -> Self {
        let _ = DEPTH.try_with(|depth| depth.set(depth.get() + 1));
        Self
    }
}

impl Drop for InsideCallback {
    fn drop(&mut self) {
        let _ = DEPTH.try_with(|depth| depth.set(depth.get().saturating_sub(1)));
    }
}
