//! A wrapper that makes raw pointers to a plugin's objects and functions `Send` and `Sync`.

/// One or more raw pointers to objects or functions of a plugin, or to data that a plugin uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SendPtr<T>(pub(crate) T);

// SAFETY: C4 (threads): a plugin's objects and functions may be used from any thread, and by several threads at once.
unsafe impl<T> Send for SendPtr<T> {}
// SAFETY: C4 (threads): several threads may use a plugin's objects and functions at once. The functions of this crate
// keep the exceptions.
unsafe impl<T> Sync for SendPtr<T> {}
