//! An op that a rule checks, with its context.

use super::constants::Constants;
pub(super) use super::ensure::ensure;
use super::slot::{Slot, Wanted};
use crate::error::{Error, ErrorKind, Result};
use crate::ir::*;

/// Context for the checks of one op.
pub(super) struct Site<'a> {
    pub(super) func: &'a Func,
    pub(super) op: &'a Op,
    /// Module that contains the op. `None` for a function under construction, and during inference.
    pub(super) module: Option<&'a Module>,
    /// Integer constants of the function, for the rules of level
    /// [`VerifyLevel::FULL`](super::level::VerifyLevel::FULL).
    pub(super) constants: Option<&'a Constants>,
    /// Whether values of the function may have quantized types.
    pub(super) quantized: bool,
    /// Set if the result types are inferred instead of checked.
    pub(super) wanted: Option<&'a Wanted>,
}

impl<'a> Site<'a> {
    /// Returns the type of an operand.
    pub(super) fn operand(&self, index: usize) -> Result<&'a Type> {
        match self.op.operands.get(index) {
            Some(&value) => Ok(self.func.ty(value)),
            None => Err(Error::new(
                ErrorKind::Structure,
                format_args!("needs at least {} operands, has {}", index + 1, self.op.operands.len()),
            )),
        }
    }

    /// Returns the type of a result.
    pub(super) fn result(&self, index: usize) -> Result<&'a Type> {
        match self.op.results.get(index) {
            Some(&value) => Ok(self.func.ty(value)),
            None => Err(Error::new(
                ErrorKind::Structure,
                format_args!("needs at least {} results, has {}", index + 1, self.op.results.len()),
            )),
        }
    }

    /// Returns the tensor type of an operand. Returns `None` for a type that the IR keeps as text, which the rules do
    /// not check.
    pub(super) fn operand_tensor(&self, index: usize) -> Result<Option<&'a TensorType>> {
        tensor(self.operand(index)?, "operand", index)
    }

    /// Returns the tensor type of a result. Returns `None` during inference, and for a type that the IR keeps as text,
    /// which the rules do not check.
    pub(super) fn result_tensor(&self, index: usize) -> Result<Option<&'a TensorType>> {
        // During inference, there is no result type, so rules that need it do not apply.
        if self.wanted.is_some() {
            return Ok(None);
        }
        tensor(self.result(index)?, "result", index)
    }

    /// Returns the slot of a result. Returns `None` if the IR keeps the result's type as text.
    pub(super) fn slot(&self, index: usize) -> Result<Option<Slot<'a>>> {
        match self.wanted {
            Some(wanted) => Ok(Some(Slot::Wanted(wanted, index))),
            None => Ok(self.result_tensor(index)?.map(Slot::There)),
        }
    }

    /// Returns the elements of an operand that is an integer constant. Returns `None` for any other operand, for a
    /// constant with too many elements, and if `constants` is `None`.
    pub(super) fn known(&self, index: usize) -> Option<&'a [i64]> {
        self.constants?.find(self.func, *self.op.operands.get(index)?)
    }

    pub(super) fn operands(&self) -> impl ExactSizeIterator<Item = &'a Type> + Clone {
        self.op.operands.iter().map(|&v| self.func.ty(v))
    }

    pub(super) fn results(&self) -> impl ExactSizeIterator<Item = &'a Type> + Clone {
        self.op.results.iter().map(|&v| self.func.ty(v))
    }
}

fn tensor<'a>(ty: &'a Type, what: &str, index: usize) -> Result<Option<&'a TensorType>> {
    match ty {
        Type::Tensor(tensor) => Ok(Some(tensor)),
        Type::Other(_) => Ok(None),
        other => Err(Error::new(ErrorKind::Type, format_args!("{what} {index} must be a tensor, not {other}"))),
    }
}

/// Returns the operands of the return op at the end of a region.
pub(super) fn returned(region: &Region) -> Result<&[ValueId]> {
    match region.ops.last() {
        Some(Op { kind: OpKind::Return, operands, .. }) => Ok(operands),
        _ => Err(Error::new(ErrorKind::Structure, "a region must end in a return")),
    }
}
