//! The pass `eliminate_dead_code`.

use stablehlo::ir::{Module, Op, Region, ValueTypes};

use crate::effects::{has_effects, is_collective};

/// Removes ops whose results no other op uses. Returns `None` if the program has no such op.
///
/// Keeps calls, composites, custom calls, ops of other dialects, ops with tokens, random numbers, and collectives, for
/// which other devices wait. Keeps arguments, and all results of an op that has several. The module must be verified.
#[must_use]
pub fn eliminate_dead_code(module: &Module) -> Option<Module> {
    let mut module = module.clone();
    let mut removed = false;
    for func in &mut module.funcs {
        let mut live = Live { values: vec![false; func.values.len()], types: &func.values, removed: false };
        live.region(&mut func.body);
        removed |= live.removed;
    }
    removed.then_some(module)
}

/// The values that live ops use.
struct Live<'f> {
    values: Vec<bool>,
    types: &'f ValueTypes,
    /// Whether an op was removed.
    removed: bool,
}

impl Live<'_> {
    /// Removes ops from a region. Visits the ops from the last to the first, so that each op is visited after the ops
    /// that use it.
    fn region(&mut self, region: &mut Region) {
        let all = region.ops.len();
        let mut live = Vec::with_capacity(all);
        for mut op in std::mem::take(&mut region.ops).into_iter().rev() {
            // The op that ends the region.
            let is_first = live.is_empty();
            if is_first || self.is_live(&op) {
                for id in &op.operands {
                    if let Some(live) = self.values.get_mut(id.0 as usize) {
                        *live = true;
                    }
                }
                op.regions.iter_mut().for_each(|region| self.region(region));
                live.push(op);
            }
        }
        self.removed |= live.len() < all;
        live.reverse();
        region.ops = live;
    }

    fn is_live(&self, op: &Op) -> bool {
        op.results.iter().any(|id| self.values.get(id.0 as usize) != Some(&false))
            || has_effects(op, self.types)
            || is_collective(op)
    }
}
