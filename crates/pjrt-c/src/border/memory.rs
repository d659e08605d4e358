//! Memory of C programs: text, arrays and structs.

use std::ffi::{CStr, c_char};
use std::path::PathBuf;

use pjrt::ErrorCode;

use crate::border::failure::{Failure, Outcome};
use crate::border::sized::StructSize;

/// A struct of the caller, or as much of it as this library knows. The rest is zero.
pub(crate) struct Struct<T>(pub(crate) T);

/// Reads a struct that begins with `struct_size`.
///
/// # Safety
///
/// The caller must keep contract K4 (structs have the size they declare) for the pointer.
pub(crate) unsafe fn structure<T: StructSize>(from: *const T, parameter: &str) -> Outcome<Struct<T>> {
    // SAFETY: K4 (structs have the size they declare).
    let size = unsafe { struct_size(from, parameter) }?.min(size_of::<T>());
    let mut value = T::ZERO;
    // SAFETY: K4: `size` bytes are readable, and `value` has at least as many.
    unsafe { from.cast::<u8>().copy_to_nonoverlapping((&raw mut value).cast::<u8>(), size) };
    Ok(Struct(value))
}

/// Returns `struct_size` of a caller's struct. Returns a failure if the pointer is null, or if the size is smaller than
/// that of the first version of the struct.
///
/// # Safety
///
/// The caller must keep contract K4 (the first word is readable) for the pointer.
pub(crate) unsafe fn struct_size<T: StructSize>(at: *const T, parameter: &str) -> Outcome<usize> {
    if at.is_null() {
        return Err(Failure::argument(null(parameter, &format!("a {}", T::NAME))));
    }
    if !at.is_aligned() {
        return Err(misaligned(parameter, T::NAME));
    }
    // SAFETY: K4 (the first word is readable): the pointer is aligned and not null.
    let size = unsafe { at.cast::<usize>().read() };
    if size < T::FIRST_SIZE || size > LARGEST_STRUCT {
        let (name, least) = (T::NAME, T::FIRST_SIZE);
        return Err(Failure::argument(format!(
            "`{parameter}->struct_size` is {size}; set it to sizeof({name}), which is at least {least}"
        )));
    }
    Ok(size)
}

/// A larger `struct_size` was not set by the caller.
const LARGEST_STRUCT: usize = 4096;

#[cold]
pub(crate) fn misaligned(parameter: &str, expected: &str) -> Failure {
    Failure::argument(format!("`{parameter}` is not aligned; it must point to a {expected}"))
}

pub(crate) fn null(parameter: &str, expected: &str) -> String {
    format!("`{parameter}` is NULL; it must point to {expected}")
}

/// Reads an array. The pointer may be null if the array is empty.
///
/// # Safety
///
/// The caller must keep contract K3 (arrays are readable) for the pointer and length, during `'a`.
#[inline(always)]
#[expect(clippy::disallowed_methods, reason = "the one place where the C interface reads arrays")]
pub(crate) unsafe fn array<'a, T: Copy>(pointer: *const T, len: usize, parameter: &str) -> Outcome<&'a [T]> {
    if len == 0 {
        return Ok(&[]);
    }
    if !is_array(pointer, len) {
        return Err(no_array(pointer.is_null(), len, parameter));
    }
    // SAFETY: K3 (arrays are readable); the pointer is aligned and not null, and the array fits into memory.
    Ok(unsafe { std::slice::from_raw_parts(pointer, len) })
}

/// Returns whether the pointer is aligned and not null, and the array fits into memory.
#[inline(always)]
fn is_array<T>(pointer: *const T, len: usize) -> bool {
    !pointer.is_null() && pointer.is_aligned() && len <= isize::MAX.unsigned_abs() / size_of::<T>().max(1)
}

#[cold]
fn no_array(is_null: bool, len: usize, parameter: &str) -> Failure {
    if is_null {
        return Failure::argument(null(parameter, &format!("{len} elements")));
    }
    let message = format!("`{parameter}` is not a valid array of {len} elements; check its address and length");
    Failure::argument(message)
}

/// Reads a C string, or returns a failure if the pointer is null.
///
/// # Safety
///
/// The caller must keep contract K3 (strings end in NUL) for the pointer, during `'a`.
#[expect(clippy::disallowed_methods, reason = "the one place where the C interface reads C strings")]
unsafe fn c_str<'a>(text: *const c_char, parameter: &str) -> Outcome<&'a CStr> {
    if text.is_null() {
        return Err(Failure::argument(null(parameter, "text")));
    }
    // SAFETY: K3 (strings end in NUL), and the pointer is not null.
    Ok(unsafe { CStr::from_ptr(text) })
}

/// Reads a UTF-8 string.
///
/// # Safety
///
/// The caller must keep contract K3 (strings end in NUL) for the pointer, during `'a`.
pub(crate) unsafe fn text<'a>(text: *const c_char, parameter: &str) -> Outcome<&'a str> {
    // SAFETY: K3 (strings end in NUL).
    let text = unsafe { c_str(text, parameter) }?;
    text.to_str().map_err(|error| Failure::argument(format!("`{parameter}` is not UTF-8 text: {error}")))
}

/// Text that is not empty.
pub(crate) type Name<'a> = &'a str;

/// Reads a UTF-8 string that must not be empty.
///
/// # Safety
///
/// The caller must keep contract K3 (strings end in NUL) for the pointer, during `'a`.
pub(crate) unsafe fn name<'a>(pointer: *const c_char, parameter: &str) -> Outcome<&'a str> {
    // SAFETY: K3 (strings end in NUL).
    match unsafe { text(pointer, parameter) }? {
        "" => Err(Failure::argument(format!("`{parameter}` is empty"))),
        text => Ok(text),
    }
}

/// Reads a UTF-8 string, or returns `None` if the pointer is null.
///
/// # Safety
///
/// The caller must keep contract K3 (strings end in NUL) for the pointer, during `'a`.
pub(crate) unsafe fn optional_text<'a>(pointer: *const c_char, parameter: &str) -> Outcome<Option<&'a str>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: K3 (strings end in NUL).
    unsafe { text(pointer, parameter) }.map(Some)
}

/// Reads a path. On Unix, the path may contain any bytes. On other systems, it must be UTF-8.
///
/// # Safety
///
/// The caller must keep contract K3 (strings end in NUL) for the pointer.
pub(crate) unsafe fn path(path: *const c_char, parameter: &str) -> Outcome<PathBuf> {
    // SAFETY: K3 (strings end in NUL).
    let bytes = unsafe { c_str(path, parameter) }?;
    if bytes.is_empty() {
        return Err(Failure::argument(format!("`{parameter}` is empty; write a path")));
    }
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        Ok(std::ffi::OsStr::from_bytes(bytes.to_bytes()).into())
    }
    #[cfg(not(unix))]
    // SAFETY: K3 (strings end in NUL).
    unsafe { text(path, parameter) }.map(PathBuf::from)
}

/// Texts, which the caller passes as an array.
pub(crate) struct Texts<'a> {
    texts: &'a [*const c_char],
    parameter: &'static str,
}

/// # Safety
///
/// The caller must keep contract K3 (arrays are readable, and strings in them end in NUL), during `'a`.
pub(crate) unsafe fn texts<'a>(
    pointer: *const *const c_char,
    len: usize,
    parameter: &'static str,
) -> Outcome<Texts<'a>> {
    // SAFETY: K3 (arrays are readable).
    unsafe { array(pointer, len, parameter) }.map(|texts| Texts { texts, parameter })
}

impl<'a> Texts<'a> {
    pub(crate) fn len(&self) -> usize {
        self.texts.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    pub(crate) fn get(&self, index: usize) -> Outcome<&'a str> {
        // SAFETY: K3 (strings end in NUL).
        unsafe { text(self.texts[index], &format!("{}[{index}]", self.parameter)) }
    }
}

/// An array of the caller that the function fills.
pub(crate) struct Fill<T> {
    first: *mut T,
    len: usize,
    parameter: &'static str,
}

/// # Safety
///
/// The caller must keep contract K1 (outputs are writable) for the pointer and length.
#[inline(always)]
pub(crate) unsafe fn fill<T>(first: *mut T, len: usize, parameter: &'static str) -> Outcome<Fill<T>> {
    if len != 0 && !is_array(first, len) {
        return Err(no_array(first.is_null(), len, parameter));
    }
    Ok(Fill { first, len, parameter })
}

impl<T> Fill<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns a failure if the array does not have `len` elements.
    #[inline]
    pub(crate) fn expect(&self, len: usize) -> Outcome<()> {
        if self.len == len {
            return Ok(());
        }
        let parameter = self.parameter;
        Err(Failure::argument(format!("`{parameter}_size` is {}, but there are {len} elements", self.len)))
    }

    /// Returns the address of the first element.
    pub(crate) fn start(&self) -> *mut T {
        self.first
    }

    /// Writes the first element, and leaves the others. The body must not fail after this call, because a function that
    /// fails must not write outputs.
    #[inline]
    pub(crate) fn push(&mut self, value: T) {
        if let Some(len) = self.len.checked_sub(1) {
            // SAFETY: K1 (outputs are writable), and the array has an element.
            unsafe { self.first.write(value) };
            (self.first, self.len) = (self.first.wrapping_add(1), len);
        }
    }

    /// Fills the whole array. The body must not fail after this call, because a function that fails must not write
    /// outputs.
    pub(crate) fn each(self, values: impl ExactSizeIterator<Item = T>) -> Outcome<()> {
        self.expect(values.len())?;
        for (index, value) in values.enumerate().take(self.len) {
            // SAFETY: `fill` checked that the array fits into memory, and it has more than `index` elements.
            let place = unsafe { self.first.add(index) };
            // SAFETY: K1 (outputs are writable).
            unsafe { place.write(value) };
        }
        Ok(())
    }

    /// Fills the whole array with copies.
    pub(crate) fn all(self, values: &[T]) -> Outcome<()>
    where
        T: Copy,
    {
        self.each(values.iter().copied())
    }
}

/// Returns the element at an index that the caller passed, or an `OUT_OF_RANGE` failure.
pub(crate) fn at<T>(items: &[T], index: usize) -> Outcome<&T> {
    items.get(index).ok_or_else(|| {
        Failure::new(ErrorCode::OUT_OF_RANGE, format!("`index` is {index}, but the list has {} items", items.len()))
    })
}

/// Returns a function of the caller, or a failure if it is null.
pub(crate) fn function<F>(function: Option<F>, parameter: &str) -> Outcome<F> {
    function.ok_or_else(|| Failure::argument(null(parameter, "a function")))
}

/// A small struct of the caller without `struct_size`, which never grows.
pub(crate) struct Plain<T>(pub(crate) T);

/// Reads a struct that never grows.
///
/// # Safety
///
/// The caller must keep contract K3 (arrays are readable) for the pointer.
pub(crate) unsafe fn plain<T: Copy>(from: *const T, parameter: &str) -> Outcome<Plain<T>> {
    if from.is_null() {
        return Err(Failure::argument(null(parameter, "a struct")));
    }
    if !from.is_aligned() {
        return Err(misaligned(parameter, "struct"));
    }
    // SAFETY: K3 (arrays are readable); the pointer is aligned and not null.
    Ok(Plain(unsafe { from.read() }))
}
