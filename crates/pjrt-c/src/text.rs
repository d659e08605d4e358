//! Strings that this library lends to its callers.

use std::ptr::null;

use plugin_manifest::c_view::capabilities::dp_string;

/// A string with null `data`, which means that there is no string.
pub(crate) const NO_TEXT: dp_string = dp_string { data: null(), size: 0 };

/// An owned string with a NUL byte at its end.
pub(crate) struct Text(Box<[u8]>);

impl Text {
    pub(crate) fn new(text: impl AsRef<str>) -> Self {
        let text = text.as_ref();
        let mut bytes = Vec::with_capacity(text.len() + 1);
        bytes.extend_from_slice(text.as_bytes());
        bytes.push(0);
        Self(bytes.into_boxed_slice())
    }

    /// Returns the string without the NUL byte, borrowed from this value.
    pub(crate) fn lend(&self) -> dp_string {
        dp_string { data: self.0.as_ptr().cast(), size: self.0.len() - 1 }
    }

    #[cfg(test)]
    pub(crate) fn as_str(&self) -> &str {
        str::from_utf8(&self.0[..self.0.len() - 1]).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lent_text_ends_in_nul() {
        let owner = Text::new("cpu");
        assert_eq!((owner.lend().size, owner.as_str(), &*owner.0), (3, "cpu", &b"cpu\0"[..]));
        let empty = Text::new("");
        assert_eq!(empty.lend().size, 0);
        assert!(!empty.lend().data.is_null());
    }
}
