//! The device as a PJRT plugin: a [`Backend`](device_plugin::Backend) over [`stablehlo_cpu`].
//!
//! An execution passes through these modules: `plugin` (the plugin's description), `config` (a client's options),
//! `backend` (the devices), `compile` (programs, with `layouts`, `types` and `dump`) and `execution` (which chooses the
//! thread and the time of a run). `running` tracks the executions that have not ended. Executions use `buffer` for
//! their arrays, `memory` for allocations and `workers` for threads. `custom_calls` calls the handlers of custom calls
//! that the embedding program or the framework registers, in Rust through `ffi`. `job` connects the client to the
//! clients of other processes, and `transfers` moves arrays between them.

mod backend;
mod buffer;
mod compile;
mod config;
mod custom_calls;
mod dump;
mod execution;
pub mod ffi;
mod first_part;
mod job;
mod layouts;
mod memory;
mod plugin;
mod recent_runs;
mod running;
mod state;
mod support;
mod transfers;
mod types;
mod workers;

pub use backend::CpuBackend;
pub use buffer::CpuBuffer;
pub use compile::CpuExecutable;
pub use plugin::Cpu;
