//! Several libraries for one system, each with its requirements, and the choice of the library that fits the machine.
//!
//! A manifest may list several libraries for the same operating system and architecture. The field `requires` of each
//! library contains the CPU level, the range of CUDA compute capabilities and the range of NVIDIA driver versions that
//! the library requires. [`Manifest::choose_library`](crate::Manifest::choose_library) compares these requirements with
//! [`MachineProperties`]. The properties are plain data, so that a test or a tool can describe any machine.
//!
//! # Order of preference
//!
//! 1. Among the libraries that fit, choose the one with the most specific requirements. The compute capability is
//!    compared first, then the driver, then the CPU level. Of two ranges, the one that begins later is more specific.
//!    If both begin at the same version, the one that ends earlier is more specific.
//! 2. A library does not count as fitting if a property that it requires is unknown. If no library fits, choose among
//!    the libraries that fail only because of unknown properties. Of these libraries, choose the one with the lowest
//!    requirements.
//! 3. Of several libraries with the same requirements, choose the first in the manifest.

mod choice;
mod cpu;
mod machine;
mod requirements;
mod version;

pub use choice::{ChoiceReason, Fit, LibraryChoice, UnmetNeed, Variant};
pub use cpu::CpuLevel;
pub use machine::MachineProperties;
pub use requirements::{Requirements, VersionRange};
pub use version::DottedVersion;
