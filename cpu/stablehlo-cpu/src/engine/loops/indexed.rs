//! Finds the arrays that must be in memory, because the loop accesses them at computed positions.

use std::any::Any;
use std::collections::HashSet;

use super::classes::{self, Classes};
use crate::engine::graph::{BlockGraph, Node, Op, Value, ValueIndex};
use crate::engine::kernels::index::{Gather, Scatter};
use crate::engine::kernels::shape::{DynamicSlice, DynamicUpdateSlice};

/// Classes of values that a loop stores at the same place, and the classes that the loop accesses at computed
/// positions.
pub(super) struct Indexed<'g> {
    values: &'g [Value],
    classes: Classes,
    /// Values that the loop accesses at computed positions. After `Indexed::new`, the set contains the representatives
    /// of their classes.
    found: HashSet<ValueIndex>,
}

impl<'g> Indexed<'g> {
    /// Finds the values that the loop `node` accesses at computed positions.
    pub(super) fn new(values: &'g [Value], node: &Node) -> Self {
        let mut this = Self { values, classes: Classes::default(), found: HashSet::new() };
        this.node(node);
        this.found = this.found.iter().map(|&v| this.classes.root(v)).collect();
        this
    }

    /// Returns whether the loop accesses a value at computed positions.
    pub(super) fn contains(&self, v: ValueIndex) -> bool {
        self.found.contains(&self.classes.root(v))
    }

    fn join(&mut self, a: ValueIndex, b: ValueIndex) {
        let is_constant = |v: ValueIndex| self.values[v as usize].constant.is_some();
        if !is_constant(a) && !is_constant(b) {
            self.classes.join(a, b);
        }
    }

    fn block(&mut self, block: &BlockGraph) {
        block.nodes.iter().for_each(|node| self.node(node));
    }

    fn node(&mut self, node: &Node) {
        match &node.op {
            Op::Kernel { kernel, starts } => {
                for (&out, start) in node.outs.iter().zip(starts) {
                    if let Some(start) = start {
                        self.join(out, node.ins[usize::from(*start)]);
                    }
                }
                let any: &dyn Any = &**kernel;
                if any.is::<DynamicSlice>()
                    || any.is::<DynamicUpdateSlice>()
                    || any.is::<Gather>()
                    || any.is::<Scatter>()
                {
                    self.found.insert(node.ins[0]);
                }
            }
            Op::While { .. } | Op::Case { .. } => {
                classes::blocks(node).into_iter().for_each(|block| self.block(block));
                classes::merged(node).into_iter().for_each(|(a, b)| self.join(a, b));
            }
            _ => {}
        }
    }
}
