//! Kernel of a `custom_call` with a registered handler.

use super::{Context, Kernel};
use crate::engine::custom_calls::Bound;
use crate::error::RunError;

pub(crate) struct Custom {
    pub(crate) bound: Bound,
    pub(crate) has_side_effect: bool,
}

impl Kernel for Custom {
    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], _: &Context<'_>) -> Result<(), RunError> {
        let call = &self.bound.call;
        for &(result, operand) in &call.aliases {
            outs[result].copy_from_slice(ins[operand]);
        }
        (self.bound.handler)(call, ins, outs)
            .map_err(|message| RunError::CustomCall(format!("custom_call @{}: {message}", call.target)))
    }

    fn has_side_effect(&self) -> bool {
        self.has_side_effect
    }

    fn calls_handler(&self) -> bool {
        true
    }

    /// Returns false, because a handler may have side effects.
    fn is_pure(&self) -> bool {
        false
    }
}
