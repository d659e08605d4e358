//! Calls of the plugin's functions, within which the plugin itself makes calls through the tables of objects.

use std::cell::Cell;

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// A call of the plugin. While it lives, calls of this thread through the tables of objects are the plugin's own.
pub(super) struct Quiet {
    before: bool,
}

impl Quiet {
    pub(super) fn new() -> Self {
        Self::set(true)
    }

    /// A callback of the framework within a call of the plugin.
    pub(super) fn suspended() -> Self {
        Self::set(false)
    }

    fn set(is_quiet: bool) -> Self {
        Self { before: IS_QUIET.try_with(|now| now.replace(is_quiet)).unwrap_or(false) }
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // The variable may already be destroyed if the thread is ending.
        let _ = IS_QUIET.try_with(|now| now.set(self.before));
    }
}

/// Returns whether this thread is in such a call.
pub(super) fn is_quiet() -> bool {
    IS_QUIET.try_with(Cell::get).unwrap_or(false)
}
