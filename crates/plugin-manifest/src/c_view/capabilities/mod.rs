//! The C form of capabilities: [`dp_capabilities`], a plain struct that begins with its size. New versions only append
//! fields.
//!
//! - A creator sets `struct_size` to the size of the struct in its own header, and sets unused fields to 0. In each
//!   field, 0 means the value that frameworks assume about an unknown device. Readers treat fields beyond `struct_size`
//!   as 0.
//! - If several C fields represent a capability, the last one determines whether the capability is set. A reader
//!   therefore ignores a capability that is only partly within `struct_size`. The fields of the memory kinds are an
//!   exception, because they are independent of each other.
//! - Strings are UTF-8, passed by pointer and length, without a terminating NUL. A pointer may be null if its length
//!   is 0.
//! - Flags are 0 or 1. Enumerations use the codes of [`constants`], and element types use the values of
//!   `PJRT_Buffer_Type`.
//! - Structs that are elements of lists never grow.

pub mod constants;
mod decode;
mod fields;
mod forms;
mod owned;
mod read;
mod structs;
mod write;

pub use read::read;
pub use structs::{
    DP_FEATURE_BOOL, DP_FEATURE_FLOAT, DP_FEATURE_INT64, DP_FEATURE_INT64_LIST, DP_FEATURE_STRING,
    DP_LAYOUT_DESCENDING, DP_LAYOUT_TILED, dp_capabilities, dp_dtype_remap, dp_feature, dp_string,
};
pub use write::CCapabilities;

#[cfg(test)]
mod tests;
