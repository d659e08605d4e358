//! The errors of a build without the feature `math`.

use stablehlo::ir::{FftType, TransposeA};

use super::{LoweringContext, Result};
use crate::error::CompileError;
use crate::op_names::op_name;

impl LoweringContext<'_, '_> {
    fn without_math(&self) -> CompileError {
        CompileError::unsupported(format!(
            "{} needs the feature `math`, which this build of the engine lacks; build with it",
            op_name(&self.op.kind)
        ))
    }

    pub(super) fn cholesky(&self, _lower: bool) -> Result<()> {
        Err(self.without_math())
    }

    pub(super) fn triangular_solve(
        &self,
        _left: bool,
        _lower: bool,
        _unit: bool,
        _transpose: TransposeA,
    ) -> Result<()> {
        Err(self.without_math())
    }

    pub(super) fn qr(&self) -> Result<()> {
        Err(self.without_math())
    }

    pub(super) fn householder_product(&self) -> Result<()> {
        Err(self.without_math())
    }

    pub(super) fn eigh(&self) -> Result<()> {
        Err(self.without_math())
    }

    pub(super) fn lu_decomposition(&self) -> Result<()> {
        Err(self.without_math())
    }

    pub(super) fn fft(&self, _kind: FftType, _lengths: &[i64]) -> Result<()> {
        Err(self.without_math())
    }

    /// Returns `None` if the target does not have the form of a LAPACK routine.
    pub(super) fn lapack(&self, target: &str) -> Option<Result<()>> {
        let is_routine = target.starts_with("lapack_") || target == "tridiagonal_solve_perturbed_ffi";
        is_routine.then(|| Err(self.without_math()))
    }
}
