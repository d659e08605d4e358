//! The pass `eliminate_dead_code`.

use stablehlo::ir::{Module, Op, OpKind, Region, ValueId, ValueTypes};

use crate::effects::has_effects;

/// Removes ops whose results no other op uses. Returns `None` if the program has no such op.
///
/// Keeps calls, composites, custom calls, ops of other dialects, ops with tokens, random numbers, and collectives, for
/// which other devices wait. Keeps arguments, and all results of an op that has several. The module must be verified.
#[must_use]
pub fn eliminate_dead_code(module: &Module) -> Option<Module> {
    let mut bodies = Vec::with_capacity(module.funcs.len());
    let mut removed = false;
    for func in &module.funcs {
        let mut live = Live { values: vec![false; func.values.len()], types: &func.values, removed: false };
        bodies.push(live.region(&func.body));
        removed |= live.removed;
    }
    if !removed {
        return None;
    }
    let mut module = module.clone();
    for (func, body) in module.funcs.iter_mut().zip(bodies) {
        func.body = body;
    }
    Some(module)
}

/// The values that live ops use.
struct Live<'f> {
    values: Vec<bool>,
    types: &'f ValueTypes,
    /// Whether an op was removed.
    removed: bool,
}

impl Live<'_> {
    /// Returns a region with its live ops only. Visits the ops from the last to the first, so that each op is visited
    /// after the ops that use it.
    fn region(&mut self, region: &Region) -> Region {
        let mut ops = Vec::with_capacity(region.ops.len());
        for (index, op) in region.ops.iter().enumerate().rev() {
            let ends = index + 1 == region.ops.len();
            if !ends && !self.is_live(op) {
                self.removed = true;
                continue;
            }
            for &operand in &op.operands {
                self.mark(operand);
            }
            let regions = op.regions.iter().map(|region| self.region(region)).collect();
            ops.push(Op {
                kind: op.kind.clone(),
                operands: op.operands.clone(),
                results: op.results.clone(),
                regions,
                attributes: op.attributes.clone(),
                location: op.location,
            });
        }
        ops.reverse();
        Region { args: region.args.clone(), ops }
    }

    fn is_live(&self, op: &Op) -> bool {
        op.results.iter().any(|id| self.values[id.0 as usize]) || has_effects(op, self.types) || is_collective(op)
    }

    fn mark(&mut self, id: ValueId) {
        self.values[id.0 as usize] = true;
    }
}

fn is_collective(op: &Op) -> bool {
    op.kind.replica_groups().is_some()
        || matches!(op.kind, OpKind::CollectivePermute { .. } | OpKind::AsyncStart | OpKind::AsyncDone)
        || op.regions.iter().flat_map(|region| &region.ops).any(is_collective)
}
