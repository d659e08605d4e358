//! The table of functions, and the single place where a framework's calls enter Rust.

pub(crate) mod entry;
pub(crate) mod error_handle;
pub(crate) mod event_handle;
pub(crate) mod ffi_read;
pub(crate) mod trace;
