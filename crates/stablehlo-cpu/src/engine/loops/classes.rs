//! Disjoint sets of values.

use std::collections::HashMap;

use crate::engine::graph::ValueIndex;

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
