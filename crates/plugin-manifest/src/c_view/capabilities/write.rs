//! Conversion from [`Capabilities`] to C.

use pjrt_sys::AbiStruct;

use super::fields::write_fields;
use super::owned::Owned;
use super::structs::dp_capabilities;
use crate::{Capabilities, Result};

/// Capabilities in C form: the struct, and the strings and lists to which it points.
///
/// The pointers in the struct are valid as long as this value exists, even if the value is moved.
#[derive(Debug)]
pub struct CCapabilities {
    pub(super) raw: dp_capabilities,
    // The memory to which `raw` points. The elements of a vector do not move when the vector is moved.
    _owned: Owned,
}

// SAFETY: V6 (lifetimes): the pointers refer only to data in `_owned`, which never changes. `Owned` holds only data of
// types that are `Send`.
unsafe impl Send for CCapabilities {}
// SAFETY: V6 (lifetimes): the data that the pointers refer to never changes, so several threads can read it.
unsafe impl Sync for CCapabilities {}

impl CCapabilities {
    /// Converts valid capabilities to C. An empty list and `None` have the same C form.
    ///
    /// # Errors
    ///
    /// Returns an error that names the feature if C cannot represent the type of its value.
    pub fn new(capabilities: &Capabilities) -> Result<Self> {
        let mut owned = Owned::default();
        let mut raw = dp_capabilities::new();
        write_fields(capabilities, &mut raw, &mut owned)?;
        Ok(Self { raw, _owned: owned })
    }

    /// Returns a pointer to the struct. The pointer is valid until this value is moved or dropped.
    pub fn as_ptr(&self) -> *const dp_capabilities {
        &raw const self.raw
    }
}
