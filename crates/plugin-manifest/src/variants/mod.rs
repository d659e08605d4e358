//! Several libraries for one system, each with needs, and the choice of the one that fits the machine.
//!
//! A manifest may list several libraries for the same operating system and architecture. Each entry has a field
//! `requires` with the CPU level, the range of CUDA compute capabilities and the range of NVIDIA driver versions that the
//! library needs. [`Manifest::choose_library`](crate::Manifest::choose_library) compares them with a description of the
//! machine, which is data, so that a test or a tool can describe any machine.
//!
//! # Order of preference
//!
//! 1. Among the libraries that fit, the one with the most specific needs. The compute capability counts first, then the
//!    driver, then the CPU level. Of two ranges, the one that begins later is more specific. If both begin at the same
//!    version, the one that ends earlier is more specific.
//! 2. If a property of the machine is unknown, a library that needs it does not count as fitting. If no library fits,
//!    the choice is among those that fail only because of unknown properties. Of these, the one that needs least.
//! 3. Of several libraries with the same needs, the first in the manifest.

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
