//! The items of a scheduled block.

use super::across_rows::Across;
use super::graph::Node;

/// An item of a scheduled block: one or more nodes that become one step.
pub(crate) enum Item {
    Node(Node),
    Group(Group),
    Rows(Rows),
}

/// Elementwise nodes with the same number of elements. They run in one loop.
pub(crate) struct Group {
    pub(crate) n: usize,
    pub(crate) nodes: Vec<Node>,
}

/// Number of elements of [`Rows`] that are processed at a time. A few values of this length fit the caches of a core.
pub(crate) const BLOCK: usize = 4096;

/// Consecutive items over the same rows. They run together, a few rows at a time.
pub(crate) struct Rows {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) across: Across,
    pub(crate) items: Vec<Item>,
}
