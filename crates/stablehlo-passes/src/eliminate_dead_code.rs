//! The pass `eliminate_dead_code`.

use stablehlo::ir::{Func, Module, Op, Region, ValueTypes};

use crate::effects::{has_effects, is_collective};

/// Removes ops whose results no other op uses. Returns `None` if the program has no such op.
///
/// Keeps calls, composites, custom calls, ops of other dialects, ops with tokens, random numbers, and collectives, for
/// which other devices wait. Keeps arguments, and all results of an op that has several. The module must be verified.
#[must_use]
pub fn eliminate_dead_code(module: &Module) -> Option<Module> {
    let live: Vec<Live<'_>> = module.funcs.iter().map(Live::of).collect();
    if !live.iter().any(|live| live.has_dead) {
        return None;
    }
    let mut funcs = module.funcs.clone();
    funcs.iter_mut().zip(&live).filter(|(_, live)| live.has_dead).for_each(|(func, live)| live.keep(&mut func.body));
    Some(module.with_funcs(funcs))
}

/// The values that live ops use.
struct Live<'f> {
    values: Vec<bool>,
    types: &'f ValueTypes,
    /// Whether an op is not live.
    has_dead: bool,
}

impl<'f> Live<'f> {
    fn of(func: &'f Func) -> Self {
        let mut live = Self { values: vec![false; func.values.len()], types: &func.values, has_dead: false };
        live.visit(&func.body);
        live
    }

    /// Visits the ops from the last to the first, so that each op is visited after the ops that use it.
    fn visit(&mut self, region: &Region) {
        for (at, op) in region.ops.iter().enumerate().rev() {
            if !self.is_live(op, at + 1 == region.ops.len()) {
                self.has_dead = true;
                continue;
            }
            for id in &op.operands {
                if let Some(live) = self.values.get_mut(id.0 as usize) {
                    *live = true;
                }
            }
            op.regions.iter().for_each(|region| self.visit(region));
        }
    }

    /// Removes the ops that are not live.
    fn keep(&self, region: &mut Region) {
        let (end, mut at) = (region.ops.len(), 0);
        region.ops.retain(|op| {
            at += 1;
            self.is_live(op, at == end)
        });
        region.ops.iter_mut().flat_map(|op| &mut op.regions).for_each(|region| self.keep(region));
    }

    /// Returns whether an op is needed. The last op of a region ends it.
    fn is_live(&self, op: &Op, is_last: bool) -> bool {
        is_last
            || op.results.iter().any(|id| self.values.get(id.0 as usize) != Some(&false))
            || has_effects(op, self.types)
            || is_collective(op)
    }
}
