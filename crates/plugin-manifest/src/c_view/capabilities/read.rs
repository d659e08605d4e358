//! Conversion from C to [`Capabilities`]. Reads only the first `struct_size` bytes, and checks every value.

use pjrt_sys::AbiStruct;

use super::fields::{read_fields, whole_fields};
use super::structs::dp_capabilities;
use crate::{Capabilities, Error, Result};

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
    if capabilities.is_null() || !capabilities.is_aligned() {
        let what = if capabilities.is_null() { "null" } else { "not aligned" };
        return Err(Error::invalid_argument(format!("the pointer to dp_capabilities is {what}")));
    }
    // SAFETY: V8 (descriptors): the struct begins with its size.
    let struct_size = unsafe { capabilities.cast::<usize>().read() };
    let size = whole_fields(struct_size);
    if size == 0 {
        let message = format!(
            "struct_size of dp_capabilities is {struct_size}, too small for the field itself; set it to sizeof(dp_capabilities)"
        );
        return Err(Error::invalid_argument(message));
    }
    let mut local = dp_capabilities::new();
    // SAFETY: V8 (descriptors): the struct is readable for `struct_size` bytes. `size` is at most `struct_size`, and at
    // most the size of `local`.
    unsafe { capabilities.cast::<u8>().copy_to_nonoverlapping((&raw mut local).cast(), size) };
    // SAFETY: V8 (descriptors): all data that the fields point to is readable. Fields beyond `size` are null or 0.
    let read = unsafe { read_fields(&local) }?;
    read.validate()?;
    Ok(read)
}
