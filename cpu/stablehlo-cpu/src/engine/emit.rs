//! Converts the graph to steps: fuses nodes, assigns slots to values, and finds the last use of each value.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::fuse::schedule;
use super::graph::{BlockGraph, Constant, Node, Op, Value, ValueIndex};
use super::group_compiler::compile_group;
use super::pool::{Buffer, Pool};
use super::program::{Arg, Block, Fill, Out, Step};
use super::row_program::compile_rows;
use super::schedule::{Group, Item, Rows};
use super::settings::CompileSettings;
use super::simplify::simplify;
use super::tile::fill;
use crate::error::{CompileError, RunError};

/// The steps of a graph, the constants that they read, and the number of slots that they use.
pub(crate) struct Emitted {
    pub(crate) block: Block,
    pub(crate) consts: Vec<Buffer>,
    pub(crate) slots: usize,
}

/// Emits the main block. Its arguments `args` get the slots from 0 on.
pub(crate) fn emit(
    block: BlockGraph,
    args: &[ValueIndex],
    values: &[Value],
    pool: &Pool,
    settings: &CompileSettings,
) -> Result<Emitted, CompileError> {
    let mut e = Emitter {
        values,
        pool,
        compile_loops: settings.compile_loops && cfg!(feature = "jit"),
        slot: HashMap::new(),
        free: Vec::new(),
        slots: 0,
        consts: Vec::new(),
        const_of: HashMap::new(),
        empty: None,
    };
    for &v in args {
        let slot = e.slots;
        e.slots += 1;
        e.slot.insert(v, slot);
    }
    let block = e.block(block, args, &[])?;
    Ok(Emitted { block, consts: e.consts, slots: e.slots as usize })
}

struct Emitter<'a> {
    values: &'a [Value],
    pool: &'a Pool,
    /// Whether to compile loops to machine code.
    compile_loops: bool,
    slot: HashMap<ValueIndex, u32>,
    /// Slots that later values may reuse.
    free: Vec<u32>,
    slots: u32,
    consts: Vec<Buffer>,
    const_of: HashMap<ValueIndex, u32>,
    /// Index of the constant without bytes. `None` until a step needs such a constant.
    empty: Option<u32>,
}

/// Returns the values that an item reads and the values that it defines.
fn uses_of(item: &Item) -> (Vec<ValueIndex>, Vec<ValueIndex>) {
    let mut uses = Vec::new();
    let mut defs = Vec::new();
    let mut node = |n: &Node| {
        n.for_each_use(&mut |v| uses.push(v));
        defs.extend(&n.outs);
    };
    match item {
        Item::Node(n) => node(n),
        Item::Group(g) => g.nodes.iter().for_each(&mut node),
        Item::Rows(rows) => {
            for item in &rows.items {
                let (read, made) = uses_of(item);
                uses.extend(read);
                defs.extend(made);
            }
        }
    }
    (uses, defs)
}

/// The liveness of values at each item of a block. `needed_after` contains the values that the item defines and that a
/// later item or the block's results read. `dying` contains the values of the block that the item is the last to read.
struct Liveness {
    needed_after: Vec<Vec<ValueIndex>>,
    dying: Vec<HashSet<ValueIndex>>,
    /// The values that the block owns: its arguments and the values that its items define.
    owned: HashSet<ValueIndex>,
}

impl Liveness {
    fn new(items: &[Item], args: &[ValueIndex], results: &[ValueIndex]) -> Self {
        let facts: Vec<(Vec<ValueIndex>, Vec<ValueIndex>)> = items.iter().map(uses_of).collect();
        let mut owned: HashSet<ValueIndex> = args.iter().copied().collect();
        facts.iter().for_each(|(_, defs)| owned.extend(defs));
        // Scan from the end, so that the first occurrence of a value is its last use.
        let mut live: HashSet<ValueIndex> = results.iter().copied().collect();
        let mut needed_after: Vec<Vec<ValueIndex>> = vec![Vec::new(); items.len()];
        let mut dying: Vec<HashSet<ValueIndex>> = vec![HashSet::new(); items.len()];
        for (at, (uses, defs)) in facts.iter().enumerate().rev() {
            needed_after[at] = defs.iter().copied().filter(|v| live.contains(v)).collect();
            let last_use = |v: &ValueIndex| owned.contains(v) && !live.contains(v) && !defs.contains(v);
            dying[at] = uses.iter().copied().filter(last_use).collect();
            live.extend(uses);
        }
        Self { needed_after, dying, owned }
    }
}

impl Emitter<'_> {
    /// Emits a block. The block owns `args` and the values that its items define. No other value reuses the slots of
    /// the values in `pinned`.
    fn block(
        &mut self,
        mut block: BlockGraph,
        args: &[ValueIndex],
        pinned: &[ValueIndex],
    ) -> Result<Block, CompileError> {
        simplify(&mut block, self.values);
        let (items, results) = schedule(block, self.values);
        let pinned: HashSet<ValueIndex> = pinned.iter().copied().collect();
        let Liveness { needed_after, dying, owned } = Liveness::new(&items, args, &results);
        let mut steps = Vec::with_capacity(items.len());
        for ((item, dying), needed) in items.into_iter().zip(dying).zip(needed_after) {
            steps.push(match item {
                Item::Group(group) => self.group(&group, &dying, &needed, &pinned)?,
                Item::Rows(rows) => self.rows(&rows, &dying, &needed, &pinned)?,
                Item::Node(node) => self.node(node, &dying, &needed, &pinned)?,
            });
        }
        let results = self.results(&results, &owned, &pinned)?;
        Ok(Block { steps, results })
    }

    /// Emits a group of elementwise nodes.
    fn group(
        &mut self,
        group: &Group,
        dying: &HashSet<ValueIndex>,
        needed: &[ValueIndex],
        pinned: &HashSet<ValueIndex>,
    ) -> Result<Step, CompileError> {
        let compiled = compile_group(group, &[], needed, self.values);
        let args = self.args(&compiled.ins, dying)?;
        let mut taken: Vec<u16> = Vec::new();
        let mut outs = Vec::with_capacity(needed.len());
        for (&v, reuse) in needed.iter().zip(&compiled.reuse) {
            let is_free = |i: &u16| matches!(args[usize::from(*i)], Arg::Last(_)) && !taken.contains(i);
            let from = reuse.iter().copied().find(is_free);
            taken.extend(from);
            outs.push(self.out(v, from));
        }
        let free = self.release(dying, pinned);
        Ok(Step::Tile { program: compiled.program, n: group.n, args, outs, free })
    }

    /// Emits a sequence of items that run row by row.
    fn rows(
        &mut self,
        rows: &Rows,
        dying: &HashSet<ValueIndex>,
        needed: &[ValueIndex],
        pinned: &HashSet<ValueIndex>,
    ) -> Result<Step, CompileError> {
        let (program, ins) = compile_rows(rows, needed, self.values);
        let args = self.args(&ins, dying)?;
        let outs = needed.iter().map(|&v| self.out(v, None)).collect();
        let free = self.release(dying, pinned);
        Ok(Step::Kernel { kernel: Arc::new(program), args, outs, free })
    }

    /// Returns the step arguments of a block's results. If the block owns a value, the last result that is this value
    /// moves the value out of its slot.
    fn results(
        &mut self,
        results: &[ValueIndex],
        owned: &HashSet<ValueIndex>,
        pinned: &HashSet<ValueIndex>,
    ) -> Result<Vec<Arg>, CompileError> {
        let mut out = Vec::with_capacity(results.len());
        for (at, &v) in results.iter().enumerate() {
            let last = owned.contains(&v) && !results[at + 1..].contains(&v);
            out.push(match self.arg(v)? {
                Arg::Slot(slot) if last => {
                    if !pinned.contains(&v) {
                        self.free.push(slot);
                    }
                    Arg::Last(slot)
                }
                arg => arg,
            });
        }
        Ok(out)
    }

    fn node(
        &mut self,
        node: Node,
        dying: &HashSet<ValueIndex>,
        needed: &[ValueIndex],
        pinned: &HashSet<ValueIndex>,
    ) -> Result<Step, CompileError> {
        // A value that a region captures must stay in its slot, even if the step also reads it as an operand.
        let mut takeable = dying.clone();
        node.for_each_region_use(&mut |v| {
            takeable.remove(&v);
        });
        let fills = self.fills(&node);
        let filled: BTreeSet<usize> = fills.iter().flatten().map(|&(from, _)| usize::from(from)).collect();
        let read: Vec<ValueIndex> = (0..node.ins.len()).filter(|i| !filled.contains(i)).map(|i| node.ins[i]).collect();
        let mut args = self.args(&read, &takeable)?;
        for at in filled {
            args.insert(at, self.empty()?);
        }
        #[cfg(feature = "jit")]
        if self.compile_loops
            && let Some(compiled) = super::loops::compile(&node, self.values)
        {
            return self.compiled_loop(compiled, args, &node.outs, dying, needed, pinned);
        }
        match node.op {
            Op::Kernel { kernel, starts } => {
                let mut outs = Vec::with_capacity(node.outs.len());
                for (i, &v) in node.outs.iter().enumerate() {
                    outs.push(match fills.get(i).copied().flatten() {
                        Some((_, fill)) => Out { fill: Some(fill), ..self.out(v, None) },
                        None => self.out(v, starts.get(i).copied().flatten()),
                    });
                }
                let mut free = self.release(dying, pinned);
                free.extend(self.drop_unread(&node.outs, needed));
                Ok(Step::Kernel { kernel, args, outs, free })
            }
            Op::Collective(collective) => {
                let outs = node.outs.iter().map(|&v| self.out(v, None)).collect();
                let mut free = self.release(dying, pinned);
                free.extend(self.drop_unread(&node.outs, needed));
                Ok(Step::Collective { collective, args, outs, free })
            }
            Op::While { carried, cond, body } => {
                let slots: Vec<u32> = carried.iter().map(|&v| self.define(v)).collect();
                let cond = self.block(cond, &[], &carried)?;
                let body = self.block(body, &carried, &carried)?;
                let outs: Vec<u32> = node.outs.iter().map(|&v| self.define(v)).collect();
                self.free.extend(&slots);
                let mut free = self.release(dying, pinned);
                free.extend(self.drop_unread(&node.outs, needed));
                Ok(Step::While { args, carried: slots, cond, body, outs, free })
            }
            Op::Case { select, branches } => {
                let mut blocks = Vec::with_capacity(branches.len());
                for branch in branches {
                    blocks.push(self.block(branch, &[], &[])?);
                }
                let outs: Vec<u32> = node.outs.iter().map(|&v| self.define(v)).collect();
                let mut free = self.release(dying, pinned);
                free.extend(self.drop_unread(&node.outs, needed));
                let index = args.first().copied().ok_or_else(|| CompileError::invalid("a branch without an index"))?;
                Ok(Step::Case { index, select, branches: blocks, outs, free })
            }
            Op::Map(_) | Op::Load(_) | Op::Assemble(_) | Op::Iota(_) | Op::Copy => {
                Err(CompileError::invalid("an elementwise node was left out of the groups"))
            }
        }
    }

    /// Returns how each output of a kernel is filled before the kernel runs. An entry is `None` unless the output
    /// starts as a copy of an operand, and this operand is a constant with equal elements. The entry then contains the
    /// index of the operand and its element. A fill is faster than a copy, and the constant needs no memory.
    fn fills(&self, node: &Node) -> Vec<Option<(u16, Fill)>> {
        let Op::Kernel { starts, .. } = &node.op else { return Vec::new() };
        let fill = |&start: &Option<u16>| {
            let from = start?;
            let value = &self.values[node.ins[usize::from(from)] as usize];
            match &value.constant {
                Some(Constant::Splat(element)) => Some((from, Fill { element: *element, size: value.size })),
                _ => None,
            }
        };
        starts.iter().map(fill).collect()
    }

    /// Returns a constant without bytes. It takes the place of an operand that the step does not read.
    fn empty(&mut self) -> Result<Arg, CompileError> {
        if let Some(at) = self.empty {
            return Ok(Arg::Const(at));
        }
        let buffer = self.pool.alloc(0).map_err(|e| CompileError::unsupported(e.to_string()))?;
        let at = self.constant(buffer);
        self.empty = Some(at);
        Ok(Arg::Const(at))
    }

    /// Adds a constant and returns its index.
    fn constant(&mut self, buffer: Buffer) -> u32 {
        self.consts.push(buffer);
        u32::try_from(self.consts.len() - 1).unwrap_or(u32::MAX)
    }

    /// Emits a loop that was compiled to machine code.
    #[cfg(feature = "jit")]
    fn compiled_loop(
        &mut self,
        compiled: super::loops::CompiledLoop,
        mut args: Vec<Arg>,
        outs: &[ValueIndex],
        dying: &HashSet<ValueIndex>,
        needed: &[ValueIndex],
        pinned: &HashSet<ValueIndex>,
    ) -> Result<Step, CompileError> {
        // The captured values stay in their slots until the step ends.
        args.extend(self.args(&compiled.captured, &HashSet::new())?);
        let made = outs.iter().enumerate().map(|(i, &v)| self.out(v, u16::try_from(i).ok())).collect();
        let mut free = self.release(dying, pinned);
        free.extend(self.drop_unread(outs, needed));
        Ok(Step::Kernel { kernel: compiled.kernel, args, outs: made, free })
    }

    /// Returns the output of a step that computes `v`. For `from`, see [`Out::from`].
    fn out(&mut self, v: ValueIndex, from: Option<u16>) -> Out {
        Out { slot: self.define(v), bytes: self.values[v as usize].bytes(), value: v, from, fill: None }
    }

    /// Assigns a slot to a new value, and returns the slot.
    fn define(&mut self, v: ValueIndex) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots += 1;
            self.slots - 1
        });
        self.slot.insert(v, slot);
        slot
    }

    /// Returns the slots of the values in `dying`, so that the step can empty them when it ends. Later values may reuse
    /// the slot of each value that is not pinned.
    fn release(&mut self, dying: &HashSet<ValueIndex>, pinned: &HashSet<ValueIndex>) -> Vec<u32> {
        let mut slots = Vec::with_capacity(dying.len());
        for v in dying {
            if let Some(&slot) = self.slot.get(v) {
                slots.push(slot);
                if !pinned.contains(v) {
                    self.free.push(slot);
                }
            }
        }
        slots.sort_unstable();
        slots
    }

    /// Frees the slots of outputs that no later step reads, and returns these slots.
    fn drop_unread(&mut self, outs: &[ValueIndex], needed: &[ValueIndex]) -> Vec<u32> {
        let unread: HashSet<ValueIndex> = outs.iter().copied().filter(|v| !needed.contains(v)).collect();
        self.release(&unread, &HashSet::new())
    }

    fn args(&mut self, ins: &[ValueIndex], dying: &HashSet<ValueIndex>) -> Result<Vec<Arg>, CompileError> {
        let mut args = Vec::with_capacity(ins.len());
        for &v in ins {
            // Move a value out of its slot only if the value occurs once among the operands. Otherwise the slot would
            // be empty when the step reads the second occurrence.
            let last = dying.contains(&v) && ins.iter().filter(|&&i| i == v).count() == 1;
            args.push(match self.arg(v)? {
                Arg::Slot(slot) if last => Arg::Last(slot),
                arg => arg,
            });
        }
        Ok(args)
    }

    fn arg(&mut self, v: ValueIndex) -> Result<Arg, CompileError> {
        let value = &self.values[v as usize];
        let Some(constant) = &value.constant else {
            return self
                .slot
                .get(&v)
                .map(|&slot| Arg::Slot(slot))
                .ok_or_else(|| CompileError::invalid(format!("value {v} is used before it is defined")));
        };
        if let Some(&at) = self.const_of.get(&v) {
            return Ok(Arg::Const(at));
        }
        let buffer = match constant {
            Constant::Dense(buffer) => buffer.clone(),
            Constant::Splat(element) => {
                self.splat(element, value).map_err(|e| CompileError::unsupported(e.to_string()))?
            }
        };
        let at = self.constant(buffer);
        self.const_of.insert(v, at);
        Ok(Arg::Const(at))
    }

    fn splat(&self, element: &[u8; 16], value: &Value) -> Result<Buffer, RunError> {
        let mut buffer = self.pool.alloc(value.bytes())?;
        fill(buffer.write()?, &element[..usize::from(value.size)]);
        Ok(buffer)
    }
}
