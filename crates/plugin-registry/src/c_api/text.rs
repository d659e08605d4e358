//! Text that crosses the C interface.

use std::ffi::{CStr, c_char};
use std::path::PathBuf;
use std::ptr::null;

use super::guard::{Failure, Outcome};

/// Text that belongs to an object: UTF-8, `len` bytes, followed by a NUL byte that `len` does not count, so that `data`
/// is also a C string. It lives as long as the object it was asked of, unless said otherwise. Text that is absent has
/// `data == NULL` and `len == 0`; empty text has `data != NULL`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dp_str {
    /// First byte, or NULL.
    pub data: *const c_char,
    /// Number of bytes before the NUL byte.
    pub len: usize,
}

impl dp_str {
    /// No text.
    pub(super) const NONE: Self = Self { data: null(), len: 0 };
}

/// Owned text with a NUL byte behind it.
pub(super) struct Text(Box<[u8]>);

impl Text {
    pub(super) fn new(text: impl Into<String>) -> Self {
        let mut bytes = text.into().into_bytes();
        bytes.push(0);
        Self(bytes.into())
    }

    /// The text, borrowed from its owner.
    pub(super) fn lend(&self) -> dp_str {
        dp_str { data: self.0.as_ptr().cast(), len: self.0.len() - 1 }
    }

    #[cfg(test)]
    pub(super) fn as_str(&self) -> &str {
        str::from_utf8(&self.0[..self.0.len() - 1]).unwrap()
    }
}

/// A C string of the caller's.
///
/// # Safety
///
/// K4 for `text`.
#[expect(clippy::disallowed_methods, reason = "the one place where the C interface reads C strings")]
unsafe fn c_str<'call>(text: *const c_char, parameter: &str) -> Outcome<&'call CStr> {
    if text.is_null() {
        return Err(Failure::argument(format!("`{parameter}` is NULL; it must be a C string")));
    }
    // SAFETY: K4, and it is not null.
    Ok(unsafe { CStr::from_ptr(text) })
}

/// Text of the caller's.
///
/// # Safety
///
/// K4 for `text`.
pub(super) unsafe fn text<'call>(text: *const c_char, parameter: &str) -> Outcome<&'call str> {
    // SAFETY: this function's contract.
    let text = unsafe { c_str(text, parameter) }?;
    text.to_str().map_err(|error| Failure::argument(format!("`{parameter}` is no UTF-8 text: {error}")))
}

/// Text of the caller's, or none where the pointer is null.
///
/// # Safety
///
/// K4 for `pointer`.
pub(super) unsafe fn optional_text<'call>(pointer: *const c_char, parameter: &str) -> Outcome<Option<&'call str>> {
    // SAFETY: this function's contract.
    if pointer.is_null() { Ok(None) } else { unsafe { text(pointer, parameter) }.map(Some) }
}

/// A path of the caller's: any bytes where paths are bytes, UTF-8 elsewhere.
///
/// # Safety
///
/// K4 for `path`.
pub(super) unsafe fn path(path: *const c_char, parameter: &str) -> Outcome<PathBuf> {
    // SAFETY: this function's contract.
    let path = unsafe { c_str(path, parameter) }?;
    if path.is_empty() {
        return Err(Failure::argument(format!("`{parameter}` is empty; write the file's path")));
    }
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        Ok(std::ffi::OsStr::from_bytes(path.to_bytes()).into())
    }
    #[cfg(not(unix))]
    {
        let text = path.to_str();
        Ok(text.map_err(|error| Failure::argument(format!("`{parameter}` is no UTF-8 text: {error}")))?.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lent_text_ends_in_nul() {
        let owner = Text::new("cpu");
        let lent = owner.lend();
        assert_eq!(lent.len, 3);
        // SAFETY: `Text` ends in NUL.
        assert_eq!(unsafe { text(lent.data, "x") }.ok(), Some("cpu"));
        assert_eq!(Text::new("").lend().len, 0);
        assert!(!Text::new("").lend().data.is_null());
    }

    #[test]
    fn wrong_text_is_named() {
        // SAFETY: null is allowed.
        let null = unsafe { text(null(), "name") }.err().unwrap();
        assert_eq!(null.message, "`name` is NULL; it must be a C string");
        // SAFETY: a C string.
        let latin = unsafe { text(c"caf\xe9".as_ptr(), "name") }.err().unwrap();
        assert!(latin.message.starts_with("`name` is no UTF-8 text"), "{}", latin.message);
        // SAFETY: a C string.
        assert!(unsafe { path(c"".as_ptr(), "path") }.is_err());
    }
}
