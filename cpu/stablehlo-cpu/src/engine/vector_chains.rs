//! Chooses the `f32` functions of a group that run as chains, and the views that are read in place. A chain is a
//! sequence of functions that run in one pass over the elements. Each function takes the result of the function before
//! it.

use std::collections::HashMap;

use super::elementwise::chain::MAX_READS;
use super::elementwise::{Loop, Map};
use super::graph::{Node, Op, Value, ValueIndex};
use super::schedule::Group;
use super::view::View;

/// Maximum length of a chain.
const MAX_LINKS: usize = 48;
/// Minimum length of the [lines](View::line) of a view that is read in place. Tiles end where lines end, and short
/// tiles cost more than a copy.
const MIN_LINE: usize = 256;

/// Decisions about a group before it is compiled.
pub(crate) struct Plan {
    /// For each node, the next node of its chain. `None` if the node ends a chain or belongs to no chain.
    pub(crate) joined: Vec<Option<usize>>,
    /// Views that are not materialized. Maps the result of a view to the viewed value and the view.
    pub(crate) viewed: HashMap<ValueIndex, (ValueIndex, View)>,
    /// Tiles end at multiples of this number of elements. If it is 0, tiles may end anywhere.
    pub(crate) line: usize,
}

fn is_chainable(node: &Node) -> bool {
    matches!(node.op, Op::Map(Map { code: Loop::Chained(_), .. }))
}

/// Plans a group with the outputs `wanted`.
pub(crate) fn plan(group: &Group, wanted: &[ValueIndex], values: &[Value]) -> Plan {
    // Number of nodes that read each value, and whether all these nodes can be part of a chain.
    let mut users: HashMap<ValueIndex, (usize, bool)> = HashMap::new();
    for node in &group.nodes {
        for (_, &v) in node.ins.iter().enumerate().filter(|&(i, v)| !node.ins[..i].contains(v)) {
            let (count, chained) = users.entry(v).or_insert((0, true));
            *count += 1;
            *chained &= is_chainable(node);
        }
    }
    let in_chains = |v: ValueIndex| !wanted.contains(&v) && users.get(&v).is_some_and(|&(_, chained)| chained);

    let mut joined = vec![None; group.nodes.len()];
    // Length, number of operands and last node of the chain that ends in each value.
    let mut ends: HashMap<ValueIndex, (usize, usize, usize)> = HashMap::new();
    for (at, node) in group.nodes.iter().enumerate().filter(|(_, node)| is_chainable(node)) {
        let single = |v: &&ValueIndex| in_chains(**v) && users.get(*v).is_some_and(|&(count, _)| count == 1);
        let longest = node.ins.iter().filter(single).filter_map(|v| ends.get(v)).max();
        let (length, reads) = match longest {
            Some(&(length, reads, before)) if length < MAX_LINKS && reads < MAX_READS => {
                joined[before] = Some(at);
                (length + 1, reads + 1)
            }
            _ => (1, node.ins.len()),
        };
        ends.insert(node.outs[0], (length, reads, at));
    }

    let views = || {
        group.nodes.iter().filter_map(|node| match &node.op {
            Op::Load(view) if in_chains(node.outs[0]) && values[node.outs[0] as usize].size == 4 => Some((node, view)),
            _ => None,
        })
    };
    let line = views().map(|(_, view)| view.line()).filter(|&line| line >= MIN_LINE).min().unwrap_or(0);
    let fits = |view: &View| line > 0 && view.line().is_multiple_of(line) && view.line() > 0;
    let viewed = views().filter(|(_, view)| fits(view));
    let viewed = viewed.map(|(node, view)| (node.outs[0], (node.ins[0], view.clone()))).collect();
    Plan { joined, viewed, line }
}
