//! Packs operands in the order in which the inner loop reads them.

use std::cell::RefCell;
use std::thread::LocalKey;

use pulp::NullaryFnOnce;

use super::number::{Operand, Wide, interleave};
use crate::engine::elementwise::map::vectorized;
use crate::engine::pool::{LINE, Line};

/// A strided matrix in a slice. Element `(i, j)` is at index `offset + i * row + j * column`.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a, T> {
    pub(crate) data: &'a [T],
    pub(crate) offset: usize,
    pub(crate) row: usize,
    pub(crate) column: usize,
}

impl<T> Matrix<'_, T> {
    pub(crate) fn transposed(self) -> Self {
        Matrix { row: self.column, column: self.row, ..self }
    }
}

/// The part of an operand that is packed: lines (rows of the first operand, columns of the second) over a range of the
/// contracting dimension.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// First line, and number of lines.
    pub(crate) lines: (usize, usize),
    /// First index along the contracting dimension, and number of indices.
    pub(crate) depth: (usize, usize),
}

/// An operand whose parts can be packed.
pub(crate) trait Lines<T: Operand>: Sync {
    /// Packs a part in strips of `width` interleaved lines. Missing lines of the last strip are zero.
    fn pack(&self, part: Part, width: usize, to: &mut [T::Wide]);
}

impl<T: Operand> Lines<T> for Matrix<'_, T> {
    fn pack(&self, part: Part, width: usize, to: &mut [T::Wide]) {
        vectorized(Pack { from: *self, part, width, to });
    }
}

struct Pack<'a, T: Operand> {
    from: Matrix<'a, T>,
    part: Part,
    width: usize,
    to: &'a mut [T::Wide],
}

/// Number of strips that are packed at a time from a matrix whose lines are already interleaved. Several strips allow
/// long reads, but too many would write to too many positions at once.
const ABREAST: usize = 4;
/// Maximum number of lines of a strip.
pub(crate) const MAX_WIDTH: usize = 32;

impl<T: Operand> NullaryFnOnce for Pack<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Pack { from, part: Part { lines: (first, count), depth: (start, depth) }, width, to } = self;
        let origin = from.offset + first * from.row + start * from.column;
        if from.row == 1 {
            for (group, to) in to.chunks_mut(ABREAST * width * depth).enumerate() {
                let before = group * ABREAST * width;
                let lines = (count - before).min(ABREAST * width);
                if lines < to.len() / depth {
                    to.fill(T::Wide::default());
                }
                for p in 0..depth {
                    let at = origin + before + p * from.column;
                    for (strip, line) in from.data[at..at + lines].chunks(width).enumerate() {
                        let to = &mut to[(strip * depth + p) * width..][..line.len()];
                        to.iter_mut().zip(line).for_each(|(o, &x)| *o = x.widen());
                    }
                }
            }
            return;
        }
        for (strip, out) in to.chunks_exact_mut(width * depth).enumerate() {
            let strip = strip * width;
            let lines = width.min(count - strip);
            if lines < width {
                out.fill(T::Wide::default());
            }
            let at = origin + strip * from.row;
            if from.column == 1 {
                let mut all: [&[T]; MAX_WIDTH] = [&[]; MAX_WIDTH];
                for (i, line) in all.iter_mut().enumerate().take(lines) {
                    *line = &from.data[at + i * from.row..][..depth];
                }
                interleaved(&all[..lines], out, width);
            } else {
                for line in 0..lines {
                    for p in 0..depth {
                        out[p * width + line] = from.data[at + line * from.row + p * from.column].widen();
                    }
                }
            }
        }
    }
}

/// Interleaves separate lines into one strip.
#[inline(always)]
pub(crate) fn interleaved<T: Operand>(lines: &[&[T]], out: &mut [T::Wide], width: usize) {
    let mut wide: [&[T::Wide]; MAX_WIDTH] = [&[]; MAX_WIDTH];
    for (to, from) in wide.iter_mut().zip(lines) {
        match T::as_wide(from) {
            Some(line) => *to = line,
            None => return interleave(lines, out, width, T::widen),
        }
    }
    T::Wide::interleave(&wide[..lines.len()], out, width);
}

thread_local! {
    /// Buffers for packed panels. Later products reuse them, because page faults of new memory would cost more than
    /// packing.
    pub(super) static PANEL_A: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
    pub(super) static PANEL_B: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
    pub(super) static BLOCK: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
    pub(super) static PARTS: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
    pub(super) static TURNED: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
}

/// Calls `f` with `len` elements of this thread's buffer `panel`. A nested product on the same thread gets another
/// buffer.
pub(super) fn with_panel<W: Wide>(panel: &'static LocalKey<RefCell<Vec<Line>>>, len: usize, f: impl FnOnce(&mut [W])) {
    let mut lines = panel.take();
    let needed = (len * size_of::<W>()).div_ceil(LINE);
    if lines.len() < needed {
        lines.resize(needed, bytemuck::Zeroable::zeroed());
    }
    f(&mut bytemuck::cast_slice_mut(&mut lines)[..len]);
    panel.set(lines);
}
