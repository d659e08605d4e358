//! Disjoint sets of values.

use std::collections::HashMap;

use crate::engine::graph::{BlockGraph, Node, Op, ValueIndex};

/// Disjoint sets of values. Values that were never joined form sets of their own.
#[derive(Default)]
pub(super) struct Classes {
    parents: HashMap<ValueIndex, ValueIndex>,
}

impl Classes {
    /// The value that represents the set of `v`.
    pub(super) fn root(&self, mut v: ValueIndex) -> ValueIndex {
        while let Some(&parent) = self.parents.get(&v) {
            v = parent;
        }
        v
    }

    /// Joins the sets of `a` and `b`. Returns the former representative of the set of `b`, and that of the joined set, if
    /// the sets were different.
    pub(super) fn join(&mut self, a: ValueIndex, b: ValueIndex) -> Option<(ValueIndex, ValueIndex)> {
        let (a, b) = (self.root(a), self.root(b));
        if a == b {
            return None;
        }
        self.parents.insert(b, a);
        Some((b, a))
    }
}

/// The blocks of a loop or of a choice between branches. Empty for other nodes.
pub(super) fn blocks(node: &Node) -> Vec<&BlockGraph> {
    match &node.op {
        Op::While { cond, body, .. } => vec![cond, body],
        Op::Case { branches, .. } => branches.iter().collect(),
        _ => Vec::new(),
    }
}

/// The pairs of values that a loop or a choice between branches stores in one place. Empty for other nodes.
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
