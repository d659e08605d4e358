//! The C structs (`dp_*`) that describe a plugin: its descriptor and its capabilities.

pub mod capabilities;
pub mod descriptor;
#[doc(hidden)]
pub mod foreign;
