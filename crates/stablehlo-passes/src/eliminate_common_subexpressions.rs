//! The pass `eliminate_common_subexpressions`.

use std::collections::HashMap;
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::discriminant;

use stablehlo::ir::{Func, Module, Op, OpKind, Region, ValueId, ValueIds, ValueTypes};

use crate::apply::apply;
use crate::effects::{is_collective, keeps_order};

/// Removes ops that compute the same values as an earlier op. Returns `None` if the program has no such op.
///
/// ```text
/// %0 = stablehlo.sine %x : tensor<f32>            %0 = stablehlo.sine %x : tensor<f32>
/// %1 = stablehlo.sine %x : tensor<f32>       =>   %2 = stablehlo.add %0, %0 : tensor<f32>
/// %2 = stablehlo.add %0, %1 : tensor<f32>
/// ```
///
/// Ops in the regions of `while`, `if` and `case` are also compared with earlier ops outside. Ops in other regions,
/// such as the body of a `reduce`, are compared only with ops of the same region, so that the region does not use more
/// values from outside.
///
/// Keeps ops with side effects, calls, composites, custom calls, collectives, random numbers, ops with tokens, and
/// `optimization_barrier`, with which frameworks ask for a second computation. The module must be verified.
#[must_use]
pub fn eliminate_common_subexpressions(module: &Module) -> Option<Module> {
    let merged = apply(
        module,
        |_| true,
        |func, _| {
            let Func { body, values, .. } = func;
            let mut pass = Pass { types: values, same: HashMap::new(), known: HashMap::new(), removed: false };
            pass.region(body);
            Ok(pass.removed)
        },
    );
    merged.unwrap_or_default()
}

struct Pass<'f> {
    types: &'f ValueTypes,
    /// The value that stands for each result of a removed op.
    same: HashMap<ValueId, ValueId>,
    /// The visible ops, by the hash of their computation.
    known: HashMap<u64, Vec<Op>>,
    removed: bool,
}

impl Pass<'_> {
    fn region(&mut self, region: &mut Region) {
        let mut hashes = Vec::new();
        let mut kept = Vec::with_capacity(region.ops.len());
        for mut op in std::mem::take(&mut region.ops) {
            for operand in &mut op.operands {
                *operand = self.same.get(operand).copied().unwrap_or(*operand);
            }
            let sees_outer = matches!(op.kind, OpKind::While | OpKind::If | OpKind::Case);
            for region in &mut op.regions {
                let outer = (!sees_outer).then(|| std::mem::take(&mut self.known));
                self.region(region);
                if let Some(outer) = outer {
                    self.known = outer;
                }
            }
            if !self.can_merge(&op) {
                kept.push(op);
                continue;
            }
            let hash = self.hash(&op);
            let candidates = self.known.entry(hash).or_default();
            match candidates.iter().find(|known| is_equal(known, &op, self.types, &mut HashMap::new())) {
                Some(known) => {
                    self.same.extend(op.results.iter().copied().zip(known.results.iter().copied()));
                    self.removed = true;
                }
                None => {
                    candidates.push(op.clone());
                    hashes.push(hash);
                    kept.push(op);
                }
            }
        }
        // Ops after the region do not see its values. The ops of a hash are in the order in which they were added.
        for hash in hashes {
            self.known.get_mut(&hash).map(Vec::pop);
        }
        region.ops = kept;
    }

    fn can_merge(&self, op: &Op) -> bool {
        let is_excluded = |op: &Op| {
            matches!(
                op.kind,
                OpKind::Composite { .. } | OpKind::CustomCall { .. } | OpKind::OptimizationBarrier | OpKind::Trace
            )
        };
        let mut inner = op.regions.iter().flat_map(Region::all_ops);
        !op.results.is_empty()
            && !is_excluded(op)
            && !inner.any(is_excluded)
            && !keeps_order(op, self.types)
            && !is_collective(op)
    }

    /// Returns a number that is equal for equal computations, and hardly ever for others.
    fn hash(&self, op: &Op) -> u64 {
        let mut hasher = DefaultHasher::new();
        op.operands.hash(&mut hasher);
        for op in std::iter::once(op).chain(op.regions.iter().flat_map(Region::all_ops)) {
            discriminant(&op.kind).hash(&mut hasher);
            op.results.iter().for_each(|result| self.types.get(result.0 as usize).hash(&mut hasher));
            match &op.kind {
                OpKind::Constant(literal) => literal.data.hash(&mut hasher),
                OpKind::Unary(unary) => unary.hash(&mut hasher),
                OpKind::Binary(binary) => binary.hash(&mut hasher),
                // Hashing cannot fail.
                kind => _ = write!(HashText(&mut hasher), "{kind:?}"),
            }
        }
        hasher.finish()
    }
}

/// Hashes a text without storing it.
struct HashText<'h>(&'h mut DefaultHasher);

impl Write for HashText<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

/// Returns whether two ops compute the same values. `inner` maps values that regions of the second op define to those
/// of the first op.
fn is_equal(one: &Op, other: &Op, types: &ValueTypes, inner: &mut HashMap<ValueId, ValueId>) -> bool {
    let same_types = |one: &[ValueId], other: &[ValueId]| {
        let ty = |value: &ValueId| types.get(value.0 as usize);
        one.len() == other.len() && one.iter().zip(other).all(|(one, other)| ty(one).is_some() && ty(one) == ty(other))
    };
    let operands: ValueIds = other.operands.iter().map(|value| inner.get(value).copied().unwrap_or(*value)).collect();
    let is_same = same_kind(&one.kind, &other.kind)
        && one.operands == operands
        && one.attributes == other.attributes
        && same_types(&one.results, &other.results)
        && one.regions.len() == other.regions.len();
    is_same
        && one.regions.iter().zip(&other.regions).all(|(one, other)| {
            let starts_equal = same_types(&one.args, &other.args) && one.ops.len() == other.ops.len();
            inner.extend(other.args.iter().copied().zip(one.args.iter().copied()));
            starts_equal
                && one.ops.iter().zip(&other.ops).all(|(one, other)| {
                    let is_same = is_equal(one, other, types, inner);
                    inner.extend(other.results.iter().copied().zip(one.results.iter().copied()));
                    is_same
                })
        })
}

/// Returns whether two kinds of ops are equal, including their attributes. Distinguishes 0.0 and -0.0.
fn same_kind(one: &OpKind, other: &OpKind) -> bool {
    match (one, other) {
        (OpKind::Constant(one), OpKind::Constant(other)) => one == other,
        _ if discriminant(one) != discriminant(other) => false,
        // The text of an attribute does not contain the elements of a tensor.
        (OpKind::Other { name, attributes }, OpKind::Other { name: other, attributes: others }) => {
            name == other && attributes == others && format!("{attributes:?}") == format!("{others:?}")
        }
        _ => format!("{one:?}") == format!("{other:?}"),
    }
}
