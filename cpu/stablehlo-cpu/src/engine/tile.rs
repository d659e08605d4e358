//! Programs of fused elementwise ops. They run tile by tile, so that intermediate values stay in the first-level cache.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use bytemuck::{cast_slice, cast_slice_mut};

use super::assembly::Assembly;
use super::dtype::{DType, with_dtype, with_size};
use super::elementwise::chain::{self, Link, MAX_READS, Operand};
use super::elementwise::{Loop, num::Cast};
use super::parallel;
use super::pool::{LINE, Line};
use super::view::{self, View};

/// Number of elements in a tile of a program with many registers. Tiles of programs with few registers are longer.
/// Tiles at the end of a line or of the run are shorter. A dozen `f32` registers of this length fit the first-level
/// cache.
pub(crate) const TILE: usize = 1024;
/// Number of registers and outputs of [`TILE`] elements that fit the first-level cache together with the inputs.
const ROOM: usize = 8;
/// Maximum tile length, in units of [`TILE`]. Longer tiles are not faster.
const WIDEST: usize = 4;

/// The source of an instruction's operand. The second field is the size of an element in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Src {
    /// No operand, because the function takes fewer than three.
    None,
    /// An input with one element per element of the run.
    In(u16, u8),
    Reg(u16, u8),
    Out(u16, u8),
}

/// The destination of an instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Dst {
    Reg(u16),
    Out(u16),
}

/// The operation of an instruction.
pub(crate) enum TileOp {
    Map(Loop, [Src; 3]),
    /// Reads elements of an input through a strided view.
    Load(u16, View),
    /// Reads elements of several inputs.
    Assemble(Vec<u16>, Arc<Assembly>),
    Iota(Iota),
    Copy(Src),
    /// Several `f32` functions in one pass. The chain starts with the first value that it reads.
    Chain(Vec<Read>, Vec<Link>),
}

/// An operand of a chain.
pub(crate) enum Read {
    Src(Src),
    /// An input through a view whose elements are contiguous or equal within each tile.
    View(u16, View),
    Constant(f32),
    /// The first element of an input.
    First(u16),
}

pub(crate) struct Instr {
    pub(crate) op: TileOp,
    pub(crate) dst: Dst,
    /// Size of an output element in bytes.
    pub(crate) size: u8,
}

/// A register in which all elements have the same value.
pub(crate) struct Splat {
    pub(crate) reg: u16,
    pub(crate) size: u8,
    pub(crate) value: SplatValue,
}

pub(crate) enum SplatValue {
    Constant([u8; 16]),
    /// The first element of an input.
    Input(u16),
}

/// Indices along one dimension: `(i / inner) % extent` for the flat index `i`.
#[derive(Clone, Copy)]
pub(crate) struct Iota {
    fill: fn(usize, usize, usize, &mut [u8]),
    dtype: DType,
    inner: usize,
    extent: usize,
}

impl Iota {
    pub(crate) fn new(dtype: DType, inner: usize, extent: usize) -> Option<Self> {
        fn fill<T: bytemuck::Pod>(start: usize, inner: usize, extent: usize, out: &mut [u8])
        where
            u64: Cast<T>,
        {
            let mut position = (start / inner) % extent;
            let mut within = start % inner;
            let mut rest = cast_slice_mut::<u8, T>(out);
            // Fill runs of equal or ascending indices, because loops without branches are vectorized.
            while !rest.is_empty() {
                let run = if inner > 1 { inner - within } else { extent - position };
                let (run, later) = rest.split_at_mut(run.min(rest.len()));
                rest = later;
                if inner > 1 {
                    run.fill((position as u64).cast());
                    (position, within) = ((position + 1) % extent, 0);
                } else {
                    run.iter_mut().enumerate().for_each(|(i, o)| *o = ((position + i) as u64).cast());
                    position = 0;
                }
            }
        }
        let (inner, extent) = (inner.max(1), extent.max(1));
        with_dtype!(dtype, T => Some(Iota { fill: fill::<T>, dtype, inner, extent }), _ => None)
    }

    pub(crate) fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the number of consecutive elements with the same index, and the number of indices.
    pub(crate) fn shape(&self) -> (usize, usize) {
        (self.inner, self.extent)
    }
}

/// A straight-line program over vectors of equal length.
#[derive(Default)]
pub(crate) struct TileProgram {
    pub(crate) splats: Vec<Splat>,
    pub(crate) instrs: Vec<Instr>,
    pub(crate) regs: usize,
    /// Size of an element of each output in bytes.
    pub(crate) outs: Vec<u8>,
    /// Tiles do not extend across multiples of this number of elements. If it is 0, tiles may end anywhere.
    pub(crate) line: usize,
}

thread_local! {
    /// Registers of this thread. Later runs of tile programs reuse them.
    static REGISTERS: RefCell<Vec<Vec<Line>>> = const { RefCell::new(Vec::new()) };
}

impl TileProgram {
    /// Runs the program for `n` elements, on several threads if there are many elements. `alias[o]` is the input whose
    /// elements output `o` already holds and overwrites. The slice of such an input is not read.
    pub(crate) fn run(&self, n: usize, ins: &[&[u8]], outs: &mut [&mut [u8]], alias: &[Option<u16>]) {
        let bytes = n * self.outs.iter().map(|&s| usize::from(s)).sum::<usize>() * (2 + self.instrs.len() / 4);
        let threads = parallel::threads(bytes);
        if threads == 1 || n <= 2 * TILE {
            return self.run_range(0..n, ins, &[], outs, alias);
        }
        let chunk = n.div_ceil(threads * 4).next_multiple_of(TILE);
        let mut rest: Vec<&mut [u8]> = outs.iter_mut().map(|o| &mut **o).collect();
        let mut tasks = Vec::with_capacity(threads * 4);
        for start in (0..n).step_by(chunk) {
            let count = chunk.min(n - start);
            let mut mine = Vec::with_capacity(rest.len());
            for (out, &size) in rest.iter_mut().zip(&self.outs) {
                let (head, tail) = std::mem::take(out).split_at_mut(count * usize::from(size));
                mine.push(head);
                *out = tail;
            }
            tasks.push((start..start + count, mine));
        }
        parallel::each(tasks, bytes, |(range, mut outs)| self.run_range(range, ins, &[], &mut outs, alias));
    }

    /// Runs the program for the elements of `range` on this thread. `outs` contain only these elements. `ins[i]` starts
    /// at element `bases[i]`.
    pub(crate) fn run_part(&self, range: Range<usize>, ins: &[&[u8]], bases: &[usize], outs: &mut [&mut [u8]]) {
        self.run_range(range, ins, bases, outs, &[]);
    }

    /// Runs the program for the elements of `range`. `outs` contain only these elements. Each input starts at its base,
    /// or at element 0 without bases.
    fn run_range(
        &self,
        range: Range<usize>,
        ins: &[&[u8]],
        bases: &[usize],
        outs: &mut [&mut [u8]],
        alias: &[Option<u16>],
    ) {
        let mut regs = REGISTERS.take();
        let aliased = alias.iter().any(Option::is_some);
        let count = self.regs + if aliased { outs.len() } else { 0 };
        if regs.len() < count {
            regs.resize_with(count, Vec::new);
        }
        let tile = TILE * (ROOM / (count + outs.len()).max(1)).clamp(1, WIDEST);
        let width = tile.min(range.len());
        for splat in &self.splats {
            let size = usize::from(splat.size);
            let value = match &splat.value {
                SplatValue::Constant(bytes) => &bytes[..size],
                SplatValue::Input(i) => &ins[usize::from(*i)][..size],
            };
            fill(reserve(&mut regs[usize::from(splat.reg)], width * size), value);
        }
        let mut start = range.start;
        while start < range.end {
            let within = start.checked_rem(self.line).map_or(tile, |at| self.line - at);
            let len = tile.min(range.end - start).min(within);
            if aliased {
                for (o, _) in alias.iter().enumerate().filter(|(_, a)| a.is_some()) {
                    let size = usize::from(self.outs[o]);
                    let at = (start - range.start) * size;
                    reserve(&mut regs[self.regs + o], len * size).copy_from_slice(&outs[o][at..at + len * size]);
                }
            }
            let mut tile =
                Tile { first: self.regs, regs: &mut regs, ins, bases, outs, alias, start, base: range.start, len };
            for instr in &self.instrs {
                tile.step(instr);
            }
            start += len;
        }
        REGISTERS.set(regs);
    }
}

/// One tile of a run.
struct Tile<'a, 'b> {
    /// Index of the first register that holds the old contents of an output written in place.
    first: usize,
    regs: &'a mut [Vec<Line>],
    ins: &'a [&'a [u8]],
    bases: &'a [usize],
    outs: &'a mut [&'b mut [u8]],
    alias: &'a [Option<u16>],
    /// Index of the tile's first element. `base` is the index of the element at the start of the outputs' slices.
    start: usize,
    base: usize,
    len: usize,
}

impl Tile<'_, '_> {
    /// Returns the position of the tile's first element in the slice of an input.
    #[inline]
    fn start_of(&self, input: u16) -> usize {
        self.start - self.bases.get(usize::from(input)).copied().unwrap_or(0)
    }

    #[inline]
    fn src(&self, src: Src) -> &[u8] {
        let (from, size) = match src {
            Src::None => return &[],
            Src::In(i, size) => {
                let size = usize::from(size);
                if let Some(o) = self.alias.iter().position(|&a| a == Some(i)) {
                    return &cast_slice(&self.regs[self.first + o])[..self.len * size];
                }
                (&self.ins[usize::from(i)][self.start_of(i) * size..], size)
            }
            Src::Reg(r, size) => (cast_slice(&self.regs[usize::from(r)]), usize::from(size)),
            Src::Out(o, size) => {
                let size = usize::from(size);
                (&self.outs[usize::from(o)][(self.start - self.base) * size..], size)
            }
        };
        &from[..self.len * size]
    }

    #[inline]
    fn operand(&self, read: &Read) -> Operand<'_> {
        match read {
            Read::Src(src) => Operand::Slice(cast_slice(self.src(*src))),
            Read::View(input, view) => {
                let input_elements: &[f32] = cast_slice(self.ins[usize::from(*input)]);
                match view.line_at(self.start_of(*input)) {
                    view::Line::Contiguous(at) => Operand::Slice(&input_elements[at..at + self.len]),
                    view::Line::Repeated(at) => Operand::One(input_elements[at]),
                }
            }
            Read::Constant(x) => Operand::One(*x),
            Read::First(input) => Operand::One(cast_slice::<u8, f32>(&self.ins[usize::from(*input)][..4])[0]),
        }
    }

    #[inline]
    fn step(&mut self, instr: &Instr) {
        let size = usize::from(instr.size);
        // Take out the destination while the instruction writes it, so that the sources can be borrowed.
        match instr.dst {
            Dst::Reg(r) => {
                let r = usize::from(r);
                let mut reg = std::mem::take(&mut self.regs[r]);
                self.compute(&instr.op, size, reserve(&mut reg, self.len * size));
                self.regs[r] = reg;
            }
            Dst::Out(o) => {
                let o = usize::from(o);
                let out = std::mem::take(&mut self.outs[o]);
                let at = (self.start - self.base) * size;
                self.compute(&instr.op, size, &mut out[at..at + self.len * size]);
                self.outs[o] = out;
            }
        }
    }

    #[inline]
    fn compute(&self, op: &TileOp, size: usize, dst: &mut [u8]) {
        match op {
            TileOp::Map(map, [a, b, c]) => map.run(self.src(*a), self.src(*b), self.src(*c), dst),
            TileOp::Load(input, view) => {
                let src = self.ins[usize::from(*input)];
                with_size!(size, T => view.read(cast_slice::<u8, T>(src), self.start_of(*input), cast_slice_mut(dst)));
            }
            TileOp::Assemble(inputs, assembly) => with_size!(size, T => {
                let elements = |input: usize| cast_slice::<u8, T>(self.ins[usize::from(inputs[input])]);
                assembly.read(elements, self.start, cast_slice_mut(dst));
            }),
            TileOp::Iota(iota) => (iota.fill)(self.start, iota.inner, iota.extent, dst),
            TileOp::Copy(src) => dst.copy_from_slice(self.src(*src)),
            TileOp::Chain(reads, links) => {
                let mut operands = [Operand::One(0.0); MAX_READS];
                for (operand, read) in operands.iter_mut().zip(reads) {
                    *operand = self.operand(read);
                }
                chain::run(links, &operands, cast_slice_mut(dst));
            }
        }
    }
}

/// Returns the first `bytes` bytes of a register. Grows the register if it is too short.
#[inline]
pub(crate) fn reserve(reg: &mut Vec<Line>, bytes: usize) -> &mut [u8] {
    let lines = bytes.div_ceil(LINE);
    if reg.len() < lines {
        reg.resize(lines, bytemuck::Zeroable::zeroed());
    }
    &mut cast_slice_mut(reg)[..bytes]
}

/// Fills `out` with one element.
pub(crate) fn fill(out: &mut [u8], element: &[u8]) {
    with_size!(element.len(), T => {
        let value = bytemuck::pod_read_unaligned::<T>(element);
        cast_slice_mut::<u8, T>(out).fill(value);
    });
}
