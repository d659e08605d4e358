//! Ops that are not elementwise, one file per family: a shape-resolved description and the loop that runs it.

pub(crate) mod collective;
pub(crate) mod combine;
pub(crate) mod conv;
pub(crate) mod custom;
pub(crate) mod dot;
pub(crate) mod fft;
mod fold;
pub(crate) mod gemm;
pub(crate) mod householder;
pub(crate) mod index;
pub(crate) mod lapack;
pub(crate) mod linalg;
pub(crate) mod map;
pub(crate) mod ragged_exchange;
pub(crate) mod random;
pub(crate) mod reduce;
pub(crate) mod rng;
pub(crate) mod shape;
pub(crate) mod sort;
pub(crate) mod window;

use super::error::RunError;
use super::pool::Pool;
use super::stop::Stop;
use super::view::View;

/// The run that a kernel is part of.
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

    /// An error once the run is to end.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), RunError> {
        Stop::check(self.stop)
    }
}

/// A step of a program with all shapes resolved.
pub(crate) trait Kernel: Send + Sync {
    /// Computes `outs` from `ins`. An output that starts as a copy of an input holds that copy already; that
    /// input's own slice may then be empty.
    ///
    /// Kernels that may take long look at [`Context::stop`] now and then. Once the run is to end they may return early,
    /// with or without an error, and leave any values in `outs`, because no step reads them then.
    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], cx: &Context<'_>) -> Result<(), RunError>;

    /// The step must run even if nobody reads what it makes.
    fn has_side_effect(&self) -> bool {
        false
    }

    /// The step calls a custom call's handler: code from outside the engine, which may take any time.
    fn calls_handler(&self) -> bool {
        false
    }

    /// The same inputs always give the same outputs, and nothing else happens.
    fn is_pure(&self) -> bool {
        !self.has_side_effect()
    }

    /// Whether the step runs a region with a loop, so that it may take any time, or never end.
    fn has_loop(&self) -> bool {
        false
    }

    /// The step as a product of matrices, if it is one.
    fn product(&self) -> Option<&dot::Dot> {
        None
    }

    /// The view of its operand the step writes out, if that is all it does.
    fn view(&self) -> Option<&View> {
        None
    }

    /// The step as a reduction of whole rows of one tensor, if it is one.
    fn row_reduction(&self) -> Option<&reduce::Reduce> {
        None
    }
}
