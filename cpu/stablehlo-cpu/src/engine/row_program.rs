//! Runs elementwise ops, reductions and scatters over the same rows as one step. The step processes a few rows at a
//! time, so that intermediate values stay in the cache.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ops::Range;

use super::across_rows::AcrossRows;
use super::graph::{Value, ValueIndex};
use super::group_compiler::compile_group;
use super::kernels::reduce::{Extents, ReduceFn};
use super::kernels::{Context, Kernel};
use super::parallel;
use super::pool::{Buffer, Line};
use super::row_fusion::{read_by, reduction_of};
use super::row_scatter::{RowScatter, SortedWindows};
use super::schedule::{BLOCK, Group, Item, Rows};
use super::stop::Stop;
use super::tile::{TileProgram, fill, reserve};
use crate::error::RunError;

/// Maximum number of outputs of a [`Part`] for which the list of outputs is kept on the stack. [`FEW_INS`] is the same
/// limit for the list of inputs.
const FEW_OUTS: usize = 3;
const FEW_INS: usize = 8;

/// The source of an operand of a [`Part`].
#[derive(Clone, Copy)]
enum Place {
    /// An input of the step, with all its rows.
    Input(usize),
    /// A value of the step, with only the current rows.
    Own(usize),
}

/// A value that the step computes.
struct Own {
    /// Size of one row in bytes.
    bytes: usize,
    /// Index of the output that stores the value. If `None`, a buffer stores the value for the current rows only.
    out: Option<usize>,
}

enum Part {
    /// A tile program with `width` elements per row.
    Tile { program: TileProgram, width: usize, ins: Vec<Place>, outs: Vec<usize> },
    Reduce {
        run: ReduceFn,
        from: Place,
        /// Size of each row of `from` in bytes.
        bytes: usize,
        init: Place,
        out: usize,
    },
    Scatter {
        scatter: RowScatter,
        /// Index of the step's input that contains the scatter indices. `updates` is the index of the input with the
        /// updates.
        indices: usize,
        updates: usize,
        /// Index among the scatters of the step.
        at: usize,
        out: usize,
    },
    Across {
        /// Index among the reductions across rows of the step.
        at: usize,
        from: Place,
        /// Index of the step's output.
        out: usize,
    },
}

/// A compiled step that processes a few rows at a time.
pub(crate) struct RowProgram {
    rows: usize,
    columns: usize,
    parts: Vec<Part>,
    own: Vec<Own>,
    outs: Vec<Division>,
    reductions: Vec<Reduction>,
    /// Number of rows of each chunk, if there are reductions across rows.
    chunk: Option<usize>,
}

/// A reduction across rows, and the index of the step's input with its initial value.
struct Reduction {
    reduction: AcrossRows,
    init: usize,
}

/// How an output is divided into chunks.
enum Division {
    /// Each row of the step computes a row of the output, whose size in bytes this is.
    Rows(usize),
    /// The output is the result of the reduction at this position of [`RowProgram::reductions`].
    Across(usize),
}

/// Compiles a run with the outputs `wanted`. Also returns the values that the run reads, in input order.
pub(crate) fn compile_rows(run: &Rows, wanted: &[ValueIndex], values: &[Value]) -> (RowProgram, Vec<ValueIndex>) {
    let mut ins: Vec<ValueIndex> = Vec::new();
    let mut own: Vec<(ValueIndex, Own)> = Vec::new();
    let mut parts = Vec::with_capacity(run.items.len());
    let mut outs: Vec<Division> =
        wanted.iter().map(|&v| Division::Rows(values[v as usize].bytes() / run.rows)).collect();
    let mut reductions = Vec::new();
    let row_bytes = |v: ValueIndex| values[v as usize].bytes() / run.rows;
    let input = |v: ValueIndex, ins: &mut Vec<ValueIndex>| {
        ins.iter().position(|&i| i == v).unwrap_or_else(|| {
            ins.push(v);
            ins.len() - 1
        })
    };
    let place = |v: ValueIndex, own: &[(ValueIndex, Own)], ins: &mut Vec<ValueIndex>| match own
        .iter()
        .position(|(o, _)| *o == v)
    {
        Some(at) => Place::Own(at),
        None => Place::Input(input(v, ins)),
    };
    let define = |v: ValueIndex, own: &mut Vec<(ValueIndex, Own)>| {
        own.push((v, Own { bytes: row_bytes(v), out: wanted.iter().position(|&w| w == v) }));
        own.len() - 1
    };
    for (at, item) in run.items.iter().enumerate() {
        match item {
            Item::Group(group) => {
                let later: HashSet<ValueIndex> = run.items[at + 1..].iter().flat_map(read_by).collect();
                let needed = group.nodes.iter().flat_map(|node| node.outs.iter().copied());
                let needed: Vec<ValueIndex> = needed.filter(|v| later.contains(v) || wanted.contains(v)).collect();
                let compiled = compile_group(group, &[], &needed, values);
                let ins = compiled.ins.iter().map(|&v| place(v, &own, &mut ins)).collect();
                let outs = needed.iter().map(|&v| define(v, &mut own)).collect();
                parts.push(Part::Tile { program: compiled.program, width: width(group, run.rows), ins, outs });
            }
            Item::Node(node) => {
                if let Some(reduce) = reduction_of(item, run.rows, run.columns) {
                    let from = place(node.ins[0], &own, &mut ins);
                    let init = place(node.ins[1], &own, &mut ins);
                    let out = define(node.outs[0], &mut own);
                    parts.push(Part::Reduce { run: reduce.run, from, bytes: row_bytes(node.ins[0]), init, out });
                } else if let Some(scatter) = RowScatter::of_node(node, values) {
                    let (indices, updates) = (input(node.ins[1], &mut ins), input(node.ins[2], &mut ins));
                    let out = define(node.outs[0], &mut own);
                    let at = parts.iter().filter(|part| matches!(part, Part::Scatter { .. })).count();
                    parts.push(Part::Scatter { scatter, indices, updates, at, out });
                } else if let Some(reduction) = run.across.reductions.iter().find(|r| r.value == node.outs[0])
                    && let Some(out) = wanted.iter().position(|&w| w == reduction.value)
                {
                    let from = place(node.ins[0], &own, &mut ins);
                    let init = input(node.ins[1], &mut ins);
                    outs[out] = Division::Across(reductions.len());
                    parts.push(Part::Across { at: reductions.len(), from, out });
                    reductions.push(Reduction { reduction: reduction.clone(), init });
                }
            }
            Item::Rows(_) => {}
        }
    }
    let own: Vec<Own> = own.into_iter().map(|(_, own)| own).collect();
    let chunk = (!reductions.is_empty()).then_some(run.across.chunk);
    (RowProgram { rows: run.rows, columns: run.columns, parts, own, outs, reductions, chunk }, ins)
}

fn width(group: &Group, rows: usize) -> usize {
    group.n / rows
}

thread_local! {
    /// Buffers of intermediate values. Later row programs on this thread reuse them.
    static BETWEEN: RefCell<Vec<Vec<Line>>> = const { RefCell::new(Vec::new()) };
}

impl Kernel for RowProgram {
    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], cx: &Context<'_>) -> Result<(), RunError> {
        let bytes = self.rows * self.columns * 4 * self.parts.len();
        let block = (BLOCK / self.columns).max(1);
        let free = || self.rows.div_ceil(parallel::threads(bytes) * 4).next_multiple_of(block);
        let chunk = self.chunk.unwrap_or_else(free);
        let sort = |part: &Part| match part {
            Part::Scatter { scatter, indices, .. } => Some(scatter.sort(ins[*indices], block, self.columns)),
            _ => None,
        };
        let sorted: Vec<SortedWindows> = self.parts.iter().filter_map(sort).collect();
        let mut running = self.running_results(outs, cx)?;
        self.initialize(ins, outs);
        let mut rest: Vec<&mut [u8]> = Vec::with_capacity(outs.len());
        for (out, running) in outs.iter_mut().zip(&mut running) {
            rest.push(match running {
                Some(running) => running.write()?,
                None => &mut **out,
            });
        }
        let mut tasks = Vec::new();
        for start in (0..self.rows).step_by(chunk) {
            let range = start..self.rows.min(start + chunk);
            let mut mine = Vec::with_capacity(rest.len());
            for (out, division) in rest.iter_mut().zip(&self.outs) {
                let bytes = match *division {
                    Division::Rows(bytes) => range.len() * bytes,
                    Division::Across(at) => self.reductions[at].reduction.bytes_of_chunk(range.len()),
                };
                let (head, tail) = std::mem::take(out).split_at_mut(bytes);
                mine.push(head);
                *out = tail;
            }
            tasks.push((range, mine));
        }
        parallel::each_until(cx.stop, tasks, bytes, |(rows, mut outs)| {
            self.range(rows, block, ins, &sorted, &mut outs, cx.stop);
        });
        for ((out, running), division) in outs.iter_mut().zip(&running).zip(&self.outs) {
            if let (Some(running), Division::Across(at)) = (running, division) {
                let reduction = &self.reductions[*at].reduction;
                running.bytes().chunks(out.len()).for_each(|chunk| reduction.combine(out, chunk));
            }
        }
        Ok(())
    }

    fn scratch(&self, _: &[usize], outs: &[usize]) -> usize {
        let running = self.outs.iter().zip(outs).map(|(division, &bytes)| match self.shared(division) {
            Some((_, chunks)) => chunks * bytes,
            None => 0,
        });
        let windows = self.parts.iter().map(|part| match part {
            Part::Scatter { scatter, .. } => scatter.sorting_bytes(),
            _ => 0,
        });
        running.sum::<usize>() + windows.sum::<usize>()
    }
}

impl RowProgram {
    /// Returns the reduction that computes an output, and the number of chunks, if each chunk has running results of
    /// its own.
    fn shared(&self, division: &Division) -> Option<(&AcrossRows, usize)> {
        let Division::Across(at) = *division else { return None };
        let reduction = &self.reductions[at].reduction;
        let chunks = self.rows.div_ceil(self.chunk?);
        (!reduction.is_apart).then_some((reduction, chunks))
    }

    /// Allocates the running results of all chunks, for each output to whose elements several chunks contribute.
    fn running_results(&self, outs: &[&mut [u8]], cx: &Context<'_>) -> Result<Vec<Option<Buffer>>, RunError> {
        let allocate = |(division, out): (&Division, &&mut [u8])| {
            let Some((reduction, chunks)) = self.shared(division) else { return Ok(None) };
            let mut running = cx.pool.alloc(chunks * out.len())?;
            fill(running.write()?, reduction.identity());
            Ok(Some(running))
        };
        self.outs.iter().zip(outs).map(allocate).collect()
    }

    /// Fills the results of reductions across rows with the initial values.
    fn initialize(&self, ins: &[&[u8]], outs: &mut [&mut [u8]]) {
        for (out, division) in outs.iter_mut().zip(&self.outs) {
            if let Division::Across(at) = *division {
                fill(out, ins[self.reductions[at].init]);
            }
        }
    }

    /// Processes a range of rows, `block` rows at a time, until a stop request. The slices in `outs` contain only the
    /// results of these rows.
    fn range(
        &self,
        rows: Range<usize>,
        block: usize,
        ins: &[&[u8]],
        sorted: &[SortedWindows],
        outs: &mut [&mut [u8]],
        stop: Option<&Stop>,
    ) {
        let mut between = BETWEEN.take();
        if between.len() < self.own.len() {
            between.resize_with(self.own.len(), Vec::new);
        }
        let mut start = rows.start;
        while start < rows.end && Stop::check(stop).is_ok() {
            let count = block.min(rows.end - start);
            let mut at = Block { program: self, first: rows.start, start, count, between: &mut between, outs };
            self.parts.iter().for_each(|part| at.run(part, ins, sorted));
            start += count;
        }
        BETWEEN.set(between);
    }
}

/// The rows that are being processed.
struct Block<'a, 'b> {
    program: &'a RowProgram,
    /// First row of the outputs' slices.
    first: usize,
    start: usize,
    count: usize,
    between: &'a mut [Vec<Line>],
    outs: &'a mut [&'b mut [u8]],
}

impl<'b> Block<'_, 'b> {
    /// Returns the bytes of an operand, and the index of the first row that they contain.
    fn read<'c>(&'c self, place: Place, ins: &[&'c [u8]]) -> (&'c [u8], usize) {
        match place {
            Place::Input(i) => (ins[i], 0),
            Place::Own(at) => {
                let own = &self.program.own[at];
                let bytes = match own.out {
                    Some(o) => &self.outs[o][(self.start - self.first) * own.bytes..],
                    None => bytemuck::cast_slice(&self.between[at]),
                };
                (&bytes[..self.count * own.bytes], self.start)
            }
        }
    }

    /// Runs a part. `sorted` contains the windows of each scatter.
    fn run(&mut self, part: &Part, ins: &[&[u8]], sorted: &[SortedWindows]) {
        match part {
            Part::Tile { program, width, ins: places, outs } => {
                // Short lists are kept on the stack, because allocating them takes longer than many parts.
                let (mut few_taken, mut few_targets, mut few_slices, mut few_bases) =
                    ([const { None }; FEW_OUTS], <[&mut [u8]; FEW_OUTS]>::default(), [&[][..]; FEW_INS], [0; FEW_INS]);
                let (mut many_taken, mut many_targets, mut many_slices, mut many_bases);
                let taken = match few_taken.get_mut(..outs.len()) {
                    Some(few) => few,
                    None => {
                        many_taken = outs.iter().map(|_| None).collect::<Vec<_>>();
                        &mut many_taken
                    }
                };
                // Take out the values that this part writes, so that all other values can be borrowed.
                for (taken, &at) in taken.iter_mut().zip(outs) {
                    *taken = Some(TakenRow::new(self, at));
                }
                {
                    let targets = match few_targets.get_mut(..outs.len()) {
                        Some(few) => few,
                        None => {
                            many_targets = outs.iter().map(|_| Default::default()).collect::<Vec<_>>();
                            &mut many_targets
                        }
                    };
                    for (target, taken) in targets.iter_mut().zip(taken.iter_mut().flatten()) {
                        *target = taken.bytes(self.start - self.first, self.count);
                    }
                    let (slices, bases) = match (few_slices.get_mut(..places.len()), few_bases.get_mut(..places.len()))
                    {
                        (Some(slices), Some(bases)) => (slices, bases),
                        _ => {
                            many_slices = vec![&[][..]; places.len()];
                            many_bases = vec![0; places.len()];
                            (&mut many_slices[..], &mut many_bases[..])
                        }
                    };
                    for ((slice, base), &place) in slices.iter_mut().zip(bases.iter_mut()).zip(places) {
                        let (bytes, first) = self.read(place, ins);
                        (*slice, *base) = (bytes, first * width);
                    }
                    let range = self.start * width..(self.start + self.count) * width;
                    program.run_part(range, slices, bases, targets);
                }
                taken.iter_mut().filter_map(Option::take).for_each(|taken| taken.give_back(self));
            }
            Part::Reduce { run, from, bytes, init, out } => {
                let mut taken = TakenRow::new(self, *out);
                {
                    let (source, first) = self.read(*from, ins);
                    let (init, _) = self.read(*init, ins);
                    let row = self.start - first;
                    let source = &source[row * bytes..(row + self.count) * bytes];
                    let target = taken.bytes(self.start - self.first, self.count);
                    // The input and output elements have the same type, so the ratio of the sizes is the number of
                    // elements to reduce.
                    let reduced = source.len() / target.len().max(1);
                    run(&Extents { outer: self.count, reduced, inner: 1 }, source, init, target, None);
                }
                taken.give_back(self);
            }
            Part::Scatter { scatter, updates, at, out, .. } => {
                let mut taken = TakenRow::new(self, *out);
                let target = taken.bytes(self.start - self.first, self.count);
                scatter.run(self.start, ins[*updates], &sorted[*at], target);
                taken.give_back(self);
            }
            Part::Across { at, from, out } => {
                let running = std::mem::take(&mut self.outs[*out]);
                let (operand, _) = self.read(*from, ins);
                self.program.reductions[*at].reduction.add(operand, self.start, self.first, running);
                self.outs[*out] = running;
            }
        }
    }
}

/// A value of the step while a part writes it.
struct TakenRow<'b> {
    at: usize,
    /// Size of a row in bytes.
    row: usize,
    storage: RowStorage<'b>,
}

enum RowStorage<'b> {
    Out(usize, &'b mut [u8]),
    Between(Vec<Line>),
}

impl<'b> TakenRow<'b> {
    fn new(block: &mut Block<'_, 'b>, at: usize) -> Self {
        let own = &block.program.own[at];
        let storage = match own.out {
            Some(o) => RowStorage::Out(o, std::mem::take(&mut block.outs[o])),
            None => RowStorage::Between(std::mem::take(&mut block.between[at])),
        };
        TakenRow { at, row: own.bytes, storage }
    }

    /// Returns the bytes of the `count` current rows. In an output, they start at row `row` of the output's slice.
    fn bytes(&mut self, row: usize, count: usize) -> &mut [u8] {
        match &mut self.storage {
            RowStorage::Out(_, out) => &mut out[row * self.row..(row + count) * self.row],
            RowStorage::Between(lines) => reserve(lines, count * self.row),
        }
    }

    fn give_back(self, block: &mut Block<'_, 'b>) {
        match self.storage {
            RowStorage::Out(o, out) => block.outs[o] = out,
            RowStorage::Between(lines) => block.between[self.at] = lines,
        }
    }
}
