//! `libplugin_registry`, the plugin registry for C and C++. It defines the functions of `include/device_plugin.h`.
//!
//! A program in C or C++ links the library that `cargo xtask c-library` builds from this crate. It includes the header,
//! which cbindgen generates from the source files of this crate. A Rust program uses `plugin_registry` instead.
//!
//! Each type of object has its own module. Every function that uses an object or a pointer calls the functions of
//! `guard`. Callers must keep the contracts K1 to K7 of [`pjrt::contracts`]. The letter K denotes the contracts of this
//! C interface.
//!
//! # Features
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `cpu` | yes | the embedded CPU device, under the name `cpu` |
//! | `hazards` | yes | a check that rejects programs known to crash XLA's plugins |
//! | `capi` | no | nothing; cargo-c enables this feature when it builds packages |

#![allow(non_camel_case_types, reason = "these are C names")]
#![allow(missing_debug_implementations, reason = "C programs do not use `Debug`")]

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

/// Checks that the objects are `Send` and `Sync`. Contract K3 allows several threads to use an object at the same time.
/// A thread may also free an object that another thread created.
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

/// Tests the examples of the package's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct PackageReadme;
