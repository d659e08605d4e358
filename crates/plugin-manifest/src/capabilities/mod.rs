//! Capabilities of a device, which replace the rules that frameworks implement by device name.
//!
//! PJRT reports the version of the interface and the extensions of a plugin. PJRT does not report how to lower
//! `gather`, which float type autocast uses or whether donation works. Frameworks keep such knowledge in lists of
//! device names, so a device with an unknown name gets the defaults. [`Capabilities`] represents this knowledge as
//! data. Capabilities are available without a client: in Rust, in JSON (the `capabilities` of a
//! [`Manifest`](crate::Manifest)) and in C (`dp_capabilities`).
//!
//! ```
//! use std::num::NonZeroU32;
//!
//! use plugin_manifest::ElementType;
//! use plugin_manifest::{Autocast, Capabilities};
//!
//! let capabilities = Capabilities {
//!     dense_gather_factor: NonZeroU32::new(8192),
//!     autocast: Some(Autocast::xla([ElementType::Bf16])),
//!     ..Capabilities::default()
//! };
//! assert_eq!(capabilities.validate(), Ok(()));
//! let json = r#"{"dense_gather_factor": 8192, "autocast": {"kind": "xla", "dtypes": ["bf16"], "default_dtype": "bf16"}}"#;
//! assert_eq!(Capabilities::from_json(json)?, capabilities);
//! # Ok::<(), plugin_manifest::Faults>(())
//! ```

pub(crate) mod device_capabilities;
mod fields;
mod layout;
pub mod legacy;
pub(crate) mod lowering;
mod memory;
mod patch;
mod program;
mod validate;

pub(crate) use device_capabilities::Capabilities;
pub(crate) use fields::for_each_capability;
pub use layout::LayoutPolicy;
pub(crate) use lowering::Autocast;
pub use lowering::{AutocastKind, Bf16Policy, DotAlgorithm, Int64Policy, MixedDot, RngBitGenerator};
pub use memory::{DlpackDevice, HostCallbacks, MemoryKinds, MemoryStatsReport};
pub use program::{DynamicShapes, OptimizedProgram, ProgramFormat, ProgramFormats, Spmd};

#[cfg(test)]
pub(crate) mod tests;
