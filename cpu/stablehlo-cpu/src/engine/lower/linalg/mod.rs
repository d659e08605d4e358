//! Dense solvers and factorizations.

mod lapack;
mod solvers;
