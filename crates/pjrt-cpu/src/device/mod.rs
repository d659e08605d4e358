//! The device as a PJRT plugin: a [`Backend`](device_plugin::Backend) over the [`engine`](crate::engine).
//!
//! The way of an execution, file by file: `plugin` (what the plugin says of itself), `config` (what it is told),
//! `backend` (the devices), `compile` (programs, with `cost` and `types`), `execution` (on which thread a program runs,
//! and when; `running` knows which have not ended), with `buffer`, `memory` and `workers` for what executions work on, take and need, and `ffi` for the
//! custom calls of the program's own.

mod backend;
mod buffer;
mod compile;
mod config;
mod cost;
mod execution;
pub mod ffi;
mod layouts;
mod memory;
mod plugin;
mod running;
mod support;
mod types;
mod workers;

pub use backend::CpuBackend;
pub use buffer::CpuBuffer;
pub use compile::CpuExecutable;
pub use plugin::Cpu;
