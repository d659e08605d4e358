//! The helpers through which the C functions run their bodies: [`call`], [`run`] and [`get`].
//!
//! Only this module catches panics, converts failures to `dp_error`, and writes outputs. It writes outputs only on
//! success. `#[c_function]` calls its functions, and for each parameter a function of `handle`, `memory` or this
//! module.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use pjrt::ErrorCode;
use pjrt_sys::PJRT_Api;
use plugin_manifest::c_view::descriptor::{dp_descriptor, dp_topology};
use plugin_manifest::{Descriptor, ProcessTopology, StaticApi};

use crate::border::error::{dp_code, dp_error};
use crate::border::failure::{Failure, Outcome};
use crate::border::handle::give;
use crate::border::memory::misaligned;
use crate::border::output::{Empty, Output};

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
#[inline]
pub(crate) unsafe fn call<T: Output>(
    function: &'static str,
    out: *mut T::Place,
    error: *mut *mut dp_error,
    body: impl FnOnce() -> Outcome<T>,
) -> dp_code {
    // Check this before running the body. Without `out`, the caller could not free an object that the body created.
    let outcome = if out.is_null() {
        Err(Failure::argument("`out` is NULL; it must point to a place for the result"))
    } else if !out.is_aligned() {
        Err(misaligned("out", "place for the result"))
    } else {
        // SAFETY: K1 (the output is writable), and the pointer is not null.
        contain(|| unsafe { T::check(out) }.and_then(|()| body()))
    };
    match outcome {
        Ok(value) => {
            // SAFETY: K1 (the output is writable), and the pointer was checked.
            unsafe { value.write(out) };
            ErrorCode::OK.as_raw()
        }
        // SAFETY: K1 (the output is writable).
        Err(failure) => unsafe { fail(function, failure, error) },
    }
}

/// Runs the body of a function that may fail and has no result.
///
/// # Safety
///
/// The caller must keep contract K1 (outputs are writable) for `error`.
#[inline]
pub(crate) unsafe fn run(
    function: &'static str,
    error: *mut *mut dp_error,
    body: impl FnOnce() -> Outcome<()>,
) -> dp_code {
    match contain(body) {
        Ok(()) => ErrorCode::OK.as_raw(),
        // SAFETY: K1 (the output is writable).
        Err(failure) => unsafe { fail(function, failure, error) },
    }
}

/// # Safety
///
/// The caller must keep contract K1 (outputs are writable) for `error`.
#[cold]
unsafe fn fail(function: &'static str, failure: Failure, error: *mut *mut dp_error) -> dp_code {
    let code = failure.code.as_raw();
    if !error.is_null() && error.is_aligned() {
        let made = give(dp_error::new(function, failure));
        // SAFETY: K1 (the output is writable), and the pointer is not null.
        unsafe { error.write(made) };
    }
    code
}

/// Runs the body of a function that cannot report a failure. Returns an empty value if the body fails or panics.
pub(crate) fn get<T: Empty>(body: impl FnOnce() -> Outcome<T>) -> T {
    contain(body).unwrap_or_else(|failure| {
        tracing::debug!(message = failure.message, "a getter of the C interface was misused");
        T::EMPTY
    })
}

/// Runs code that frees an object. Returns `None` if it panics.
pub(crate) fn contained<T>(body: impl FnOnce() -> T) -> Option<T> {
    contain(|| Ok(body())).ok()
}

/// A place for an output in addition to the result. Null if the caller does not need this output.
pub(crate) struct Out<T: Output>(*mut T::Place);

impl<T: Output> Out<T> {
    /// # Safety
    ///
    /// The caller must keep contract K1 (outputs are writable) for `place`.
    #[inline]
    pub(crate) unsafe fn new(place: *mut T::Place, parameter: &str) -> Outcome<Self> {
        if !place.is_null() {
            if !place.is_aligned() {
                return Err(misaligned(parameter, "place for an output"));
            }
            // SAFETY: K1 (outputs are writable), and the pointer is not null.
            unsafe { T::check(place) }?;
        }
        Ok(Self(place))
    }

    /// Returns whether the caller needs the output.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.0.is_null()
    }

    /// Writes the output if the caller needs it. The body must not fail after this call, because a function that fails
    /// must not write outputs.
    pub(crate) fn put(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: `new` checked the place.
            unsafe { value.write(self.0) };
        }
    }
}

/// Reads the description of a plugin, or returns a failure if the pointer is null or the description is invalid.
///
/// # Safety
///
/// The caller must keep contract K5 (descriptions keep D1 to D5) for the pointer.
pub(crate) unsafe fn descriptor(descriptor: *const dp_descriptor) -> Outcome<Descriptor> {
    if descriptor.is_null() {
        return Err(Failure::argument("`descriptor` is NULL; it must point to a dp_descriptor"));
    }
    // SAFETY: K5 (descriptions keep D1 to D5), and the pointer is not null.
    Ok(unsafe { Descriptor::from_raw(descriptor) }?)
}

/// Converts a pointer to a function table to a `StaticApi`, or returns a failure if the pointer is null.
///
/// # Safety
///
/// The caller must keep contract K5 (tables keep C1 to C11) for the pointer.
pub(crate) unsafe fn table(api: *const PJRT_Api, parameter: &str) -> Outcome<StaticApi> {
    let Some(table) = NonNull::new(api.cast_mut()).filter(|table| table.is_aligned()) else {
        return Err(Failure::argument(format!("`{parameter}` is NULL or not aligned; it must point to a PJRT_Api")));
    };
    // SAFETY: K5 (tables keep C1 to C11).
    Ok(unsafe { StaticApi::new(table.as_ptr()) })
}

/// Reads a topology, or returns `None` if the pointer is null.
///
/// # Safety
///
/// The caller must keep contract K4 (structs have the size they declare) for the pointer.
pub(crate) unsafe fn topology(topology: *const dp_topology) -> Outcome<Option<ProcessTopology>> {
    if topology.is_null() {
        return Ok(None);
    }
    // SAFETY: K4 (structs have the size they declare): the pointer is not null.
    Ok(Some(unsafe { ProcessTopology::from_raw(topology) }?))
}

/// Sets an environment variable of the process.
///
/// # Safety
///
/// The caller must keep contract K6 (no other thread uses the environment).
pub(crate) unsafe fn set_variable(name: &str, value: &str) {
    // SAFETY: K6 (no other thread uses the environment).
    unsafe { std::env::set_var(name, value) };
}

#[cfg(test)]
mod tests {
    use std::ptr::null_mut;

    use std::ffi::c_char;

    use super::*;
    use crate::border::handle::{object, optional};
    use crate::border::memory::{Struct, array, name, structure};
    use crate::border::references::{dp_release, dp_retain};
    use crate::border::sized::struct_sizes;
    use crate::{dp_options, dp_policy};

    fn outcome(body: impl FnOnce() -> Outcome<i32>) -> (dp_code, String, i32) {
        let (mut out, mut error) = (-1, null_mut::<dp_error>());
        // SAFETY: K1: `out` and `error` are locals.
        let code = unsafe { call("dp_test", &mut out, &mut error, body) };
        let text = message(error);
        // SAFETY: K2: no other thread knows the error.
        unsafe { dp_release(error.cast()) };
        (code, text, out)
    }

    fn message(error: *mut dp_error) -> String {
        // SAFETY: K2: no other thread knows the error.
        unsafe { optional(error, "error") }.ok().flatten().map(|error| error.text().to_owned()).unwrap_or_default()
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
        assert_eq!(get(|| -> Outcome<u32> { panic!("boom") }), 0);
        assert!(!get(|| Err::<bool, _>(Failure::argument("no"))));
    }

    #[test]
    fn wrong_places_skip_body() {
        // SAFETY: K1 allows null for both outputs.
        let code =
            unsafe { call("dp_test", null_mut::<i32>(), null_mut(), || -> Outcome<i32> { unreachable!("it ran") }) };
        assert_eq!(code, 3);
        let mut places = [0i32; 2];
        let between = places.as_mut_ptr().wrapping_byte_add(1);
        let mut error = null_mut();
        // SAFETY: K1: the place is rejected because it is not aligned.
        let code = unsafe { call("dp_test", between, &mut error, || -> Outcome<i32> { unreachable!("it ran") }) };
        assert_eq!((code, places), (3, [0; 2]));
        assert_eq!(message(error), "dp_test: `out` is not aligned; it must point to a place for the result");
        // SAFETY: K2: no other thread knows the error.
        unsafe { dp_release(error.cast()) };
    }

    #[test]
    fn parameters_that_are_wrong_are_named() {
        // SAFETY: K3: the strings below are constants.
        let text = |pointer: *const c_char| outcome(move || unsafe { name(pointer, "name") }.map(|_| 0)).1;
        assert_eq!(text(std::ptr::null()), "dp_test: `name` is NULL; it must point to text");
        expect_test::expect!["dp_test: `name` is not UTF-8 text: incomplete utf-8 byte sequence from index 3"]
            .assert_eq(&text(c"caf\xe9".as_ptr()));
        assert_eq!(text(c"".as_ptr()), "dp_test: `name` is empty");
        let array = |pointer: *const i64, len| {
            // SAFETY: K3: the arrays below are rejected before they are read.
            outcome(move || unsafe { array(pointer, len, "values") }.map(|_| 0)).1
        };
        assert_eq!(array(std::ptr::null(), 0), "");
        assert_eq!(array(std::ptr::null(), 2), "dp_test: `values` is NULL; it must point to 2 elements");
        assert!(array(&0, usize::MAX).starts_with("dp_test: `values` "));
    }

    #[test]
    fn objects_that_are_wrong_are_named() {
        // SAFETY: K2: no other thread knows the objects.
        let object = |handle: *const dp_options| outcome(move || unsafe { object(handle, "options") }.map(|_| 0)).1;
        let (options, policy) = (give(dp_options::default()), give(dp_policy::default()));
        assert_eq!(object(options), "");
        assert_eq!(object(std::ptr::null()), "dp_test: `options` is NULL; it must point to a dp_options");
        assert_eq!(object(policy.cast()), "dp_test: `options` is a dp_policy, but must be a dp_options");
        let elsewhere = 0u64;
        assert_eq!(
            object((&raw const elsewhere).cast()),
            "dp_test: `options` is no object of this library; it must be a dp_options"
        );
        // SAFETY: K2: no other thread knows the objects.
        let release = |object: *mut dp_options| unsafe { dp_release(object.cast()) };
        // SAFETY: K2: no other thread knows the objects.
        let retain = |object: *mut dp_options| unsafe { dp_retain(object.cast()) };
        assert_eq!((retain(options), release(options)), (0, 0));
        assert_eq!(object(options), "");
        assert_eq!((release(options), release(options), retain(options)), (0, 3, 3));
        assert_eq!((release(policy.cast()), release(null_mut()), retain(null_mut())), (0, 0, 0));
        assert_eq!(
            object(options),
            "dp_test: `options` is a dp_options that was freed; do not use it after its last dp_release"
        );
    }

    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Two {
        struct_size: usize,
        first: u64,
        second: u64,
    }

    struct_sizes!(Two = 16);

    #[test]
    fn copies_common_part_of_structs() {
        let value = Two { struct_size: 24, first: 1, second: 2 };
        for (given, filled, second) in [(16, 16, 9), (24, 24, 2), (4096, 24, 2)] {
            let mut theirs = Two { struct_size: given, first: 9, second: 9 };
            // SAFETY: K4: the place is a local, and at most its size is written.
            let code = unsafe { call("dp_test", &mut theirs, null_mut(), || Ok(Struct(value))) };
            assert_eq!(code, 0);
            assert_eq!((theirs.struct_size, theirs.first, theirs.second), (filled, 1, second));
            theirs.struct_size = given.min(24);
            // SAFETY: K4: the struct is a local.
            let read = unsafe { structure(&theirs, "two") }.ok().map(|read| (read.0.first, read.0.second));
            assert_eq!(read, Some((1, if given == 16 { 0 } else { 2 })));
        }
        for size in [0, 8, 5000] {
            let short = Two { struct_size: size, first: 0, second: 0 };
            let refused = outcome(move || {
                // SAFETY: K4: the struct is a local.
                unsafe { structure(&short, "two") }.map(|_| 0)
            });
            let expected =
                format!("dp_test: `two->struct_size` is {size}; set it to sizeof(Two), which is at least 16");
            assert_eq!(refused.1, expected);
        }
    }
}
