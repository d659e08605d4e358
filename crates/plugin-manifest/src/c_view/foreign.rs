//! Checked access to arrays and text that foreign code passes by pointer and length. The crate `device-plugin` uses
//! these functions, too.

use std::ffi::c_char;

use pjrt_sys::AbiStruct;

use crate::{Error, Result};

/// Borrows an array that is passed by pointer and length.
///
/// # Errors
///
/// Returns an error that names `field` if the pointer of a nonempty array is null or misaligned, or if the length
/// exceeds the address space.
///
/// # Safety
///
/// The pointer and the length satisfy V3 of `docs/safety.md`. The reference must not outlive the period for which V3
/// guarantees that the memory is readable.
#[inline]
#[expect(clippy::disallowed_methods, reason = "the home of foreign slices")]
pub unsafe fn slice<'a, T: Copy>(data: *const T, len: usize, field: &str) -> Result<&'a [T]> {
    if len == 0 {
        return Ok(&[]);
    }
    if !is_array(data, len) {
        return Err(array_error(data.cast(), align_of::<T>(), len, field));
    }
    // SAFETY: V3 (arrays and text): `is_array` rejected null, misaligned and oversized arrays.
    Ok(unsafe { std::slice::from_raw_parts(data, len) })
}

/// Borrows a destination array that is passed by pointer and length.
///
/// # Errors
///
/// Returns an error that names `field` if the pointer of a nonempty array is null or misaligned, or if the length
/// exceeds the address space.
///
/// # Safety
///
/// The pointer and the length satisfy V3 of `docs/safety.md` for a destination. The reference must not outlive the
/// period for which V3 guarantees that the memory is writable.
#[inline]
#[expect(clippy::disallowed_methods, reason = "the home of foreign slices")]
pub unsafe fn slice_mut<'a, T: Copy>(data: *mut T, len: usize, field: &str) -> Result<&'a mut [T]> {
    if len == 0 {
        return Ok(&mut []);
    }
    if !is_array(data, len) {
        return Err(array_error(data.cast(), align_of::<T>(), len, field));
    }
    // SAFETY: V3 (arrays and text): `is_array` rejected null, misaligned and oversized arrays.
    Ok(unsafe { std::slice::from_raw_parts_mut(data, len) })
}

#[inline]
fn is_array<T>(data: *const T, len: usize) -> bool {
    let size = len.checked_mul(size_of::<T>());
    !data.is_null() && data.is_aligned() && size.is_some_and(|size| isize::try_from(size).is_ok())
}

#[cold]
#[inline(never)]
fn array_error(data: *const u8, align: usize, len: usize, field: &str) -> Error {
    Error::argument(if data.is_null() {
        format!("{field} is null, but its length is {len}")
    } else if !data.addr().is_multiple_of(align) {
        format!("{field} is not aligned")
    } else {
        format!("{field} has the length {len}, which exceeds the address space")
    })
}

/// Borrows UTF-8 text that is passed by pointer and length.
///
/// # Errors
///
/// Returns an error that names `field` if the pointer of a nonempty text is null, if the length exceeds the address
/// space, or if the text is not UTF-8.
///
/// # Safety
///
/// The pointer and the length satisfy V3 of `docs/safety.md`. The reference must not outlive the period for which V3
/// guarantees that the memory is readable.
pub unsafe fn text<'a>(data: *const c_char, len: usize, field: &str) -> Result<&'a str> {
    // SAFETY: V3 (arrays and text): the bytes are readable for their length.
    let bytes = unsafe { slice(data.cast::<u8>(), len, field) }?;
    str::from_utf8(bytes).map_err(|_| Error::argument(format!("{field} is not UTF-8")))
}

/// Copies the first bytes of a foreign struct that begins with its size. All other bytes of the result are zero.
/// `whole` returns the number of bytes to copy of a struct with a given size.
///
/// # Errors
///
/// Returns an error if the struct is null, misaligned or too short.
///
/// # Safety
///
/// `from` satisfies D1 or V8 of `docs/safety.md`. `whole` returns at most its argument and at most the size of `T`, and
/// does not return a number that ends within a pointer.
pub(super) unsafe fn local_copy<T: AbiStruct>(from: *const T, whole: impl Fn(usize) -> usize) -> Result<T> {
    let name = T::NAME;
    if from.is_null() || !from.is_aligned() {
        let fault = if from.is_null() { "null" } else { "not aligned" };
        return Err(Error::invalid_argument(format!("the {name} is {fault}")));
    }
    // SAFETY: D1 (structs) or V8 (descriptors): the struct begins with its size.
    let size = unsafe { from.cast::<usize>().read() };
    if size < T::MIN_SIZE {
        return Err(Error::invalid_argument(format!(
            "struct_size of the {name} is {size}, but must be at least {}; set it to sizeof({name})",
            T::MIN_SIZE
        )));
    }
    let mut local = T::new();
    // SAFETY: D1 (structs) or V8 (descriptors): `size` bytes of `from` are readable, and `local` is ours. `whole` keeps
    // the contract of this function.
    unsafe { from.cast::<u8>().copy_to_nonoverlapping((&raw mut local).cast(), whole(size)) };
    Ok(local)
}
