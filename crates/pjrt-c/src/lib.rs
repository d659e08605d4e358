//! `libdevice_plugin`: PJRT for C and C++. It defines the functions of `include/device_plugin.h`.
//!
//! A program in C or C++ links the library that `cargo xtask c-library` builds from this crate. It includes the
//! headers, which `cargo xtask header` generates from the source files of this crate: one header for each folder. A
//! Rust program uses `pjrt`, `plugin_registry` or `device_plugin` instead.
//!
//! Each type of object has its own module. Its functions are declared with `#[c_function]` of `pjrt_c_macros`, which
//! reads and checks their parameters with the functions of `border::guard`. `border::table` holds all objects, so that
//! a wrong handle is an error. Callers must keep the contracts K1 to K6 of [`pjrt::contracts`]. The letter K denotes
//! the contracts of this C interface.
//!
//! # Features
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `cpu` | no | the embedded CPU device, under the name `cpu` |
//! | `jit` | no | with `cpu`, machine code for loops of programs |
//! | `vendor` | no | plugins of vendors in C and C++ |
//! | `hazards` | yes | a check that rejects programs known to crash XLA's plugins |
//! | `redis`, `etcd` | yes | key-value stores on such servers |
//! | `capi` | no | nothing; cargo-c enables this feature when it builds packages |

#![allow(non_camel_case_types, reason = "these are C names")]
#![allow(missing_debug_implementations, reason = "C programs do not use `Debug`")]

mod border;
mod buffer;
mod client;
mod extensions;
mod program;
mod registry;
mod stablehlo;
#[cfg(feature = "vendor")]
mod vendor;

pub use border::bytes::*;
pub use border::error::*;
pub use border::foreign::dp_release_callback;
pub use border::references::{dp_object_count, dp_release, dp_retain};
pub use border::version::*;
pub use buffer::*;
pub use client::*;
pub use extensions::*;
pub use program::*;
pub use registry::*;
pub use stablehlo::*;
#[cfg(feature = "vendor")]
pub use vendor::*;

/// The library for callers has no objects of this type.
#[cfg(not(feature = "vendor"))]
enum dp_completer {}

/// Tests the examples of the package's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct PackageReadme;
