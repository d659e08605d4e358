//! Descriptions of PJRT plugins: the properties that a plugin declares before any of its code runs.
//!
//! A [`Manifest`] contains the name of the plugin, its [`Capabilities`], the options of its clients ([`OptionSchema`]),
//! the set-up of each process ([`ProcessPlan`]), the clients that may share its devices ([`Ownership`]), the hardware
//! that it needs and the programs that it supports ([`SupportTable`]). Vendors ship a manifest as JSON or write it in
//! Rust. A shared library returns it as C structs ([`c_view`]). A [`Descriptor`] adds the location of the library and
//! the plugin's hooks.
//!
//! Plugins in Rust use this crate through `device-plugin`, which re-exports it. Tools that only read descriptions, such
//! as `plugin-registry`, use this crate directly.
//!
//! ```
//! use plugin_manifest::{Manifest, Ownership};
//!
//! let manifest = Manifest::from_json(r#"{"format_version": "1.0", "name": "example", "ownership": "exclusive"}"#)?;
//! assert_eq!(manifest.ownership, Ownership::Exclusive);
//! assert!(!manifest.capabilities.donation);
//! # Ok::<(), plugin_manifest::Faults>(())
//! ```
#![deny(unsafe_code)]

#[doc(hidden)]
pub mod artifact;
pub mod builtin;
mod c_function;
#[allow(unsafe_code, reason = "reads and writes C structs")]
pub mod c_view;
pub mod capabilities;
#[doc(hidden)]
pub mod contain;
mod diagnostic;
mod error;
pub mod header;
#[allow(unsafe_code, reason = "who names a library vouches for it")]
mod library;
pub mod manifest;
mod names;
mod options;
mod ownership;
pub mod process;
#[cfg(feature = "stablehlo")]
#[doc(hidden)]
pub mod program_reader;
mod rust_view;
mod stablehlo_versions;
mod static_registration;
pub mod support;
pub mod variants;

pub use bytes::Bytes;
pub use capabilities::device_capabilities::Capabilities;
pub use capabilities::lowering::Autocast;
pub use diagnostic::{Fault, Faults};
pub use error::{Error, Result};
#[doc(hidden)]
pub use inventory;
pub use library::Library;
pub use manifest::data::Manifest;
pub use options::{OptionSchema, OptionSpec, OptionType, value_from_json, value_to_json};
pub use ownership::Ownership;
pub use pjrt_sys::StaticApi;
pub use pjrt_types::{ElementType, ErrorCode, NamedValue, Program, Value};
pub use process::env_plan::EnvPlan;
pub use process::environment::Environment;
pub use process::plan::ProcessPlan;
pub use process::topology::ProcessTopology;
pub use rust_view::{Descriptor, Hooks};
pub use stablehlo_versions::StablehloVersions;
pub use static_registration::{Registered, registered};
pub use support::answer::{Depth, Support};
pub use support::table::SupportTable;

/// Tests the examples of the package's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct PackageReadme;
