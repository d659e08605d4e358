//! The size of a program after inlining its calls.

use std::collections::HashMap;

use stablehlo::ir::{Func, Module, OpKind, Region};

use super::Result;
use crate::error::CompileError;

/// Maximum nesting of calls and regions. It bounds the stack that the recursive lowering uses.
const MAX_DEPTH: usize = 96;

/// Counts the ops of functions after inlining. Each function is counted once, however often it is called.
pub(super) struct InlinedSize<'m> {
    module: &'m Module,
    counts: HashMap<&'m str, usize>,
    depth: usize,
}

impl<'m> InlinedSize<'m> {
    pub(super) fn new(module: &'m Module) -> Self {
        InlinedSize { module, counts: HashMap::new(), depth: 0 }
    }

    /// Returns the number of ops of a function, with those of its regions and of the functions that it calls.
    pub(super) fn of(&mut self, func: &'m Func) -> Result<usize> {
        if let Some(&count) = self.counts.get(func.name.as_str()) {
            return Ok(count);
        }
        // Inlining rejects a function that calls itself. Until its count is known, it counts as empty.
        self.counts.insert(&func.name, 0);
        let count = self.of_region(&func.body)?;
        self.counts.insert(&func.name, count);
        Ok(count)
    }

    fn of_region(&mut self, region: &'m Region) -> Result<usize> {
        self.depth += 1;
        check_depth(self.depth)?;
        let mut count = region.ops.len();
        for op in &region.ops {
            let callee = match &op.kind {
                OpKind::Call { callee } => self.module.func(callee),
                OpKind::Composite { decomposition, .. } => self.module.func(decomposition),
                _ => None,
            };
            if let Some(callee) = callee {
                count = count.saturating_add(self.of(callee)?);
            }
            for region in &op.regions {
                count = count.saturating_add(self.of_region(region)?);
            }
        }
        self.depth -= 1;
        Ok(count)
    }
}

/// Checks the nesting of calls and regions.
pub(super) fn check_depth(depth: usize) -> Result<()> {
    if depth > MAX_DEPTH {
        return Err(CompileError::unsupported(format!("calls and regions nested more than {MAX_DEPTH} deep")));
    }
    Ok(())
}
