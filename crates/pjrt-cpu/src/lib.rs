//! The embedded CPU device.
//!
//! [`engine`] turns a StableHLO program into a flat list of steps and runs it; it knows nothing of PJRT.
//! [`Cpu`] is the plugin over it: embedded by its Rust type, or loaded from the shared library this crate also is.
#![forbid(unsafe_code)]

pub mod engine;
mod plugin;

pub use plugin::{Cpu, CpuBackend};
