//! Pointers and memory of the caller that outlive a call.

use std::ffi::c_void;

use crate::border::failure::{Failure, Outcome};
use crate::border::memory::Fill;

/// A pointer of the caller, which only the caller's functions use.
pub(crate) struct Foreign(pub(crate) *mut c_void);

// SAFETY: K5 (functions of the caller): they may run on any thread, with their context.
unsafe impl Send for Foreign {}

// SAFETY: as above.
unsafe impl Sync for Foreign {}

impl Foreign {
    pub(crate) fn get(&self) -> *mut c_void {
        self.0
    }
}

/// A function that is called once, when this library and the plugin no longer use something that the caller lent.
/// `context` is the pointer that was passed with it. The function may run on any thread.
pub type dp_release_callback = Option<unsafe extern "C" fn(context: *mut c_void)>;

/// The context of a function of the caller, and the function that releases it.
pub(crate) struct Context {
    pointer: Foreign,
    release: dp_release_callback,
}

impl Context {
    pub(crate) fn new(context: *mut c_void, release: dp_release_callback) -> Self {
        Self { pointer: Foreign(context), release }
    }

    pub(crate) fn get(&self) -> *mut c_void {
        self.pointer.get()
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: K5 (functions of the caller): it was passed together with the context.
            unsafe { release(self.pointer.get()) };
        }
    }
}

/// Memory of the caller that is lent until its function is called.
pub(crate) struct Lent {
    start: *mut u8,
    len: usize,
    _context: Context,
}

// SAFETY: K3 (lent memory): any thread may use it until it is released.
unsafe impl Send for Lent {}

// SAFETY: as above.
unsafe impl Sync for Lent {}

impl Lent {
    /// # Safety
    ///
    /// The caller must keep contract K3 (lent memory) for the pointer and length.
    pub(crate) unsafe fn new(start: *const c_void, len: usize, context: Context, parameter: &str) -> Outcome<Self> {
        if start.is_null() && len != 0 {
            let message = format!("`{parameter}` is NULL; it must point to {len} bytes");
            return Err(Failure::argument(message));
        }
        if len > isize::MAX.unsigned_abs() {
            return Err(Failure::argument(format!("`{parameter}` has {len} bytes, which is more than there can be")));
        }
        Ok(Self { start: start.cast_mut().cast(), len, _context: context })
    }

    /// Memory that the caller wants to have filled.
    ///
    /// # Safety
    ///
    /// The caller must keep contract K1 (outputs are writable) for the memory as long as this value lives.
    pub(crate) unsafe fn of_fill(fill: &Fill<u8>) -> Self {
        Self { start: fill.start(), len: fill.len(), _context: Context::new(std::ptr::null_mut(), None) }
    }
}

impl AsRef<[u8]> for Lent {
    #[expect(clippy::disallowed_methods, reason = "the one place where the C interface reads lent memory")]
    fn as_ref(&self) -> &[u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: K3 (lent memory).
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

impl AsMut<[u8]> for Lent {
    #[expect(clippy::disallowed_methods, reason = "the one place where the C interface writes lent memory")]
    fn as_mut(&mut self) -> &mut [u8] {
        if self.len == 0 {
            return &mut [];
        }
        // SAFETY: K3 (lent memory).
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}
