//! The helpers through which the C functions run their bodies and free objects: [`call`], [`run`], [`change`], [`get`]
//! and [`free`].
//!
//! Only this module catches panics, converts failures to `dp_error`, and writes outputs. It writes outputs only on
//! success. Opaque objects are parameters of type `Option<&T>`, which is a nullable pointer in C, so that reading them
//! needs no unsafe code. The unsafe functions in this module read all other pointers.

use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::ptr::NonNull;

use pjrt::ErrorCode;
use pjrt_sys::PJRT_Api;
use plugin_manifest::c_view::descriptor::{dp_descriptor, dp_topology};
use plugin_manifest::{Descriptor, ProcessTopology, StaticApi};

use plugin_manifest::c_view::capabilities::dp_string;

use crate::error::{dp_code, dp_error};
use crate::failure::{Failure, Outcome};
use crate::sized::StructSize;
use crate::text::{NO_TEXT, Text};

/// Runs the body of a function, and converts a panic to a failure.
#[expect(clippy::disallowed_methods, reason = "the one place of the C interface where panics are contained")]
fn contain<T>(body: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    // `AssertUnwindSafe` is correct here. A body that panics has not written any output, and the registry's locks
    // recover from poisoning.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| Err(Failure::panic(&*payload)))
}

/// Runs the body of a function that may fail, and writes its result to `out`.
///
/// # Safety
///
/// The caller must keep contract K1 (outputs are writable) for `out` and `error`.
pub(crate) unsafe fn call<T>(
    function: &'static str,
    out: *mut T,
    error: *mut *mut dp_error,
    body: impl FnOnce() -> Outcome<T>,
) -> dp_code {
    // Check this before running the body. Without `out`, the caller could not free an object that the body created.
    let outcome = if out.is_null() {
        Err(Failure::argument("`out` is NULL; it must point to a place for the result"))
    } else {
        contain(body)
    };
    match outcome {
        Ok(value) => {
            // SAFETY: K1 (the output is writable), and the pointer is not null.
            unsafe { out.write(value) };
            ErrorCode::OK.as_raw()
        }
        Err(failure) => {
            let code = failure.code.as_raw();
            if !error.is_null() {
                let made = give(dp_error::new(function, failure));
                // SAFETY: K1 (the output is writable), and the pointer is not null.
                unsafe { error.write(made) };
            }
            code
        }
    }
}

/// Runs the body of a function that may fail and has no result.
///
/// # Safety
///
/// The caller must keep contract K1 (outputs are writable) for `error`.
pub(crate) unsafe fn run(
    function: &'static str,
    error: *mut *mut dp_error,
    body: impl FnOnce() -> Outcome<()>,
) -> dp_code {
    // SAFETY: K1 (outputs are writable) for `error`; the result is a local.
    unsafe { call(function, &mut (), error, body) }
}

/// Runs the body of a function that may fail and that changes an object. `parameter` is the name of the object's
/// parameter.
///
/// # Safety
///
/// The caller must keep contract K1 (outputs are writable) for `error`.
pub(crate) unsafe fn change<O>(
    function: &'static str,
    (object, parameter): (Option<&mut O>, &str),
    error: *mut *mut dp_error,
    body: impl FnOnce(&mut O) -> Outcome<()>,
) -> dp_code {
    // SAFETY: K1 (outputs are writable) for `error`.
    unsafe { run(function, error, || body(required(object, parameter)?)) }
}

/// Runs the body of a function that reads a property of an object. Returns `default` if the object is null, or if the
/// body panics.
pub(crate) fn get<O, T>(object: Option<&O>, default: T, body: impl FnOnce(&O) -> T) -> T {
    contain(|| Ok(body(required(object, "object")?))).unwrap_or_else(|failure| {
        tracing::debug!(message = failure.message, "a getter of the C interface was misused");
        default
    })
}

/// Passes an object to the caller, who must free it with [`free`].
pub(crate) fn give<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

/// Frees an object from [`give`]. Ignores null.
///
/// # Safety
///
/// The caller must keep the contracts K2 (objects are live) and K3 (exclusive use) for `pointer`, and must not use the
/// pointer again.
pub(crate) unsafe fn free<T>(pointer: *mut T) {
    if pointer.is_null() {
        return;
    }
    // SAFETY: K2: the pointer came from `give`, and K3: no other call uses the object.
    let owned = unsafe { Box::from_raw(pointer) };
    let freed = contain(|| {
        drop(owned);
        Ok(())
    });
    if let Err(failure) = freed {
        tracing::error!(message = failure.message, "an object of the C interface panicked when it was freed");
    }
}

/// Returns the element at an index that the caller passed, or an `OUT_OF_RANGE` failure.
pub(crate) fn at<T>(items: &[T], index: usize) -> Outcome<&T> {
    items.get(index).ok_or_else(|| {
        Failure::new(ErrorCode::OUT_OF_RANGE, format!("`index` is {index}, but the list has {} items", items.len()))
    })
}

/// Returns the object, or an `INVALID_ARGUMENT` failure that names `parameter` if the object is null.
pub(crate) fn required<T>(object: Option<T>, parameter: &str) -> Outcome<T> {
    object.ok_or_else(|| Failure::argument(null(parameter, "an object")))
}

/// Reads an array. The pointer may be null if the array is empty.
///
/// # Safety
///
/// The caller must keep contract K4 (arrays are readable) for the pointer and length, during `'a`.
#[expect(clippy::disallowed_methods, reason = "the one place where the C interface reads arrays")]
pub(crate) unsafe fn array<'a, T: Copy>(pointer: *const T, len: usize, parameter: &str) -> Outcome<&'a [T]> {
    if len == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(Failure::argument(null(parameter, &format!("{len} elements"))));
    }
    if !pointer.is_aligned() || len > isize::MAX.unsigned_abs() / size_of::<T>().max(1) {
        let message = format!("`{parameter}` is not a valid array of {len} elements; check its address and length");
        return Err(Failure::argument(message));
    }
    // SAFETY: K4 (arrays are readable); the pointer is aligned and not null, and the array fits into memory.
    Ok(unsafe { std::slice::from_raw_parts(pointer, len) })
}

/// Reads a C string, or returns a failure if the pointer is null.
///
/// # Safety
///
/// The caller must keep contract K4 (strings end in NUL) for the pointer, during `'a`.
#[expect(clippy::disallowed_methods, reason = "the one place where the C interface reads C strings")]
unsafe fn c_str<'a>(text: *const c_char, parameter: &str) -> Outcome<&'a CStr> {
    if text.is_null() {
        return Err(Failure::argument(null(parameter, "text")));
    }
    // SAFETY: K4 (strings end in NUL), and the pointer is not null.
    Ok(unsafe { CStr::from_ptr(text) })
}

/// Reads a UTF-8 string.
///
/// # Safety
///
/// The caller must keep contract K4 (strings end in NUL) for the pointer, during `'a`.
pub(crate) unsafe fn text<'a>(text: *const c_char, parameter: &str) -> Outcome<&'a str> {
    // SAFETY: K4 (strings end in NUL).
    let text = unsafe { c_str(text, parameter) }?;
    text.to_str().map_err(|error| Failure::argument(format!("`{parameter}` is not UTF-8 text: {error}")))
}

/// Reads a UTF-8 string that must not be empty.
///
/// # Safety
///
/// The caller must keep contract K4 (strings end in NUL) for the pointer, during `'a`.
pub(crate) unsafe fn some_text<'a>(pointer: *const c_char, parameter: &str) -> Outcome<&'a str> {
    // SAFETY: K4 (strings end in NUL).
    match unsafe { text(pointer, parameter) }? {
        "" => Err(Failure::argument(format!("`{parameter}` is empty"))),
        text => Ok(text),
    }
}

/// Reads a UTF-8 string, or returns `None` if the pointer is null.
///
/// # Safety
///
/// The caller must keep contract K4 (strings end in NUL) for the pointer, during `'a`.
pub(crate) unsafe fn optional_text<'a>(pointer: *const c_char, parameter: &str) -> Outcome<Option<&'a str>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: K4 (strings end in NUL).
    unsafe { text(pointer, parameter) }.map(Some)
}

/// Reads a path. On Unix, the path may contain any bytes. On other systems, it must be UTF-8.
///
/// # Safety
///
/// The caller must keep contract K4 (strings end in NUL) for the pointer.
pub(crate) unsafe fn path(path: *const c_char, parameter: &str) -> Outcome<PathBuf> {
    // SAFETY: K4 (strings end in NUL).
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
    // SAFETY: K4 (strings end in NUL).
    unsafe { text(path, parameter) }.map(PathBuf::from)
}

/// Reads the description of a plugin, or returns a failure if the pointer is null or the description is invalid.
///
/// # Safety
///
/// The caller must keep contract K6 (descriptions keep D1 to D5) for the pointer.
pub(crate) unsafe fn descriptor(descriptor: *const dp_descriptor) -> Outcome<Descriptor> {
    if descriptor.is_null() {
        return Err(Failure::argument("`descriptor` is NULL; it must point to a dp_descriptor"));
    }
    // SAFETY: K6 (descriptions keep D1 to D5), and the pointer is not null.
    Ok(unsafe { Descriptor::from_raw(descriptor) }?)
}

/// Converts a pointer to a function table to a `StaticApi`, or returns a failure if the pointer is null.
///
/// # Safety
///
/// The caller must keep contract K6 (tables keep C1 to C11) for the pointer.
pub(crate) unsafe fn table(api: *const PJRT_Api, parameter: &str) -> Outcome<StaticApi> {
    let Some(table) = NonNull::new(api.cast_mut()) else {
        return Err(Failure::argument(format!("`{parameter}` is NULL; it must point to a PJRT_Api")));
    };
    // SAFETY: K6 (tables keep C1 to C11).
    Ok(unsafe { StaticApi::new(table.as_ptr()) })
}

/// Reads a topology, or returns `None` if the pointer is null.
///
/// # Safety
///
/// The caller must keep contract K5 (structs have the size they declare) for the pointer.
pub(crate) unsafe fn topology(topology: *const dp_topology) -> Outcome<Option<ProcessTopology>> {
    if topology.is_null() {
        return Ok(None);
    }
    // SAFETY: K5 (structs have the size they declare): the pointer is not null.
    Ok(Some(unsafe { ProcessTopology::from_raw(topology) }?))
}

/// Writes an output in addition to that of [`call`], unless `place` is null. The body must not fail after this call,
/// because a function that fails must not write outputs.
///
/// # Safety
///
/// The caller must keep contract K1 (outputs are writable) for `place`.
pub(crate) unsafe fn put<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: K1 (outputs are writable): the pointer is not null.
        unsafe { place.write(value) };
    }
}

/// Passes an object to the caller in addition to the output of [`call`], unless `place` is null. The caller must free
/// it. The body must not fail after this call, because a function that fails must not write outputs.
///
/// # Safety
///
/// The caller must keep contract K1 (outputs are writable) for `place`.
pub(crate) unsafe fn put_handle<T>(place: *mut *mut T, object: T) {
    if !place.is_null() {
        // SAFETY: K1 (outputs are writable).
        unsafe { put(place, give(object)) };
    }
}

/// Sets an environment variable of the process.
///
/// # Safety
///
/// The caller must keep contract K7 (no other thread uses the environment).
pub(crate) unsafe fn set_variable(name: &str, value: &str) {
    // SAFETY: K7 (no other thread uses the environment).
    unsafe { std::env::set_var(name, value) };
}

/// Returns `struct_size` of a caller's struct. Returns a failure if the pointer is null, or if the size is smaller than
/// that of the first version of the struct.
///
/// # Safety
///
/// The caller must keep contract K5 (the first word is readable) for the pointer.
unsafe fn struct_size<T: StructSize>(at: *const T, parameter: &str) -> Outcome<usize> {
    if at.is_null() {
        return Err(Failure::argument(null(parameter, &format!("a {}", T::NAME))));
    }
    // SAFETY: K5 (the first word is readable): the pointer is not null.
    let size = unsafe { at.cast::<usize>().read() };
    if size < T::FIRST_SIZE {
        let (name, least) = (T::NAME, T::FIRST_SIZE);
        return Err(Failure::argument(format!(
            "`{parameter}->struct_size` is {size}; set it to sizeof({name}), which is at least {least}"
        )));
    }
    Ok(size)
}

/// Fills the fields of a caller's struct that both the caller and this library know. Sets `struct_size` to the number
/// of bytes that were filled.
///
/// # Safety
///
/// The caller must keep contract K5 (structs have the size they declare) for the pointer.
pub(crate) unsafe fn write<T: StructSize>(to: *mut T, parameter: &str, value: &T) -> Outcome<()> {
    // SAFETY: K5 (structs have the size they declare).
    let size = unsafe { struct_size(to, parameter) }?.min(size_of::<T>());
    let from: *const T = value;
    // SAFETY: K5: `size` bytes are writable, and `value` has at least `size` bytes.
    unsafe { from.cast::<u8>().copy_to_nonoverlapping(to.cast::<u8>(), size) };
    // SAFETY: K5: the first word is writable.
    unsafe { to.cast::<usize>().write(size) };
    Ok(())
}

fn null(parameter: &str, expected: &str) -> String {
    format!("`{parameter}` is NULL; it must point to {expected}")
}

/// Returns the string that `text` selects, borrowed from the object. Returns a string with null `data` if the object is
/// null, or if `text` returns `None` or panics.
pub(crate) fn text_of<O>(object: Option<&O>, text: impl FnOnce(&O) -> Option<&Text>) -> dp_string {
    get(object, NO_TEXT, |object| text(object).map_or(NO_TEXT, Text::lend))
}

#[cfg(test)]
mod tests {
    use std::ptr::null_mut;

    use super::*;

    fn outcome(body: impl FnOnce() -> Outcome<i32>) -> (dp_code, String, i32) {
        let (mut out, mut error) = (-1, null_mut());
        // SAFETY: K1: `out` and `error` are locals.
        let code = unsafe { call("dp_test", &mut out, &mut error, body) };
        // SAFETY: `call` set `error` to null or to a valid error.
        let text = unsafe { error.as_ref() }.map(|error: &dp_error| error.text().to_owned()).unwrap_or_default();
        // SAFETY: this function owns the error and does not use it afterwards.
        unsafe { free(error) };
        (code, text, out)
    }

    #[test]
    fn outputs_are_written_on_success_only() {
        assert_eq!(outcome(|| Ok(7)), (0, String::new(), 7));
        let failed = outcome(|| Err(Failure::argument("no")));
        assert_eq!(failed, (3, "dp_test: no".to_owned(), -1));
    }

    #[test]
    fn panics_are_internal_errors() {
        let panicked = outcome(|| panic!("boom {}", 1));
        assert_eq!(panicked, (13, "dp_test: panicked: boom 1".to_owned(), -1));
        assert_eq!(get(Some(&1), 5, |_| panic!("boom")), 5);
        assert_eq!(get(None::<&i32>, 5, |found| *found), 5);
    }

    #[test]
    fn null_result_skips_body() {
        // SAFETY: K1 allows null for both outputs.
        let code = unsafe { call("dp_test", null_mut::<i32>(), null_mut(), || unreachable!("it ran")) };
        assert_eq!(code, 3);
    }

    #[test]
    fn parameters_that_are_wrong_are_named() {
        // SAFETY: K4: the strings below are constants.
        let text = |pointer: *const c_char| outcome(move || unsafe { some_text(pointer, "name") }.map(|_| 0)).1;
        assert_eq!(text(std::ptr::null()), "dp_test: `name` is NULL; it must point to text");
        expect_test::expect!["dp_test: `name` is not UTF-8 text: incomplete utf-8 byte sequence from index 3"]
            .assert_eq(&text(c"caf\xe9".as_ptr()));
        assert_eq!(text(c"".as_ptr()), "dp_test: `name` is empty");
        let array = |pointer: *const i64, len| {
            // SAFETY: K4: the arrays below are rejected before they are read.
            outcome(move || unsafe { array(pointer, len, "values") }.map(|_| 0)).1
        };
        assert_eq!(array(std::ptr::null(), 0), "");
        assert_eq!(array(std::ptr::null(), 2), "dp_test: `values` is NULL; it must point to 2 elements");
        assert!(array(&0, usize::MAX).starts_with("dp_test: `values` "));
        let object = outcome(|| required(None, "plan"));
        assert_eq!(object.1, "dp_test: `plan` is NULL; it must point to an object");
    }

    #[test]
    fn copies_common_part_of_structs() {
        #[repr(C)]
        #[derive(Clone, Copy)]
        struct Two {
            struct_size: usize,
            first: u64,
            second: u64,
        }
        // SAFETY: repr(C), and any bytes are integers.
        unsafe impl StructSize for Two {
            const FIRST_SIZE: usize = 16;
            const NAME: &'static str = "two";
        }
        let value = Two { struct_size: 24, first: 1, second: 2 };
        for (given, filled, second) in [(16, 16, 9), (24, 24, 2), (4096, 24, 2)] {
            let mut theirs = [Two { struct_size: given, first: 9, second: 9 }; 1];
            let place = &raw mut theirs[0];
            // SAFETY: K5: `place` points to a local, and `write` writes at most the size of that local.
            let written = outcome(move || unsafe { write(place, "out", &value) }.map(|()| 0));
            assert_eq!(written.0, 0, "{}", written.1);
            assert_eq!((theirs[0].struct_size, theirs[0].first, theirs[0].second), (filled, 1, second));
        }
        let mut short = Two { struct_size: 8, first: 0, second: 0 };
        let place = &raw mut short;
        // SAFETY: K5: `place` points to a local.
        let refused = outcome(move || unsafe { write(place, "out", &value) }.map(|()| 0)).1;
        assert_eq!(refused, "dp_test: `out->struct_size` is 8; set it to sizeof(two), which is at least 16");
    }
}
