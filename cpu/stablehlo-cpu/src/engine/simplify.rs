//! Rewrites a block before it is scheduled. Reads the operands of `concatenate` and `pad` in place, merges equal
//! computations, computes matrix products in the layout in which they are read, combines gathers with the masks of
//! their results, and fills outputs instead of copying constants to them.

use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::assembly::{Assembly, Piece};
use super::elementwise::{Loop, Map, Meaning};
use super::graph::{BlockGraph, Constant, Node, Op, Value, ValueIndex};
use super::kernels::dot::Dot;
use super::kernels::index::{Gather, MaskedGather};
use super::kernels::shape::{Concatenate, Pad};
use super::parallel;
use super::view::View;

/// Simplifies a block. Nested blocks are simplified when they are emitted.
pub(crate) fn simplify(block: &mut BlockGraph, values: &[Value]) {
    assemble(block, values);
    merge_equal(block, values);
    transpose_products(block);
    mask_gathers(block, values);
    pass_constants(block, values);
}

/// Maximum number of operands that are read in place.
const MAX_PIECES: usize = 256;

/// Replaces the kernels of `concatenate` and `pad` by nodes that read their operands in place, also through the views
/// that are their operands.
fn assemble(block: &mut BlockGraph, values: &[Value]) {
    let mut uses: HashMap<ValueIndex, usize> = HashMap::new();
    block.for_each_use(&mut |v| *uses.entry(v).or_default() += 1);
    let mut views: HashMap<ValueIndex, (usize, ValueIndex, View)> = HashMap::new();
    let mut dropped = HashSet::new();
    for at in 0..block.nodes.len() {
        let node = &mut block.nodes[at];
        let view = match &node.op {
            Op::Load(view) => Some(view),
            Op::Kernel { kernel, .. } => kernel.view().filter(|view| view.strides().last() == Some(&-1)),
            _ => None,
        };
        if let Some(view) = view {
            views.insert(node.outs[0], (at, node.ins[0], view.clone()));
            continue;
        }
        let (Op::Kernel { kernel, .. }, false) = (&node.op, node.outs.is_empty()) else { continue };
        let kernel: &dyn Any = &**kernel;
        let size = usize::from(values[node.outs[0] as usize].size);
        let mut ins = node.ins.clone();
        // Replaces an operand that is a view by the array that it views.
        let mut read = |v: &mut ValueIndex| {
            let Some((maker, from, view)) = views.get(v) else {
                return View::new(&[values[*v as usize].n], &[1], 0);
            };
            let readers = uses.entry(*v).or_default();
            *readers = readers.saturating_sub(1);
            if *readers == 0 {
                dropped.insert(*maker);
            }
            *v = *from;
            view.clone()
        };
        let assembly = if let Some(concatenate) = kernel.downcast_ref::<Concatenate>() {
            // Steps number their operands with 16 bits.
            if concatenate.row == 0 || ins.len() > MAX_PIECES {
                continue;
            }
            let pieces = ins.iter_mut().zip(&concatenate.chunks);
            Assembly::joined(pieces.map(|(v, bytes)| Piece { view: read(v), chunk: bytes / size }).collect())
        } else if let Some(pad) = kernel.downcast_ref::<Pad>().filter(|pad| pad.from.len() > 0) {
            let is_whole = pad.from.is_contiguous() && pad.from.len() == values[ins[0] as usize].n;
            let from = if is_whole { read(&mut ins[0]) } else { pad.from.clone() };
            Assembly::padded(from, pad.to.clone())
        } else {
            continue;
        };
        node.op = Op::Assemble(Arc::new(assembly));
        node.ins = ins;
    }
    remove(block, &dropped);
}

/// Identifies the computation of an elementwise node. Functions are compared by address, because two functions with the
/// same address have the same code.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    Map(usize, Vec<ValueIndex>, usize),
    Load(ValueIndex, View),
    Assemble(Vec<ValueIndex>, Arc<Assembly>, usize),
}

fn key(node: &Node, values: &[Value]) -> Option<Key> {
    match &node.op {
        Op::Map(map) => {
            let function = match &map.code {
                Loop::One(f) => *f as usize,
                Loop::Two(f) => *f as usize,
                Loop::Three(f) => *f as usize,
                // The discriminant is smaller than the address of any function.
                Loop::Chained(f) => *f as usize,
                Loop::With(_) => return None,
            };
            Some(Key::Map(function, node.ins.clone(), values[node.outs[0] as usize].n))
        }
        Op::Load(view) => Some(Key::Load(node.ins[0], view.clone())),
        Op::Assemble(assembly) => {
            Some(Key::Assemble(node.ins.clone(), assembly.clone(), values[node.outs[0] as usize].n))
        }
        _ => None,
    }
}

/// Removes elementwise nodes that repeat the computation of an earlier node.
fn merge_equal(block: &mut BlockGraph, values: &[Value]) {
    let mut constants: HashMap<([u8; 16], u8, usize), ValueIndex> = HashMap::new();
    let mut made: HashMap<Key, ValueIndex> = HashMap::new();
    let mut same: HashMap<ValueIndex, ValueIndex> = HashMap::new();
    let mut kept = Vec::with_capacity(block.nodes.len());
    for mut node in block.nodes.drain(..) {
        if node.is_elementwise() {
            for v in &mut node.ins {
                if let Some(Constant::Splat(bytes)) = values[*v as usize].constant {
                    let value = &values[*v as usize];
                    *v = *constants.entry((bytes, value.size, value.n)).or_insert(*v);
                }
            }
        }
        rename(&mut node, &same);
        if let Some(key) = key(&node, values) {
            match made.get(&key) {
                Some(&earlier) if values[earlier as usize].size == values[node.outs[0] as usize].size => {
                    same.insert(node.outs[0], earlier);
                    continue;
                }
                _ => {
                    made.insert(key, node.outs[0]);
                }
            }
        }
        kept.push(node);
    }
    block.nodes = kept;
    rename_all(&mut block.results, &same);
}

fn rename_all(list: &mut [ValueIndex], same: &HashMap<ValueIndex, ValueIndex>) {
    for v in list {
        *v = same.get(v).copied().unwrap_or(*v);
    }
}

/// Renames the values that a node and its regions read. `same` maps old values to new values.
fn rename(node: &mut Node, same: &HashMap<ValueIndex, ValueIndex>) {
    if same.is_empty() {
        return;
    }
    let inner = |block: &mut BlockGraph| {
        block.nodes.iter_mut().for_each(|node| rename(node, same));
        rename_all(&mut block.results, same);
    };
    rename_all(&mut node.ins, same);
    match &mut node.op {
        Op::While { cond, body, .. } => {
            inner(cond);
            inner(body);
        }
        Op::Case { branches, .. } => branches.iter_mut().for_each(inner),
        _ => {}
    }
}

/// If a transpose is the only reader of a matrix product, removes the transpose and swaps the operands of the product.
fn transpose_products(block: &mut BlockGraph) {
    let mut uses: HashMap<ValueIndex, usize> = HashMap::new();
    block.for_each_use(&mut |v| *uses.entry(v).or_default() += 1);
    let mut makers: HashMap<ValueIndex, usize> = HashMap::new();
    for (at, node) in block.nodes.iter().enumerate() {
        if product(node).is_some() {
            makers.insert(node.outs[0], at);
        }
    }
    let mut dropped = HashSet::new();
    for at in 0..block.nodes.len() {
        let Some((columns, rows)) = transposition(&block.nodes[at]) else { continue };
        let from = block.nodes[at].ins[0];
        let Some(&maker) = makers.get(&from).filter(|_| uses.get(&from) == Some(&1)) else { continue };
        let Some(swapped) = product(&block.nodes[maker]).and_then(|dot| dot.swapped(rows, columns)) else { continue };
        let (a, b) = (block.nodes[maker].ins[0], block.nodes[maker].ins[1]);
        let node = &mut block.nodes[at];
        node.ins = vec![b, a];
        node.op = Op::Kernel { kernel: Arc::new(swapped), starts: Vec::new() };
        dropped.insert(maker);
    }
    remove(block, &dropped);
}

/// Combines gathers with the selections that replace some windows with a constant. JAX creates such selections for
/// indices out of bounds, for example in `jnp.take`. Does not change gathers with small results, because the loop
/// compiler can compile the separate ops.
fn mask_gathers(block: &mut BlockGraph, values: &[Value]) {
    let mut makers: HashMap<ValueIndex, usize> = HashMap::new();
    for (at, node) in block.nodes.iter().enumerate() {
        if gather(node).is_some() || matches!(node.op, Op::Load(_)) {
            makers.insert(node.outs[0], at);
        }
    }
    let mut uses: HashMap<ValueIndex, usize> = HashMap::new();
    block.for_each_use(&mut |v| *uses.entry(v).or_default() += 1);
    let mut dropped = HashSet::new();
    for at in 0..block.nodes.len() {
        let Node { op: Op::Map(Map { meaning: Some(Meaning::Select), .. }), ins, outs } = &block.nodes[at] else {
            continue;
        };
        let &[mask, gathered, constant] = &ins[..] else { continue };
        let Some(Constant::Splat(element)) = values[constant as usize].constant else { continue };
        let (Some(&mask_at), Some(&gather_at)) = (makers.get(&mask), makers.get(&gathered)) else { continue };
        let [mask_node, gather_node] = [mask_at, gather_at].map(|maker| &block.nodes[maker]);
        let (Op::Load(view), Some(gather)) = (&mask_node.op, gather(gather_node)) else { continue };
        let is_large = values[outs[0] as usize].bytes() >= parallel::WORTH;
        if !is_large || uses.get(&gathered) != Some(&1) {
            continue;
        }
        let Some(kernel) = MaskedGather::new(gather, view, element) else { continue };
        let ins = vec![gather_node.ins[0], gather_node.ins[1], mask_node.ins[0]];
        dropped.insert(gather_at);
        // Several selections may read the same truth values.
        let readers = uses.entry(mask).or_default();
        *readers = readers.saturating_sub(1);
        if *readers == 0 {
            dropped.insert(mask_at);
        }
        let node = &mut block.nodes[at];
        node.ins = ins;
        node.op = Op::Kernel { kernel: Arc::new(kernel), starts: Vec::new() };
    }
    remove(block, &dropped);
}

/// Removes the nodes at the positions in `dropped`.
fn remove(block: &mut BlockGraph, dropped: &HashSet<usize>) {
    let mut at = 0;
    block.nodes.retain(|_| {
        at += 1;
        !dropped.contains(&(at - 1))
    });
}

fn gather(node: &Node) -> Option<Arc<Gather>> {
    let Op::Kernel { kernel, .. } = &node.op else { return None };
    let kernel: Arc<dyn Any + Send + Sync> = kernel.clone();
    kernel.downcast().ok()
}

/// Passes constants of equal elements directly to kernels. If an output of a kernel starts as a copy of an array that
/// such a constant fills, the kernel reads the constant instead of the array. The output is then filled directly, and
/// the array is not needed.
fn pass_constants(block: &mut BlockGraph, values: &[Value]) {
    let constant = |node: &Node| {
        let is_splat =
            matches!(node.op, Op::Copy) && matches!(values[node.ins[0] as usize].constant, Some(Constant::Splat(_)));
        is_splat.then(|| (node.outs[0], node.ins[0]))
    };
    let arrays: HashMap<ValueIndex, ValueIndex> = block.nodes.iter().filter_map(constant).collect();
    if arrays.is_empty() {
        return;
    }
    for Node { op, ins, .. } in &mut block.nodes {
        if let Op::Kernel { starts, .. } = op {
            for &start in starts.iter().flatten() {
                let v = &mut ins[usize::from(start)];
                *v = arrays.get(v).copied().unwrap_or(*v);
            }
        }
    }
    let mut read = HashSet::new();
    block.for_each_use(&mut |v| {
        read.insert(v);
    });
    block.nodes.retain(|node| node.outs.iter().any(|v| !arrays.contains_key(v) || read.contains(v)));
}

fn product(node: &Node) -> Option<&Dot> {
    match &node.op {
        Op::Kernel { kernel, .. } => {
            let kernel: &dyn Any = &**kernel;
            kernel.downcast_ref()
        }
        _ => None,
    }
}

/// Returns the extents of the result if the node is a matrix transposition.
fn transposition(node: &Node) -> Option<(usize, usize)> {
    let view = match &node.op {
        Op::Kernel { kernel, .. } => kernel.view()?,
        Op::Load(view) => view,
        _ => return None,
    };
    match (view.dims(), view.strides(), view.offset()) {
        (&[columns, rows], &[1, step], 0) if isize::try_from(columns) == Ok(step) => Some((columns, rows)),
        _ => None,
    }
}
