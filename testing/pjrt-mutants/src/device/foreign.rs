//! Functions through which mutants read and change the memory of the caller and of the device.
//!
//! The functions take the pointers of a call, for which contract M1 holds, or pointers to memory of this crate. The
//! functions are not marked `unsafe`, because the mutants break contracts on purpose (M3).

use std::ffi::c_void;

use pjrt_sys::{PJRT_Error, PJRT_Event_OnReady_Args, PJRT_Event_OnReadyCallback};

/// Copies bytes. The result is empty if `from` is null.
pub(crate) fn bytes<T>(from: *const T, len: usize) -> Vec<u8> {
    list(from.cast::<u8>(), len)
}

/// Copies an array. The result is empty if `from` is null.
pub(crate) fn list<T: Copy>(from: *const T, len: usize) -> Vec<T> {
    let len = if from.is_null() { 0 } else { len };
    // SAFETY: M1 (calls): the array has this length. The elements may be unaligned.
    (0..len).map(|at| unsafe { from.wrapping_add(at).read_unaligned() }).collect()
}

/// Reads the element with the index `at` of the array `from`.
pub(crate) fn read_at<T: Copy>(from: *const T, at: usize) -> T {
    // SAFETY: M1 (calls): the array has this element.
    unsafe { from.wrapping_add(at).read_unaligned() }
}

/// Writes the element with the index `at` of the array `to`.
pub(crate) fn write_at<T: Copy>(to: *mut T, at: usize, value: T) {
    // SAFETY: M1 (calls), M3 (faults): the array has this element, or the mutant writes outside on purpose.
    unsafe { to.wrapping_add(at).write_unaligned(value) };
}

/// Copies the bytes `from` to the memory at the address `to`.
pub(crate) fn write(to: *mut c_void, from: &[u8]) {
    // SAFETY: M1 (calls), M3 (faults): the memory is writable, or the mutant writes too much on purpose.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.cast(), from.len()) };
}

/// Leaks an array, so that it lives until the process ends.
pub(crate) fn leaked<T>(array: impl Into<Vec<T>>) -> *mut T {
    array.into().leak().as_mut_ptr()
}

/// Returns leaked memory with contents that no case of the suite expects.
pub(crate) fn pattern(len: usize) -> *mut c_void {
    leaked(vec![0x5a_u8; len]).cast()
}

/// A pointer that can be sent to another thread.
pub(crate) struct Shared<T>(pub(crate) *mut T);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<T> {}

// SAFETY: M1 (calls): any thread may use the objects and the memory of a call.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: M1 (calls): any thread may use the objects and the memory of a call.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// Returns the pointer. A closure that calls this method captures the whole `Shared`, which is `Send`.
    pub(crate) fn get(self) -> *mut T {
        self.0
    }
}

/// A function that calls the original callback with an error, or with null.
pub(crate) type Continue<'a> = &'a dyn Fn(*mut PJRT_Error);

/// A function that runs in place of a callback.
pub(crate) type Trampoline = Box<dyn Fn(*mut PJRT_Error, Continue<'_>) + Send + Sync>;

/// An intercepted callback, with the function that replaces it. [`run`] receives this value as its argument.
struct Intercepted {
    callback: PJRT_Event_OnReadyCallback,
    argument: *mut c_void,
    trampoline: Trampoline,
}

/// Makes a call register a function that calls `trampoline`, in place of the caller's callback.
pub(crate) fn intercept(
    args: &mut PJRT_Event_OnReady_Args,
    trampoline: impl Fn(*mut PJRT_Error, Continue<'_>) + Send + Sync + 'static,
) {
    let trampoline: Trampoline = Box::new(trampoline);
    let new = Intercepted { callback: args.callback, argument: args.user_arg, trampoline };
    args.user_arg = Box::into_raw(Box::new(new)).cast();
    args.callback = Some(run);
}

/// # Safety
///
/// Contract M1: `argument` must come from `intercept`, and this must be the only call with this argument.
unsafe extern "C" fn run(error: *mut PJRT_Error, argument: *mut c_void) {
    // SAFETY: M1 (calls): the device calls a callback once, with its argument.
    let intercepted = unsafe { Box::from_raw(argument.cast::<Intercepted>()) };
    (intercepted.trampoline)(error, &|error| call_back(intercepted.callback, intercepted.argument, error));
}

/// Calls a callback of the caller.
pub(crate) fn call_back(callback: PJRT_Event_OnReadyCallback, argument: *mut c_void, error: *mut PJRT_Error) {
    if let Some(callback) = callback {
        // SAFETY: M1 (calls), M3 (faults): this is the caller's callback, with its argument.
        unsafe { callback(error, argument) };
    }
}
