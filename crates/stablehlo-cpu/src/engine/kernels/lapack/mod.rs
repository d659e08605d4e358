//! Factorisations as LAPACK's routines define them. JAX calls them by name on the platform `cpu`. `faer` computes
//! eigenvalues and singular values. The packed forms follow their definitions, because they require LAPACK's own
//! conventions.
//!
//! Matrices are row-major and computed in `f64` or complex `f64`. `info` is not zero if the routine fails, for example
//! if an operand is not finite.

mod packed;
mod precision;
mod routine;
mod schur;
mod spectral;
mod tridiagonal;

pub(crate) use precision::Precision;
pub(crate) use routine::{Lapack, Routine};
