//! The embedded CPU device.
//!
//! [`engine`] turns a StableHLO program into a flat list of steps and runs it. It does not depend on PJRT. [`Cpu`] is
//! the PJRT plugin around the engine, for programs that embed it. `pjrt-cpu-plugin` builds the same plugin as a shared
//! library.
//!
//! A client accepts three options. `device_count` is the number of virtual devices, from 1 to 1024; the default is the
//! variable `PJRT_CPU_DEVICES`, else 1. `memory_limit` is the number of bytes that each device may use, such as
//! `512MiB`; the default is `PJRT_CPU_MEMORY_LIMIT`, else no limit. `deterministic` runs one execution at a time, on
//! one thread. Each device has the memories `device` and `pinned_host`. A small program runs before the call returns,
//! and a larger one on the client's threads.
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
