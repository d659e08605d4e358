//! Moves computations out of loops whose results are the same in every iteration.

use std::any::Any;
use std::collections::{HashMap, HashSet};

use super::GraphBuilder;
use crate::engine::graph::{BlockGraph, Constant, Node, Op, Value, ValueIndex};
use crate::engine::kernels::Kernel;
use crate::engine::kernels::shape::{Concatenate, Pad};

/// Minimum size in bytes of the result of an elementwise node that moves. The loop compiler computes smaller results in
/// registers.
const LARGE: usize = 1024;

/// Number of bytes of moved results that a loop may keep in memory, in addition to as many as the values from outside
/// have that its body reads.
const STORED: usize = 64 << 20;

/// Where a value is needed.
#[derive(Clone, Copy, Default)]
struct Needed {
    before: bool,
    inside: bool,
}

impl GraphBuilder<'_> {
    /// Moves nodes of a loop's body that read no `carried` value to `out`, the block around the loop. A cheap node
    /// stays, because reading its stored result would not be faster than computing it again. If a moved node reads the
    /// result of a cheap node, `out` gets a copy of this node. Results that would take too much memory (see [`STORED`])
    /// stay, too. Returns the rest of the body.
    pub(super) fn hoist(&mut self, mut body: BlockGraph, carried: &[ValueIndex], out: &mut Vec<Node>) -> BlockGraph {
        let mut varying: HashSet<ValueIndex> = carried.iter().copied().collect();
        // For each invariant result, the number of bytes outside of the loop from which it is computed.
        let mut sources: HashMap<ValueIndex, usize> = HashMap::new();
        let mut is_invariant = Vec::with_capacity(body.nodes.len());
        for node in &body.nodes {
            is_invariant.push(can_move(node) && !node.ins.iter().any(|v| varying.contains(v)));
            if is_invariant.last() == Some(&true) {
                let source =
                    |v: &ValueIndex| sources.get(v).copied().unwrap_or_else(|| stored(&self.values[*v as usize]));
                let bytes = node.ins.iter().map(source).fold(0, usize::saturating_add);
                sources.extend(node.outs.iter().map(|&v| (v, bytes)));
            } else {
                varying.extend(&node.outs);
            }
        }
        let mut outside = HashSet::new();
        body.for_each_use(&mut |v| _ = outside.insert(v));
        body.nodes.iter().flat_map(|node| &node.outs).for_each(|v| _ = outside.remove(v));
        let read = outside.iter().filter(|v| !varying.contains(v)).map(|&v| stored(&self.values[v as usize]));
        let mut room = read.fold(STORED, usize::saturating_add);
        let mut needed: HashMap<ValueIndex, Needed> = HashMap::new();
        body.results.iter().for_each(|&v| needed.entry(v).or_default().inside = true);
        let mut decisions = Vec::with_capacity(body.nodes.len());
        for (node, &is_invariant) in body.nodes.iter().zip(&is_invariant).rev() {
            let of = |v: &ValueIndex| needed.get(v).copied().unwrap_or_default();
            let before = node.outs.iter().any(|v| of(v).before);
            let inside = node.outs.iter().any(|v| of(v).inside);
            // Only elementwise nodes can be computed in both places.
            let bytes = node.outs.iter().map(|&v| self.values[v as usize].bytes()).fold(0, usize::saturating_add);
            let is_stored = || self.is_worth_storing(node, &sources) && bytes <= room;
            let moves = is_invariant && inside && (is_stored() || (before && !node.is_elementwise()));
            room = room.saturating_sub(if moves { bytes } else { 0 });
            let decision = Needed { before: before || moves, inside: !is_invariant || (inside && !moves) };
            node.for_each_use(&mut |v| {
                let needed = needed.entry(v).or_default();
                needed.before |= decision.before;
                needed.inside |= decision.inside;
            });
            decisions.push(decision);
        }
        // The results in front of the loop of nodes that are computed in both places.
        let mut copies: HashMap<ValueIndex, ValueIndex> = HashMap::new();
        let mut kept = Vec::with_capacity(body.nodes.len());
        for (mut node, decision) in body.nodes.drain(..).zip(decisions.into_iter().rev()) {
            let copied = if decision.inside { node.op.elementwise() } else { None };
            match (decision.before, copied) {
                (false, _) => kept.push(node),
                (true, None) => {
                    node.ins.iter_mut().for_each(|v| *v = copies.get(v).copied().unwrap_or(*v));
                    out.push(node);
                }
                (true, Some(op)) => {
                    let ins = node.ins.iter().map(|v| copies.get(v).copied().unwrap_or(*v)).collect();
                    let outs = node.outs.iter().map(|&v| {
                        let Value { size, n, .. } = self.values[v as usize];
                        let copy = self.new_value(Value { size, n, constant: None });
                        copies.insert(v, copy);
                        copy
                    });
                    out.push(Node { op, ins, outs: outs.collect() });
                    kept.push(node);
                }
            }
        }
        BlockGraph { nodes: kept, results: body.results }
    }

    /// Returns whether reading the node's stored results is faster than computing them in every iteration.
    fn is_worth_storing(&self, node: &Node, sources: &HashMap<ValueIndex, usize>) -> bool {
        let bytes: usize = node.outs.iter().map(|&v| self.values[v as usize].bytes()).sum();
        let is_smaller = node.outs.iter().all(|v| sources.get(v).is_some_and(|&source| bytes <= source));
        match &node.op {
            Op::Map(_) => bytes >= LARGE && is_smaller,
            Op::Kernel { kernel, .. } => is_smaller || !is_copy(&**kernel),
            _ => false,
        }
    }
}

/// Returns the bytes of memory that a value takes.
fn stored(value: &Value) -> usize {
    if matches!(value.constant, Some(Constant::Splat(_))) { 0 } else { value.bytes() }
}

/// Returns whether the node may run once instead of in every iteration, and also if the loop has no iterations.
fn can_move(node: &Node) -> bool {
    match &node.op {
        Op::Kernel { kernel, .. } => kernel.is_pure() && !kernel.has_loop() && !kernel.calls_handler(),
        _ => node.is_elementwise(),
    }
}

fn is_copy(kernel: &dyn Kernel) -> bool {
    let any: &dyn Any = kernel;
    kernel.view().is_some() || any.is::<Concatenate>() || any.is::<Pad>()
}
