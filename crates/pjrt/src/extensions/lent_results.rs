//! Results of a callback. The plugin reads them after the callback has returned, until it calls their cleanup function.

use std::ffi::{c_char, c_void};

use pjrt_types::ErrorCode;

/// Byte strings and arrays that live until the plugin calls [`LentResults::free`].
#[derive(Default)]
pub(super) struct LentResults {
    strings: Vec<Box<[u8]>>,
    /// Arrays of C structs, which are only dropped and not read.
    arrays: Vec<Box<dyn Send>>,
}

impl LentResults {
    /// Stores bytes, and returns their address and size.
    pub(super) fn keep(&mut self, bytes: impl Into<Box<[u8]>>) -> (*const c_char, usize) {
        let bytes = bytes.into();
        // The address of a boxed slice does not change when the box moves.
        let lent = (bytes.as_ptr().cast::<c_char>(), bytes.len());
        self.strings.push(bytes);
        lent
    }

    /// Stores an array until the results are freed.
    pub(super) fn keep_array(&mut self, array: Box<dyn Send>) {
        self.arrays.push(array);
    }

    /// Converts the results into the pointer that [`LentResults::free`] takes.
    pub(super) fn into_raw(self) -> *mut c_void {
        Box::into_raw(Box::new(self)).cast()
    }

    /// Frees the results.
    ///
    /// # Safety
    ///
    /// `data` came from [`LentResults::into_raw`], and is not used afterwards.
    pub(super) unsafe extern "C" fn free(data: *mut c_void) {
        if !data.is_null() {
            // SAFETY: this function's contract: the pointer came from `into_raw`, and nothing uses it afterwards.
            drop(unsafe { Box::from_raw(data.cast::<Self>()) });
        }
    }
}

/// An error that a callback returns to the plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallbackError {
    /// The code that the plugin reports.
    pub code: ErrorCode,
    /// The message that the plugin reports.
    pub message: String,
}

impl CallbackError {
    /// Creates an error with a code and a message.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// Runs a callback's body. If the body panics, returns an error, because a panic must not unwind into the plugin.
    pub(super) fn contain<T>(body: impl FnOnce() -> Result<T, Self>) -> Result<T, Self> {
        let mut result = Err(Self::new(ErrorCode::INTERNAL, "the callback panicked"));
        crate::table::callback::contain(|| result = body());
        result
    }
}

/// Converts errors of other types to errors with the code `INTERNAL`.
impl<E: std::error::Error> From<E> for CallbackError {
    fn from(error: E) -> Self {
        Self::new(ErrorCode::INTERNAL, error.to_string())
    }
}
