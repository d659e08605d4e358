//! Computes from a program's steps how much memory a run allocates, and how many bytes the run reads and writes.

use std::collections::BTreeMap;

use super::graph::ValueIndex;
use super::peak::Peak;
use super::program::{Arg, Block, Out, Program, Step};

/// Memory of one run, in bytes. Sums saturate at `usize::MAX`, because a program may declare arrays larger than any
/// memory. The scratch memory of the steps is included, except a few tiles for each thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryEstimate {
    /// Peak number of allocated bytes, minus the bytes of the allocated results.
    pub temporary: usize,
    /// Number of bytes of the parameters, plus the peak number of allocated bytes.
    pub total: usize,
    /// Bytes read and written. Each loop counts as one iteration, and all branches of a conditional count.
    pub accessed: usize,
    /// Whether the program contains a loop, possibly in a region that runs once per element. A run of such a program
    /// may repeat steps any number of times.
    pub loops: bool,
}

impl Program {
    /// Estimates the memory of a run in which the caller donates the parameters that the program may overwrite.
    pub fn memory_estimate(&self) -> MemoryEstimate {
        let walk = Walk::through(self, None);
        // The buffers that remain allocated at the end are the results.
        let parameters: u128 = self.parameters.iter().map(|parameter| wide(parameter.ty.bytes())).sum();
        MemoryEstimate {
            temporary: narrow(walk.peak - walk.live),
            total: narrow(parameters + walk.peak),
            accessed: narrow(walk.accessed),
            loops: self.block.has_loop(),
        }
    }

    /// Returns what a run allocates at the same time, or `None` if it is little. `place` describes the op that defines
    /// a value.
    pub(super) fn find_peak(&self, place: impl Fn(ValueIndex) -> Option<String>) -> Option<Peak> {
        let peak = Walk::through(self, None).peak;
        let bytes = usize::try_from(peak).unwrap_or(usize::MAX);
        if bytes < RECORDED {
            return None;
        }
        let mut held = Walk::through(self, Some(peak)).held_at_peak;
        held.sort_unstable_by(|a, b| b.cmp(a));
        let described = |(bytes, value)| Some((usize::try_from(bytes).ok()?, place(value)?));
        Some(Peak { bytes, largest: held.into_iter().take(LISTED).filter_map(described).collect() })
    }
}

/// Minimum size of a [`Peak`] in bytes. The largest values of smaller programs are not recorded.
const RECORDED: usize = 1 << 20;
/// Number of values that an error lists.
const LISTED: usize = 3;

/// Widens a size, so that sums of sizes do not overflow.
fn wide(bytes: usize) -> u128 {
    // Lossless on every target. `usize` has no `Into<u128>`, because future targets may have wider pointers.
    bytes as u128
}

fn narrow(bytes: u128) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// The contents of a slot.
#[derive(Clone, Copy, Default)]
struct Slot {
    bytes: u128,
    /// Whether a step may overwrite the buffer.
    own: bool,
    /// Number of bytes that the run allocated for this slot. Zero for parameters.
    allocated: u128,
    /// Number of the allocation.
    allocation: u32,
}

#[derive(Default)]
struct Walk {
    slots: Vec<Slot>,
    consts: Vec<u128>,
    live: u128,
    peak: u128,
    accessed: u128,
    allocations: u32,
    /// The live allocations: their number, and the size and the value of each.
    held: BTreeMap<u32, (u128, ValueIndex)>,
    /// The size of all live allocations at which the walk copies `held` to `held_at_peak`. `None` to copy nothing.
    watched: Option<u128>,
    held_at_peak: Vec<(u128, ValueIndex)>,
}

impl Walk {
    /// Walks through all steps of a program. For `watched`, see [`Walk::watched`].
    fn through(program: &Program, watched: Option<u128>) -> Self {
        let mut walk = Walk {
            slots: vec![Slot::default(); program.slots],
            consts: program.consts.iter().map(|constant| wide(constant.bytes().len())).collect(),
            watched,
            ..Walk::default()
        };
        for (slot, parameter) in walk.slots.iter_mut().zip(&program.parameters) {
            let own = parameter.donor || parameter.alias_output.is_some();
            *slot = Slot { bytes: wide(parameter.ty.bytes()), own, ..Slot::default() };
        }
        walk.block(&program.block);
        walk
    }

    fn bytes(&self, arg: Arg) -> u128 {
        match arg {
            Arg::Slot(slot) | Arg::Last(slot) => self.slots[slot as usize].bytes,
            Arg::Const(constant) => self.consts[constant as usize],
        }
    }

    fn empty(&mut self, slot: u32) {
        let slot = std::mem::take(&mut self.slots[slot as usize]);
        self.release(slot);
    }

    fn release(&mut self, slot: Slot) {
        if slot.allocated > 0 {
            self.live -= slot.allocated;
            self.held.remove(&slot.allocation);
        }
    }

    fn allocate(&mut self, bytes: u128, value: ValueIndex) -> Slot {
        self.live += bytes;
        self.peak = self.peak.max(self.live);
        self.allocations += 1;
        self.held.insert(self.allocations, (bytes, value));
        if self.watched == Some(self.live) && self.held_at_peak.is_empty() {
            self.held_at_peak = self.held.values().copied().collect();
        }
        Slot { bytes, own: true, allocated: bytes, allocation: self.allocations }
    }

    /// Returns the buffer of an operand. On its last use, the buffer moves out of its slot. Otherwise, it is shared.
    fn take(&mut self, arg: Arg) -> Slot {
        match arg {
            Arg::Last(slot) => std::mem::take(&mut self.slots[slot as usize]),
            _ => Slot { bytes: self.bytes(arg), ..Slot::default() },
        }
    }

    fn store(&mut self, slot: u32, value: Slot) {
        self.empty(slot);
        self.slots[slot as usize] = value;
    }

    fn step(&mut self, args: &[Arg], outs: &[Out], scratch: usize) {
        let read: u128 = args.iter().map(|&arg| self.bytes(arg)).sum();
        let written: u128 = outs.iter().map(|out| wide(out.bytes)).sum();
        self.accessed += read + written;
        let mut made = Vec::with_capacity(outs.len());
        for out in outs {
            let stolen = match out.from.map(|from| args[usize::from(from)]) {
                Some(Arg::Last(slot)) if self.slots[slot as usize].own => {
                    Some(std::mem::take(&mut self.slots[slot as usize]))
                }
                _ => None,
            };
            made.push(match stolen {
                Some(slot) => {
                    if let Some((_, value)) = self.held.get_mut(&slot.allocation) {
                        *value = out.value;
                    }
                    Slot { bytes: wide(out.bytes), ..slot }
                }
                None => self.allocate(wide(out.bytes), out.value),
            });
        }
        if let (1.., Some(out)) = (scratch, outs.first()) {
            let scratch = self.allocate(wide(scratch), out.value);
            self.release(scratch);
        }
        for (out, slot) in outs.iter().zip(made) {
            self.store(out.slot, slot);
        }
    }

    fn free(&mut self, slots: &[u32]) {
        slots.iter().for_each(|&slot| self.empty(slot));
    }

    fn results(&mut self, block: &Block) -> Vec<Slot> {
        block.results.iter().map(|&result| self.take(result)).collect()
    }

    fn block(&mut self, block: &Block) {
        for step in &block.steps {
            match step {
                Step::Kernel { kernel, args, outs, free } => {
                    let ins: Vec<usize> = args.iter().map(|&arg| narrow(self.bytes(arg))).collect();
                    let sizes: Vec<usize> = outs.iter().map(|out| out.bytes).collect();
                    self.step(args, outs, kernel.scratch(&ins, &sizes));
                    self.free(free);
                }
                Step::Tile { args, outs, free, .. } | Step::Collective { args, outs, free, .. } => {
                    self.step(args, outs, 0);
                    self.free(free);
                }
                Step::While { args, carried, cond, body, outs, free } => {
                    let values: Vec<Slot> = args.iter().map(|&arg| self.take(arg)).collect();
                    for (&slot, value) in carried.iter().zip(values) {
                        self.store(slot, value);
                    }
                    self.block(cond);
                    let preds = self.results(cond);
                    preds.into_iter().for_each(|pred| self.release(pred));
                    self.block(body);
                    let values = self.results(body);
                    for (&slot, value) in carried.iter().zip(values) {
                        self.store(slot, value);
                    }
                    for (&slot, &from) in outs.iter().zip(carried) {
                        let value = std::mem::take(&mut self.slots[from as usize]);
                        self.store(slot, value);
                    }
                    self.free(free);
                }
                Step::Case { branches, outs, free, .. } => {
                    // Only one of the branches runs. The results of all branches have the same size.
                    let before = (self.slots.clone(), self.live, self.held.clone());
                    let mut values = Vec::new();
                    for branch in branches {
                        (self.slots, self.live, self.held) = before.clone();
                        self.block(branch);
                        values = self.results(branch);
                    }
                    for (&slot, value) in outs.iter().zip(values) {
                        self.store(slot, value);
                    }
                    self.free(free);
                }
            }
        }
    }
}
