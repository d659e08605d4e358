//! Structs that begin with their size, so that fields can be appended.

use super::guard::{Failure, Outcome};

/// A struct of the C interface that begins with `struct_size`.
///
/// # Safety
///
/// The type is `repr(C)` and its first field is a `usize` called `struct_size`; every bit pattern that C may put in its
/// other fields, and zero, is a value of them.
pub(super) unsafe trait Sized0: Copy {
    /// Size of the struct in the first version of the header; a smaller one is a mistake.
    const FIRST_SIZE: usize;
    /// The C type's name.
    const NAME: &'static str;
}

/// `struct_size` of a caller's struct.
///
/// # Safety
///
/// K5 for `at`.
unsafe fn size_of_theirs<T: Sized0>(at: *const T, parameter: &str) -> Outcome<usize> {
    if at.is_null() {
        return Err(Failure::argument(format!("`{parameter}` is NULL; it must point to a {}", T::NAME)));
    }
    // SAFETY: K5: the first word is readable.
    let size = unsafe { at.cast::<usize>().read() };
    if size < T::FIRST_SIZE {
        let name = T::NAME;
        return Err(Failure::argument(format!(
            "`{parameter}->struct_size` is {size}; set it to sizeof({name}) before the call (at least {})",
            T::FIRST_SIZE
        )));
    }
    Ok(size)
}

/// A copy of a caller's struct; fields the caller's version lacks are those of `default`.
///
/// # Safety
///
/// K5 for `from`.
pub(super) unsafe fn read<T: Sized0>(from: *const T, parameter: &str, default: T) -> Outcome<T> {
    // SAFETY: this function's contract.
    let theirs = unsafe { size_of_theirs(from, parameter) }?;
    let mut copy = default;
    // SAFETY: K5: `struct_size` bytes are readable, and the copy has size_of::<T>; `Sized0` takes any bytes.
    unsafe { from.cast::<u8>().copy_to_nonoverlapping((&raw mut copy).cast::<u8>(), theirs.min(size_of::<T>())) };
    Ok(copy)
}

/// Fills a caller's struct as far as both sides know it, but for `struct_size`, which becomes the number of bytes filled.
///
/// # Safety
///
/// K5 for `to`.
pub(super) unsafe fn write<T: Sized0>(to: *mut T, parameter: &str, value: &T) -> Outcome<()> {
    // SAFETY: this function's contract.
    let size = unsafe { size_of_theirs(to, parameter) }?.min(size_of::<T>());
    let from: *const T = value;
    // SAFETY: K5: as many bytes are writable, and no larger than the value.
    unsafe { from.cast::<u8>().copy_to_nonoverlapping(to.cast::<u8>(), size) };
    // SAFETY: K5: the first word is writable.
    unsafe { to.cast::<usize>().write(size) };
    Ok(())
}
