//! The errors of a build without the feature `linalg`.

use stablehlo::ir::TransposeA;

use super::{LoweringContext, Result};
use crate::error::CompileError;
use crate::op_names::op_name;

impl LoweringContext<'_, '_> {
    fn without_linalg(&self) -> CompileError {
        CompileError::unsupported(format!(
            "{} needs linear algebra, which this build of the engine lacks; build with the feature `linalg`",
            op_name(&self.op.kind)
        ))
    }

    pub(super) fn cholesky(&self, _lower: bool) -> Result<()> {
        Err(self.without_linalg())
    }

    pub(super) fn triangular_solve(
        &self,
        _left: bool,
        _lower: bool,
        _unit: bool,
        _transpose: TransposeA,
    ) -> Result<()> {
        Err(self.without_linalg())
    }

    pub(super) fn qr(&self) -> Result<()> {
        Err(self.without_linalg())
    }

    pub(super) fn householder_product(&self) -> Result<()> {
        Err(self.without_linalg())
    }

    pub(super) fn eigh(&self) -> Result<()> {
        Err(self.without_linalg())
    }

    /// Returns `None` if the target does not have the form of a LAPACK routine.
    pub(super) fn lapack(&self, target: &str) -> Option<Result<()>> {
        let is_routine = target.starts_with("lapack_") || target == "tridiagonal_solve_perturbed_ffi";
        is_routine.then(|| Err(self.without_linalg()))
    }
}
