//! Factorizations with the interface of LAPACK's routines. JAX calls these routines by name on the platform `cpu`.
//! `faer` computes singular vectors and the eigenvectors of general matrices. The packed forms, the LU factors, the
//! Schur forms and the solver of tridiagonal systems are implemented here, because `faer` does not use LAPACK's
//! conventions. The eigenvectors of tridiagonal matrices are computed here, because `faer` takes more than twice as
//! long and is less accurate.
//!
//! Matrices are row-major. The routines for which [`Routine::is_native`] returns true compute in the precision of their
//! operands. The other routines compute in `f64` or complex `f64`. `info` is nonzero if the routine fails, for example
//! because an operand is not finite.

mod divide;
mod dqds;
mod hermitian;
mod lu;
mod packed;
mod precision;
mod routine;
mod scaling;
mod schur;
mod secular;
mod singular;
mod spectral;
mod tridiagonal;

pub(crate) use precision::Precision;
pub(crate) use routine::{Lapack, Routine};
