//! The registry for C and C++: the functions of `include/device_plugin.h`, which cbindgen writes from this folder.
//!
//! One file for each noun. Every function is one use of the choke point in `guard`; the contracts K1 to K7 of
//! `docs/safety.md` are what its callers promise. Names are those of C.
#![allow(non_camel_case_types, reason = "these are C names")]

mod discovery;
mod error;
mod guard;
mod options;
mod sized;
mod text;
mod version;

pub use discovery::*;
pub use error::*;
pub use options::*;
pub use text::dp_str;
pub use version::*;
