//! The pass `combine_all_reduces`.

use std::collections::HashSet;

use stablehlo::ir::{Binary, Module, Op, OpKind, Region, ValueId, ValueTypes};

use crate::effects::has_effects;

/// Maximum size of the operands of a joined op, in bytes. Operands stay in memory until the joined op runs, and for a
/// large array, synchronization takes little time compared with the sum.
const MAX_BYTES: usize = 30 << 20;

fn is_all_reduce(op: &Op) -> bool {
    matches!(op.kind, OpKind::AllReduce { .. })
}

fn applies(region: &Region) -> bool {
    region.ops.iter().filter(|op| is_all_reduce(op)).nth(1).is_some()
        || region.ops.iter().any(|op| op.regions.iter().any(applies))
}

/// Joins several `all_reduce` ops into one op with several operands. The joined ops are in the same block and do not
/// depend on each other. Returns `None` if no ops can be joined.
///
/// All members of a group synchronize in each collective. If a training step reduces every gradient separately,
/// synchronization takes more time than the sums of small arrays. The ops between two joined ops keep their order,
/// except that the ops that need the first result run after the joined op. A joined op has operands of at most 30 MiB.
///
/// The module must be verified.
#[must_use]
pub fn combine_all_reduces(module: &Module) -> Option<Module> {
    if !module.funcs.iter().any(|func| applies(&func.body)) {
        return None;
    }
    let mut module = module.clone();
    let mut joined = false;
    for func in module.funcs.iter_mut().filter(|func| applies(&func.body)) {
        joined |= combine(&mut func.body, &func.values);
    }
    joined.then_some(module)
}

/// An `all_reduce` that later `all_reduce` ops may join.
struct Waiting {
    op: Op,
    /// Total size of the operands of `op` in bytes.
    bytes: usize,
    /// Ops that need results of `op`, directly or indirectly, in order.
    delayed: Vec<Op>,
    /// Results of `op` and of the delayed ops.
    results: HashSet<ValueId>,
}

impl Waiting {
    fn new(op: Op, types: &ValueTypes) -> Self {
        let results = op.results.iter().copied().collect();
        Self { bytes: bytes(&op, types).unwrap_or(MAX_BYTES), delayed: Vec::new(), results, op }
    }

    /// Returns whether the op or an op inside it uses one of the `results`.
    fn is_used_by(&self, op: &Op) -> bool {
        op.operands.iter().any(|operand| self.results.contains(operand))
            || op.regions.iter().flat_map(|region| &region.ops).any(|op| self.is_used_by(op))
    }

    /// Adds an op that uses one of the `results` to the delayed ops.
    fn delay(&mut self, op: Op) {
        self.results.extend(&op.results);
        self.delayed.push(op);
    }

    /// Adds the operands of an `all_reduce` that uses none of the `results`. Returns the `all_reduce` if it cannot be
    /// joined.
    fn join(&mut self, op: Op, types: &ValueTypes) -> Option<Op> {
        let bytes =
            bytes(&op, types).and_then(|bytes| self.bytes.checked_add(bytes)).filter(|&bytes| bytes <= MAX_BYTES);
        let Some(bytes) = bytes.filter(|_| alike(&self.op, &op, types)) else { return Some(op) };
        self.bytes = bytes;
        self.results.extend(&op.results);
        self.op.operands.extend(op.operands);
        self.op.results.extend(op.results);
        None
    }

    fn ops(self) -> impl Iterator<Item = Op> {
        std::iter::once(self.op).chain(self.delayed)
    }
}

/// Joins the `all_reduce` ops of a region. Returns whether some could be joined.
fn combine(region: &mut Region, types: &ValueTypes) -> bool {
    let mut waiting: Option<Waiting> = None;
    let mut joined = false;
    let last = region.ops.len().saturating_sub(1);
    for (index, mut op) in std::mem::take(&mut region.ops).into_iter().enumerate() {
        for region in &mut op.regions {
            joined |= combine(region, types);
        }
        let used = waiting.as_ref().is_some_and(|waiting| waiting.is_used_by(&op));
        if index == last || (used && (is_all_reduce(&op) || has_effects(&op, types))) {
            region.ops.extend(waiting.take().into_iter().flat_map(Waiting::ops));
        }
        match &mut waiting {
            Some(waiting) if used => waiting.delay(op),
            Some(first) if is_all_reduce(&op) => match first.join(op, types) {
                None => joined = true,
                Some(op) => {
                    region.ops.extend(waiting.replace(Waiting::new(op, types)).into_iter().flat_map(Waiting::ops));
                }
            },
            None if is_all_reduce(&op) => waiting = Some(Waiting::new(op, types)),
            _ => region.ops.push(op),
        }
    }
    joined
}

/// Returns the total size of the operands in bytes, or `None` if a size is not known.
fn bytes(op: &Op, types: &ValueTypes) -> Option<usize> {
    let mut sizes = op.operands.iter().map(|&id| types[id].as_tensor()?.byte_size());
    sizes.try_fold(0, |sum: usize, size| sum.checked_add(size?))
}

/// Returns whether two ops have the same attributes, and reduce arrays of one element type by the same binary op over
/// the same groups.
fn alike(a: &Op, b: &Op, types: &ValueTypes) -> bool {
    let element = |id: &ValueId| Some(types[*id].as_tensor()?.element);
    let first = a.operands.first().and_then(element);
    first.is_some()
        && a.operands.iter().chain(&b.operands).all(|id| element(id) == first)
        && groups(a) == groups(b)
        && a.attributes == b.attributes
        && function(a).is_some()
        && function(a) == function(b)
}

/// Returns the groups of an `all_reduce`, its channel, and the meaning of the IDs in the groups. Returns `None` for any
/// other op.
fn groups(op: &Op) -> impl PartialEq + '_ {
    match &op.kind {
        OpKind::AllReduce { replica_groups, channel, use_global_device_ids } => {
            Some((replica_groups, channel, use_global_device_ids))
        }
        _ => None,
    }
}

/// Returns the reduction function if it is one binary op, and whether this op reads the region's arguments in order.
fn function(op: &Op) -> Option<(Binary, bool)> {
    let [region] = &op.regions[..] else { return None };
    let (&[a, b], [inner, end]) = (&region.args[..], &region.ops[..]) else { return None };
    let OpKind::Binary(binary) = inner.kind else { return None };
    let in_order = inner.operands[..] == [a, b];
    (end.operands == inner.results && (in_order || inner.operands[..] == [b, a])).then_some((binary, in_order))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: &str = "tensor<4xf32>";

    fn reduce(to: &str, from: &str, function: &str, ty: &str) -> String {
        let scalar = ty.replace("4x", "");
        format!(
            "%{to} = \"stablehlo.all_reduce\"(%{from}) <{{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}}> ({{
               ^bb0(%p: {scalar}, %q: {scalar}):
                 %s = stablehlo.{function} %p, %q : {scalar}
                 stablehlo.return %s : {scalar}
             }}) : ({ty}) -> {ty}\n"
        )
    }

    /// Returns the number of operands of each `all_reduce`, after the pass and the verifier.
    fn counts(body: &[String]) -> Vec<usize> {
        fn count(region: &Region, found: &mut Vec<usize>) {
            for op in &region.ops {
                if is_all_reduce(op) {
                    found.push(op.operands.len());
                }
                op.regions.iter().for_each(|region| count(region, found));
            }
        }
        let text = format!(
            "func.func @main(%a: {TYPE}, %b: {TYPE}, %i: tensor<4xi32>) -> {TYPE} {{ {} return %r : {TYPE} }}",
            body.concat()
        );
        let module = stablehlo::parse(text, stablehlo::VerifyLevel::FULL).unwrap();
        let module = combine_all_reduces(&module).unwrap_or(module);
        stablehlo::verify(&module, stablehlo::VerifyLevel::FULL).unwrap();
        let mut found = Vec::new();
        count(&module.funcs[0].body, &mut found);
        found
    }

    fn add(to: &str, a: &str, b: &str) -> String {
        format!("%{to} = stablehlo.add %{a}, %{b} : {TYPE}\n")
    }

    #[test]
    fn independent() {
        let body = [
            reduce("x", "a", "add", TYPE),
            add("c", "b", "b"),
            // This op needs the result of the first `all_reduce`, so the pass moves it after the joined op.
            add("t", "x", "c"),
            reduce("y", "c", "add", TYPE),
            reduce("z", "b", "add", TYPE),
            add("u", "t", "y"),
            add("r", "u", "z"),
        ];
        assert_eq!(counts(&body), [3]);
    }

    #[test]
    fn dependent() {
        let body = [reduce("x", "a", "add", TYPE), add("c", "x", "b"), reduce("r", "c", "add", TYPE)];
        assert_eq!(counts(&body), [1, 1]);
        let direct = [reduce("x", "a", "add", TYPE), reduce("r", "x", "add", TYPE)];
        assert_eq!(counts(&direct), [1, 1]);
        let in_a_region = [
            reduce("x", "a", "add", TYPE),
            "%n = stablehlo.constant dense<true> : tensor<i1>\n".to_owned(),
            format!(
                "%c = \"stablehlo.if\"(%n) ({{ stablehlo.return %x : {TYPE} }}, {{ stablehlo.return %a : {TYPE} }}) \
                 : (tensor<i1>) -> {TYPE}\n"
            ),
            reduce("r", "c", "add", TYPE),
        ];
        assert_eq!(counts(&in_a_region), [1, 1]);
    }

    #[test]
    fn calls_are_not_delayed() {
        let call = format!("%c = stablehlo.custom_call @f(%x) {{has_side_effect = true}} : ({TYPE}) -> {TYPE}\n");
        let body = [reduce("x", "a", "add", TYPE), call, reduce("y", "b", "add", TYPE), add("r", "c", "y")];
        assert_eq!(counts(&body), [1, 1]);
    }

    #[test]
    fn different_functions_types_and_groups() {
        let end = add("r", "x", "y");
        assert_eq!(counts(&[reduce("x", "a", "add", TYPE), reduce("y", "b", "maximum", TYPE), end.clone()]), [1, 1]);
        let integers = reduce("j", "i", "add", "tensor<4xi32>");
        assert_eq!(counts(&[reduce("x", "a", "add", TYPE), integers, add("r", "x", "a")]), [1, 1]);
        let others = reduce("y", "b", "add", TYPE).replace("[[0, 1]]", "[[1, 0]]");
        assert_eq!(counts(&[reduce("x", "a", "add", TYPE), others, end]), [1, 1]);
    }

    #[test]
    fn large_arrays() {
        let large = "tensor<6291456xf32>";
        let (a, b) = (reduce("x", "a", "add", TYPE), reduce("y", "b", "add", TYPE));
        let text = format!(
            "func.func @main(%a: {large}, %b: {large}) -> {large} {{ {} return %r : {large} }}",
            [a, b, add("r", "x", "y")].concat().replace(TYPE, large)
        );
        let module = stablehlo::parse(text, stablehlo::VerifyLevel::FULL).unwrap();
        assert!(combine_all_reduces(&module).is_none());
    }
}
