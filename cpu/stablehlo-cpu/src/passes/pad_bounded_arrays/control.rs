//! Rewrites functions and control flow. The sizes of bounded arguments and results become additional arguments and
//! results.

use stablehlo::ir::{Op, OpKind, ValueId};

use super::builder::{Rewrite, Sizes};
use super::types::{Result, Signature};
use crate::engine::BoundedArray;
use crate::error::CompileError;

impl Rewrite<'_> {
    /// Adds an argument for each size of the arguments of a function or a region.
    pub(super) fn add_arguments(&mut self, args: &mut Vec<ValueId>) -> Result<()> {
        for at in 0..args.len() {
            let new = self.new_sizes(args[at])?;
            args.extend(new);
        }
        Ok(())
    }

    /// Adds a result for each size of an op's results. `declared` lists the results of bounded size.
    pub(super) fn add_results(&mut self, op: &mut Op, declared: &[BoundedArray]) -> Result<()> {
        for array in declared {
            let new = self.new_sizes(op.results[array.index])?;
            op.results.extend(new);
        }
        Ok(())
    }

    /// Adds the sizes of an op's operands to the operands. `declared` lists the bounded arrays among the arguments or
    /// results that receive the operands.
    pub(super) fn append_sizes(&mut self, op: &mut Op, sizes: &[Sizes], declared: &[BoundedArray]) -> Result<()> {
        for (index, sizes) in sizes.iter().enumerate() {
            let array = declared.iter().find(|array| array.index == index);
            let is_fixed = |(d, _): &&(usize, ValueId)| array.is_none_or(|array| !array.dimensions.contains(d));
            if let Some((dimension, _)) = sizes.iter().find(is_fixed) {
                return Err(CompileError::unsupported(format!(
                    "{}, whose operand {index} has a dimension {dimension} of bounded size where one size is declared",
                    op.kind.name()
                )));
            }
        }
        for array in declared {
            let (Some(&operand), Some(sizes)) = (op.operands.get(array.index), sizes.get(array.index)) else {
                return Err(CompileError::invalid("an op with fewer operands than its types declare"));
            };
            let shape = self.tensor(operand)?.shape;
            for &dimension in &array.dimensions {
                let size = match sizes.iter().find(|(known, _)| *known == dimension) {
                    Some(&(_, size)) => size,
                    None => self.number(shape.get(dimension).copied().unwrap_or(0))?,
                };
                op.operands.push(size);
            }
        }
        Ok(())
    }

    /// Rewrites a call of a function. A composite becomes a call of its decomposition.
    pub(super) fn call(&mut self, op: &mut Op, sizes: &[Sizes], declared: &[BoundedArray]) -> Result<()> {
        let callee = match &op.kind {
            OpKind::Call { callee } => callee.clone(),
            OpKind::Composite { decomposition, .. } => decomposition.clone(),
            _ => return Ok(()),
        };
        let Some(Signature { arguments, .. }) = self.signatures.get(callee.as_str()) else {
            return Err(CompileError::invalid(format!("a call of `{callee}`, which does not exist")));
        };
        self.append_sizes(op, sizes, arguments)?;
        self.add_results(op, declared)?;
        op.kind = OpKind::Call { callee };
        Ok(())
    }
}
