//! Reads memory of a plugin: arrays by pointer and length, and text that may not be UTF-8.

use std::borrow::Cow;
use std::ffi::c_char;
use std::ptr::NonNull;

/// An answer of the plugin that violates the interface, with a description of the violation.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Malformed(pub(crate) &'static str);

/// Reads an array of the plugin. If the length is 0, the result is empty and `data` may be null.
///
/// # Safety
///
/// `data` is null, misaligned, or valid for `len` elements for `'a`. No thread writes them meanwhile.
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
    // SAFETY: the checks above reject null, misaligned and oversized arrays; this function's contract: valid for `len`
    // elements.
    Ok(unsafe { std::slice::from_raw_parts(data, len) })
}

/// Reads text of the plugin. Bytes that are not UTF-8 are replaced.
///
/// # Safety
///
/// As for [`slice`].
pub(crate) unsafe fn text<'a>(data: *const c_char, len: usize) -> Result<Cow<'a, str>, Malformed> {
    // SAFETY: this function's contract: as for `slice`.
    unsafe { slice(data.cast::<u8>(), len) }.map(String::from_utf8_lossy)
}

/// Returns a pointer to an object of the plugin, or an error if the pointer is null.
pub(crate) fn object<T>(raw: *mut T) -> Result<NonNull<T>, Malformed> {
    NonNull::new(raw).ok_or(Malformed("a null pointer for an object"))
}
