//! Lowers the StableHLO IR to the graph: resolves every shape and element type, inlines calls, and rejects unsupported
//! ops.

mod chlo;
mod collective;
mod context;
mod control;
mod convolution;
mod custom;
mod dilated_convolution;
mod dynamic;
mod elementwise;
#[cfg(feature = "math")]
mod fft;
mod fold;
mod indexing;
#[cfg(feature = "math")]
mod lapack;
mod legacy;
mod linear;
mod loop_invariants;
mod map;
#[cfg(not(feature = "math"))]
mod no_math;
mod ragged;
mod ragged_exchange;
mod random;
mod reduce;
mod region;
mod scalar_steps;
mod shape;
mod size;
#[cfg(feature = "math")]
mod solvers;
mod sort;
mod types;
mod window;

use context::{FOLDED, Frame, LoweringContext};
pub(crate) use context::{GraphBuilder, Lowered};
use types::{Binding, Result, TypedValue, dtype_of, tensor_type, type_of};
pub(crate) use types::{entry_type, fits};
