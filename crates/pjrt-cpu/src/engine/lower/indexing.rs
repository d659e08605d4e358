//! Gather, scatter and sort.
use super::{Cx, Result};
use stablehlo::ir::{GatherDimensions, ScatterDimensions};
impl Cx<'_, '_> {
    pub(super) fn gather(&mut self, _: &GatherDimensions, _: &[i64]) -> Result<()> {
        Err(self.unsupported())
    }
    pub(super) fn scatter(&mut self, _: &ScatterDimensions) -> Result<()> {
        Err(self.unsupported())
    }
    pub(super) fn sort(&mut self, _: usize) -> Result<()> {
        Err(self.unsupported())
    }
}
