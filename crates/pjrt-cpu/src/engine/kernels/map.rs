//! `map`: a region over the elements of several tensors.

use super::Kernel;
use crate::engine::error::RunError;
use crate::engine::lower::ScalarFn;
use crate::engine::pool::Pool;

/// Inputs: the tensors, then the scalars the body captures.
pub(crate) struct Mapped {
    pub(crate) n: usize,
    pub(crate) body: ScalarFn,
}

impl Kernel for Mapped {
    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], _: &Pool) -> Result<(), RunError> {
        if self.n > 0 {
            self.body.run(self.n, ins, outs, &[])?;
        }
        Ok(())
    }
}
