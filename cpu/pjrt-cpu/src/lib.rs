//! The embedded CPU device.
//!
//! [`Cpu`] is a PJRT plugin based on [`stablehlo_cpu`]. That crate compiles, partitions and runs StableHLO programs,
//! and does not depend on PJRT. `pjrt-cpu-plugin` builds the same plugin as a shared library. [`engine`] and [`spmd`]
//! re-export `stablehlo-cpu`, for programs that also compile without a client.
//!
//! A client accepts these options. `device_count` is the number of virtual devices, from 1 to 1024. The default is the
//! environment variable `PJRT_CPU_DEVICES`, or 1 if it is not set. `memory_limit` is the number of bytes that each
//! device may use, such as `512MiB`. The default is the environment variable `PJRT_CPU_MEMORY_LIMIT`, or no limit if it
//! is not set. `max_inflight_computations_per_device` is the number of executions of a device that may be in progress
//! before the next launch waits. The default is the environment variable
//! `PJRT_CPU_MAX_INFLIGHT_COMPUTATIONS_PER_DEVICE`, or 32 if it is not set. `deterministic` runs each execution on the
//! caller's thread. With `plain_platform_name`, the platform is called `pjrtcpu` instead of `pjrt_cpu`, because
//! PyTorch/XLA expects names without underscores. Each device has the memories `device`, `pinned_host` and
//! `unpinned_host`. With `node_id` and `num_nodes`, several processes run programs together, each with its own devices
//! (see the book's chapter "Many processes"). A small program runs before the call returns, and a larger program runs
//! on the client's threads.
#![forbid(unsafe_code)]

mod device;

pub use device::ffi;
pub use device::{Cpu, CpuBackend, CpuBuffer, CpuExecutable};
pub use stablehlo_cpu::spmd;

/// The engine, re-exported from [`stablehlo_cpu`]. It compiles programs and runs them without PJRT.
///
/// Programs that are compiled with this module do not call the handlers of [`ffi`], only the handlers of
/// [`custom_calls`](engine::custom_calls).
pub mod engine {
    pub use stablehlo_cpu::{
        Communicator, CompileError, CompileErrorKind, CompileSettings, DType, Member, MemoryEstimate, Order, Parameter,
        Pool, PoolUsage, Program, RunError, Stop, Tensor, TensorType, alone, compile, compile_in, compile_with,
        custom_calls,
    };
}

#[cfg(doctest)]
#[doc = include_str!("../../../book/src/cpu.md")]
struct Book;

#[cfg(doctest)]
#[doc = include_str!("../../../book/src/many-processes.md")]
struct ManyProcesses;

/// Tests the examples of the package's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct PackageReadme;
