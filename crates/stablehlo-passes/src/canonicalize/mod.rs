//! The pass `canonicalize`.

mod arithmetic;
pub(crate) mod facts;
mod shape;

use stablehlo::ir::{Module, Op, OpKind, ValueId, ValueTypes, is_sharding};
use stablehlo::{Patch, Result, rewrite};

use self::facts::{Known, Simpler};
use crate::apply::apply;
use crate::effects::{has_effects, is_collective};
use crate::fold_constants::is_concerned;

/// Replaces ops with simpler ops that give the same values, bit by bit, also for NaN, infinities and negative zeros.
/// Returns `None` if the program has no such op.
///
/// ```text
/// %0 = stablehlo.transpose %x, dims = [1, 0]      return %x
/// %1 = stablehlo.transpose %0, dims = [1, 0]  =>
/// return %1
/// ```
///
/// - Arithmetic: identities such as `x * 1`, `x - x` of integers, `not (not x)`, `negate (negate x)`,
///   `real (complex a, b)`, and a conversion to a type that represents all numbers and back. The constant operand of a
///   commutative op or of a comparison becomes the second operand.
/// - `select` with a constant predicate, with equal operands, or of `true` and `false`.
/// - Shapes: ops that change nothing are removed. Chains of reshapes, of transposes, and of broadcasts become one op.
///   A broadcast or transpose that keeps the order of the elements becomes a `reshape`. A broadcast or reshape of an
///   `iota` becomes an `iota`. A `dynamic_slice` with constant starts becomes a `slice`.
/// - Control flow: `if` and `case` with a constant predicate become the ops of the branch. A `while` whose condition is
///   the constant `false` is removed.
///
/// Ops that are not used any more remain. Call [`fold_constants`](crate::fold_constants) before, and
/// [`eliminate_dead_code`](crate::eliminate_dead_code) afterwards. The module must be verified.
///
/// # Errors
///
/// Returns no error for a verified module.
pub fn canonicalize(module: &Module) -> Result<Option<Module>> {
    apply(module, is_concerned, |func, locations| {
        let mut pass = Pass { known: Known::default(), changed: false };
        rewrite(func, locations, |op, patch| pass.op(op, patch))?;
        Ok(pass.changed)
    })
}

/// Returns whether values have the types of the results that they replace. Dynamic extents may differ.
fn have_types(types: &ValueTypes, results: &[ValueId], values: &[ValueId]) -> bool {
    let ty = |value: &ValueId| types.get(value.0 as usize);
    results.len() == values.len() && results.iter().zip(values).all(|(result, value)| ty(result) == ty(value))
}

/// Maximum number of rules that are applied to one op.
const MAX_STEPS: usize = 64;

struct Pass {
    known: Known,
    changed: bool,
}

impl Pass {
    fn op(&mut self, mut op: Op, patch: &mut Patch<'_>) -> Result<()> {
        // In a module that is not valid, ops can depend on each other.
        for _ in 0..MAX_STEPS {
            match self.simpler(&op, patch.types()) {
                None => break,
                Some(Simpler::Value(value)) => {
                    patch.replace_uses(op.results[0], value);
                    self.changed = true;
                    return Ok(());
                }
                Some(Simpler::Op(kind, operands)) => {
                    (op.kind, op.operands) = (kind, operands);
                    op.attributes.retain(|(name, _)| is_sharding(name));
                    self.changed = true;
                }
            }
        }
        let types = patch.types();
        let returned = |branch: &usize| op.regions.get(*branch)?.ops.last().map(|end| &end.operands[..]);
        let fits = |branch: &usize| returned(branch).is_some_and(|values| have_types(types, &op.results, values));
        if let Some(branch) = self.branch(&op).filter(fits) {
            let values = patch.inline(op.regions.swap_remove(branch), &[])?;
            self.replace(&op.results, &values, patch);
            return Ok(());
        }
        if self.never_runs(&op, patch.types()) {
            self.replace(&op.results, &op.operands, patch);
            return Ok(());
        }
        self.known.add(&op);
        patch.push(op);
        Ok(())
    }

    fn replace(&mut self, results: &[ValueId], values: &[ValueId], patch: &mut Patch<'_>) {
        results.iter().zip(values).for_each(|(&result, &value)| patch.replace_uses(result, value));
        self.changed = true;
    }

    fn simpler(&self, op: &Op, types: &ValueTypes) -> Option<Simpler> {
        let &[result] = &op.results[..] else { return None };
        let in_tuple = match (&op.kind, op.operands.first().and_then(|&operand| self.known.definition(operand))) {
            (OpKind::GetTupleElement { index }, Some((OpKind::Tuple, elements))) => elements.get(*index).copied(),
            _ => None,
        };
        let simpler = match in_tuple {
            Some(value) => Simpler::Value(value),
            None => arithmetic::simpler(op, &self.known, types).or_else(|| shape::simpler(op, &self.known, types))?,
        };
        let is_valid = match &simpler {
            Simpler::Value(value) => types.get(value.0 as usize) == types.get(result.0 as usize),
            Simpler::Op(OpKind::Constant(literal), _) => types.static_tensor(result) == Some(&literal.ty),
            Simpler::Op(..) => true,
        };
        is_valid.then_some(simpler)
    }

    /// Returns the index of the branch that an op with a constant predicate runs.
    fn branch(&self, op: &Op) -> Option<usize> {
        let &predicate = op.operands.first()?;
        match op.kind {
            OpKind::If => Some(usize::from(!self.known.is_true(predicate)?)),
            OpKind::Case => {
                let last = op.regions.len().checked_sub(1)?;
                let index = self.known.number(predicate)?.integer()?;
                Some(usize::try_from(index).unwrap_or(last).min(last))
            }
            _ => None,
        }
    }

    /// Returns whether the op is a loop whose body never runs.
    fn never_runs(&self, op: &Op, types: &ValueTypes) -> bool {
        let (OpKind::While, [condition, _]) = (&op.kind, &op.regions[..]) else { return false };
        let is_needed = |op: &Op| has_effects(op, types) || is_collective(op);
        let returned = condition.ops.last().and_then(|end| end.operands.first());
        returned.and_then(|&value| self.known.is_true(value)) == Some(false)
            && !condition.ops.iter().any(is_needed)
            && have_types(types, &op.results, &op.operands)
    }
}
