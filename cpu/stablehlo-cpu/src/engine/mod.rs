//! The engine. It compiles a module to a flat list of steps, and runs the steps.
//!
//! `lower` resolves every shape, inlines calls and translates StableHLO to the `graph`. `short_rows` replaces
//! reductions of short rows by elementwise nodes. `fuse` schedules the graph and groups elementwise nodes.
//! `group_compiler` compiles the groups. `row_fusion` joins groups, reductions and scatters over the same rows, and
//! `row_program`, `across_rows` and `row_scatter` run them. `emit` converts the schedule to the steps of a `program`.
//! The steps need no further checks at run time. Memory comes from a [`Pool`] and is reference-counted. A step may
//! overwrite a buffer that has no other owner. `elementwise` and `kernels` contain the loops.

#![cfg_attr(
    not(feature = "jit"),
    allow(dead_code, unused_imports, reason = "only compiled loops need some facts about steps")
)]

mod across_rows;
mod assembly;
mod bounded_arrays;
mod bounded_run;
pub mod custom_calls;
mod dtype;
mod elementwise;
mod emit;
mod fuse;
mod graph;
mod group_compiler;
mod half_precision;
mod huge_pages;
mod kernels;
#[cfg(feature = "jit")]
mod loops;
mod lower;
mod machine_memory;
mod memory_estimate;
mod parallel;
mod pause;
mod peak;
mod pool;
mod program;
mod program_builder;
mod remote;
mod rendezvous;
mod row_fusion;
mod row_program;
mod row_scatter;
mod scalar_fn;
mod schedule;
mod settings;
mod short_rows;
mod simplify;
mod stop;
mod tensor;
mod tile;
mod vector_chains;
mod view;

#[cfg(test)]
mod tests;

pub(crate) use bounded_arrays::{BoundedArray, BoundedArrays};
pub use dtype::{DType, TensorType};
pub use machine_memory::MachineMemory;
pub use memory_estimate::MemoryEstimate;
pub use parallel::alone;
pub use pause::{PausedRun, Progress};
pub use pool::{Pool, PoolUsage};
pub use program::{Parameter, Program};
pub(crate) use program_builder::{check_lowering, lower_program};
pub use remote::{Message, RemoteMembers};
pub use rendezvous::{Communicator, Member};
pub use settings::CompileSettings;
pub use stop::Stop;
pub use tensor::Tensor;
