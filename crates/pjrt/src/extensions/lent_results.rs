//! Results of a callback that the plugin reads after the callback has returned, until it cleans them up.

use std::ffi::{c_char, c_void};

use pjrt_types::ErrorCode;

/// Byte strings that live until the plugin calls [`LentResults::free`].
#[derive(Default)]
pub(super) struct LentResults {
    strings: Vec<Box<[u8]>>,
    /// Arrays of other structs, which only need to be dropped.
    arrays: Vec<Box<dyn Send>>,
}

impl LentResults {
    /// Keeps bytes, and returns their address and size.
    pub(super) fn keep(&mut self, bytes: impl Into<Box<[u8]>>) -> (*const c_char, usize) {
        let bytes = bytes.into();
        // The address of a boxed slice does not change when the box moves.
        let lent = (bytes.as_ptr().cast::<c_char>(), bytes.len());
        self.strings.push(bytes);
        lent
    }

    /// Keeps an array.
    pub(super) fn keep_array(&mut self, array: Box<dyn Send>) {
        self.arrays.push(array);
    }

    /// The pointer for [`LentResults::free`].
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
            // SAFETY: this function's contract.
            drop(unsafe { Box::from_raw(data.cast::<Self>()) });
        }
    }
}

/// The error of a callback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallbackError {
    /// The code that the plugin reports.
    pub code: ErrorCode,
    /// The text that the plugin reports.
    pub message: String,
}

impl CallbackError {
    /// Creates an error with a code and a text.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// Runs a callback's body. A panic becomes an error, because it must not unwind into the plugin.
    pub(super) fn contain<T>(body: impl FnOnce() -> Result<T, Self>) -> Result<T, Self> {
        let mut result = Err(Self::new(ErrorCode::INTERNAL, "the callback panicked"));
        crate::api::contain(|| result = body());
        result
    }
}

/// Errors of other types are reported with the code `INTERNAL`.
impl<E: std::error::Error> From<E> for CallbackError {
    fn from(error: E) -> Self {
        Self::new(ErrorCode::INTERNAL, error.to_string())
    }
}
