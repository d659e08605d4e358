//! The path from a framework's C call to Rust: the entry point, handles of errors and events, and checked reads of
//! structs.

pub(crate) mod entry;
pub(crate) mod error_handle;
pub(crate) mod event_handle;
pub(crate) mod ffi_read;
pub(crate) mod handles;
pub(crate) mod layout_read;
pub(crate) mod shared_api;
pub(crate) mod trace;
