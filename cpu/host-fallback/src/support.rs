//! Checks whether the host can run an op.

use stablehlo::ir::{Func, Module, Op, OpKind, Region};

use stablehlo_passes::__private::is_collective;

use crate::error::Error;

/// Checks whether the host can run an op of a function of the module. Does not compile a program. Uses the code with
/// which [`HostProgram::compile`](crate::HostProgram::compile) lowers the op, so that the answers are the same.
///
/// Ops that need constant operands, such as `dynamic_reshape`, are supported if these operands are constants of the
/// function.
///
/// # Errors
///
/// Returns the error with which the function that contains the op would be rejected. The error names the op and its
/// location.
pub fn supports(module: &Module, func: &Func, op: &Op) -> Result<(), Error> {
    check_device([op], module)?;
    stablehlo_cpu::supports(module, func, op).map_err(Error::Compile)
}

/// Checks that no op communicates with other devices or asks for the device's number. On the host, the engine would run
/// such an op as if there was one device.
pub(crate) fn check_device<'m>(ops: impl IntoIterator<Item = &'m Op>, module: &Module) -> Result<(), Error> {
    let all = |op: &'m Op| std::iter::once(op).chain(op.regions.iter().flat_map(Region::all_ops));
    let needs_device = |op: &&Op| is_collective(op) || matches!(op.kind, OpKind::PartitionId | OpKind::ReplicaId);
    match ops.into_iter().flat_map(all).find(needs_device) {
        Some(op) => Err(Error::NeedsDevice { operation: op.kind.name(), location: module.location(op.location) }),
        None => Ok(()),
    }
}
