//! Capabilities for C: [`dp_capabilities`], a plain struct that begins with its size and only grows at its end.
//!
//! - A creator sets `struct_size` to the size it was compiled with and zeroes the fields it does not set. 0 always
//!   means what frameworks assume of an unknown device. Readers treat fields beyond `struct_size` as 0.
//! - If a capability has several fields, the one that switches it on is the last, so that no size splits a capability.
//! - Text is UTF-8, passed by pointer and length, without a final 0. A pointer is null if the length is 0.
//! - Flags are 0 or 1. Enumerations are the numbers of [`constants`]; element types those of `PJRT_Buffer_Type`.
//! - Elements of lists never grow.

pub mod constants;
mod decode;
mod fields;
mod forms;
mod owned;
mod read;
mod structs;
mod write;

pub use read::read;
pub use structs::{dp_capabilities, dp_dtype_remap, dp_feature, dp_replica_order, dp_string};
pub use write::CCapabilities;

#[cfg(test)]
mod tests;
