//! Replaces reductions of short rows by elementwise ops.
//!
//! For example, the squared distances of two lists of points are sums over two or three coordinates. A sum over three
//! elements becomes two additions, and the elements that only the sum reads are computed in registers. Longer rows are
//! the subject of [`super::row_fusion`].

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use super::across_rows::reduction;
use super::elementwise::{self, Loop, Map};
use super::graph::{BlockGraph, Constant, Node, Op, Value, ValueIndex};
use super::kernels::reduce::{Reduce, identity};
use super::kernels::shape::Gathered;
use super::lower::GraphBuilder;
use super::tile::Iota;
use super::view::View;

/// Lengths of the rows whose reductions are replaced.
const COLUMNS: Range<usize> = 2..8;
/// Minimum number of rows. The results of fewer rows are small, and the loop compiler may compile their reductions.
const MIN_ROWS: usize = 4096;
/// Maximum number of ops that replace a reduction.
const MAX_OPS: usize = 64;

/// Replaces the reductions of computed short rows of the main block and of the blocks in it.
pub(crate) fn unroll(block: &mut BlockGraph, graph: &mut GraphBuilder<'_>) {
    if unroll_block(block, graph) {
        block.remove_dead(&mut vec![false; graph.values.len()]);
    }
}

/// Returns whether the block has changed.
fn unroll_block(block: &mut BlockGraph, graph: &mut GraphBuilder<'_>) -> bool {
    let mut has_changed = false;
    for node in &mut block.nodes {
        match &mut node.op {
            Op::While { cond, body, .. } => has_changed |= unroll_block(cond, graph) | unroll_block(body, graph),
            Op::Case { branches, .. } => {
                branches.iter_mut().for_each(|branch| has_changed |= unroll_block(branch, graph));
            }
            _ => {}
        }
    }
    let mut uses: HashMap<ValueIndex, usize> = HashMap::new();
    block.for_each_use(&mut |v| *uses.entry(v).or_default() += 1);
    let makers = block.nodes.iter().enumerate().filter(|(_, node)| node.is_elementwise());
    let makers: HashMap<ValueIndex, usize> = makers.map(|(at, node)| (node.outs[0], at)).collect();
    let mut replaced: HashMap<usize, Vec<Node>> = HashMap::new();
    for at in 0..block.nodes.len() {
        let Some(reduce) = reduction(&block.nodes[at]).filter(|reduce| is_short(reduce)) else { continue };
        let columns = reduce.extents.reduced;
        let unroller = Unroller { nodes: &block.nodes, uses: &uses, makers: &makers, graph, columns, made: Vec::new() };
        if let Some(nodes) = unroller.replacement(at, reduce) {
            replaced.insert(at, nodes);
        }
    }
    if replaced.is_empty() {
        return has_changed;
    }
    let nodes = std::mem::take(&mut block.nodes).into_iter().enumerate();
    block.nodes = nodes.flat_map(|(at, node)| replaced.remove(&at).unwrap_or_else(|| vec![node])).collect();
    true
}

fn is_short(reduce: &Reduce) -> bool {
    let extents = &reduce.extents;
    extents.inner == 1
        && COLUMNS.contains(&extents.reduced)
        && extents.outer >= MIN_ROWS
        && identity(reduce.op, reduce.dtype).is_some()
}

struct Unroller<'a, 'm> {
    nodes: &'a [Node],
    /// The number of readers of each value.
    uses: &'a HashMap<ValueIndex, usize>,
    /// The elementwise node that computes a value.
    makers: &'a HashMap<ValueIndex, usize>,
    graph: &'a mut GraphBuilder<'m>,
    /// Length of the rows.
    columns: usize,
    made: Vec<Node>,
}

impl Unroller<'_, '_> {
    /// Returns the nodes that replace the reduction at node `at`.
    fn replacement(mut self, at: usize, reduce: &Reduce) -> Option<Vec<Node>> {
        let node = &self.nodes[at];
        let (row, init) = (node.ins[0], node.ins[1]);
        let map = elementwise::binary(reduce.op, reduce.dtype)?;
        let ops = self.ops_of(row)?;
        let mut result = init;
        for column in 0..self.columns {
            let element = self.column(&ops, row, column)?;
            result = self.add(Op::Map(map.clone()), vec![result, element], row);
        }
        self.made.last_mut()?.outs.clone_from(&node.outs);
        Some(self.made)
    }

    /// Returns the nodes that compute the elements of the rows `row` and that are computed again for each column.
    /// Returns `None` if the rows are not computed, if another op also reads them, or if there are too many nodes.
    fn ops_of(&self, row: ValueIndex) -> Option<BTreeSet<usize>> {
        let n = self.graph.values[row as usize].n;
        let mut ops = BTreeSet::new();
        let mut open = vec![row];
        while let Some(v) = open.pop() {
            let Some(&at) = self.makers.get(&v).filter(|_| self.graph.values[v as usize].n == n) else { continue };
            let is_shared = self.uses.get(&v) != Some(&1);
            match &self.nodes[at].op {
                Op::Map(map) if !is_shared || v != row && is_cheap(map) => open.extend(&self.nodes[at].ins),
                Op::Load(_) | Op::Iota(_) if v != row => {}
                _ => continue,
            }
            ops.insert(at);
        }
        let computes = self.makers.get(&row).is_some_and(|at| ops.contains(at));
        (computes && (ops.len() + 1) * self.columns <= MAX_OPS).then_some(ops)
    }

    /// Adds the nodes that compute one column of `row`, and returns the column.
    fn column(&mut self, ops: &BTreeSet<usize>, row: ValueIndex, column: usize) -> Option<ValueIndex> {
        let n = self.graph.values[row as usize].n;
        let mut columns: HashMap<ValueIndex, ValueIndex> = HashMap::new();
        for &at in ops {
            let node = &self.nodes[at];
            let (op, ins) = match &node.op {
                Op::Load(view) => self.load(node.ins[0], &part(view, self.columns, column)?),
                Op::Iota(iota) => {
                    let (inner, extent) = iota.shape();
                    let inner = inner.is_multiple_of(self.columns).then(|| inner / self.columns)?;
                    (Op::Iota(Iota::new(iota.dtype(), inner, extent)?), Vec::new())
                }
                op => {
                    let mut ins = Vec::with_capacity(node.ins.len());
                    for &v in &node.ins {
                        ins.push(match columns.get(&v) {
                            Some(&made) => made,
                            None if self.graph.values[v as usize].n == 1 => v,
                            None if self.graph.values[v as usize].n == n => {
                                let made = self.stored(v, column);
                                columns.insert(v, made);
                                made
                            }
                            None => return None,
                        });
                    }
                    (op.elementwise()?, ins)
                }
            };
            let out = self.add(op, ins, node.outs[0]);
            columns.insert(node.outs[0], out);
        }
        columns.get(&row).copied()
    }

    /// Returns the op that reads a view, with its operand. If the view repeats a few elements that are not consecutive,
    /// they are first copied.
    fn load(&mut self, from: ValueIndex, view: &View) -> (Op, Vec<ValueIndex>) {
        let (dims, strides) = (view.dims(), view.strides());
        if let (&[.., m], &[ref outer @ .., stride]) = (dims, strides)
            && outer.iter().all(|&stride| stride == 0)
            && !matches!(stride, 0 | 1)
            && view.len() / m >= 8
        {
            let own = View::new(&[m], &[stride], view.offset());
            let size = self.graph.values[from as usize].size;
            let copy = self.graph.derived(Value { size, n: m, constant: None }, from);
            let kernel = Gathered { view: own, size: size.into() };
            let op = Op::Kernel { kernel: Arc::new(kernel), starts: Vec::new() };
            self.made.push(Node { op, ins: vec![from], outs: vec![copy] });
            let mut strides = vec![0; dims.len()];
            strides[dims.len() - 1] = 1;
            return (Op::Load(View::new(dims, &strides, 0)), vec![copy]);
        }
        (Op::Load(view.clone()), vec![from])
    }

    /// Returns a column of a value that is stored or constant.
    fn stored(&mut self, v: ValueIndex, column: usize) -> ValueIndex {
        let Value { size, n, ref constant } = self.graph.values[v as usize];
        let rows = n / self.columns;
        if let Some(Constant::Splat(_)) = constant {
            let constant = constant.clone();
            return self.graph.derived(Value { size, n: rows, constant }, v);
        }
        let step = isize::try_from(self.columns).unwrap_or(isize::MAX);
        self.add(Op::Load(View::new(&[rows], &[step], column)), vec![v], v)
    }

    /// Adds a node for one column of the value `of`.
    fn add(&mut self, op: Op, ins: Vec<ValueIndex>, of: ValueIndex) -> ValueIndex {
        let Value { size, n, .. } = self.graph.values[of as usize];
        let out = self.graph.derived(Value { size, n: n / self.columns, constant: None }, of);
        self.made.push(Node { op, ins, outs: vec![out] });
        out
    }
}

/// Returns whether computing the function again costs less than storing its results.
fn is_cheap(map: &Map) -> bool {
    matches!(&map.code, Loop::Chained(function) if !function.is_long())
}

/// Returns every element of a view whose position is `column` more than a multiple of `columns`. Returns `None` if
/// these elements are not a view of the same rank.
fn part(view: &View, columns: usize, column: usize) -> Option<View> {
    let (&extent, outer_dims) = view.dims().split_last()?;
    let (&stride, outer_strides) = view.strides().split_last()?;
    let offset = isize::try_from(view.offset()).ok()? + stride * isize::try_from(column).ok()?;
    let extent = extent.is_multiple_of(columns).then(|| extent / columns)?;
    let stride = stride * isize::try_from(columns).ok()?;
    let dims = [outer_dims, &[extent]].concat();
    let strides = [outer_strides, &[stride]].concat();
    Some(View::new(&dims, &strides, usize::try_from(offset).ok()?))
}
