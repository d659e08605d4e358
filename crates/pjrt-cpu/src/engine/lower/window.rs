//! Windows.
use super::{Cx, Result};
use stablehlo::ir::{ConvDimensions, RngAlgorithm, TransposeA, Window};
impl Cx<'_, '_> {
    pub(super) fn convolution(
        &mut self,
        _: &ConvDimensions,
        _: &Window,
        _: i64,
        _: i64,
    ) -> Result<()> {
        Err(self.unsupported())
    }
    pub(super) fn reduce_window(&mut self, _: &Window) -> Result<()> {
        Err(self.unsupported())
    }
    pub(super) fn select_and_scatter(&mut self, _: &Window) -> Result<()> {
        Err(self.unsupported())
    }
    pub(super) fn cholesky(&mut self, _: bool) -> Result<()> {
        Err(self.unsupported())
    }
    pub(super) fn triangular_solve(
        &mut self,
        _: bool,
        _: bool,
        _: bool,
        _: TransposeA,
    ) -> Result<()> {
        Err(self.unsupported())
    }
    pub(super) fn rng_bit_generator(&mut self, _: RngAlgorithm) -> Result<()> {
        Err(self.unsupported())
    }
}
