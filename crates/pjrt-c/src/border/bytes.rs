//! `dp_bytes`: bytes that a function returns.

use std::ffi::c_void;

use pjrt_c_macros::c_function;

use crate::border::guard::Out;

/// Bytes that a function returned, such as a serialized executable.
pub struct dp_bytes {
    bytes: Vec<u8>,
}

impl dp_bytes {
    pub(crate) fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self { bytes: bytes.into() }
    }
}

/// Returns the address of the bytes, which belong to the object, and fills `size` with their number. Returns NULL if
/// `bytes` is not such an object.
#[c_function]
pub fn dp_bytes_data(bytes: &dp_bytes, size: Out<usize>) -> *const c_void {
    size.put(bytes.bytes.len());
    bytes.bytes.as_ptr().cast()
}
