//! The trait that all kernels implement.

use std::any::Any;

use crate::engine::pool::Pool;
use crate::engine::stop::Stop;
use crate::engine::view::View;
use crate::error::RunError;

/// The context of a kernel call.
#[derive(Clone, Copy)]
pub(crate) struct Context<'r> {
    /// Memory pool for temporary buffers.
    pub(crate) pool: &'r Pool,
    /// Flag that requests the end of the run. `None` if the run cannot be stopped.
    pub(crate) stop: Option<&'r Stop>,
}

impl<'r> Context<'r> {
    /// Returns the context of a run that cannot be stopped.
    pub(crate) fn unstoppable(pool: &'r Pool) -> Self {
        Self { pool, stop: None }
    }

    /// Returns an error after a stop request.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), RunError> {
        Stop::check(self.stop)
    }
}

/// The code of a step, with all shapes of the step resolved.
///
/// Passes over the graph downcast kernels to find the kernels of one type.
pub(crate) trait Kernel: Any + Send + Sync {
    /// Computes `outs` from `ins`. An output that starts as a copy of an input already holds this copy. The slice of
    /// such an input may be empty.
    ///
    /// Kernels that may run for a long time check [`Context::stop`] from time to time. After a stop request they may
    /// return early, with or without an error. The contents of `outs` are then arbitrary. No later step reads them.
    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], cx: &Context<'_>) -> Result<(), RunError>;

    /// Returns the maximum number of bytes that a run allocates beside its outputs, apart from a few tiles for each
    /// thread. `ins` and `outs` are the sizes of the operands and of the results in bytes.
    fn scratch(&self, ins: &[usize], outs: &[usize]) -> usize {
        let _ = (ins, outs);
        0
    }

    /// Returns whether the step must run even if no later step reads its results.
    fn has_side_effect(&self) -> bool {
        false
    }

    /// Returns whether the step calls the handler of a custom call. A handler is code outside the engine and may run
    /// for any length of time.
    fn calls_handler(&self) -> bool {
        false
    }

    /// Returns whether equal inputs always produce equal outputs, without side effects.
    fn is_pure(&self) -> bool {
        !self.has_side_effect()
    }

    /// Returns whether the step runs a region with a loop, which may run for an unlimited time.
    fn has_loop(&self) -> bool {
        false
    }

    /// Returns the maximum number of scalar operations of an iteration. Returns `None` if the step is not a loop that
    /// can pause between iterations, or if the number has no maximum.
    fn iteration_work(&self) -> Option<u64> {
        None
    }

    /// Runs at most `iterations` iterations of a loop that can pause. Other kernels run to their end. Returns whether
    /// the step has ended. If it has not, `outs` hold its state, and the next call continues from this state.
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

    /// Returns a view of the operand if the step only copies the elements of this view to its output.
    fn view(&self) -> Option<&View> {
        None
    }
}
