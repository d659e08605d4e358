//! Finds the values that should be in floating-point registers.
//!
//! The graph does not record element types, but the functions that read and compute values imply them. A value that
//! only moves through a loop has the type of the values that it is merged with.

use std::any::Any;
use std::collections::HashMap;

use super::classes::{self, Classes};
use super::signature::signature;
use crate::engine::elementwise::Map;
use crate::engine::graph::{BlockGraph, Node, Op, Value, ValueIndex};
use crate::engine::kernels::dot::Dot;

/// Classes of values that may share a register. For each class, `votes` contains the number of uses of its values as
/// floats, minus the number of uses as other types.
pub(super) struct Floats<'g> {
    values: &'g [Value],
    classes: Classes,
    votes: HashMap<ValueIndex, i64>,
}

impl<'g> Floats<'g> {
    pub(super) fn new(values: &'g [Value]) -> Self {
        Self { values, classes: Classes::default(), votes: HashMap::new() }
    }

    pub(super) fn join(&mut self, a: ValueIndex, b: ValueIndex) {
        let is_constant = |v: ValueIndex| self.values[v as usize].constant.is_some();
        // A constant takes the type of each function that reads it.
        if !is_constant(a)
            && !is_constant(b)
            && let Some((old, root)) = self.classes.join(a, b)
        {
            let votes = self.votes.remove(&old).unwrap_or(0);
            *self.votes.entry(root).or_insert(0) += votes;
        }
    }

    fn vote(&mut self, v: ValueIndex, is_float: bool) {
        let root = self.classes.root(v);
        *self.votes.entry(root).or_insert(0) += if is_float { 1 } else { -1 };
    }

    pub(super) fn is_float(&self, v: ValueIndex) -> bool {
        self.votes.get(&self.classes.root(v)).is_some_and(|&votes| votes > 0)
    }

    /// Collects the types that the nodes of a block read and compute.
    pub(super) fn block(&mut self, block: &BlockGraph) {
        block.nodes.iter().for_each(|node| self.node(node));
    }

    fn node(&mut self, node: &Node) {
        match &node.op {
            Op::Map(Map { meaning: Some(meaning), .. }) => {
                let Some(signature) = signature(*meaning) else { return };
                for (&v, element) in node.ins.iter().zip(&signature.operands) {
                    match element {
                        Some(element) => self.vote(v, element.is_float()),
                        None => self.join(node.outs[0], v),
                    }
                }
                if let Some(element) = signature.result {
                    self.vote(node.outs[0], element.is_float());
                }
            }
            Op::While { .. } | Op::Case { .. } => {
                classes::blocks(node).into_iter().for_each(|block| self.block(block));
                classes::merged(node).into_iter().for_each(|(a, b)| self.join(a, b));
            }
            Op::Kernel { kernel, .. } => {
                let any: &dyn Any = &**kernel;
                if any.downcast_ref::<Dot>().is_some_and(|dot| dot.vector_product().is_some()) {
                    node.ins.iter().chain(&node.outs).for_each(|&v| self.vote(v, true));
                }
            }
            Op::Load(_) | Op::Copy => self.join(node.outs[0], node.ins[0]),
            _ => {}
        }
    }
}
