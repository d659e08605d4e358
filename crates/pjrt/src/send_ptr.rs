//! Raw pointers into a plugin that may be sent to other threads.

/// A value made of raw pointers into a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SendPtr<T>(pub(crate) T);

// SAFETY: C4: a plugin's objects and functions may be used from any thread, also by several at once.
unsafe impl<T> Send for SendPtr<T> {}
// SAFETY: C4, as above.
unsafe impl<T> Sync for SendPtr<T> {}
