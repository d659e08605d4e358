//! Schedules a block: groups elementwise nodes that can run as one loop.

use std::collections::{BTreeSet, HashMap};

use super::graph::{BlockGraph, Node, Op, Value, ValueIndex};
use super::half_precision::round_in_registers;
use super::row_fusion::join;
use super::schedule::{Group, Item};

/// Maximum number of nodes in a group. The registers of a larger group would not fit the first-level cache.
const MAX_NODES: usize = 128;
/// Maximum number of buffers that a group reads. Hardware prefetchers cannot follow more streams.
const MAX_INPUTS: usize = 24;

struct Open {
    n: usize,
    /// The nodes, and the position of each node in the block. The positions determine the order of the nodes.
    nodes: Vec<(usize, Node)>,
    inputs: Vec<ValueIndex>,
}

/// The groups that a node can join, and those that must be closed before the node is added.
struct Neighbors {
    join: BTreeSet<usize>,
    close: BTreeSet<usize>,
}

/// The groups that are still open, and the values through which nodes can join them.
struct Fuser<'a> {
    values: &'a [Value],
    groups: Vec<Option<Open>>,
    /// For each value, the open group that computes it.
    maker: HashMap<ValueIndex, usize>,
    /// For each value, an open group that reads the value element by element.
    reader: HashMap<ValueIndex, usize>,
    /// The open group of one-element nodes.
    scalars: Option<usize>,
    items: Vec<Item>,
}

/// Schedules a block: fuses elementwise nodes into groups where possible, and keeps all other nodes in program order.
pub(crate) fn schedule(block: BlockGraph, values: &[Value]) -> (Vec<Item>, Vec<ValueIndex>) {
    let mut fuser = Fuser {
        values,
        groups: Vec::new(),
        maker: HashMap::new(),
        reader: HashMap::new(),
        scalars: None,
        items: Vec::with_capacity(block.nodes.len()),
    };
    for (at, node) in block.nodes.into_iter().enumerate() {
        if node.is_elementwise() {
            fuser.add(at, node);
        } else {
            let mut needed = Vec::new();
            node.for_each_use(&mut |v| needed.extend(fuser.maker.get(&v).copied()));
            needed.sort_unstable();
            needed.dedup();
            needed.into_iter().for_each(|g| fuser.close(g));
            fuser.items.push(Item::Node(node));
        }
    }
    for group in 0..fuser.groups.len() {
        fuser.close(group);
    }
    let mut items = join(fuser.items, values);
    round_in_registers(&mut items, &block.results, values);
    (items, block.results)
}

impl Fuser<'_> {
    /// Adds an elementwise node to a group. Merges the groups if the node can join several, and opens a new group if
    /// the node can join no group.
    fn add(&mut self, at: usize, node: Node) {
        let n = self.values[node.outs[0] as usize].n;
        let Neighbors { join, close } = self.neighbors(&node, n);
        close.into_iter().for_each(|g| self.close(g));
        let mut target: Option<usize> = None;
        for g in join {
            if self.groups[g].as_ref().is_some_and(|open| open.n == n) {
                target = Some(target.map_or(g, |t| self.merge(t, g)));
            }
        }
        // Close the groups that the node could not join before it reads their values.
        for &v in &node.ins {
            if let Some(&g) = self.maker.get(&v)
                && Some(g) != target
            {
                self.close(g);
            }
        }
        let g = self.with_room(target, &node, n);
        if n == 1 {
            self.scalars = Some(g);
        }
        self.note_uses(g, &node);
        if let Some(open) = &mut self.groups[g] {
            open.nodes.push((at, node));
        }
    }

    /// Returns whether the node reads the value element by element, and its result has as many elements as the value.
    fn by_element(&self, node: &Node, v: ValueIndex) -> bool {
        let n = |v: ValueIndex| self.values[v as usize].n;
        matches!(node.op, Op::Map(_)) && n(v) == n(node.outs[0])
    }

    /// Finds the groups that compute or read the operands of a node of `n` elements. A node of one element can also
    /// join the open group of one-element nodes.
    fn neighbors(&self, node: &Node, n: usize) -> Neighbors {
        let (mut join, mut close) = (BTreeSet::new(), BTreeSet::new());
        for &v in &node.ins {
            let by_element = self.by_element(node, v);
            if let Some(&g) = self.maker.get(&v) {
                if by_element {
                    join.insert(g)
                } else {
                    close.insert(g)
                };
            } else if let Some(&g) = self.reader.get(&v)
                && by_element
            {
                join.insert(g);
            }
        }
        if n == 1 {
            join.extend(self.scalars);
        }
        Neighbors { join, close }
    }

    /// Returns `group` if it has room for the node, and a new group otherwise. Closes a full group.
    fn with_room(&mut self, group: Option<usize>, node: &Node, n: usize) -> usize {
        let full = |open: &Open| open.nodes.len() >= MAX_NODES || open.inputs.len() + node.ins.len() > MAX_INPUTS;
        if let Some(g) = group {
            if !self.groups[g].as_ref().is_none_or(full) {
                return g;
            }
            self.close(g);
        }
        self.groups.push(Some(Open { n, nodes: Vec::new(), inputs: Vec::new() }));
        self.groups.len() - 1
    }

    /// Records the values that a node of a group reads and computes.
    fn note_uses(&mut self, group: usize, node: &Node) {
        for &v in &node.ins {
            let value = &self.values[v as usize];
            if self.maker.get(&v) == Some(&group) || value.constant.is_some() {
                continue;
            }
            if value.n > 1 && self.by_element(node, v) {
                self.reader.insert(v, group);
            }
            if let Some(open) = &mut self.groups[group]
                && !open.inputs.contains(&v)
            {
                open.inputs.push(v);
            }
        }
        self.maker.extend(node.outs.iter().map(|&v| (v, group)));
    }

    /// Merges group `b` into group `a` if the result is not too large, and returns `a`. Both groups are open. Until a
    /// group is closed, no node outside the group reads its values, so the relative order of the two groups does not
    /// matter.
    fn merge(&mut self, a: usize, b: usize) -> usize {
        let fits = match (&self.groups[a], &self.groups[b]) {
            (Some(x), Some(y)) => {
                x.nodes.len() + y.nodes.len() < MAX_NODES && x.inputs.len() + y.inputs.len() < MAX_INPUTS
            }
            _ => false,
        };
        if !fits {
            return a;
        }
        if let Some(from) = self.groups[b].take() {
            for (_, node) in &from.nodes {
                self.maker.extend(node.outs.iter().map(|&v| (v, a)));
            }
            for (_, g) in self.reader.iter_mut().filter(|(_, g)| **g == b) {
                *g = a;
            }
            if self.scalars == Some(b) {
                self.scalars = Some(a);
            }
            if let Some(into) = &mut self.groups[a] {
                into.nodes.extend(from.nodes);
                for v in from.inputs {
                    if !into.inputs.contains(&v) {
                        into.inputs.push(v);
                    }
                }
            }
        }
        a
    }

    /// Closes an open group and schedules it at the current position.
    fn close(&mut self, group: usize) {
        let Some(mut open) = self.groups[group].take() else {
            return;
        };
        open.nodes.sort_by_key(|&(at, _)| at);
        for (_, node) in &open.nodes {
            for v in &node.outs {
                self.maker.remove(v);
            }
        }
        for v in &open.inputs {
            if self.reader.get(v) == Some(&group) {
                self.reader.remove(v);
            }
        }
        if self.scalars == Some(group) {
            self.scalars = None;
        }
        let nodes = open.nodes.into_iter().map(|(_, node)| node).collect();
        self.items.push(Item::Group(Group { n: open.n, nodes }));
    }
}
