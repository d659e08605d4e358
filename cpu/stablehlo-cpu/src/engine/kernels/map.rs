//! `map`: applies a region to the elements of several tensors.

use super::{Context, Kernel};
use crate::engine::scalar_fn::ScalarFn;
use crate::error::RunError;

/// `map`. The inputs are the tensors, followed by the scalars that the body captures.
pub(crate) struct Mapped {
    pub(crate) n: usize,
    pub(crate) body: ScalarFn,
}

impl Kernel for Mapped {
    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], cx: &Context<'_>) -> Result<(), RunError> {
        if self.n > 0 {
            self.body.run(self.n, ins, outs, &[], cx.stop)?;
        }
        Ok(())
    }

    fn has_loop(&self) -> bool {
        self.body.has_loop()
    }
}
