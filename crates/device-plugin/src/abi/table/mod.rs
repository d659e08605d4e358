//! The table of functions, and the one place where a call of the framework enters Rust.

pub(crate) mod entry;
pub(crate) mod error_handle;
pub(crate) mod event_handle;
pub(crate) mod ffi_read;
pub(crate) mod trace;
