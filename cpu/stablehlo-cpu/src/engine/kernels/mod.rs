//! Kernels of ops that are not elementwise. Each module contains the kernels of a family of ops. A kernel holds the
//! resolved shapes of an op and runs the loops that compute the op.

pub(crate) mod arg_reduce;
pub(crate) mod collective;
pub(crate) mod combine;
pub(crate) mod conv;
pub(crate) mod custom;
pub(crate) mod dot;
#[cfg(feature = "math")]
pub(crate) mod fft;
pub(crate) mod fold;
pub(crate) mod gemm;
pub(crate) mod index;
mod kernel;
#[cfg(feature = "math")]
pub(crate) mod linalg;
pub(crate) mod map;
pub(crate) mod member_reduction;
pub(crate) mod pool_gradient;
pub(crate) mod ragged_exchange;
pub(crate) mod random;
pub(crate) mod reduce;
pub(crate) mod rng;
pub(crate) mod shape;
pub(crate) mod sort;
mod split_exchange;
mod split_reduction;
#[cfg(feature = "math")]
mod transpose;
pub(crate) mod window;

pub(crate) use kernel::{Context, Kernel};
