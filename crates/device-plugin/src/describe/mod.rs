//! The C structs (`dp_*`) by which a plugin describes itself: its descriptor and its capabilities.

pub mod capabilities;
pub mod descriptor;
