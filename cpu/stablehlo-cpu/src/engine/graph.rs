//! The graph of a program. The graph is the representation between StableHLO and the engine's steps. Calls are inlined,
//! types are resolved, and each elementwise op refers to its loop.
//!
//! A value is a buffer. Only the ops that need the extents of a buffer store them, so `reshape` and same-width
//! `bitcast_convert` need no node. Their result is the operand's value.

use std::sync::Arc;

use super::assembly::Assembly;
use super::elementwise::Map;
use super::kernels::Kernel;
use super::kernels::collective::Collective;
use super::pool::Buffer;
use super::program::Select;
use super::tile::Iota;
use super::view::View;

/// Identifies a value of the program, as an index into the values of the `GraphBuilder`.
pub(crate) type ValueIndex = u32;

pub(crate) struct Value {
    /// Size of an element in bytes.
    pub(crate) size: u8,
    /// Number of elements.
    pub(crate) n: usize,
    pub(crate) constant: Option<Constant>,
}

impl Value {
    pub(crate) fn bytes(&self) -> usize {
        self.n * usize::from(self.size)
    }
}

#[derive(Clone)]
pub(crate) enum Constant {
    /// All elements have the same bytes.
    Splat([u8; 16]),
    Dense(Buffer),
}

pub(crate) enum Op {
    /// An elementwise function. Operands with one element are broadcast.
    Map(Map),
    /// Reads the operand through a strided view.
    Load(View),
    /// Reads elements of several operands.
    Assemble(Arc<Assembly>),
    Iota(Iota),
    /// Copies the operand. If the operand is a constant of equal elements, the result is filled with the element.
    Copy,
    Kernel {
        kernel: Arc<dyn Kernel>,
        starts: Vec<Option<u16>>,
    },
    /// A collective. All members of a group run it together.
    Collective(Box<Collective>),
    While {
        carried: Vec<ValueIndex>,
        cond: BlockGraph,
        body: BlockGraph,
    },
    Case {
        select: Select,
        branches: Vec<BlockGraph>,
    },
}

impl Op {
    /// Returns a copy of an elementwise op, or `None` for another op.
    pub(crate) fn elementwise(&self) -> Option<Op> {
        Some(match self {
            Op::Map(map) => Op::Map(map.clone()),
            Op::Load(view) => Op::Load(view.clone()),
            Op::Assemble(assembly) => Op::Assemble(assembly.clone()),
            Op::Iota(iota) => Op::Iota(*iota),
            Op::Copy => Op::Copy,
            _ => return None,
        })
    }
}

pub(crate) struct Node {
    pub(crate) op: Op,
    pub(crate) ins: Vec<ValueIndex>,
    pub(crate) outs: Vec<ValueIndex>,
}

impl Node {
    /// Returns whether the node can be part of a fused tile program.
    pub(crate) fn is_elementwise(&self) -> bool {
        matches!(self.op, Op::Map(_) | Op::Load(_) | Op::Assemble(_) | Op::Iota(_) | Op::Copy)
    }

    /// Returns whether the node must run even if no other node reads its results.
    pub(crate) fn has_side_effect(&self) -> bool {
        let any = |b: &BlockGraph| b.nodes.iter().any(Node::has_side_effect);
        match &self.op {
            Op::Kernel { kernel, .. } => kernel.has_side_effect(),
            Op::While { cond, body, .. } => any(cond) || any(body),
            Op::Case { branches, .. } => branches.iter().any(any),
            _ => false,
        }
    }

    /// Calls `f` for every value that the node reads, including values that its regions read. The regions also read
    /// values that they define, so `f` receives these values too, which is harmless.
    pub(crate) fn for_each_use(&self, f: &mut impl FnMut(ValueIndex)) {
        self.ins.iter().for_each(|&v| f(v));
        self.for_each_region_use(f);
    }

    /// Calls `f` for every value that the node's regions read.
    pub(crate) fn for_each_region_use(&self, f: &mut impl FnMut(ValueIndex)) {
        match &self.op {
            Op::While { cond, body, .. } => {
                cond.for_each_use(f);
                body.for_each_use(f);
            }
            Op::Case { branches, .. } => branches.iter().for_each(|b| b.for_each_use(f)),
            _ => {}
        }
    }
}

#[derive(Default)]
pub(crate) struct BlockGraph {
    pub(crate) nodes: Vec<Node>,
    pub(crate) results: Vec<ValueIndex>,
}

impl BlockGraph {
    pub(crate) fn for_each_use(&self, f: &mut impl FnMut(ValueIndex)) {
        for node in &self.nodes {
            node.for_each_use(f);
        }
        self.results.iter().for_each(|&v| f(v));
    }

    /// Removes nodes whose results are not read, unless they have side effects. `live` marks the values that are read,
    /// also after the block. Collectives may be removed, because all members compile the same program and therefore
    /// remove the same collectives.
    pub(crate) fn remove_dead(&mut self, live: &mut Vec<bool>) {
        for &v in &self.results {
            live[v as usize] = true;
        }
        let mut kept = Vec::with_capacity(self.nodes.len());
        while let Some(mut node) = self.nodes.pop() {
            if !node.outs.iter().any(|&v| live[v as usize]) && !node.has_side_effect() {
                continue;
            }
            match &mut node.op {
                Op::While { cond, body, carried } => {
                    // The next iteration may be the only reader of a carried value.
                    carried.iter().for_each(|&v| live[v as usize] = true);
                    body.remove_dead(live);
                    cond.remove_dead(live);
                }
                Op::Case { branches, .. } => branches.iter_mut().for_each(|b| b.remove_dead(live)),
                _ => {}
            }
            for &v in &node.ins {
                live[v as usize] = true;
            }
            kept.push(node);
        }
        kept.reverse();
        self.nodes = kept;
    }
}
