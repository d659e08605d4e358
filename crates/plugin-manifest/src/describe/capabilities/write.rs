//! Conversion from [`Capabilities`] to C.

use std::ops::Deref;

use pjrt_sys::AbiStruct;

use super::fields::write_fields;
use super::owned::Owned;
use super::structs::dp_capabilities;
use crate::{Capabilities, Result};

/// Capabilities for C: the struct, and the text and lists to which it points.
///
/// The struct is valid as long as this value exists, even if it is moved.
#[derive(Debug)]
pub struct CCapabilities {
    raw: dp_capabilities,
    // The memory to which `raw` points. The elements of a vector do not move when the vector is moved.
    _owned: Owned,
}

// SAFETY: V6 (lifetimes): the pointers refer to data that `_owned` holds and that never changes; all of it is `Send`.
unsafe impl Send for CCapabilities {}
// SAFETY: as above; a shared reference allows only shared access.
unsafe impl Sync for CCapabilities {}

impl Deref for CCapabilities {
    type Target = dp_capabilities;

    fn deref(&self) -> &dp_capabilities {
        &self.raw
    }
}

impl CCapabilities {
    /// Converts valid capabilities to C. Empty lists become the same as lists that are not stated.
    ///
    /// # Errors
    ///
    /// The name of a feature with a value of a type that C cannot represent.
    pub fn new(capabilities: &Capabilities) -> Result<Self> {
        let mut owned = Owned::default();
        let mut raw = dp_capabilities::new();
        write_fields(capabilities, &mut raw, &mut owned)?;
        Ok(Self { raw, _owned: owned })
    }

    /// A pointer for C, valid as long as this value exists.
    pub fn as_ptr(&self) -> *const dp_capabilities {
        &raw const self.raw
    }
}
