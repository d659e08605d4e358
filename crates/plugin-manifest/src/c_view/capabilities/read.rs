//! Conversion from C to [`Capabilities`]. Reads only the first `struct_size` bytes, and checks every value.

use super::fields::{read_fields, whole_fields};
use super::structs::dp_capabilities;
use crate::c_view::foreign::local_copy;
use crate::{Capabilities, Result};

/// Reads and checks capabilities that another library created, with any `struct_size`.
///
/// # Safety
///
/// `capabilities` satisfies V8 of `docs/safety.md`.
///
/// # Errors
///
/// Returns an error if the struct is null, misaligned or too short, if a list is null or misaligned, if a number is
/// invalid, or if a string is not UTF-8. This error names the struct or the field. Also returns an error if
/// [`Capabilities::validate`] finds faults. This error contains all of them.
pub unsafe fn read(capabilities: *const dp_capabilities) -> Result<Capabilities> {
    // SAFETY: V8 (descriptors): the struct is readable for its size. `whole_fields` returns the end of a field within
    // this size.
    let local = unsafe { local_copy(capabilities, whole_fields) }?;
    // SAFETY: V8 (descriptors): all data that the fields point to is readable. Fields beyond `size` are null or 0.
    let read = unsafe { read_fields(&local) }?;
    read.validate()?;
    Ok(read)
}
