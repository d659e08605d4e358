//! Marks calls to the plugin. Within such a call, the plugin itself may call functions in the tables of objects.

use std::cell::Cell;

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Marks a call to the plugin. While this value lives, the plugin makes all calls of this thread through the tables of
/// objects, so layers do not observe them.
pub(super) struct Quiet {
    before: bool,
}

impl Quiet {
    pub(super) fn new() -> Self {
        Self::set(true)
    }

    /// Marks a callback of the framework within a call to the plugin. The framework then makes all calls of this thread
    /// through the tables of objects, so layers observe them.
    pub(super) fn suspended() -> Self {
        Self::set(false)
    }

    fn set(is_quiet: bool) -> Self {
        Self { before: IS_QUIET.try_with(|now| now.replace(is_quiet)).unwrap_or(false) }
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // If the thread is ending, the thread-local variable may already be destroyed.
        let _ = IS_QUIET.try_with(|now| now.set(self.before));
    }
}

/// Returns whether this thread is in a call to the plugin, and not in a callback of the framework within this call.
pub(super) fn is_quiet() -> bool {
    IS_QUIET.try_with(Cell::get).unwrap_or(false)
}
