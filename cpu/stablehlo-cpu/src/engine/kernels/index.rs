//! Kernels of `gather` and `scatter`.

use std::sync::Arc;

use bytemuck::{cast_slice, cast_slice_mut, pod_read_unaligned};
use pulp::NullaryFnOnce;

use super::combine::Body;
use super::shape::{ReadIndex, with_indices};
use super::{Context, Kernel};
use crate::engine::dtype::{DType, with_size};
use crate::engine::elementwise::map::vectorized;
use crate::engine::parallel;
use crate::engine::view::View;
use crate::error::RunError;

/// Windows of a tensor. Their positions are read from an index tensor of shape `[windows, parts]`, which contains one
/// index vector per window.
pub(crate) struct Windows {
    pub(crate) read: ReadIndex,
    /// Number of windows.
    pub(crate) count: usize,
    /// For each component of an index vector, the largest start at which the window is still inside the tensor, and the
    /// stride of the component's dimension.
    pub(crate) parts: Vec<(usize, usize)>,
    /// The offset of each window along the batching dimensions. `None` if there are no batching dimensions.
    pub(crate) base: Option<View>,
    /// The first element of each contiguous run of elements in a window, as offset from the window's first element.
    /// `run` is the length of each run.
    pub(crate) runs: View,
    pub(crate) run: usize,
}

impl Windows {
    /// Computes the offsets of the windows from `first` on. The start of each window is clamped, so that the window
    /// lies inside the tensor.
    fn clamped(&self, indices: &[u8], first: usize, offsets: &mut [usize]) {
        if let Some(parts) = self.narrow_parts() {
            return narrow::<false>(parts, cast_slice(indices), first, offsets);
        }
        self.fold(indices, first, offsets, |at, start, max, stride| {
            at + usize::try_from(start.max(0)).unwrap_or(usize::MAX).min(max) * stride
        });
    }

    /// Computes the offsets of the windows from `first` on. The offset is [`OUTSIDE`] if the window is not completely
    /// inside the tensor.
    pub(crate) fn inside(&self, indices: &[u8], first: usize, offsets: &mut [usize]) {
        if let Some(parts) = self.narrow_parts() {
            return narrow::<true>(parts, cast_slice(indices), first, offsets);
        }
        self.fold(indices, first, offsets, |at, start, max, stride| match usize::try_from(start) {
            Ok(start) if start <= max && at != OUTSIDE => at + start * stride,
            _ => OUTSIDE,
        });
    }

    /// Computes the offsets of the windows from `first` on. `add` receives an offset so far, the start along the next
    /// dimension, the largest start inside the tensor, and the stride of the dimension.
    #[inline(always)]
    fn fold(
        &self,
        indices: &[u8],
        first: usize,
        offsets: &mut [usize],
        add: impl Fn(usize, i64, usize, usize) -> usize,
    ) {
        match &self.base {
            Some(base) => (first..).zip(&mut *offsets).for_each(|(window, at)| *at = base.position(window)),
            None => offsets.fill(0),
        }
        let count = self.parts.len();
        with_indices!(self.read.dtype(), indices, |indices, wide| {
            for (part, &(max, stride)) in self.parts.iter().enumerate() {
                let starts = &indices[first * count + part..];
                if count == 1 {
                    offsets.iter_mut().zip(starts).for_each(|(at, &start)| *at = add(*at, wide(start), max, stride));
                } else {
                    let starts = starts.iter().step_by(count);
                    offsets.iter_mut().zip(starts).for_each(|(at, &start)| *at = add(*at, wide(start), max, stride));
                }
            }
        });
    }

    /// Returns the parts if the indices and all offsets fit `i32`. Vector instructions then compute the offsets.
    fn narrow_parts(&self) -> Option<&[(usize, usize)]> {
        let largest =
            self.parts.iter().try_fold(0usize, |sum, &(max, stride)| sum.checked_add(max.checked_mul(stride)?));
        let is_narrow = self.base.is_none() && self.read.dtype() == DType::I32;
        (is_narrow && largest.is_some_and(|largest| i32::try_from(largest).is_ok())).then_some(&self.parts)
    }

    fn len(&self) -> usize {
        self.runs.len() * self.run
    }

    /// Returns whether each window is contiguous and starts at a multiple of its length.
    pub(crate) fn are_aligned(&self) -> bool {
        let is_multiple = |at: usize| self.run > 0 && at.is_multiple_of(self.run);
        let bases = self.base.iter().flat_map(View::strides);
        self.runs.len() == 1
            && bases.copied().all(|stride| is_multiple(stride.unsigned_abs()))
            && self.parts.iter().all(|&(max, stride)| max == 0 || is_multiple(stride))
    }
}

/// Computes the offsets of the windows from `first` on, a block at a time.
fn narrow<const SKIPS: bool>(parts: &[(usize, usize)], indices: &[i32], first: usize, offsets: &mut [usize]) {
    for (first, offsets) in (first..).step_by(BLOCK).zip(offsets.chunks_mut(BLOCK)) {
        vectorized(Narrow::<SKIPS> { parts, indices, first, offsets });
    }
}

/// Computes the offsets of at most [`BLOCK`] windows from `i32` indices. With `SKIPS`, the offset of a window that is
/// not completely inside the tensor is [`OUTSIDE`]. Otherwise, its start is clamped.
struct Narrow<'a, const SKIPS: bool> {
    parts: &'a [(usize, usize)],
    indices: &'a [i32],
    first: usize,
    offsets: &'a mut [usize],
}

impl<const SKIPS: bool> NullaryFnOnce for Narrow<'_, SKIPS> {
    type Output = ();

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "all offsets fit i32")]
    fn call(self) {
        let count = self.parts.len();
        let n = self.offsets.len();
        let mut sums = [0u32; BLOCK];
        let mut is_inside = [true; BLOCK];
        // Zipped slices of one length let the compiler use vector instructions.
        let (sums, is_inside) = (&mut sums[..n], &mut is_inside[..n]);
        let add = |(sum, is_inside): (&mut u32, &mut bool), start: i32, max: u32, stride: u32| {
            let clamped = start.max(0).min(max as i32);
            *is_inside &= clamped == start;
            *sum = sum.wrapping_add((clamped as u32).wrapping_mul(stride));
        };
        for (part, &(max, stride)) in self.parts.iter().enumerate() {
            // A dimension of extent one may have any stride.
            let (max, stride) = (max as u32, if max == 0 { 0 } else { stride as u32 });
            let vectors = &self.indices[self.first * count..][..n * count];
            let sums = sums.iter_mut().zip(&mut *is_inside);
            match (count, part) {
                (1, _) => sums.zip(vectors).for_each(|(sum, &start)| add(sum, start, max, stride)),
                (2, 0) => sums.zip(vectors.as_chunks().0).for_each(|(sum, [v, _])| add(sum, *v, max, stride)),
                (2, _) => sums.zip(vectors.as_chunks().0).for_each(|(sum, [_, v])| add(sum, *v, max, stride)),
                _ => sums.zip(vectors.chunks_exact(count)).for_each(|(sum, v)| add(sum, v[part], max, stride)),
            }
        }
        for ((offset, &sum), &is_inside) in self.offsets.iter_mut().zip(&*sums).zip(&*is_inside) {
            *offset = if SKIPS && !is_inside { OUTSIDE } else { sum as usize };
        }
    }
}

/// The offset of a window that is not completely inside the tensor.
pub(crate) const OUTSIDE: usize = usize::MAX;
/// Number of windows whose offsets are computed together.
pub(crate) const BLOCK: usize = 64;
/// Number of long windows whose copies a gather interleaves. The loads of different windows then overlap, which almost
/// halves the time if the windows are not in a cache.
const INTERLEAVED: usize = 8;
/// Number of bytes that are copied from one row before the next row continues.
const PIECE: usize = 128;

/// Copies rows of equal length to `out`, a piece of each row in turn.
fn copy_rows(rows: [&[u8]; INTERLEAVED], out: &mut [u8]) {
    let len = rows[0].len();
    let pieces = rows.map(|row| row.as_chunks::<PIECE>());
    for p in 0..len / PIECE {
        for (i, (row, _)) in pieces.iter().enumerate() {
            out[i * len + p * PIECE..][..PIECE].copy_from_slice(&row[p]);
        }
    }
    for (out, (_, rest)) in out.chunks_exact_mut(len).zip(pieces) {
        out[len - rest.len()..].copy_from_slice(rest);
    }
}

/// Copies the elements at `offsets`.
#[inline(never)]
fn pick<T: Copy>(src: &[T], offsets: &[usize], out: &mut [T]) {
    for (out, &at) in out.iter_mut().zip(offsets) {
        *out = src[at];
    }
}

/// `gather` to an array of shape `[windows, elements of a window]`. Starts outside the operand are clamped. The inputs
/// are the operand and the indices.
pub(crate) struct Gather {
    pub(crate) windows: Windows,
    pub(crate) size: usize,
}

impl Gather {
    /// Writes the windows to `out`. `mask` contains one truth value for each window, and the bytes of an element. If
    /// the truth value is false, the window is filled with copies of the element. The element is at the start of the
    /// array, and the remaining bytes are not used.
    fn write(&self, operand: &[u8], indices: &[u8], mask: Option<(&[u8], &[u8; 16])>, out: &mut [u8]) {
        let w = &self.windows;
        with_size!(self.size, T => {
            let src: &[T] = cast_slice(operand);
            let mask = mask.map(|(mask, element)| (mask, pod_read_unaligned::<T>(&element[..self.size])));
            let bytes = out.len();
            let out: &mut [T] = cast_slice_mut(out);
            let write_one = |window: usize, at: usize, out: &mut [T]| {
                if let Some((mask, element)) = mask && mask[window] == 0 {
                    return out.fill(element);
                }
                if w.runs.len() == 1 {
                    return out.copy_from_slice(&src[at..][..w.run]);
                }
                for (out, offset) in out.chunks_exact_mut(w.run).zip(w.runs.positions()) {
                    out.copy_from_slice(&src[at + offset..][..w.run]);
                }
            };
            let can_interleave = w.runs.len() == 1 && w.run * self.size >= 2 * PIECE;
            parallel::chunks(out, w.len(), bytes, |start, part| {
                let mut offsets = [0; BLOCK];
                for (block, out) in part.chunks_mut(BLOCK * w.len()).enumerate() {
                    let first = start / w.len() + block * BLOCK;
                    let offsets = &mut offsets[..out.len() / w.len()];
                    w.clamped(indices, first, offsets);
                    if w.len() == 1 && mask.is_none() {
                        pick(src, offsets, out);
                        continue;
                    }
                    let groups = offsets.chunks(INTERLEAVED).zip(out.chunks_mut(INTERLEAVED * w.len()));
                    for (first, (offsets, out)) in (first..).step_by(INTERLEAVED).zip(groups) {
                        let are_copied =
                            || mask.is_none_or(|(mask, _)| mask[first..][..INTERLEAVED].iter().all(|&copy| copy != 0));
                        if let (true, Some(offsets)) = (can_interleave, offsets.first_chunk()) && are_copied() {
                            let rows = offsets.map(|at| cast_slice(&src[at..][..w.run]));
                            copy_rows(rows, cast_slice_mut(out));
                            continue;
                        }
                        for ((window, &at), out) in (first..).zip(offsets).zip(out.chunks_exact_mut(w.len())) {
                            write_one(window, at, out);
                        }
                    }
                }
            });
        });
    }
}

impl Kernel for Gather {
    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], _: &Context<'_>) -> Result<(), RunError> {
        if self.windows.len() == 0 {
            // If empty dimensions of the operand are collapsed, the result has elements although the operand has none.
            outs[0].fill(0);
            return Ok(());
        }
        self.write(ins[0], ins[1], None, outs[0]);
        Ok(())
    }
}

/// A gather that replaces windows by copies of one element. The inputs are those of the gather, and one truth value for
/// each window, which specifies whether the result contains the window.
pub(crate) struct MaskedGather {
    gather: Arc<Gather>,
    /// The element that fills the other windows. It is at the start of the array.
    element: [u8; 16],
}

impl MaskedGather {
    /// Combines a gather with a selection between its result and an array of equal elements. `mask` is the view by
    /// which the selection reads its truth values. Returns `None` unless all elements of a window have the same truth
    /// value.
    pub(crate) fn new(gather: Arc<Gather>, mask: &View, element: [u8; 16]) -> Option<Self> {
        let windows = &gather.windows;
        (windows.len() > 0 && mask.repeats(windows.count, windows.len())).then_some(Self { gather, element })
    }
}

impl Kernel for MaskedGather {
    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], _: &Context<'_>) -> Result<(), RunError> {
        self.gather.write(ins[0], ins[1], Some((ins[2], &self.element)), outs[0]);
        Ok(())
    }
}

/// Number of blocks of windows to scatter between two checks for a stop request.
const BETWEEN_LOOKS: usize = 64;

/// `scatter` of updates of shape `[windows, elements of a window]`. Applies the updates in order. Skips windows that
/// are not completely inside the tensor. The inputs are the tensors, the indices, one array of updates per tensor, and
/// the scalars that the body captures. The outputs start as copies of the tensors.
pub(crate) struct Scatter {
    pub(crate) windows: Windows,
    pub(crate) sizes: Vec<usize>,
    pub(crate) body: Body,
}

impl Kernel for Scatter {
    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], cx: &Context<'_>) -> Result<(), RunError> {
        let w = &self.windows;
        let count = self.sizes.len();
        let (indices, updates, captured) = (ins[count], &ins[count + 1..2 * count + 1], &ins[2 * count + 1..]);
        let mut offsets = [0; BLOCK];
        for first in (0..if w.len() == 0 { 0 } else { w.count }).step_by(BLOCK) {
            if first % (BLOCK * BETWEEN_LOOKS) == 0 {
                cx.check()?;
            }
            let offsets = &mut offsets[..BLOCK.min(w.count - first)];
            w.inside(indices, first, offsets);
            if let (Body::Fast { scatter, .. }, 1, &[size]) = (&self.body, w.len(), &self.sizes[..]) {
                scatter(outs[0], offsets, &updates[0][first * size..]);
                continue;
            }
            for (window, &at) in (first..).zip(&*offsets).filter(|&(_, &at)| at != OUTSIDE) {
                for (r, offset) in w.runs.positions().enumerate() {
                    let to = at + offset;
                    let from = window * w.len() + r * w.run;
                    if let (Body::Fast { run: f, .. }, &[size]) = (&self.body, &self.sizes[..]) {
                        f(&mut outs[0][to * size..][..w.run * size], &updates[0][from * size..][..w.run * size]);
                        continue;
                    }
                    let mut acc: Vec<&mut [u8]> = Vec::with_capacity(count);
                    let mut x: Vec<&[u8]> = Vec::with_capacity(count);
                    for ((out, update), &size) in outs.iter_mut().zip(updates).zip(&self.sizes) {
                        acc.push(&mut out[to * size..][..w.run * size]);
                        x.push(&update[from * size..][..w.run * size]);
                    }
                    self.body.apply(w.run, &mut acc, &x, captured, cx.stop)?;
                }
            }
        }
        Ok(())
    }

    fn has_loop(&self) -> bool {
        self.body.has_loop()
    }
}
