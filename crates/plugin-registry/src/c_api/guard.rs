//! The choke point: every function of the C interface passes through [`call`], [`get`] or [`free`].
//!
//! Here, and nowhere else, null pointers are refused, panics are contained, errors become `dp_error`, and outputs are
//! written, on success only.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pjrt::ErrorCode;

use super::error::{dp_code, dp_error};

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

    fn null(parameter: &str) -> Self {
        Self::argument(format!("`{parameter}` is NULL; it must point to an object"))
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

impl From<device_plugin::Faults> for Failure {
    fn from(faults: device_plugin::Faults) -> Self {
        Self::argument(faults.to_string())
    }
}

/// Runs a body; a panic is a failure.
#[expect(clippy::disallowed_methods, reason = "the one place of the C interface where panics are contained")]
fn contain<T>(body: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    // A body that panicked leaves nothing half done: outputs are written after it, and the registry's locks recover.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| Err(Failure::panic(&*payload)))
}

/// Runs the body of a function that may fail, and writes its result to `out`.
///
/// # Safety
///
/// K1 for `out` and `error`.
pub(super) unsafe fn call<T>(
    function: &'static str,
    out: *mut T,
    error: *mut *mut dp_error,
    body: impl FnOnce() -> Outcome<T>,
) -> dp_code {
    // Asked first, so that no result is made that nobody could free.
    let outcome = if out.is_null() { Err(Failure::null("out")) } else { contain(body) };
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
/// K1 for `error`.
pub(super) unsafe fn run(
    function: &'static str,
    error: *mut *mut dp_error,
    body: impl FnOnce() -> Outcome<()>,
) -> dp_code {
    // SAFETY: a local; K1 for `error`.
    unsafe { call(function, &mut (), error, body) }
}

/// Runs the body of a function that cannot fail other than by misuse, which gives `default`.
pub(super) fn get<T>(default: T, body: impl FnOnce() -> Outcome<T>) -> T {
    contain(body).unwrap_or_else(|failure| {
        tracing::debug!(message = failure.message, "a getter of the C interface was misused");
        default
    })
}

/// An object of the caller's, borrowed for a call.
///
/// # Safety
///
/// K2 for `pointer`; the reference is used during the call only.
pub(super) unsafe fn object<'call, T>(pointer: *const T, parameter: &str) -> Outcome<&'call T> {
    // SAFETY: K2.
    unsafe { pointer.as_ref() }.ok_or_else(|| Failure::null(parameter))
}

/// An object of the caller's that the call changes.
///
/// # Safety
///
/// K2 and K3 for `pointer`; the reference is used during the call only.
pub(super) unsafe fn object_mut<'call, T>(pointer: *mut T, parameter: &str) -> Outcome<&'call mut T> {
    // SAFETY: K2 and K3.
    unsafe { pointer.as_mut() }.ok_or_else(|| Failure::null(parameter))
}

/// An array of the caller's; null where it is empty.
///
/// # Safety
///
/// `pointer` is readable for `len` elements during the call, unless `len` is 0.
#[expect(clippy::disallowed_methods, reason = "the one place where the C interface reads arrays")]
pub(super) unsafe fn array<'call, T>(pointer: *const T, len: usize, parameter: &str) -> Outcome<&'call [T]> {
    if len == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(Failure::argument(format!("`{parameter}` is NULL; it must point to {len} elements")));
    }
    if !pointer.is_aligned() || len > isize::MAX.unsigned_abs() / size_of::<T>().max(1) {
        return Err(Failure::argument(format!("`{parameter}` is no array of {len} elements")));
    }
    // SAFETY: this function's contract; not null, aligned, and no longer than memory.
    Ok(unsafe { std::slice::from_raw_parts(pointer, len) })
}

/// The element at an index the caller chose.
pub(super) fn at<T>(items: &[T], index: usize) -> Outcome<&T> {
    items.get(index).ok_or_else(|| {
        Failure::new(ErrorCode::OUT_OF_RANGE, format!("`index` is {index}, and there are {}", items.len()))
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
    get((), || {
        // SAFETY: K2: it came from `give`, and K3: nobody else uses it.
        drop(unsafe { Box::from_raw(pointer) });
        Ok(())
    });
}

#[cfg(test)]
mod tests {
    use std::ptr::null_mut;

    use super::*;

    fn error_of(body: impl FnOnce() -> Outcome<i32>) -> (dp_code, String, i32) {
        let (mut out, mut error) = (-1, null_mut());
        // SAFETY: locals.
        let code = unsafe { call("dp_test", &mut out, &mut error, body) };
        // SAFETY: `call` made it.
        let made = unsafe { object(error, "error") };
        let text = made.map(|error| error.text().to_owned()).unwrap_or_default();
        // SAFETY: it is ours and used no more.
        unsafe { free(error) };
        (code, text, out)
    }

    #[test]
    fn outputs_are_written_on_success_only() {
        assert_eq!(error_of(|| Ok(7)), (0, String::new(), 7));
        let failed = error_of(|| Err(Failure::argument("no")));
        assert_eq!(failed, (3, "dp_test: no".to_owned(), -1));
    }

    #[test]
    fn panics_are_internal_errors() {
        let panicked = error_of(|| panic!("boom {}", 1));
        assert_eq!(panicked, (13, "dp_test: panicked: boom 1".to_owned(), -1));
        assert_eq!(get(5, || panic!("boom")), 5);
    }

    #[test]
    fn bodies_do_not_run_without_a_place_for_their_result() {
        let mut error = null_mut();
        // SAFETY: null is allowed, the error is a local.
        let code = unsafe { call("dp_test", null_mut::<i32>(), &mut error, || unreachable!("it was called")) };
        assert_eq!(code, 3);
        // SAFETY: `call` made it, and it is used no more.
        unsafe { free(error) };
        // SAFETY: both null.
        assert_eq!(unsafe { call("dp_test", null_mut::<i32>(), null_mut(), || Ok(1)) }, 3);
    }
}
