//! Memory of the framework that the plugin writes.

use std::ffi::c_void;

use crate::Result;
use crate::abi::table::ffi_read;

/// Memory of the framework that the plugin may write until the event of the call is ready.
pub(crate) struct Destination {
    data: *mut u8,
    pub(crate) size: usize,
}

// SAFETY: V3 (arrays and text): any thread of the plugin may write to the memory until the event is ready.
unsafe impl Send for Destination {}

impl Destination {
    /// # Safety
    ///
    /// V3 (arrays and text) holds for the destination until the event of the call is ready.
    pub(crate) unsafe fn new(data: *mut c_void, size: usize) -> Self {
        Self { data: data.cast(), size }
    }

    /// # Safety
    ///
    /// V3 (arrays and text) holds for the destination until the event of the call is ready. The slice is not used after
    /// the event is ready.
    pub(crate) unsafe fn slice(&mut self) -> Result<&mut [u8]> {
        // SAFETY: V3 (arrays and text), which the caller promises.
        unsafe { ffi_read::slice_mut(self.data, self.size, "dst") }
    }
}
