//! Disjoint sets of values.

use std::collections::HashMap;

use crate::engine::graph::{BlockGraph, Node, Op, ValueIndex};

/// Disjoint sets of values. A value that was never joined is the only element of its set.
#[derive(Default)]
pub(super) struct Classes {
    parents: HashMap<ValueIndex, ValueIndex>,
}

impl Classes {
    /// Returns the representative of the set of `v`.
    pub(super) fn root(&self, mut v: ValueIndex) -> ValueIndex {
        while let Some(&parent) = self.parents.get(&v) {
            v = parent;
        }
        v
    }

    /// Joins the sets of `a` and `b`. If the sets were different, returns the former representative of the set of `b`,
    /// and the representative of the joined set.
    pub(super) fn join(&mut self, a: ValueIndex, b: ValueIndex) -> Option<(ValueIndex, ValueIndex)> {
        let (a, b) = (self.root(a), self.root(b));
        if a == b {
            return None;
        }
        self.parents.insert(b, a);
        Some((b, a))
    }
}

/// Returns the blocks of a `while` or `case` node. Returns no blocks for other nodes.
pub(super) fn blocks(node: &Node) -> Vec<&BlockGraph> {
    match &node.op {
        Op::While { cond, body, .. } => vec![cond, body],
        Op::Case { branches, .. } => branches.iter().collect(),
        _ => Vec::new(),
    }
}

/// Returns the pairs of values that a `while` or `case` node stores at the same place. Returns no pairs for other
/// nodes.
pub(super) fn merged(node: &Node) -> Vec<(ValueIndex, ValueIndex)> {
    match &node.op {
        Op::While { carried, body, .. } => {
            let values = carried.iter().zip(&node.ins).zip(&body.results).zip(&node.outs);
            values.flat_map(|(((&c, &init), &next), &out)| [(c, init), (c, next), (c, out)]).collect()
        }
        Op::Case { branches, .. } => {
            let pairs = |branch: &BlockGraph| -> Vec<_> {
                node.outs.iter().copied().zip(branch.results.iter().copied()).collect()
            };
            branches.iter().flat_map(pairs).collect()
        }
        _ => Vec::new(),
    }
}
