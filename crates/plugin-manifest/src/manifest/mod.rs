//! The description of a plugin as data: the content of `pjrt_plugin.json`.
//!
//! [`Manifest`] is the data. [`Descriptor`](crate::Descriptor) is the Rust view of a plugin: its
//! manifest, its library and its hooks. The structs of [`c_view`](crate::c_view) are the same for C.

pub(crate) mod data;
mod json;

pub(crate) use data::Manifest;
pub use data::{FILE_NAME, FORMAT_VERSION, Hardware, LibraryFile, MAX_NAME_LENGTH, PciId, is_name};
pub(crate) use json::{read, unknown_field};
