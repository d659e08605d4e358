//! Conversion from C to [`Capabilities`]. It reads only the first `struct_size` bytes, and checks every value.

use pjrt_sys::AbiStruct;

use super::fields::{read_fields, whole_fields};
use super::structs::dp_capabilities;
use crate::{Capabilities, Error, Result};

/// Reads and checks capabilities of any size that another library created.
///
/// # Safety
///
/// V8 for `capabilities`.
///
/// # Errors
///
/// Null, misaligned or too short structs, invalid numbers, and text that is not UTF-8, each with the field's name; or
/// all faults of the values.
pub unsafe fn read(capabilities: *const dp_capabilities) -> Result<Capabilities> {
    if capabilities.is_null() || !capabilities.is_aligned() {
        let what = if capabilities.is_null() { "null" } else { "not aligned" };
        return Err(Error::invalid_argument(format!("the pointer to dp_capabilities is {what}")));
    }
    // SAFETY: V8 (descriptors), the struct begins with its size.
    let struct_size = unsafe { capabilities.cast::<usize>().read() };
    let size = whole_fields(struct_size);
    if size == 0 {
        let message = format!(
            "struct_size of dp_capabilities is {struct_size}, too small for the field itself; set it to sizeof(dp_capabilities)"
        );
        return Err(Error::invalid_argument(message));
    }
    let mut local = dp_capabilities::new();
    // SAFETY: V8 (descriptors), the struct is readable for `struct_size` bytes. `size` is at most that and the size of
    // `local`.
    unsafe { capabilities.cast::<u8>().copy_to_nonoverlapping((&raw mut local).cast(), size) };
    // SAFETY: V8 (descriptors) for all data that the fields point to; fields beyond the size are null and 0.
    let read = unsafe { read_fields(&local) }?;
    read.validate()?;
    Ok(read)
}
