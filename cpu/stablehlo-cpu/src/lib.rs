//! Compiles StableHLO programs, partitions them over devices, and runs them on the cores of the CPU.
//!
//! [`compile`] turns a [`Module`](stablehlo::ir::Module) into a [`Program`]. A program is a flat list of steps.
//! [`Program::run`] runs the program on [`Tensor`]s. [`compile_with`] compiles a program for several members that run
//! at the same time, as replicas, as partitions, or both. The members belong to a [`Communicator`], and each member
//! runs on its own thread. If the program describes the work of all partitions together, [`spmd::partition`] first
//! partitions it by its sharding annotations.
//!
//! ```
//! use stablehlo_cpu::{DType, Tensor, compile};
//!
//! let module = stablehlo::parse(
//!     "func.func @main(%x: tensor<3xi32>) -> tensor<i32> {
//!        %zero = stablehlo.constant dense<0> : tensor<i32>
//!        %sum = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]
//!          : (tensor<3xi32>, tensor<i32>) -> tensor<i32>
//!        return %sum : tensor<i32>
//!      }",
//!     stablehlo::VerifyLevel::FULL,
//! )?;
//! let program = compile(&module)?;
//! let results = program.run(vec![Tensor::from_slice(DType::I32, &[3], &[1, 2, 3])?])?;
//! assert_eq!(results[0].as_slice(), Some(&[6][..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! This crate does not depend on PJRT. `pjrt-cpu` uses it to implement a PJRT device.
#![forbid(unsafe_code)]

mod compile;
mod engine;
mod error;
mod op_names;
mod order;
mod passes;
mod sharding;
pub mod spmd;
mod supports;

pub use compile::{compile, compile_in, compile_with};
pub use engine::{
    Communicator, CompileSettings, DType, MachineMemory, Member, MemoryEstimate, Message, Parameter, PausedRun, Pool,
    PoolUsage, Program, Progress, RemoteMembers, Stop, Tensor, TensorType, alone, custom_calls,
};
pub use error::{CompileError, CompileErrorKind, RunError};
pub use order::Order;
pub use passes::preferred_output_order;
pub use stablehlo_passes::{Cost, cost};
pub use supports::supports;

/// Tests the examples of the package's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct PackageReadme;
