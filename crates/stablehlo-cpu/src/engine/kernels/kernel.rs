//! The trait that all kernels implement.

use std::any::Any;

use crate::engine::pool::Pool;
use crate::engine::stop::Stop;
use crate::engine::view::View;
use crate::error::RunError;

/// The run to which a kernel call belongs.
#[derive(Clone, Copy)]
pub(crate) struct Context<'r> {
    /// Memory for temporary values.
    pub(crate) pool: &'r Pool,
    /// The request to end the run early. `None` if the run cannot be stopped.
    pub(crate) stop: Option<&'r Stop>,
}

impl<'r> Context<'r> {
    /// A run that cannot be stopped.
    pub(crate) fn unstoppable(pool: &'r Pool) -> Self {
        Self { pool, stop: None }
    }

    /// Returns an error after a stop request.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), RunError> {
        Stop::check(self.stop)
    }
}

/// A step of a program with all shapes resolved.
///
/// Passes over the graph downcast kernels to find those of one type.
pub(crate) trait Kernel: Any + Send + Sync {
    /// Computes `outs` from `ins`. If an output starts as a copy of an input, it already holds that copy, and the slice
    /// of that input may be empty.
    ///
    /// Kernels that may take long check [`Context::stop`] from time to time. After a stop request they may return
    /// early, with or without an error. The contents of `outs` then do not matter, because no later step reads them.
    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], cx: &Context<'_>) -> Result<(), RunError>;

    /// Whether the step must run even if its results are not read.
    fn has_side_effect(&self) -> bool {
        false
    }

    /// Whether the step calls the handler of a custom call, which is code outside the engine and may take any time.
    fn calls_handler(&self) -> bool {
        false
    }

    /// Whether the same inputs always produce the same outputs, without side effects.
    fn is_pure(&self) -> bool {
        !self.has_side_effect()
    }

    /// Whether the step runs a region with a loop, so that it may take unlimited time.
    fn has_loop(&self) -> bool {
        false
    }

    /// The maximum number of scalar operations of an iteration, if the step is a loop that can pause between iterations.
    fn iteration_work(&self) -> Option<u64> {
        None
    }

    /// Runs a loop that can pause for at most so many iterations. Returns whether it has ended. If not, `outs` hold its
    /// state, and the next call continues from there.
    fn run_part(
        &self,
        iterations: u64,
        ins: &[&[u8]],
        outs: &mut [&mut [u8]],
        cx: &Context<'_>,
    ) -> Result<bool, RunError> {
        let _ = iterations;
        self.run(ins, outs, cx).map(|()| true)
    }

    /// The view of the operand that the step copies, if it does only that.
    fn view(&self) -> Option<&View> {
        None
    }
}
