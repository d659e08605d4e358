//! Reads and writes memory that the framework or the plugin owns.

use std::ptr;

/// Reads a value from an address that need not be aligned.
///
/// # Safety
///
/// `from` must be readable for the size of `T`, and any bytes must be a valid `T`.
pub(in crate::core) unsafe fn read<T: Copy>(from: *const u8) -> T {
    // SAFETY: this function's contract.
    unsafe { ptr::read_unaligned(from.cast()) }
}

/// Returns the word at the byte offset `offset` in a call's arguments, or 0 if the arguments end before the end of this
/// word.
///
/// # Safety
///
/// Contract L2: the arguments must begin with their size, and must be readable for this size.
pub(in crate::core) unsafe fn field(args: *const u8, offset: usize) -> usize {
    // SAFETY: L2 (arguments): the struct begins with its size.
    let announced = unsafe { read::<usize>(args) };
    if announced < offset + size_of::<usize>() {
        return 0;
    }
    // SAFETY: L2 (arguments): the field is within the size of the struct.
    unsafe { read(args.wrapping_add(offset)) }
}

/// Copies `size` bytes from `from` to `to`.
///
/// # Safety
///
/// `from` must be readable and `to` writable for `size` bytes, and the two ranges must not overlap.
pub(in crate::core) unsafe fn copy(from: *const u8, to: *mut u8, size: usize) {
    // SAFETY: this function's contract.
    unsafe { ptr::copy_nonoverlapping(from, to, size) };
}

/// Copies `size` bytes to a vector, which is empty if `from` is null.
///
/// # Safety
///
/// `from` must be null or readable for `size` bytes.
pub(in crate::core) unsafe fn bytes(from: *const u8, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; if from.is_null() { 0 } else { size }];
    // SAFETY: this function's contract: `from` is null or readable for this size, and the vector has the same size.
    unsafe { copy(from, bytes.as_mut_ptr(), bytes.len()) };
    bytes
}

/// Copies a string of `size` bytes, and replaces invalid UTF-8. The result is empty if `from` is null.
///
/// # Safety
///
/// `from` must be null or readable for `size` bytes.
pub(in crate::core) unsafe fn text(from: *const u8, size: usize) -> String {
    // SAFETY: this function's contract.
    String::from_utf8_lossy(&unsafe { bytes(from, size) }).into_owned()
}

/// Copies the addresses in an array of `count` pointers. The result is empty if `from` is null.
///
/// # Safety
///
/// `from` must be null or readable for `count` pointers.
pub(in crate::core) unsafe fn pointers(from: *const u8, count: usize) -> Vec<usize> {
    let mut out = Vec::new();
    if !from.is_null() {
        for at in 0..count {
            // SAFETY: this function's contract.
            out.push(unsafe { read(from.wrapping_add(at * size_of::<usize>())) });
        }
    }
    out
}

/// Copies an array of `count` integers. The result is empty if `from` is null.
///
/// # Safety
///
/// `from` must be null or readable for `count` integers.
pub(in crate::core) unsafe fn numbers(from: *const i64, count: usize) -> Vec<i64> {
    let mut out = vec![0; if from.is_null() { 0 } else { count }];
    // SAFETY: this function's contract: `from` is null or readable for this size, and the vector has the same size.
    unsafe { copy(from.cast(), out.as_mut_ptr().cast(), size_of_val(&*out)) };
    out
}

/// Copies a NUL-terminated string. The result is empty if `from` is null.
///
/// # Safety
///
/// `from` must be null or readable up to the first NUL byte.
pub(in crate::core) unsafe fn terminated_text(from: *const u8) -> String {
    let mut length = 0;
    // SAFETY: this function's contract.
    while !from.is_null() && unsafe { read::<u8>(from.wrapping_add(length)) } != 0 {
        length += 1;
    }
    // SAFETY: this function's contract.
    unsafe { text(from, length) }
}
