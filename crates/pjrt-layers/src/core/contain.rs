//! Contains panics of layers.

use std::panic::AssertUnwindSafe;

/// Runs a part of a layer. If it panics, the call continues without it.
#[expect(clippy::disallowed_methods, reason = "the place where this crate contains panics")]
#[inline]
pub(super) fn contain<T>(part: impl FnOnce() -> T) -> Option<T> {
    std::panic::catch_unwind(AssertUnwindSafe(part)).ok()
}
