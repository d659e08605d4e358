//! Groups elementwise nodes into fused tile programs.

use std::collections::HashMap;

use super::chains::{Plan, plan};
use super::elementwise::chain::{Link, With};
use super::elementwise::{F32, Map};
use super::graph::{BlockGraph, Constant, Node, Op, V, Value};
use super::rows::{Rows, join};
use super::tile::{Dst, Instr, Read, Splat, SplatValue, Src, TileOp, TileProgram};
use super::view::View;

/// Maximum number of nodes in a group. The registers of a larger group would not fit the first-level cache anyway.
const MAX_NODES: usize = 128;
/// Maximum number of buffers that a group reads. The prefetchers cannot follow more streams.
const MAX_INPUTS: usize = 24;

/// A scheduled piece of a block.
pub(crate) enum Item {
    Node(Node),
    Group(Group),
    Rows(Rows),
}

/// Nodes with the same number of elements.
pub(crate) struct Group {
    pub(crate) n: usize,
    pub(crate) nodes: Vec<Node>,
}

struct Open {
    n: usize,
    /// The nodes with their positions in the block, which determine their order.
    nodes: Vec<(usize, Node)>,
    inputs: Vec<V>,
}

/// Groups under construction.
struct Fuser<'a> {
    values: &'a [Value],
    groups: Vec<Option<Open>>,
    /// For each value, the open group that computes it.
    maker: HashMap<V, usize>,
    /// For each value, an open group that reads it element by element.
    reader: HashMap<V, usize>,
    /// The open group of one-element nodes.
    scalars: Option<usize>,
    items: Vec<Item>,
}

/// Schedules a block: fused groups where possible, everything else in program order.
pub(crate) fn schedule(block: BlockGraph, values: &[Value]) -> (Vec<Item>, Vec<V>) {
    let mut fuser = Fuser {
        values,
        groups: Vec::new(),
        maker: HashMap::new(),
        reader: HashMap::new(),
        scalars: None,
        items: Vec::with_capacity(block.nodes.len()),
    };
    for (at, node) in block.nodes.into_iter().enumerate() {
        if node.is_elementwise() {
            fuser.add(at, node);
        } else {
            let mut needed = Vec::new();
            node.for_each_use(&mut |v| needed.extend(fuser.maker.get(&v).copied()));
            needed.sort_unstable();
            needed.dedup();
            needed.into_iter().for_each(|g| fuser.close(g));
            fuser.items.push(Item::Node(node));
        }
    }
    for group in 0..fuser.groups.len() {
        fuser.close(group);
    }
    (join(fuser.items, values), block.results)
}

impl Fuser<'_> {
    /// Adds an elementwise node to the groups that it can join, and merges these, or to a new group.
    fn add(&mut self, at: usize, node: Node) {
        let n = self.values[node.outs[0] as usize].n;
        let by_element = |v: V| matches!(node.op, Op::Map(_)) && self.values[v as usize].n == n;
        let mut join: Vec<usize> = Vec::new();
        let mut close: Vec<usize> = Vec::new();
        for &v in &node.ins {
            if let Some(&g) = self.maker.get(&v) {
                if by_element(v) { join.push(g) } else { close.push(g) }
            } else if let Some(&g) = self.reader.get(&v)
                && by_element(v)
            {
                join.push(g);
            }
        }
        if n == 1 {
            join.extend(self.scalars);
        }
        close.sort_unstable();
        close.dedup();
        for &g in &close {
            self.close(g);
        }
        join.sort_unstable();
        join.dedup();
        join.retain(|&g| self.groups[g].as_ref().is_some_and(|o| o.n == n));
        let mut target: Option<usize> = None;
        for g in join {
            target = match target {
                None => Some(g),
                Some(t) => Some(self.merge(t, g)),
            };
        }
        // Groups that could not be joined must be finished before this node reads their values.
        for &v in &node.ins {
            if let Some(&g) = self.maker.get(&v)
                && Some(g) != target
            {
                self.close(g);
            }
        }
        let full = |open: &Open| open.nodes.len() >= MAX_NODES || open.inputs.len() + node.ins.len() > MAX_INPUTS;
        if let Some(t) = target
            && self.groups[t].as_ref().is_none_or(full)
        {
            self.close(t);
            target = None;
        }
        let g = target.unwrap_or_else(|| {
            self.groups.push(Some(Open { n, nodes: Vec::new(), inputs: Vec::new() }));
            self.groups.len() - 1
        });
        if n == 1 {
            self.scalars = Some(g);
        }
        for &v in &node.ins {
            if self.maker.get(&v) == Some(&g) {
                continue;
            }
            let elementwise = matches!(node.op, Op::Map(_)) && self.values[v as usize].n == n;
            if elementwise && n > 1 && self.values[v as usize].constant.is_none() {
                self.reader.insert(v, g);
            }
            if let Some(open) = &mut self.groups[g]
                && self.values[v as usize].constant.is_none()
                && !open.inputs.contains(&v)
            {
                open.inputs.push(v);
            }
        }
        for &v in &node.outs {
            self.maker.insert(v, g);
        }
        if let Some(open) = &mut self.groups[g] {
            open.nodes.push((at, node));
        }
    }

    /// Merges two open groups. No node outside has read their values yet, so their relative order does not matter.
    fn merge(&mut self, a: usize, b: usize) -> usize {
        let fits = match (&self.groups[a], &self.groups[b]) {
            (Some(x), Some(y)) => {
                x.nodes.len() + y.nodes.len() < MAX_NODES && x.inputs.len() + y.inputs.len() < MAX_INPUTS
            }
            _ => false,
        };
        if !fits {
            return a;
        }
        if let Some(from) = self.groups[b].take() {
            for (_, node) in &from.nodes {
                self.maker.extend(node.outs.iter().map(|&v| (v, a)));
            }
            for (_, g) in self.reader.iter_mut().filter(|(_, g)| **g == b) {
                *g = a;
            }
            if self.scalars == Some(b) {
                self.scalars = Some(a);
            }
            if let Some(into) = &mut self.groups[a] {
                into.nodes.extend(from.nodes);
                for v in from.inputs {
                    if !into.inputs.contains(&v) {
                        into.inputs.push(v);
                    }
                }
            }
        }
        a
    }

    /// Closes an open group and schedules it here.
    fn close(&mut self, group: usize) {
        let Some(mut open) = self.groups[group].take() else {
            return;
        };
        open.nodes.sort_by_key(|&(at, _)| at);
        for (_, node) in &open.nodes {
            for v in &node.outs {
                self.maker.remove(v);
            }
        }
        for v in &open.inputs {
            if self.reader.get(v) == Some(&group) {
                self.reader.remove(v);
            }
        }
        if self.scalars == Some(group) {
            self.scalars = None;
        }
        let nodes = open.nodes.into_iter().map(|(_, node)| node).collect();
        self.items.push(Item::Group(Group { n: open.n, nodes }));
    }
}

/// A group compiled to a tile program.
pub(crate) struct Compiled {
    pub(crate) program: TileProgram,
    /// Values the program reads, in input order.
    pub(crate) ins: Vec<V>,
    /// For each output, the inputs that are read element by element and have elements of the same size.
    pub(crate) reuse: Vec<Vec<u16>>,
}

/// Compiles a group. The inputs `fixed` come first, in this order. `wanted` are the outputs. A value may be listed
/// twice and may be an input.
pub(crate) fn compile_group(group: &Group, fixed: &[V], wanted: &[V], values: &[Value]) -> Compiled {
    let Plan { joined, viewed, line } = plan(group, wanted, values);
    let mut c = GroupCompiler {
        values,
        n: group.n,
        fixed: fixed.len(),
        program: TileProgram { line, ..TileProgram::default() },
        ins: fixed.to_vec(),
        place: HashMap::new(),
        free: Vec::new(),
        by_element: Vec::new(),
        viewed,
    };
    c.program.outs = wanted.iter().map(|&v| values[v as usize].size).collect();
    // A node that is joined to a later one reads its operands when that one runs.
    let mut runs_at: Vec<usize> = (0..group.nodes.len()).collect();
    for at in (0..group.nodes.len()).rev() {
        if let Some(next) = joined[at] {
            runs_at[at] = runs_at[next];
        }
    }
    let mut last_use: HashMap<V, usize> = HashMap::new();
    for (node, &at) in group.nodes.iter().zip(&runs_at) {
        for &v in &node.ins {
            let last = last_use.entry(v).or_insert(at);
            *last = at.max(*last);
        }
    }
    let mut chains: HashMap<usize, Chain> = HashMap::new();
    let mut written = vec![false; wanted.len()];
    for (at, node) in group.nodes.iter().enumerate() {
        let out = node.outs[0];
        let size = values[out as usize].size;
        let op = match &node.op {
            Op::Map(Map::F32(function)) => {
                let before = joined[..at].iter().position(|&next| next == Some(at));
                let before = before.and_then(|b| Some((group.nodes[b].outs[0], chains.remove(&b)?)));
                let chain = c.chain(before, *function, &node.ins);
                if joined[at].is_some() {
                    chains.insert(at, chain);
                    continue;
                }
                TileOp::Chain(chain.reads.into_iter().map(|(_, read)| read).collect(), chain.links)
            }
            Op::Map(map) => {
                let mut srcs = [Src::None; 3];
                for (src, &v) in srcs.iter_mut().zip(&node.ins) {
                    *src = c.src(v);
                }
                TileOp::Map(map.clone(), srcs)
            }
            Op::Load(_) if c.viewed.contains_key(&out) => continue,
            Op::Load(view) => TileOp::Load(c.input(node.ins[0]), view.clone()),
            Op::Iota(iota) => TileOp::Iota(*iota),
            _ => TileOp::Copy(c.src(node.ins[0])),
        };
        let position = wanted.iter().position(|&w| w == out);
        let dst = match position {
            Some(o) => {
                written[o] = true;
                let o = narrow(o);
                c.place.insert(out, Src::Out(o, size));
                Dst::Out(o)
            }
            None => {
                let reg = c.reg();
                c.place.insert(out, Src::Reg(reg, size));
                Dst::Reg(reg)
            }
        };
        c.program.instrs.push(Instr { op, dst, size });
        // Free registers after the destination is chosen, so that an instruction never writes a register that it reads.
        let mut done: Vec<V> = last_use.iter().filter(|&(_, &last)| last == at).map(|(&v, _)| v).collect();
        done.sort_unstable();
        for v in done.into_iter().chain((!last_use.contains_key(&out)).then_some(out)) {
            if let Some(&Src::Reg(reg, _)) = c.place.get(&v)
                && !c.is_splat(reg)
            {
                c.free.push(reg);
                c.place.remove(&v);
            }
        }
    }
    for (o, &v) in wanted.iter().enumerate().filter(|&(o, _)| !written[o]) {
        let src = c.src(v);
        c.program.instrs.push(Instr { op: TileOp::Copy(src), dst: Dst::Out(narrow(o)), size: values[v as usize].size });
    }
    let scattered = c.scattered();
    let reuse = wanted
        .iter()
        .map(|&w| {
            let fits = |&&i: &&u16| {
                let v = &values[c.ins[usize::from(i)] as usize];
                v.size == values[w as usize].size && !scattered.contains(&i)
            };
            c.by_element.iter().filter(fits).copied().collect()
        })
        .collect();
    Compiled { program: c.program, ins: c.ins, reuse }
}

fn narrow(index: usize) -> u16 {
    u16::try_from(index).unwrap_or(u16::MAX)
}

struct GroupCompiler<'a> {
    values: &'a [Value],
    n: usize,
    fixed: usize,
    program: TileProgram,
    ins: Vec<V>,
    place: HashMap<V, Src>,
    /// Registers that can be reused.
    free: Vec<u16>,
    /// Inputs read element by element.
    by_element: Vec<u16>,
    /// Values that are views of others. Chains read them without materializing them.
    viewed: HashMap<V, (V, View)>,
}

/// A chain under construction, and the values it reads.
struct Chain {
    reads: Vec<(V, Read)>,
    links: Vec<Link>,
}

impl GroupCompiler<'_> {
    fn reg(&mut self) -> u16 {
        self.free.pop().unwrap_or_else(|| {
            self.program.regs += 1;
            narrow(self.program.regs - 1)
        })
    }

    fn is_splat(&self, reg: u16) -> bool {
        self.program.splats.iter().any(|s| s.reg == reg)
    }

    fn input(&mut self, v: V) -> u16 {
        let at = self.ins.iter().position(|&i| i == v).unwrap_or_else(|| {
            self.ins.push(v);
            self.ins.len() - 1
        });
        narrow(at)
    }

    /// The element of a one-element operand, which is broadcast.
    fn splat(&mut self, v: V) -> Option<SplatValue> {
        let value = &self.values[v as usize];
        match &value.constant {
            Some(Constant::Splat(bytes)) => Some(SplatValue::Constant(*bytes)),
            // At run time the arguments of a scalar region are vectors, whatever their declared size.
            _ if self.ins[..self.fixed].contains(&v) => None,
            _ if value.n != self.n || self.fixed > 0 => Some(SplatValue::Input(self.input(v))),
            _ => None,
        }
    }

    /// The source of an operand of a chain.
    fn read(&mut self, v: V) -> Read {
        if let Some((from, view)) = self.viewed.get(&v).cloned() {
            return Read::View(self.input(from), view);
        }
        if !self.place.contains_key(&v) {
            match self.splat(v) {
                Some(SplatValue::Constant(bytes)) => {
                    return Read::Constant(f32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
                }
                Some(SplatValue::Input(input)) => return Read::First(input),
                None => {}
            }
        }
        Read::Src(self.src(v))
    }

    /// Appends `function` of `ins` to the chain `before`, whose result is one of them, or starts a new chain.
    fn chain(&mut self, before: Option<(V, Chain)>, function: F32, ins: &[V]) -> Chain {
        let (made, mut chain) = match before {
            Some(before) => before,
            None => (ins[0], Chain { reads: vec![(ins[0], self.read(ins[0]))], links: Vec::new() }),
        };
        let (function, other) = match *ins {
            [a, b] if a == made => (function, b),
            [a, _] => (function.reversed(), a),
            _ => (function, made),
        };
        let with = if other == made {
            With::Same
        } else {
            let known = chain.reads.iter().position(|&(v, _)| v == other);
            let at = known.unwrap_or_else(|| {
                let read = self.read(other);
                chain.reads.push((other, read));
                chain.reads.len() - 1
            });
            With::Operand(u8::try_from(at).unwrap_or(u8::MAX))
        };
        chain.links.push(Link { function, with });
        chain
    }

    /// Inputs from which some element is read at another position.
    fn scattered(&self) -> Vec<u16> {
        let mut scattered = Vec::new();
        for instr in &self.program.instrs {
            match &instr.op {
                TileOp::Load(input, _) => scattered.push(*input),
                TileOp::Chain(reads, _) => scattered.extend(reads.iter().filter_map(|read| match read {
                    Read::View(input, _) | Read::First(input) => Some(*input),
                    _ => None,
                })),
                _ => {}
            }
        }
        scattered.extend(self.program.splats.iter().filter_map(|s| match s.value {
            SplatValue::Input(i) => Some(i),
            SplatValue::Constant(_) => None,
        }));
        scattered
    }

    /// The source of an operand: a value of the group, an input, or a register filled with its only element.
    fn src(&mut self, v: V) -> Src {
        if let Some(&src) = self.place.get(&v) {
            return src;
        }
        let size = self.values[v as usize].size;
        let src = match self.splat(v) {
            Some(value) => {
                // Splats keep their register for the whole run, because it is filled before the first tile.
                self.program.regs += 1;
                let reg = narrow(self.program.regs - 1);
                self.program.splats.push(Splat { reg, size, value });
                Src::Reg(reg, size)
            }
            None => {
                let input = self.input(v);
                if !self.by_element.contains(&input) {
                    self.by_element.push(input);
                }
                Src::In(input, size)
            }
        };
        self.place.insert(v, src);
        src
    }
}
