//! How much memory a run takes, and how much of it a run reads and writes, worked out from the steps.

use super::program::{Arg, Block, Out, Program, Step};

/// Memory of one run, in bytes. Sums beyond `usize::MAX` are `usize::MAX`: a program may name larger arrays than any
/// memory holds. Kernels that need room for themselves are not asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Footprint {
    /// The most that is allocated at a time beyond what the run returns.
    pub temporary: usize,
    /// The most that is in use at a time: the parameters, and all that is allocated.
    pub total: usize,
    /// Read and written, with each loop run once and each branch counted.
    pub accessed: usize,
    /// Whether the program has a loop, also in a region that runs for each element. A run may take many times that long.
    pub loops: bool,
}

impl Program {
    /// What a run takes, if the caller gives up the parameters that the program may overwrite.
    pub fn footprint(&self) -> Footprint {
        let mut slots = vec![Slot::default(); self.slots];
        for (slot, parameter) in slots.iter_mut().zip(&self.parameters) {
            let own = parameter.donor || parameter.alias_output.is_some();
            *slot = Slot { bytes: wide(parameter.ty.bytes()), own, allocated: 0 };
        }
        let consts = self.consts.iter().map(|constant| wide(constant.bytes().len())).collect();
        let mut walk = Walk { slots, consts, live: 0, peak: 0, accessed: 0 };
        walk.block(&self.block);
        // What is still allocated in the end is returned.
        let saturated = |bytes: u128| usize::try_from(bytes).unwrap_or(usize::MAX);
        let parameters: u128 = self.parameters.iter().map(|parameter| wide(parameter.ty.bytes())).sum();
        Footprint {
            temporary: saturated(walk.peak - walk.live),
            total: saturated(parameters + walk.peak),
            accessed: saturated(walk.accessed),
            loops: self.block.has_loop(),
        }
    }
}

/// A size in the type of sums, which no number of arrays overflows.
fn wide(bytes: usize) -> u128 {
    // Lossless on every target; there is no `From`, for targets yet to come.
    bytes as u128
}

/// What a slot holds.
#[derive(Clone, Copy, Default)]
struct Slot {
    bytes: u128,
    /// Whether a step may write it.
    own: bool,
    /// Bytes the run allocated for it: none for parameters.
    allocated: u128,
}

struct Walk {
    slots: Vec<Slot>,
    consts: Vec<u128>,
    live: u128,
    peak: u128,
    accessed: u128,
}

impl Walk {
    fn bytes(&self, arg: Arg) -> u128 {
        match arg {
            Arg::Slot(slot) | Arg::Last(slot) => self.slots[slot as usize].bytes,
            Arg::Const(constant) => self.consts[constant as usize],
        }
    }

    fn empty(&mut self, slot: u32) {
        let slot = std::mem::take(&mut self.slots[slot as usize]);
        self.live -= slot.allocated;
    }

    fn allocate(&mut self, bytes: u128) -> Slot {
        self.live += bytes;
        self.peak = self.peak.max(self.live);
        Slot { bytes, own: true, allocated: bytes }
    }

    /// A value moved out of its slot, or shared with it.
    fn take(&mut self, arg: Arg) -> Slot {
        match arg {
            Arg::Last(slot) => std::mem::take(&mut self.slots[slot as usize]),
            _ => Slot { bytes: self.bytes(arg), own: false, allocated: 0 },
        }
    }

    fn store(&mut self, slot: u32, value: Slot) {
        self.empty(slot);
        self.slots[slot as usize] = value;
    }

    fn step(&mut self, args: &[Arg], outs: &[Out]) {
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
            let slot = stolen.map(|slot| Slot { bytes: wide(out.bytes), ..slot });
            made.push(slot.unwrap_or_else(|| self.allocate(wide(out.bytes))));
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
                Step::Tile { args, outs, free, .. }
                | Step::Kernel { args, outs, free, .. }
                | Step::Collective { args, outs, free, .. } => {
                    self.step(args, outs);
                    self.free(free);
                }
                Step::While { args, carried, cond, body, outs, free } => {
                    let values: Vec<Slot> = args.iter().map(|&arg| self.take(arg)).collect();
                    for (&slot, value) in carried.iter().zip(values) {
                        self.store(slot, value);
                    }
                    self.block(cond);
                    let preds = self.results(cond);
                    self.live -= preds.iter().map(|pred| pred.allocated).sum::<u128>();
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
                    // One of the branches runs; what it returns is as large as what the others do.
                    let before = (self.slots.clone(), self.live);
                    let mut values = Vec::new();
                    for branch in branches {
                        (self.slots, self.live) = before.clone();
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
