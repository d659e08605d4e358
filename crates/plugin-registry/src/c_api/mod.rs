//! The registry for C and C++: the functions of `include/device_plugin.h`, which cbindgen writes from this folder.
//!
//! One file for each type of object. Every function goes through the choke point in `guard`. Its callers promise the
//! contracts K1 to K7 of [`pjrt::contracts`]. The names are those of C.
#![allow(non_camel_case_types, reason = "these are C names")]

mod discovery;
mod error;
mod error_functions;
mod failure;
mod guard;
mod lease;
mod options;
mod plan;
mod plugin;
mod policy;
mod registry;
mod sized;
mod support;
mod text;
mod topology;
mod version;

pub use discovery::*;
pub use error::*;
pub use error_functions::*;
pub use lease::*;
pub use options::*;
pub use plan::*;
pub use plugin::*;
pub use policy::*;
pub use registry::*;
pub use support::*;
pub use topology::*;
pub use version::*;

/// K3 lets several threads use these objects at once, and free them on another one than made them.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<dp_discovery>();
    shared::<dp_error>();
    shared::<dp_lease>();
    shared::<dp_options>();
    shared::<dp_plan>();
    shared::<dp_plugin>();
    shared::<dp_plugin_list>();
    shared::<dp_policy>();
    shared::<dp_registry>();
    shared::<dp_support>();
};
