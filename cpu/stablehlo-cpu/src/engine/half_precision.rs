//! Keeps `bf16` and `f16` numbers in `f32` registers between the functions of a group.
//!
//! Elementwise functions of these types compute in `f32` and round each result, so lowering converts their operands and
//! results. If a function reads the result of another one in the same group, the two conversions become a rounding of
//! the `f32`, which can be part of a chain. Numbers that need no rounding, such as the larger of two `bf16`s, are read
//! as they are.

use std::collections::HashMap;

use half::{bf16, f16};
use stablehlo::ir::Unary;

use super::dtype::DType;
use super::elementwise::num::rounded;
use super::elementwise::{Chained, Loop, Map, Meaning};
use super::graph::{BlockGraph, Constant, Node, Op, Value, ValueIndex};
use super::schedule::{Group, Item};

/// Applies [`round_in_f32`] to every group of a block with the results `results`, and removes the conversions that are
/// no longer read.
pub(crate) fn round_in_registers(items: &mut [Item], results: &[ValueIndex], values: &[Value]) {
    let mut has_narrow = false;
    groups(items, &mut |group| has_narrow |= group.nodes.iter().any(|node| narrows(node).is_some()));
    if !has_narrow {
        return;
    }
    let mut uses = Uses::new();
    items.iter().for_each(|item| count_item(item, &mut uses));
    results.iter().for_each(|&v| *uses.entry(v).or_default() += 1);
    groups(items, &mut |group| {
        let mut own = Uses::new();
        count(&group.nodes, &mut own);
        let is_read_later = |v: ValueIndex| uses.get(&v) > own.get(&v);
        if round_in_f32(&mut group.nodes, values, is_read_later) {
            let made = group.nodes.iter().flat_map(|node| &node.outs).copied();
            let results = made.filter(|&v| is_read_later(v)).collect();
            let mut block = BlockGraph { nodes: std::mem::take(&mut group.nodes), results };
            block.remove_dead(&mut vec![false; values.len()]);
            group.nodes = block.nodes;
        }
    });
}

/// Number of times that each value is read.
type Uses = HashMap<ValueIndex, usize>;

fn count(nodes: &[Node], uses: &mut Uses) {
    nodes.iter().for_each(|node| node.for_each_use(&mut |v| *uses.entry(v).or_default() += 1));
}

fn count_item(item: &Item, uses: &mut Uses) {
    match item {
        Item::Node(node) => count(std::slice::from_ref(node), uses),
        Item::Group(group) => count(&group.nodes, uses),
        Item::Rows(rows) => rows.items.iter().for_each(|item| count_item(item, uses)),
    }
}

fn groups(items: &mut [Item], f: &mut impl FnMut(&mut Group)) {
    for item in items {
        match item {
            Item::Node(_) => {}
            Item::Group(group) => f(group),
            Item::Rows(rows) => groups(&mut rows.items, f),
        }
    }
}

/// Replaces conversions from `f32` and back by roundings, and returns whether there were any. The conversions to the
/// narrow type stay, also if no node reads them any longer. `is_read_later` returns whether a value is read by others
/// than `nodes`.
pub(crate) fn round_in_f32(nodes: &mut [Node], values: &[Value], is_read_later: impl Fn(ValueIndex) -> bool) -> bool {
    let mut known = Known { values, narrowed: HashMap::new(), exact: HashMap::new() };
    // The values that take the place of others.
    let mut same: HashMap<ValueIndex, ValueIndex> = HashMap::new();
    let mut is_changed = false;
    for node in nodes {
        for v in &mut node.ins {
            *v = same.get(v).copied().unwrap_or(*v);
        }
        let (Op::Map(map), Some(&a), &[out]) = (&node.op, node.ins.first(), &node.outs[..]) else { continue };
        if let Some(to) = narrows(node) {
            known.narrowed.insert(out, (to, a));
        } else if let Some((from, function)) = widens(map) {
            known.exact.insert(out, from);
            let Some(&(_, wide)) = known.narrowed.get(&a).filter(|&&(to, _)| to == from) else { continue };
            is_changed = true;
            if known.is_exact(wide, from) && !is_read_later(out) {
                same.insert(out, wide);
            } else {
                node.ins = vec![wide];
                node.op = Op::Map(Map::from(Loop::Chained(function)));
            }
        } else {
            known.exact.extend(known.result(map, &node.ins).map(|narrow| (out, narrow)));
        }
    }
    is_changed
}

/// Returns the type of the result if the node converts `f32` to `bf16` or `f16`.
fn narrows(node: &Node) -> Option<DType> {
    match node.op {
        Op::Map(Map { meaning: Some(Meaning::Convert(DType::F32, to)), .. }) => rounding(to).map(|_| to),
        _ => None,
    }
}

/// Returns the type of the operand, and the function that rounds to it, if a function converts `bf16` or `f16` to
/// `f32`.
fn widens(map: &Map) -> Option<(DType, Chained)> {
    match map.meaning {
        Some(Meaning::Convert(from, DType::F32)) => rounding(from).map(|function| (from, function)),
        _ => None,
    }
}

/// Returns the function that rounds an `f32` to `dtype`, or `None` if that is not `bf16` or `f16`.
fn rounding(dtype: DType) -> Option<Chained> {
    match dtype {
        DType::Bf16 => Some(Chained::RoundToBf16),
        DType::F16 => Some(Chained::RoundToF16),
        _ => None,
    }
}

/// What is known about the values of a group.
struct Known<'a> {
    values: &'a [Value],
    /// The `f32` from which each `bf16` and `f16` is converted.
    narrowed: HashMap<ValueIndex, (DType, ValueIndex)>,
    /// The `f32`s that are also numbers of a narrower type.
    exact: HashMap<ValueIndex, DType>,
}

impl Known<'_> {
    /// Returns whether the elements of an `f32` value are numbers of the type `narrow`.
    fn is_exact(&self, v: ValueIndex, narrow: DType) -> bool {
        if let Some(Constant::Splat([a, b, c, d, ..])) = self.values[v as usize].constant {
            let x = f32::from_ne_bytes([a, b, c, d]);
            let y = if narrow == DType::Bf16 { rounded::<bf16>(x) } else { rounded::<f16>(x) };
            return x.to_bits() == y.to_bits();
        }
        self.exact.get(&v) == Some(&narrow)
    }

    /// Returns the type of which the results of a function are numbers because its operands are.
    fn result(&self, map: &Map, ins: &[ValueIndex]) -> Option<DType> {
        use Unary::{Ceil, Floor, RoundNearestAfz, RoundNearestEven, Sign};
        let keeps = match (&map.code, map.meaning) {
            (Loop::Chained(Chained::Neg | Chained::Abs | Chained::Max | Chained::Min), _) => true,
            (_, Some(Meaning::Clamp(DType::F32))) => true,
            (_, Some(Meaning::Unary(op, DType::F32))) => {
                matches!(op, Ceil | Floor | RoundNearestAfz | RoundNearestEven | Sign)
            }
            _ => false,
        };
        let narrow = ins.iter().find_map(|v| self.exact.get(v).copied()).filter(|_| keeps)?;
        ins.iter().all(|&v| self.is_exact(v, narrow)).then_some(narrow)
    }
}
