//! Objects that the framework refers to by number.

use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Objects that the framework uses once and cannot destroy. The framework receives a number instead of an address. If
/// it uses a number twice, or an unknown number, it gets an error instead of an access to freed memory.
pub(crate) struct OpaqueTokens<T>(Mutex<State<T>>);

struct State<T> {
    last: usize,
    /// Sorted by number. The list is short.
    known: Vec<(usize, T)>,
}

impl<T> OpaqueTokens<T> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(State { last: 0, known: Vec::new() }))
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores an object. Returns its number as a pointer.
    pub(crate) fn add(&self, thing: T) -> *mut c_void {
        let mut state = self.lock();
        state.last += 1;
        let token = state.last;
        state.known.push((token, thing));
        std::ptr::without_provenance_mut(token)
    }

    /// Takes an object out. Returns `None` if the number is unknown.
    pub(crate) fn take(&self, token: *const c_void) -> Option<T> {
        let mut state = self.lock();
        let at = state.known.binary_search_by_key(&token.addr(), |(number, _)| *number).ok()?;
        Some(state.known.remove(at).1)
    }

    /// Puts an object back under its former number.
    pub(crate) fn put_back(&self, token: *const c_void, thing: T) {
        let mut state = self.lock();
        let at = state.known.partition_point(|(number, _)| *number < token.addr());
        state.known.insert(at, (token.addr(), thing));
    }

    /// Takes out all objects for which `is` returns true.
    pub(crate) fn take_all(&self, is: impl Fn(&T) -> bool) -> Vec<T> {
        self.lock().known.extract_if(.., |(_, thing)| is(thing)).map(|(_, thing)| thing).collect()
    }
}
