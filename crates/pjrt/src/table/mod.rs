//! The function table of a plugin, the handles of its objects, and the reading of what it returns.

pub(crate) mod api;
pub(crate) mod callback;
pub(crate) mod function;
pub(crate) mod handle;
pub(crate) mod library;
pub(crate) mod load_error;
pub(crate) mod named_value;
pub(crate) mod query;
pub(crate) mod read;
pub(crate) mod send_ptr;
