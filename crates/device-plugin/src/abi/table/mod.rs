//! The table of functions, and the one place where a call of the framework enters Rust.

pub(crate) mod api;
pub(crate) mod entry;
pub(crate) mod ffi_read;
pub(crate) mod trace;
