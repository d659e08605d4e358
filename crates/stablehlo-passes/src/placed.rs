//! Errors that name the op.

use stablehlo::ir::{Module, Op};
use stablehlo::{Patch, Result};

/// Returns `replace`, with errors that name the op, its function and its place in the program.
pub(crate) fn placed<'m>(
    module: &'m Module,
    func: &'m str,
    mut replace: impl FnMut(Op, &mut Patch<'_>) -> Result<()> + 'm,
) -> impl FnMut(Op, &mut Patch<'_>) -> Result<()> + 'm {
    move |op, patch| {
        let (name, location) = (op.kind.name(), op.location);
        replace(op, patch)
            .map_err(|error| error.with_op(&name).with_func(func).with_location(module.location(location)))
    }
}
