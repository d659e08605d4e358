//! Joins elementwise ops, reductions and scatters over the same rows into one step. The step processes a few rows at a
//! time, so that intermediate values stay in the cache.

use std::any::Any;
use std::cell::RefCell;
use std::collections::HashSet;
use std::ops::Range;

use super::graph::{Node, Op, Value, ValueIndex};
use super::group_compiler::compile_group;
use super::kernels::reduce::{Extents, Reduce, ReduceFn};
use super::kernels::{Context, Kernel};
use super::parallel;
use super::pool::Line;
use super::row_scatter::{RowScatter, SortedWindows};
use super::schedule::{Group, Item, Rows};
use super::tile::{TileProgram, reserve};
use crate::error::RunError;

/// Number of elements that are processed at a time. A few values of this length fit the caches of a core.
const BLOCK: usize = 4096;
/// Maximum row length. Longer rows are instead reduced on several cores.
const MAX_COLUMNS: usize = 1 << 16;
/// Minimum row length. For shorter rows, fusion is not faster than processing whole tensors one after the other.
const MIN_COLUMNS: usize = 8;

/// Maximum number of outputs of a [`Part`] for which the list of outputs is kept on the stack. [`FEW_INS`] is the same
/// limit for the list of inputs.
const FEW_OUTS: usize = 3;
const FEW_INS: usize = 8;

/// Returns the reduction of whole rows that an item consists of, if any.
fn row_reduction(item: &Item) -> Option<&Reduce> {
    match item {
        Item::Node(node) => match &node.op {
            Op::Kernel { kernel, .. } => {
                let kernel: &dyn Any = &**kernel;
                kernel.downcast_ref().filter(|reduce: &&Reduce| reduce.extents.inner == 1)
            }
            _ => None,
        },
        _ => None,
    }
}

/// Returns the numbers of rows and columns of an item around which other items are joined. Such an item is a reduction
/// of rows or a scatter. Returns `None` for other items, and if the number or the length of the rows is unsuitable.
fn anchor(item: &Item, values: &[Value]) -> Option<(usize, usize)> {
    match row_reduction(item) {
        Some(reduce) => Some((reduce.extents.outer, reduce.extents.reduced)).filter(|&(_, c)| c >= MIN_COLUMNS),
        None => RowScatter::of_item(item, values).map(|scatter| scatter.shape()),
    }
    .filter(|&(rows, columns)| rows > 1 && columns <= MAX_COLUMNS)
}

/// Joins consecutive items around reductions of rows and scatters into steps. A list of items that are joined is called
/// a run.
pub(crate) fn join(items: Vec<Item>, values: &[Value]) -> Vec<Item> {
    let mut joined: Vec<Item> = Vec::with_capacity(items.len());
    let mut rest: std::collections::VecDeque<Item> = items.into();
    while let Some(item) = rest.pop_front() {
        let Some((rows, columns)) = anchor(&item, values) else {
            joined.push(item);
            continue;
        };
        // The input of a fused scatter is a constant, so no item before the scatter can compute its rows.
        let extends_back = row_reduction(&item).is_some();
        let mut run = std::collections::VecDeque::from([item]);
        while extends_back && joined.last().is_some_and(|item| over(item, rows, columns, values)) {
            run.extend(joined.pop());
            run.rotate_right(1);
        }
        let mut run = Vec::from(run);
        while let Some(next) = rest.front() {
            if over(next, rows, columns, values) {
                run.extend(rest.pop_front());
            } else if is_scalar(next) && !reads_from(next, &run) {
                // The item is independent of the run. Schedule the item before the run, and continue with the next one.
                joined.extend(rest.pop_front());
            } else {
                break;
            }
        }
        // Split the run at the first item that does not fit. If the item follows the reduction or scatter, examine the
        // item and the following ones again later. Otherwise, schedule the items before the cut on their own.
        while let Some(cut) = misfit(&run, rows, columns, values) {
            let first = run.iter().position(|item| matches!(item, Item::Node(_))).unwrap_or(0);
            if cut <= first {
                joined.extend(run.drain(..cut.max(1)));
            } else {
                for item in run.drain(cut..).rev() {
                    rest.push_front(item);
                }
            }
        }
        if run.len() < 2 {
            joined.extend(run);
        } else {
            joined.push(Item::Rows(Rows { rows, columns, items: run }));
        }
    }
    joined
}

/// Returns whether the item works on all elements of rows of this size, or on one element per row.
fn over(item: &Item, rows: usize, columns: usize, values: &[Value]) -> bool {
    match item {
        Item::Group(group) => group.n == rows || group.n == rows * columns,
        _ => match row_reduction(item) {
            Some(reduce) => (reduce.extents.outer, reduce.extents.reduced) == (rows, columns),
            None => RowScatter::of_item(item, values).is_some_and(|scatter| scatter.fits(rows, columns)),
        },
    }
}

/// Returns whether the item computes only scalars.
fn is_scalar(item: &Item) -> bool {
    matches!(item, Item::Group(group) if group.n == 1)
}

/// Returns whether the item reads a value that the run computes.
fn reads_from(item: &Item, run: &[Item]) -> bool {
    let read = read_by(item);
    let reads = |node: &Node| node.outs.iter().any(|v| read.contains(v));
    run.iter().any(|item| match item {
        Item::Node(node) => reads(node),
        Item::Group(group) => group.nodes.iter().any(reads),
        Item::Rows(_) => true,
    })
}

/// Returns the index of the first item that may read a value of the run from rows other than those that it processes.
fn misfit(run: &[Item], rows: usize, columns: usize, values: &[Value]) -> Option<usize> {
    let mut made: HashSet<ValueIndex> = HashSet::new();
    for (at, item) in run.iter().enumerate() {
        match item {
            Item::Group(group) => {
                for node in &group.nodes {
                    let own_rows = match &node.op {
                        Op::Load(view) if made.contains(&node.ins[0]) => {
                            group.n == rows * columns
                                && values[node.ins[0] as usize].n == rows
                                && view.repeats(rows, columns)
                        }
                        Op::Assemble(_) => node.ins.iter().all(|v| !made.contains(v)),
                        _ => node.ins.iter().all(|v| !made.contains(v) || values[*v as usize].n == group.n),
                    };
                    if !own_rows {
                        return Some(at);
                    }
                }
                made.extend(group.nodes.iter().flat_map(|node| &node.outs));
            }
            Item::Node(node) => {
                // A reduction reads only the current rows of its first operand. All other operands of a reduction or a
                // scatter are read at other positions.
                if node.ins[1..].iter().any(|v| made.contains(v)) {
                    return Some(at);
                }
                made.extend(&node.outs);
            }
            Item::Rows(_) => return Some(at),
        }
    }
    None
}

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
}

/// A compiled step that processes a few rows at a time.
pub(crate) struct RowProgram {
    rows: usize,
    columns: usize,
    parts: Vec<Part>,
    own: Vec<Own>,
    /// Size of a row of each output in bytes.
    outs: Vec<usize>,
}

/// Compiles a run with the outputs `wanted`. Also returns the values that the run reads, in input order.
pub(crate) fn compile_rows(run: &Rows, wanted: &[ValueIndex], values: &[Value]) -> (RowProgram, Vec<ValueIndex>) {
    let mut ins: Vec<ValueIndex> = Vec::new();
    let mut own: Vec<(ValueIndex, Own)> = Vec::new();
    let mut parts = Vec::with_capacity(run.items.len());
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
                if let Some(reduce) = row_reduction(item) {
                    let from = place(node.ins[0], &own, &mut ins);
                    let init = place(node.ins[1], &own, &mut ins);
                    let out = define(node.outs[0], &mut own);
                    parts.push(Part::Reduce { run: reduce.run, from, bytes: row_bytes(node.ins[0]), init, out });
                } else if let Some(scatter) = RowScatter::of_node(node, values) {
                    let (indices, updates) = (input(node.ins[1], &mut ins), input(node.ins[2], &mut ins));
                    let out = define(node.outs[0], &mut own);
                    let at = parts.iter().filter(|part| matches!(part, Part::Scatter { .. })).count();
                    parts.push(Part::Scatter { scatter, indices, updates, at, out });
                }
            }
            Item::Rows(_) => {}
        }
    }
    let own: Vec<Own> = own.into_iter().map(|(_, own)| own).collect();
    let outs = wanted.iter().map(|&v| row_bytes(v)).collect();
    (RowProgram { rows: run.rows, columns: run.columns, parts, own, outs }, ins)
}

fn width(group: &Group, rows: usize) -> usize {
    group.n / rows
}

/// Returns the values that an item reads.
fn read_by(item: &Item) -> Vec<ValueIndex> {
    match item {
        Item::Group(group) => group.nodes.iter().flat_map(|node| node.ins.iter().copied()).collect(),
        Item::Node(node) => node.ins.clone(),
        Item::Rows(rows) => rows.items.iter().flat_map(read_by).collect(),
    }
}

thread_local! {
    /// Buffers of intermediate values. Later row programs on this thread reuse them.
    static BETWEEN: RefCell<Vec<Vec<Line>>> = const { RefCell::new(Vec::new()) };
}

impl Kernel for RowProgram {
    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], cx: &Context<'_>) -> Result<(), RunError> {
        let bytes = self.rows * self.columns * 4 * self.parts.len();
        let block = (BLOCK / self.columns).max(1);
        let chunk = self.rows.div_ceil(parallel::threads(bytes) * 4).next_multiple_of(block);
        let sort = |part: &Part| match part {
            Part::Scatter { scatter, indices, .. } => Some(scatter.sort(ins[*indices], block, self.columns)),
            _ => None,
        };
        let sorted: Vec<SortedWindows> = self.parts.iter().filter_map(sort).collect();
        let mut rest: Vec<&mut [u8]> = outs.iter_mut().map(|out| &mut **out).collect();
        let mut tasks = Vec::new();
        for start in (0..self.rows).step_by(chunk) {
            let count = chunk.min(self.rows - start);
            let mut mine = Vec::with_capacity(rest.len());
            for (out, &bytes) in rest.iter_mut().zip(&self.outs) {
                let (head, tail) = std::mem::take(out).split_at_mut(count * bytes);
                mine.push(head);
                *out = tail;
            }
            tasks.push((start..start + count, mine));
        }
        parallel::each_until(cx.stop, tasks, bytes, |(rows, mut outs)| {
            self.range(rows, block, ins, &sorted, &mut outs);
        });
        Ok(())
    }
}

impl RowProgram {
    /// Processes a range of rows, `block` rows at a time. The slices in `outs` contain only these rows.
    fn range(&self, rows: Range<usize>, block: usize, ins: &[&[u8]], sorted: &[SortedWindows], outs: &mut [&mut [u8]]) {
        let mut between = BETWEEN.take();
        if between.len() < self.own.len() {
            between.resize_with(self.own.len(), Vec::new);
        }
        let mut start = rows.start;
        while start < rows.end {
            let count = block.min(rows.end - start);
            let mut at = Block { first: rows.start, start, count, own: &self.own, between: &mut between, outs };
            self.parts.iter().for_each(|part| at.run(part, ins, sorted));
            start += count;
        }
        BETWEEN.set(between);
    }
}

/// The rows that are being processed.
struct Block<'a, 'b> {
    /// First row of the outputs' slices.
    first: usize,
    start: usize,
    count: usize,
    own: &'a [Own],
    between: &'a mut [Vec<Line>],
    outs: &'a mut [&'b mut [u8]],
}

impl<'b> Block<'_, 'b> {
    /// Returns the bytes of an operand, and the index of the first row that they contain.
    fn read<'c>(&'c self, place: Place, ins: &[&'c [u8]]) -> (&'c [u8], usize) {
        match place {
            Place::Input(i) => (ins[i], 0),
            Place::Own(at) => {
                let own = &self.own[at];
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
        let own = &block.own[at];
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
