//! Dense solvers and factorizations.

pub(crate) mod cholesky;
pub(crate) mod householder;
pub(crate) mod lapack;
mod reflections;
pub(crate) mod scalar;
pub(crate) mod triangular_solve;
