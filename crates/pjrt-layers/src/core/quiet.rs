//! Calls of the plugin's functions, within which the plugin itself makes calls through the tables of objects.

use std::cell::Cell;

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// A call of the plugin. While it lives, calls of this thread through the tables of objects are the plugin's own.
pub(super) struct Quiet {
    before: usize,
}

impl Quiet {
    pub(super) fn new() -> Self {
        Self::set(is_quiet_at() + 1)
    }

    /// A callback of the framework within a call of the plugin.
    pub(super) fn suspended() -> Self {
        Self::set(0)
    }

    fn set(depth: usize) -> Self {
        Self { before: DEPTH.try_with(|now| now.replace(depth)).unwrap_or(0) }
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        let _ = DEPTH.try_with(|now| now.set(self.before));
    }
}

fn is_quiet_at() -> usize {
    DEPTH.try_with(Cell::get).unwrap_or(0)
}

/// Whether this thread is in such a call.
pub(super) fn is_quiet() -> bool {
    is_quiet_at() > 0
}
