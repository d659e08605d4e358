//! Strings that this library lends to its callers.

use std::collections::BTreeMap;
use std::ptr::null;
use std::sync::{Mutex, OnceLock, PoisonError};

use plugin_manifest::c_view::capabilities::dp_string;

use crate::border::failure::Outcome;

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

    #[cfg(any(test, feature = "vendor"))]
    pub(crate) fn as_str(&self) -> &str {
        // The text was a string.
        str::from_utf8(&self.0[..self.0.len() - 1]).unwrap_or_default()
    }
}

/// A string that is made when it is first needed.
#[derive(Default)]
pub(crate) struct Lazy(OnceLock<Text>);

impl Lazy {
    /// Returns the string, and makes it if this is the first call.
    pub(crate) fn get(&self, make: impl FnOnce() -> Result<String, pjrt::Error>) -> Outcome<dp_string> {
        if let Some(text) = self.0.get() {
            return Ok(text.lend());
        }
        let text = Text::new(make()?);
        Ok(self.0.get_or_init(|| text).lend())
    }
}

/// Lends a constant, as a copy with a NUL byte at its end, which is made once.
pub(crate) fn lend_static(text: &'static str) -> dp_string {
    static COPIES: Mutex<BTreeMap<&'static str, Text>> = Mutex::new(BTreeMap::new());
    COPIES.lock().unwrap_or_else(PoisonError::into_inner).entry(text).or_insert_with(|| Text::new(text)).lend()
}

/// Lends a string if there is one.
pub(crate) fn lend(text: Option<&Text>) -> dp_string {
    text.map_or(NO_TEXT, Text::lend)
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
