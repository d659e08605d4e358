//! Marks calls to the plugin. Within such a call, the plugin itself may call functions in the tables of objects.

use std::cell::Cell;

thread_local! {
    static IS_INSIDE_PLUGIN: Cell<bool> = const { Cell::new(false) };
}

/// Marks a call to the plugin. While this value lives, the plugin makes all calls of this thread through the tables of
/// objects, so layers do not observe them.
pub(in crate::core) struct InsidePlugin {
    before: bool,
}

impl InsidePlugin {
    pub(in crate::core) fn new() -> Self {
        Self::set(true)
    }

    /// Marks a callback of the framework within a call to the plugin. The framework then makes all calls of this thread
    /// through the tables of objects, so layers observe them.
    pub(in crate::core) fn suspended() -> Self {
        Self::set(false)
    }

    fn set(is_inside_plugin: bool) -> Self {
        Self { before: IS_INSIDE_PLUGIN.try_with(|now| now.replace(is_inside_plugin)).unwrap_or(false) }
    }
}

impl Drop for InsidePlugin {
    fn drop(&mut self) {
        // If the thread is ending, the thread-local variable may already be destroyed.
        let _ = IS_INSIDE_PLUGIN.try_with(|now| now.set(self.before));
    }
}

/// Returns whether this thread is in a call to the plugin, and not in a callback of the framework within this call.
pub(in crate::core) fn is_inside_plugin() -> bool {
    IS_INSIDE_PLUGIN.try_with(Cell::get).unwrap_or(false)
}
