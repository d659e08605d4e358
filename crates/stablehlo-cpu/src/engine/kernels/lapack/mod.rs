//! Factorizations with the interface of LAPACK's routines. JAX calls these routines by name on the platform `cpu`.
//! `faer` computes eigenvalues, eigenvectors and singular vectors. The packed forms, the LU factors, the Schur forms
//! and the solver of tridiagonal systems are implemented here, because `faer` does not use LAPACK's conventions.
//!
//! Matrices are row-major. The routines for which [`Routine::is_native`] returns true compute in the precision of their
//! operands. The other routines compute in `f64` or complex `f64`. `info` is nonzero if the routine fails, for example
//! because an operand is not finite.

mod dqds;
mod hermitian;
mod lu;
mod packed;
mod precision;
mod routine;
mod scaling;
mod schur;
mod singular;
mod spectral;
mod tridiagonal;

pub(crate) use precision::Precision;
pub(crate) use routine::{Lapack, Routine};
