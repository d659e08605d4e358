//! The embedded CPU device.
//!
//! [`engine`] turns a StableHLO program into a flat list of steps and runs it; it knows nothing of PJRT.
//! [`Cpu`] is the plugin over it, for programs to embed; `pjrt-cpu-plugin` is the same as a shared library.
//!
//! A client takes the options `device_count` (1 to 1024 virtual devices; else the variable `PJRT_CPU_DEVICES`, else 1),
//! `memory_limit` (bytes of each device, such as `512MiB`; else `PJRT_CPU_MEMORY_LIMIT`, else none) and `deterministic`
//! (one execution and one thread at a time). Each device has the memories `device` and `pinned_host`. A small program
//! runs before the call returns, and a larger one on the device's threads.
#![forbid(unsafe_code)]

mod device;
pub mod engine;
pub mod spmd;

pub use device::ffi;
pub use device::{Cpu, CpuBackend, CpuBuffer, CpuExecutable};

#[cfg(doctest)]
#[doc = include_str!("../../../book/src/cpu.md")]
struct Book;

/// Tests the examples of the package's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct PackageReadme;
