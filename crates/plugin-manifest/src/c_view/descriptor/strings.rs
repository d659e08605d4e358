//! Conversion of strings, lists of variables and structs to and from C.

use std::ffi::{c_char, c_void};
use std::mem::offset_of;

use pjrt_sys::AbiStruct;

use crate::c_view::capabilities::dp_string;
use crate::c_view::descriptor::{dp_descriptor, dp_sink, dp_topology, dp_variable};
use crate::c_view::foreign::{self, slice, text};
use crate::contain::contain;
use crate::{Bytes, Error, ErrorCode, Program, Result};

impl dp_string {
    /// The empty string.
    pub const EMPTY: Self = Self { data: std::ptr::null(), size: 0 };

    /// Returns the pointer and the length of `text`, which must outlive all copies of the result.
    pub const fn new(text: &str) -> Self {
        Self { data: text.as_ptr().cast::<c_char>(), size: text.len() }
    }
}

/// Copies `text` to memory that is never freed, and appends a NUL.
pub(super) fn leak(text: &str) -> dp_string {
    let terminated = Box::leak(format!("{text}\0").into_boxed_str());
    dp_string { size: text.len(), ..dp_string::new(terminated) }
}

/// # Safety
///
/// The string satisfies D2 of `docs/safety.md`. The reference must not outlive the memory of the string.
pub(super) unsafe fn read<'a>(from: dp_string, field: &str) -> Result<&'a str> {
    // SAFETY: D2 (referenced memory): the text is readable for its length.
    unsafe { text(from.data, from.size, field) }
}

/// # Safety
///
/// The array and its strings satisfy D2 of `docs/safety.md`.
pub(super) unsafe fn texts(data: *const dp_string, len: usize, field: &str) -> Result<Vec<String>> {
    // SAFETY: D2 (referenced memory): the array is readable for its length.
    let items = unsafe { slice(data, len, field) }?;
    let each = items.iter().enumerate();
    each.map(|(index, item)| {
        // SAFETY: D2 (referenced memory): the text is readable for its length.
        unsafe { read(*item, &format!("{field}[{index}]")) }.map(str::to_owned)
    })
    .collect()
}

/// # Safety
///
/// The array and its strings satisfy D2 of `docs/safety.md`.
pub(super) unsafe fn variables(data: *const dp_variable, len: usize, field: &str) -> Result<Vec<(String, String)>> {
    // SAFETY: D2 (referenced memory): the array is readable for its length.
    let items = unsafe { slice(data, len, field) }?;
    let each = items.iter().enumerate();
    each.map(|(index, item)| {
        // SAFETY: D2 (referenced memory): the text is readable for its length.
        let name = unsafe { read(item.name, &format!("{field}[{index}].name")) }?;
        // SAFETY: D2 (referenced memory): the text is readable for its length.
        let value = unsafe { read(item.value, &format!("{field}[{index}].value")) }?;
        Ok((name.to_owned(), value.to_owned()))
    })
    .collect()
}

/// Returns variables as C structs. The text must outlive the result.
pub(super) fn of_variables<'a>(variables: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<dp_variable> {
    let each = variables.into_iter();
    each.map(|(name, value)| dp_variable { name: dp_string::new(name), value: dp_string::new(value) }).collect()
}

/// Returns the pointer and the length of `bytes`, which must outlive all copies of the result.
pub(super) fn of_bytes(bytes: &[u8]) -> dp_string {
    dp_string { data: bytes.as_ptr().cast::<c_char>(), size: bytes.len() }
}

/// Copies a program.
///
/// # Safety
///
/// `format` and `code` satisfy D2 of `docs/safety.md`, except that `code` may contain any bytes.
pub(super) unsafe fn program(format: dp_string, code: dp_string) -> Result<Program> {
    // SAFETY: D2 (referenced memory): the text is readable for its length.
    let format = unsafe { read(format, "format") }?.to_owned();
    // SAFETY: D2 (referenced memory): the array is readable for its length.
    let code = unsafe { slice(code.data.cast::<u8>(), code.size, "code") }?;
    Ok(Program::from_bytes(format, Bytes::copy_from_slice(code)))
}

// SAFETY: the struct is `repr(C)`, begins with its size, and consists of integers, pointers and functions that may be
// null. Each of these types is valid if all its bytes are zero.
unsafe impl AbiStruct for dp_descriptor {
    const NAME: &'static str = "dp_descriptor";
    const STRUCT_SIZE: usize = size_of::<Self>();
    // All fields up to and including `name`.
    const MIN_SIZE: usize = offset_of!(Self, manifest);
    const HISTORY: &'static [(u32, usize)] = &[];
}

// SAFETY: the struct is `repr(C)`, begins with its size, and consists of integers and pointers that may be null. Each
// of these types is valid if all its bytes are zero.
unsafe impl AbiStruct for dp_topology {
    const NAME: &'static str = "dp_topology";
    const STRUCT_SIZE: usize = size_of::<Self>();
    const MIN_SIZE: usize = offset_of!(Self, coordinator);
    const HISTORY: &'static [(u32, usize)] = &[];
}

/// Copies the words of a foreign struct that are completely within both its `struct_size` and the size of `T`. All
/// other bytes of the result are zero. A struct that ends within a pointer therefore does not set a part of this
/// pointer.
///
/// # Safety
///
/// `from` satisfies D1 of `docs/safety.md`.
pub(super) unsafe fn local_copy<T: AbiStruct>(from: *const T) -> Result<T> {
    let whole = |size: usize| size.min(size_of::<T>()) / size_of::<usize>() * size_of::<usize>();
    // SAFETY: D1 (structs): the struct begins with its size, and is readable for this size.
    unsafe { foreign::local_copy(from, whole) }
}

/// Runs `work`, passes its result or its error message to `sink`, and returns the error code, which is 0 on success. If
/// `sink` is null, returns `INVALID_ARGUMENT` without running `work`.
///
/// # Safety
///
/// `sink` and `user` satisfy D5 of `docs/safety.md`.
pub(super) unsafe fn answer(sink: dp_sink, user: *mut c_void, work: impl FnOnce() -> Result<String>) -> u32 {
    let Some(sink) = sink else { return ErrorCode::INVALID_ARGUMENT.as_raw() };
    let (code, text) = match contain(work) {
        Ok(text) => (ErrorCode::OK, text),
        Err(error) => (error.code(), error.message().to_owned()),
    };
    // SAFETY: D5 (sinks): the sink may be called with `user` on this thread.
    unsafe { sink(user, text.as_ptr().cast(), text.len()) };
    code.as_raw()
}

/// Calls a function that passes its result to a sink, and returns this result. If the function reports an error,
/// returns this error without change. Errors about a missing or invalid result contain the function's `name`.
///
/// # Safety
///
/// `function` satisfies D3 of `docs/safety.md`.
pub(super) unsafe fn ask(name: &str, function: impl FnOnce(dp_sink, *mut c_void) -> u32) -> Result<String> {
    let mut answer: Option<Result<String>> = None;
    let returned = ErrorCode::from_raw(function(Some(take), (&raw mut answer).cast()));
    let code = if returned.name().is_some() { returned } else { ErrorCode::UNKNOWN };
    let text = match answer {
        Some(text) => text.map_err(|error| error.context(name))?,
        None if code == ErrorCode::OK => {
            return Err(Error::internal(format!("{name} succeeded without passing a result to its sink")));
        }
        None => format!("{name} failed without an error message"),
    };
    if code == ErrorCode::OK { Ok(text) } else { Err(Error::new(code, text)) }
}

/// The sink that [`ask`] passes. Stores the text in the variable to which `user` points. If the text is invalid, stores
/// an error instead.
unsafe extern "C" fn take(user: *mut c_void, data: *const c_char, len: usize) {
    let answer = user.cast::<Option<Result<String>>>();
    // SAFETY: D3 (functions of a descriptor): the text is valid during the call.
    let text = unsafe { slice(data.cast::<u8>(), len, "the text passed to the sink") };
    let text = text.and_then(|bytes| {
        String::from_utf8(bytes.to_vec()).map_err(|_| Error::internal("the text passed to the sink is not UTF-8"))
    });
    // SAFETY: D3 (functions of a descriptor): `user` is the value that `ask` passed, and `ask` waits on this thread.
    if let Some(answer) = unsafe { answer.as_mut() } {
        *answer = Some(text);
    }
}
