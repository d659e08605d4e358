//! A handler of custom calls that plugins accept.
//!
//! The structs contain the first fields of those in `xla/ffi/api/c_api.h`.

use std::ffi::{c_int, c_void};
use std::ptr::{NonNull, null_mut};

/// Value of `XLA_FFI_Extension_Metadata`.
const METADATA: c_int = 1;

#[repr(C)]
struct Extension {
    struct_size: usize,
    kind: c_int,
    next: *mut Self,
}

#[repr(C)]
struct MetadataExtension {
    base: Extension,
    metadata: *mut Metadata,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Version {
    struct_size: usize,
    extension_start: *mut Extension,
    major: c_int,
    minor: c_int,
}

#[repr(C)]
struct Metadata {
    struct_size: usize,
    version: Version,
}

#[repr(C)]
struct Api {
    struct_size: usize,
    extension_start: *mut Extension,
    version: Version,
}

#[repr(C)]
struct Frame {
    struct_size: usize,
    extension_start: *mut Extension,
    api: *const Api,
}

/// Returns the handler.
pub(crate) fn handler() -> NonNull<c_void> {
    NonNull::new(answer as *mut c_void).unwrap()
}

/// Does nothing. If the plugin queries the metadata of the handler, answers with the plugin's own FFI version.
unsafe extern "C" fn answer(frame: *mut Frame) -> *mut c_void {
    // SAFETY: C11 (callbacks of an extension): the frame is valid during the call.
    let Frame { extension_start, api, .. } = unsafe { frame.read() };
    let Some(extension) = NonNull::new(extension_start) else { return null_mut() };
    // SAFETY: C11 (callbacks of an extension): every extension begins with its base.
    if unsafe { (*extension.as_ptr()).kind } == METADATA {
        // SAFETY: C11 (callbacks of an extension): the frame points to the plugin's FFI table.
        let version = unsafe { (*api).version };
        // SAFETY: C11 (callbacks of an extension): an extension of type `METADATA` is a `MetadataExtension`.
        let metadata = unsafe { (*extension.cast::<MetadataExtension>().as_ptr()).metadata };
        // SAFETY: C11 (callbacks of an extension): the plugin provides this struct for the answer.
        let answer = unsafe { &mut *metadata };
        (answer.version.major, answer.version.minor) = (version.major, version.minor);
    }
    null_mut()
}
