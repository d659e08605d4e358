//! The choke point: every function of the C interface is one use of [`call`], [`run`], [`get`] or [`free`].
//!
//! Here, and nowhere else, null pointers are refused, panics are contained, errors become `dp_error`, and outputs are
//! written, on success only.

use std::any::Any;
use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use pjrt::ErrorCode;

use super::error::{dp_code, dp_error};
use super::sized::StructSize;

/// Why a function failed.
pub(super) struct Failure {
    pub(super) code: ErrorCode,
    pub(super) message: String,
}

/// What the body of a function gives.
pub(super) type Outcome<T> = Result<T, Failure>;

impl Failure {
    pub(super) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// A fault of the caller.
    pub(super) fn argument(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::INVALID_ARGUMENT, message)
    }

    fn panic(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
        Self::new(ErrorCode::INTERNAL, format!("panicked: {text}"))
    }
}

impl From<device_plugin::Error> for Failure {
    fn from(error: device_plugin::Error) -> Self {
        Self::new(error.code(), error.message())
    }
}

impl From<crate::SelectError> for Failure {
    fn from(error: crate::SelectError) -> Self {
        Self::new(ErrorCode::NOT_FOUND, error.to_string())
    }
}

impl From<crate::Error> for Failure {
    fn from(error: crate::Error) -> Self {
        use crate::Error as E;
        let code = match &error {
            E::Description { .. } => ErrorCode::INVALID_ARGUMENT,
            E::NameTaken { .. } | E::DescribedOtherwise { .. } => ErrorCode::ALREADY_EXISTS,
            E::Select(_) | E::Unknown { .. } | E::NoLibrary { .. } => ErrorCode::NOT_FOUND,
            E::Path { error, .. } | E::Configure { error, .. } | E::Supports { error, .. } => error.code(),
            E::Options(error) => error.code(),
            E::Client { error, .. } => error.code(),
            E::LeaseConflict(_) => ErrorCode::RESOURCE_EXHAUSTED,
            E::Lock { .. } | E::Load(_) => ErrorCode::UNAVAILABLE,
            _ => ErrorCode::FAILED_PRECONDITION,
        };
        Self::new(code, error.to_string())
    }
}

impl From<device_plugin::Faults> for Failure {
    fn from(faults: device_plugin::Faults) -> Self {
        Self::argument(faults.to_string())
    }
}

/// A call from C under way, through which a body reads the function's parameters.
///
/// It is made by the unsafe functions of this file only. Who calls them promises K1 to K7 for every pointer that the
/// body passes to the methods here: they are the parameters of one C function, during that function. References end
/// with the call.
pub(super) struct Call(());

/// Runs a body; a panic is a failure.
#[expect(clippy::disallowed_methods, reason = "the one place of the C interface where panics are contained")]
fn contain<T>(body: impl FnOnce(&Call) -> Outcome<T>) -> Outcome<T> {
    // A body that panicked leaves nothing half done: outputs are written after it, and the registry's locks recover.
    catch_unwind(AssertUnwindSafe(|| body(&Call(())))).unwrap_or_else(|payload| Err(Failure::panic(&*payload)))
}

/// Runs the body of a function that may fail, and writes its result to `out`.
///
/// # Safety
///
/// K1 for `out` and `error`; K1 to K7 for what the body passes to [`Call`].
pub(super) unsafe fn call<T>(
    function: &'static str,
    out: *mut T,
    error: *mut *mut dp_error,
    body: impl FnOnce(&Call) -> Outcome<T>,
) -> dp_code {
    // Asked first, so that no result is made that nobody could free.
    let outcome = if out.is_null() {
        Err(Failure::argument("`out` is NULL; it must point to a place for the result"))
    } else {
        contain(body)
    };
    match outcome {
        Ok(value) => {
            // SAFETY: K1, and it is not null.
            unsafe { out.write(value) };
            ErrorCode::OK.as_raw()
        }
        Err(failure) => {
            let code = failure.code.as_raw();
            if !error.is_null() {
                let made = dp_error::new(function, failure);
                // SAFETY: K1, and it is not null.
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
/// K1 for `error`; K1 to K7 for what the body passes to [`Call`].
pub(super) unsafe fn run(
    function: &'static str,
    error: *mut *mut dp_error,
    body: impl FnOnce(&Call) -> Outcome<()>,
) -> dp_code {
    // SAFETY: this function's contract; the result is a local.
    unsafe { call(function, &mut (), error, body) }
}

/// Runs the body of a function that cannot fail other than by misuse, which gives `default`.
///
/// # Safety
///
/// K1 to K7 for what the body passes to [`Call`].
pub(super) unsafe fn get<T>(default: T, body: impl FnOnce(&Call) -> Outcome<T>) -> T {
    contain(body).unwrap_or_else(|failure| {
        tracing::debug!(message = failure.message, "a getter of the C interface was misused");
        default
    })
}

/// Gives an object to the caller, who frees it with [`free`].
pub(super) fn give<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

/// Frees what [`give`] gave; null is nothing.
///
/// # Safety
///
/// K2 and K3 for `pointer`, which is not used again.
pub(super) unsafe fn free<T>(pointer: *mut T) {
    if pointer.is_null() {
        return;
    }
    // SAFETY: K2: it came from `give`, and K3: nobody else uses it.
    let owned = unsafe { Box::from_raw(pointer) };
    let freed = contain(|_| {
        drop(owned);
        Ok(())
    });
    if let Err(failure) = freed {
        tracing::error!(message = failure.message, "an object of the C interface could not be freed in order");
    }
}

/// The element at an index the caller chose.
pub(super) fn at<T>(items: &[T], index: usize) -> Outcome<&T> {
    items.get(index).ok_or_else(|| {
        Failure::new(ErrorCode::OUT_OF_RANGE, format!("`index` is {index}, and there are {}", items.len()))
    })
}

impl Call {
    /// An object of the caller's.
    pub(super) fn object<T>(&self, pointer: *const T, parameter: &str) -> Outcome<&T> {
        // SAFETY: K2, as promised to whoever made this `Call`.
        unsafe { pointer.as_ref() }.ok_or_else(|| Failure::argument(null(parameter, "an object")))
    }

    /// An object of the caller's, or none where the pointer is null.
    pub(super) fn optional<T>(&self, pointer: *const T) -> Option<&T> {
        // SAFETY: K2, as promised to whoever made this `Call`.
        unsafe { pointer.as_ref() }
    }

    /// An object of the caller's that the function changes.
    #[expect(clippy::mut_from_ref, reason = "K3: nothing else uses the object during the call")]
    pub(super) fn object_mut<T>(&self, pointer: *mut T, parameter: &str) -> Outcome<&mut T> {
        // SAFETY: K2 and K3, as promised to whoever made this `Call`; a function has one such parameter.
        unsafe { pointer.as_mut() }.ok_or_else(|| Failure::argument(null(parameter, "an object")))
    }

    /// An array of the caller's; the pointer may be null where it is empty.
    #[expect(clippy::disallowed_methods, reason = "the one place where the C interface reads arrays")]
    pub(super) fn array<T: Copy>(&self, pointer: *const T, len: usize, parameter: &str) -> Outcome<&[T]> {
        if len == 0 {
            return Ok(&[]);
        }
        if pointer.is_null() {
            return Err(Failure::argument(null(parameter, &format!("{len} elements"))));
        }
        if !pointer.is_aligned() || len > isize::MAX.unsigned_abs() / size_of::<T>().max(1) {
            return Err(Failure::argument(format!("`{parameter}` is no array of {len} elements")));
        }
        // SAFETY: K4, as promised to whoever made this `Call`; not null, aligned, and no longer than memory.
        Ok(unsafe { std::slice::from_raw_parts(pointer, len) })
    }

    #[expect(clippy::disallowed_methods, reason = "the one place where the C interface reads C strings")]
    fn c_str(&self, text: *const c_char, parameter: &str) -> Outcome<&CStr> {
        if text.is_null() {
            return Err(Failure::argument(null(parameter, "text")));
        }
        // SAFETY: K4, as promised to whoever made this `Call`; not null.
        Ok(unsafe { CStr::from_ptr(text) })
    }

    /// Text of the caller's.
    pub(super) fn text(&self, text: *const c_char, parameter: &str) -> Outcome<&str> {
        let text = self.c_str(text, parameter)?;
        text.to_str().map_err(|error| Failure::argument(format!("`{parameter}` is no UTF-8 text: {error}")))
    }

    /// Text of the caller's that says something.
    pub(super) fn some_text(&self, text: *const c_char, parameter: &str) -> Outcome<&str> {
        match self.text(text, parameter)? {
            "" => Err(Failure::argument(format!("`{parameter}` is empty"))),
            text => Ok(text),
        }
    }

    /// Text of the caller's, or none where the pointer is null.
    pub(super) fn optional_text(&self, text: *const c_char, parameter: &str) -> Outcome<Option<&str>> {
        if text.is_null() { Ok(None) } else { self.text(text, parameter).map(Some) }
    }

    /// A path of the caller's: any bytes where paths are bytes, UTF-8 elsewhere.
    pub(super) fn path(&self, path: *const c_char, parameter: &str) -> Outcome<PathBuf> {
        let bytes = self.c_str(path, parameter)?;
        if bytes.is_empty() {
            return Err(Failure::argument(format!("`{parameter}` is empty; write a path")));
        }
        #[cfg(unix)]
        {
            use std::os::unix::ffi::OsStrExt;
            Ok(std::ffi::OsStr::from_bytes(bytes.to_bytes()).into())
        }
        #[cfg(not(unix))]
        self.text(path, parameter).map(PathBuf::from)
    }

    /// Writes a further result to a place of the caller's, or nowhere where that is null. The last step of a body.
    pub(super) fn put<T>(&self, place: *mut T, value: T) {
        if !place.is_null() {
            // SAFETY: K1, as promised to whoever made this `Call`.
            unsafe { place.write(value) };
        }
    }

    /// Gives an object to the caller if there is a place for it. The last step of a body.
    pub(super) fn put_handle<T>(&self, place: *mut *mut T, object: T) {
        if !place.is_null() {
            self.put(place, give(object));
        }
    }

    /// Sets a variable of the process.
    pub(super) fn set_variable(&self, name: &str, value: &str) {
        // SAFETY: K7, as promised to whoever made this `Call`.
        unsafe { std::env::set_var(name, value) };
    }

    /// `struct_size` of a caller's struct.
    fn struct_size<T: StructSize>(&self, at: *const T, parameter: &str) -> Outcome<usize> {
        if at.is_null() {
            return Err(Failure::argument(null(parameter, &format!("a {}", T::NAME))));
        }
        // SAFETY: K5, as promised to whoever made this `Call`: the first word is readable.
        let size = unsafe { at.cast::<usize>().read() };
        if size < T::FIRST_SIZE {
            let (name, least) = (T::NAME, T::FIRST_SIZE);
            return Err(Failure::argument(format!(
                "`{parameter}->struct_size` is {size}; set it to sizeof({name}), which is at least {least}"
            )));
        }
        Ok(size)
    }

    /// Fills a caller's struct as far as both sides know it; its `struct_size` becomes the number of bytes filled.
    pub(super) fn write<T: StructSize>(&self, to: *mut T, parameter: &str, value: &T) -> Outcome<()> {
        let size = self.struct_size(to, parameter)?.min(size_of::<T>());
        let from: *const T = value;
        // SAFETY: K5, as promised to whoever made this `Call`: as many bytes are writable, and `value` has as many.
        unsafe { from.cast::<u8>().copy_to_nonoverlapping(to.cast::<u8>(), size) };
        // SAFETY: K5: the first word is writable.
        unsafe { to.cast::<usize>().write(size) };
        Ok(())
    }
}

fn null(parameter: &str, wanted: &str) -> String {
    format!("`{parameter}` is NULL; it must point to {wanted}")
}

#[cfg(test)]
mod tests {
    use std::ptr::null_mut;

    use super::*;

    fn outcome(body: impl FnOnce(&Call) -> Outcome<i32>) -> (dp_code, String, i32) {
        let (mut out, mut error) = (-1, null_mut());
        // SAFETY: locals; the bodies below pass pointers to locals.
        let code = unsafe { call("dp_test", &mut out, &mut error, body) };
        // SAFETY: `call` made it.
        let text = unsafe { error.as_ref() }.map(|error: &dp_error| error.text().to_owned()).unwrap_or_default();
        // SAFETY: it is ours and used no more.
        unsafe { free(error) };
        (code, text, out)
    }

    #[test]
    fn outputs_are_written_on_success_only() {
        assert_eq!(outcome(|_| Ok(7)), (0, String::new(), 7));
        let failed = outcome(|_| Err(Failure::argument("no")));
        assert_eq!(failed, (3, "dp_test: no".to_owned(), -1));
    }

    #[test]
    fn panics_are_internal_errors() {
        let panicked = outcome(|_| panic!("boom {}", 1));
        assert_eq!(panicked, (13, "dp_test: panicked: boom 1".to_owned(), -1));
        // SAFETY: no pointer is passed.
        assert_eq!(unsafe { get(5, |_| panic!("boom")) }, 5);
    }

    #[test]
    fn bodies_do_not_run_without_a_place_for_their_result() {
        // SAFETY: null is allowed for both.
        let code = unsafe { call("dp_test", null_mut::<i32>(), null_mut(), |_| unreachable!("it ran")) };
        assert_eq!(code, 3);
    }

    #[test]
    fn parameters_that_are_wrong_are_named() {
        let text = |pointer: *const c_char| outcome(move |call| call.some_text(pointer, "name").map(|_| 0)).1;
        assert_eq!(text(std::ptr::null()), "dp_test: `name` is NULL; it must point to text");
        assert!(text(c"caf\xe9".as_ptr()).starts_with("dp_test: `name` is no UTF-8 text: "));
        assert_eq!(text(c"".as_ptr()), "dp_test: `name` is empty");
        let array = |pointer: *const i64, len| outcome(move |call| call.array(pointer, len, "values").map(|_| 0)).1;
        assert_eq!(array(std::ptr::null(), 0), "");
        assert_eq!(array(std::ptr::null(), 2), "dp_test: `values` is NULL; it must point to 2 elements");
        assert!(array(&0, usize::MAX).starts_with("dp_test: `values` is no array of "));
        let object = outcome(|call| call.object(std::ptr::null::<i32>(), "plan").copied());
        assert_eq!(object.1, "dp_test: `plan` is NULL; it must point to an object");
    }

    #[test]
    fn structs_are_copied_as_far_as_both_sides_know_them() {
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
            let written = outcome(move |call| call.write(place, "out", &value).map(|()| 0));
            assert_eq!(written.0, 0, "{}", written.1);
            assert_eq!((theirs[0].struct_size, theirs[0].first, theirs[0].second), (filled, 1, second));
        }
        let mut short = Two { struct_size: 8, first: 0, second: 0 };
        let place = &raw mut short;
        let refused = outcome(move |call| call.write(place, "out", &value).map(|()| 0)).1;
        assert_eq!(refused, "dp_test: `out->struct_size` is 8; set it to sizeof(two), which is at least 16");
    }
}
