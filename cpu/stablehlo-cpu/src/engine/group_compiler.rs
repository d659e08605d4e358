//! Compiles a group of elementwise nodes to a tile program.

use std::collections::HashMap;

use super::elementwise::chain::{Link, SecondOperand};
use super::elementwise::{Chained, Loop, Map};
use super::graph::{Constant, Op, Value, ValueIndex};
use super::schedule::Group;
use super::tile::{Dst, Instr, Read, Splat, SplatValue, Src, TileOp, TileProgram};
use super::vector_chains::{Plan, plan};
use super::view::View;

/// A group compiled to a tile program.
pub(crate) struct Compiled {
    pub(crate) program: TileProgram,
    /// Values that the program reads, in input order.
    pub(crate) ins: Vec<ValueIndex>,
    /// For each output, the inputs that are read only element by element and whose elements have the same size as the
    /// output's. The output may reuse the memory of one of these inputs.
    pub(crate) reuse: Vec<Vec<u16>>,
}

/// Compiles a group. The inputs `fixed` come first, in this order. `wanted` contains the outputs. It may contain a
/// value twice, or a value that is also an input.
pub(crate) fn compile_group(group: &Group, fixed: &[ValueIndex], wanted: &[ValueIndex], values: &[Value]) -> Compiled {
    let Plan { joined, viewed, line } = plan(group, wanted, values);
    let last_use = last_uses(group, &joined);
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
        joined,
        chains: HashMap::new(),
    };
    c.program.outs = wanted.iter().map(|&v| values[v as usize].size).collect();
    for at in 0..group.nodes.len() {
        let Some(op) = c.op(group, at) else { continue };
        let out = group.nodes[at].outs[0];
        let (dst, size) = (c.destination(out, wanted), values[out as usize].size);
        c.program.instrs.push(Instr { op, dst, size });
        // Free registers after the destination is chosen, so that an instruction never writes a register that it reads.
        let mut done: Vec<ValueIndex> = last_use.iter().filter(|&(_, &last)| last == at).map(|(&v, _)| v).collect();
        done.sort_unstable();
        done.extend((!last_use.contains_key(&out)).then_some(out));
        c.release(&done);
    }
    c.copy_other_outputs(wanted);
    let reuse = c.reusable_inputs(wanted);
    Compiled { program: c.program, ins: c.ins, reuse }
}

/// Returns, for each value, the index of the last node that reads the value. A node that is joined to the chain of a
/// later node reads its operands when the later node runs.
fn last_uses(group: &Group, joined: &[Option<usize>]) -> HashMap<ValueIndex, usize> {
    let mut runs_at: Vec<usize> = (0..group.nodes.len()).collect();
    for at in (0..group.nodes.len()).rev() {
        if let Some(next) = joined[at] {
            runs_at[at] = runs_at[next];
        }
    }
    let mut last_use: HashMap<ValueIndex, usize> = HashMap::new();
    for (node, &at) in group.nodes.iter().zip(&runs_at) {
        for &v in &node.ins {
            let last = last_use.entry(v).or_insert(at);
            *last = at.max(*last);
        }
    }
    last_use
}

fn narrow(index: usize) -> u16 {
    u16::try_from(index).unwrap_or(u16::MAX)
}

struct GroupCompiler<'a> {
    values: &'a [Value],
    n: usize,
    fixed: usize,
    program: TileProgram,
    ins: Vec<ValueIndex>,
    place: HashMap<ValueIndex, Src>,
    /// Registers that can be reused.
    free: Vec<u16>,
    /// Inputs that are read element by element.
    by_element: Vec<u16>,
    /// Values that are views of other values. Chains read them without materializing them.
    viewed: HashMap<ValueIndex, (ValueIndex, View)>,
    /// For each node, the next node of its chain. `None` if the node ends a chain or belongs to no chain.
    joined: Vec<Option<usize>>,
    /// Unfinished chains, by the index of the last node that they already contain.
    chains: HashMap<usize, Chain>,
}

/// A chain under construction, and the values that it reads.
struct Chain {
    reads: Vec<(ValueIndex, Read)>,
    links: Vec<Link>,
}

impl GroupCompiler<'_> {
    /// Returns the operation of a node, or `None` if a later instruction includes the node.
    fn op(&mut self, group: &Group, at: usize) -> Option<TileOp> {
        let node = &group.nodes[at];
        Some(match &node.op {
            Op::Map(Map { code: Loop::Chained(function), .. }) => {
                let before = self.joined[..at].iter().position(|&next| next == Some(at));
                let before = before.and_then(|b| Some((group.nodes[b].outs[0], self.chains.remove(&b)?)));
                let chain = self.chain(before, *function, &node.ins);
                if self.joined[at].is_some() {
                    self.chains.insert(at, chain);
                    return None;
                }
                TileOp::Chain(chain.reads.into_iter().map(|(_, read)| read).collect(), chain.links)
            }
            Op::Map(map) => {
                let mut srcs = [Src::None; 3];
                for (src, &v) in srcs.iter_mut().zip(&node.ins) {
                    *src = self.src(v);
                }
                TileOp::Map(map.code.clone(), srcs)
            }
            Op::Load(_) if self.viewed.contains_key(&node.outs[0]) => return None,
            Op::Load(view) => TileOp::Load(self.input(node.ins[0]), view.clone()),
            Op::Assemble(assembly) => {
                TileOp::Assemble(node.ins.iter().map(|&v| self.input(v)).collect(), assembly.clone())
            }
            Op::Iota(iota) => TileOp::Iota(*iota),
            _ => TileOp::Copy(self.src(node.ins[0])),
        })
    }

    /// Assigns a value to its output if `wanted` contains the value, and to a register otherwise.
    fn destination(&mut self, v: ValueIndex, wanted: &[ValueIndex]) -> Dst {
        let size = self.values[v as usize].size;
        match wanted.iter().position(|&w| w == v) {
            Some(o) => {
                self.place.insert(v, Src::Out(narrow(o), size));
                Dst::Out(narrow(o))
            }
            None => {
                let reg = self.reg();
                self.place.insert(v, Src::Reg(reg, size));
                Dst::Reg(reg)
            }
        }
    }

    /// Frees the registers of values that no later instruction reads.
    fn release(&mut self, done: &[ValueIndex]) {
        for v in done {
            if let Some(&Src::Reg(reg, _)) = self.place.get(v)
                && !self.is_splat(reg)
            {
                self.free.push(reg);
                self.place.remove(v);
            }
        }
    }

    /// Adds copies for the outputs that no instruction writes, because they are inputs or occur a second time in
    /// `wanted`.
    fn copy_other_outputs(&mut self, wanted: &[ValueIndex]) {
        let written = |instr: &Instr| if let Dst::Out(o) = instr.dst { Some(o) } else { None };
        let written: Vec<u16> = self.program.instrs.iter().filter_map(written).collect();
        for (o, &v) in wanted.iter().enumerate() {
            let o = narrow(o);
            if !written.contains(&o) {
                let (op, size) = (TileOp::Copy(self.src(v)), self.values[v as usize].size);
                self.program.instrs.push(Instr { op, dst: Dst::Out(o), size });
            }
        }
    }

    /// Returns, for each output, the inputs whose memory the output may reuse.
    fn reusable_inputs(&self, wanted: &[ValueIndex]) -> Vec<Vec<u16>> {
        let scattered = self.scattered();
        let size = |v: ValueIndex| self.values[v as usize].size;
        let of = |&w: &ValueIndex| {
            let fits = |&&i: &&u16| size(self.ins[usize::from(i)]) == size(w) && !scattered.contains(&i);
            self.by_element.iter().filter(fits).copied().collect()
        };
        wanted.iter().map(of).collect()
    }

    fn reg(&mut self) -> u16 {
        self.free.pop().unwrap_or_else(|| {
            self.program.regs += 1;
            narrow(self.program.regs - 1)
        })
    }

    fn is_splat(&self, reg: u16) -> bool {
        self.program.splats.iter().any(|s| s.reg == reg)
    }

    fn input(&mut self, v: ValueIndex) -> u16 {
        let at = self.ins.iter().position(|&i| i == v).unwrap_or_else(|| {
            self.ins.push(v);
            self.ins.len() - 1
        });
        narrow(at)
    }

    /// Returns the element of an operand that is broadcast. Such an operand is a constant of equal elements or a value
    /// of one element. Returns `None` for any other operand.
    fn splat(&mut self, v: ValueIndex) -> Option<SplatValue> {
        let value = &self.values[v as usize];
        match &value.constant {
            Some(Constant::Splat(bytes)) => Some(SplatValue::Constant(*bytes)),
            // At run time, the arguments of a scalar region are vectors, whatever their declared size.
            _ if self.ins[..self.fixed].contains(&v) => None,
            _ if value.n != self.n || self.fixed > 0 => Some(SplatValue::Input(self.input(v))),
            _ => None,
        }
    }

    /// Returns how a chain reads an operand.
    fn read(&mut self, v: ValueIndex) -> Read {
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

    /// Appends `function` with the operands `ins` to the chain `before`. The result of this chain is one of the
    /// operands. Without `before`, starts a new chain.
    fn chain(&mut self, before: Option<(ValueIndex, Chain)>, function: Chained, ins: &[ValueIndex]) -> Chain {
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
            SecondOperand::Same
        } else {
            let known = chain.reads.iter().position(|&(v, _)| v == other);
            let at = known.unwrap_or_else(|| {
                let read = self.read(other);
                chain.reads.push((other, read));
                chain.reads.len() - 1
            });
            SecondOperand::Operand(u8::try_from(at).unwrap_or(u8::MAX))
        };
        chain.links.push(Link { function, with });
        chain
    }

    /// Returns the inputs that some instruction reads at positions other than those that it writes.
    fn scattered(&self) -> Vec<u16> {
        let mut scattered = Vec::new();
        for instr in &self.program.instrs {
            match &instr.op {
                TileOp::Load(input, _) => scattered.push(*input),
                TileOp::Assemble(inputs, _) => scattered.extend(inputs),
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

    /// Returns the source of an operand. The source is a value of the group, an input, or a register that is filled
    /// with the element of a broadcast operand.
    fn src(&mut self, v: ValueIndex) -> Src {
        if let Some(&src) = self.place.get(&v) {
            return src;
        }
        let size = self.values[v as usize].size;
        let src = match self.splat(v) {
            Some(value) => {
                // A splat keeps its register for the whole run, because the register is filled only once, before the
                // first tile.
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
