//! Text that this library lends.

use std::ffi::c_char;
use std::ptr::null;

/// Text that belongs to an object: UTF-8, `len` bytes, followed by a NUL byte that `len` does not count, so that `data`
/// is also a C string. It lives as long as the object it was asked of. Absent text has `data == NULL` and `len == 0`;
/// empty text has `data != NULL`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lent_text_ends_in_nul() {
        let owner = Text::new("cpu");
        assert_eq!((owner.lend().len, owner.as_str(), &*owner.0), (3, "cpu", &b"cpu\0"[..]));
        let empty = Text::new("");
        assert_eq!(empty.lend().len, 0);
        assert!(!empty.lend().data.is_null());
    }
}
