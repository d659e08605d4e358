//! Objects to which the framework refers by a token instead of a pointer.

use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Objects that the framework uses once and cannot destroy. The framework receives a token instead of an address. If
/// the framework uses an unknown token, or the same token twice, the call returns an error or has no effect, and never
/// accesses freed memory.
pub(crate) struct OpaqueTokens<T>(Mutex<State<T>>);

struct State<T> {
    last: usize,
    /// Tokens and objects, in ascending order of the tokens.
    known: Vec<(usize, T)>,
}

impl<T> OpaqueTokens<T> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(State { last: 0, known: Vec::new() }))
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores an object. Returns its token in the form of a pointer.
    pub(crate) fn add(&self, thing: T) -> *mut c_void {
        let mut state = self.lock();
        state.last += 1;
        let token = state.last;
        state.known.push((token, thing));
        std::ptr::without_provenance_mut(token)
    }

    /// Removes the object of a token and returns it. Returns `None` if the token is unknown.
    pub(crate) fn take(&self, token: *const c_void) -> Option<T> {
        let mut state = self.lock();
        let at = state.known.binary_search_by_key(&token.addr(), |(number, _)| *number).ok()?;
        Some(state.known.remove(at).1)
    }

    /// Stores an object again under the token from which it was taken.
    pub(crate) fn put_back(&self, token: *const c_void, thing: T) {
        let mut state = self.lock();
        let at = state.known.partition_point(|(number, _)| *number < token.addr());
        state.known.insert(at, (token.addr(), thing));
    }

    /// Removes and returns all objects for which `is` returns true.
    pub(crate) fn take_all(&self, is: impl Fn(&T) -> bool) -> Vec<T> {
        self.lock().known.extract_if(.., |(_, thing)| is(thing)).map(|(_, thing)| thing).collect()
    }
}
