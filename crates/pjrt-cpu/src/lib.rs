//! The embedded CPU device.
//!
//! [`engine`] turns a StableHLO program into a flat list of steps and runs it; it knows nothing of PJRT.
//! [`Cpu`] is the plugin over it, for programs to embed; `pjrt-cpu-plugin` is the same as a shared library.
#![forbid(unsafe_code)]

mod device;
pub mod engine;
pub mod spmd;

pub use device::{Cpu, CpuBackend, CpuBuffer, CpuExecutable};
