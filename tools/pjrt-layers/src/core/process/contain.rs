//! Contains panics of layers.

use std::panic::AssertUnwindSafe;

/// Runs a closure that calls a layer. Returns `None` if the closure panics, so that the call continues without the
/// layer.
#[expect(clippy::disallowed_methods, reason = "the place where this crate contains panics")]
#[inline]
pub(in crate::core) fn contain<T>(part: impl FnOnce() -> T) -> Option<T> {
    std::panic::catch_unwind(AssertUnwindSafe(part)).ok()
}
