//! The function table that a plugin's clients refer to.

use pjrt_sys::StaticApi;

/// A plugin with a function table. The table contains the functions that create clients, so these functions reach the
/// table through this trait.
pub(crate) trait SharedApi {
    /// Returns the function table of the plugin. Every call returns the same address for the same plugin.
    fn shared_api() -> StaticApi;
}
