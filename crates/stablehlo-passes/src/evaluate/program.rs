//! Runs functions on constants.

use std::collections::HashMap;

use stablehlo::ir::{Func, Literal, Module, OpKind, Region, ValueId};

use super::number::uniform_number;
use super::op::evaluate;

/// Maximum depth of calls.
const MAX_DEPTH: usize = 16;

/// Runs functions of a module. Returns `None` if an op cannot be computed exactly, or if too many ops run.
pub(crate) struct Interpreter<'m> {
    module: &'m Module,
    /// Number of ops that may still run.
    budget: usize,
}

impl<'m> Interpreter<'m> {
    pub(crate) fn new(module: &'m Module, budget: usize) -> Self {
        Self { module, budget }
    }

    pub(crate) fn run(&mut self, func: &'m Func, args: &[Literal]) -> Option<Vec<Literal>> {
        self.call(func, args, 0)
    }

    fn call(&mut self, func: &'m Func, args: &[Literal], depth: usize) -> Option<Vec<Literal>> {
        if depth > MAX_DEPTH {
            return None;
        }
        self.region(func, &func.body, args, &mut HashMap::new(), depth)
    }

    fn region(
        &mut self,
        func: &'m Func,
        region: &'m Region,
        args: &[Literal],
        known: &mut HashMap<ValueId, Literal>,
        depth: usize,
    ) -> Option<Vec<Literal>> {
        known.extend(region.args.iter().copied().zip(args.iter().cloned()));
        for op in &region.ops {
            self.budget = self.budget.checked_sub(1)?;
            let operands: Vec<Literal> =
                op.operands.iter().map(|operand| known.get(operand).cloned()).collect::<Option<_>>()?;
            let results = match &op.kind {
                OpKind::Return => return Some(operands),
                OpKind::Constant(literal) => vec![literal.clone()],
                OpKind::Call { callee } => self.call(self.module.func(callee)?, &operands, depth + 1)?,
                OpKind::While => {
                    let [condition, body] = &op.regions[..] else { return None };
                    let mut carried = operands;
                    loop {
                        let goes_on = self.region(func, condition, &carried, known, depth)?;
                        if uniform_number(goes_on.first()?)?.integer()? == 0 {
                            break carried;
                        }
                        carried = self.region(func, body, &carried, known, depth)?;
                    }
                }
                _ if op.regions.is_empty() => {
                    let operands: Vec<&Literal> = operands.iter().collect();
                    vec![evaluate(op, &operands, &func.values)?]
                }
                _ => return None,
            };
            known.extend(op.results.iter().copied().zip(results));
        }
        None
    }
}
