//! Reads arrays, strings and object pointers that a plugin returned.

use std::borrow::Cow;
use std::ffi::c_char;
use std::ptr::NonNull;

/// The reason why data from the plugin violates the PJRT interface.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Malformed(pub(crate) &'static str);

/// Returns an array of the plugin as a slice. If the length is 0, returns an empty slice, and `data` may be null.
/// Otherwise, returns an error if `data` is null or misaligned, or if the array exceeds the address space.
///
/// # Safety
///
/// `data` is null or misaligned, or points to `len` elements that are valid and not written to during `'a`.
pub(crate) unsafe fn slice<'a, T>(data: *const T, len: usize) -> Result<&'a [T], Malformed> {
    if len == 0 {
        return Ok(&[]);
    }
    if data.is_null() {
        return Err(Malformed("a null pointer for an array that is not empty"));
    }
    if !data.is_aligned() {
        return Err(Malformed("a misaligned array"));
    }
    if len.checked_mul(size_of::<T>()).is_none_or(|bytes| isize::try_from(bytes).is_err()) {
        return Err(Malformed("an array larger than the address space"));
    }
    #[expect(clippy::disallowed_methods, reason = "the home of arrays from a plugin")]
    // SAFETY: the checks above reject null, misaligned and oversized arrays. By this function's contract, all other
    // arrays are valid for `len` elements.
    Ok(unsafe { std::slice::from_raw_parts(data, len) })
}

/// Returns a string of the plugin. Replaces invalid UTF-8 sequences with U+FFFD.
///
/// # Safety
///
/// The requirements of [`slice`] apply.
pub(crate) unsafe fn text<'a>(data: *const c_char, len: usize) -> Result<Cow<'a, str>, Malformed> {
    // SAFETY: this function's contract: the requirements of `slice`.
    unsafe { slice(data.cast::<u8>(), len) }.map(String::from_utf8_lossy)
}

/// Returns the plugin's pointer to an object, or an error if the pointer is null.
pub(crate) fn object<T>(raw: *mut T) -> Result<NonNull<T>, Malformed> {
    NonNull::new(raw).ok_or(Malformed("a null pointer for an object"))
}
