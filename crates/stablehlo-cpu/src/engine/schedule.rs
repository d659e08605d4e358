//! The parts of a scheduled block.

use super::graph::Node;

/// A part of a scheduled block.
pub(crate) enum Item {
    Node(Node),
    Group(Group),
    Rows(Rows),
}

/// Nodes that have the same number of elements.
pub(crate) struct Group {
    pub(crate) n: usize,
    pub(crate) nodes: Vec<Node>,
}

/// Consecutive items that work on the same rows.
pub(crate) struct Rows {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) items: Vec<Item>,
}
