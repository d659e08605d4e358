//! Reads and writes memory that the framework or the plugin owns.

pub(super) mod decode;
pub(super) mod guarded;
mod raw;

pub(crate) use decode::BufferLayout;

pub(super) use raw::{bytes, copy, field, numbers, pointers, read, terminated_text, text};
