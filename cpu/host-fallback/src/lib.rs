#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod error;
mod program;
mod support;
mod warning;

pub use error::Error;
pub use program::HostProgram;
pub use stablehlo_cpu::{CompileError, CompileErrorKind, RunError, spmd};
pub use stablehlo_passes::{Outlined, OutlinedFunction, OutlinedOp, outline_unsupported};
pub use support::supports;
pub use warning::warning;
