//! `convolution`, computed as a matrix product of the kernel and the patches of the input. A patch consists of the
//! input elements under the window at one output position. Only one panel of patches is materialized at a time. Packing
//! a panel applies the padding, the dilation and the order of dimensions. Depthwise convolutions, and those of 64-bit
//! integers, use simpler loops without packing.

use std::ops::{Mul, Range};

use bytemuck::{Pod, cast_slice, cast_slice_mut, try_cast_slice};
use pulp::NullaryFnOnce;

use super::gemm::direct::{self, Runs};
use super::gemm::{
    Float, Lines, MAX_WIDTH, Matrix, Operand, Out, Pair, Part, Wide, Word, gemm, interleaved, product, work,
};
use super::shape::read_all;
use super::{Context, Kernel};
use crate::engine::dtype::with_size;
use crate::engine::elementwise::map::vectorized;
use crate::engine::parallel;
use crate::engine::pool::Buffer;
use crate::engine::stop::Stop;
use crate::engine::view::View;
use crate::error::RunError;

/// Minimum number of contiguous input features for which packing copies runs of features.
const RUN: usize = 8;

/// The element type of the computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    F32,
    F64,
    /// Two integers of 16 bits, which are consecutive features. Their products are sums of 32 bits. The features and
    /// the strides of [`Patches`] count pairs.
    I16x2,
    I32,
    I64,
}

impl Element {
    /// Returns the number of consecutive features in an element.
    pub(crate) fn together(self) -> usize {
        if self == Element::I16x2 { 2 } else { 1 }
    }

    /// Returns the size of a feature in bytes.
    fn size(self) -> usize {
        match self {
            Element::I16x2 => 2,
            Element::F32 | Element::I32 => 4,
            Element::F64 | Element::I64 => 8,
        }
    }
}

/// A spatial dimension of the input, along which the window slides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    /// Extent of the input in this dimension. `stride` is the distance in elements between consecutive indices.
    pub(crate) size: usize,
    pub(crate) stride: usize,
    /// Distance between consecutive windows in the dilated input. `first` is the position of the first window.
    pub(crate) step: usize,
    pub(crate) first: isize,
    /// Dilation factor of the input.
    pub(crate) base: usize,
}

impl Axis {
    /// Returns the index in the input that corresponds to a position of the dilated, padded input, or `None` in the
    /// padding.
    #[inline(always)]
    fn index(&self, at: isize) -> Option<usize> {
        let at = usize::try_from(at).ok()?;
        let index = if self.base == 1 { at } else { at / self.base };
        (index < self.size && index * self.base == at).then_some(index)
    }
}

/// How the position in the input changes from one index of an output dimension to the next index.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PatchStep {
    /// The window moves one step along this axis.
    Axis(usize),
    /// The position moves to the next image, this many elements later.
    Batch(usize),
}

/// The patches of an input. Each output position has one patch. A tap is one element position of the window, and a
/// patch contains all input features at each tap.
pub(crate) struct Patches {
    pub(crate) axes: Vec<Axis>,
    /// The outer dimensions of the output, outermost first. Each item consists of the extent of a dimension and of its
    /// effect on the position of a patch. `lines` are the inner dimensions, whose patches are the rows of one matrix.
    pub(crate) outer: Vec<(usize, PatchStep)>,
    pub(crate) lines: Vec<(usize, PatchStep)>,
    /// The taps along each axis: their number, and the distance between two taps in the dilated input.
    pub(crate) taps: Vec<(usize, isize)>,
    pub(crate) features: usize,
    pub(crate) feature: usize,
}

/// The position of a patch: the offset of its image, and the position of its window along each axis.
#[derive(Clone, Copy, Default)]
struct Origin {
    image: usize,
    place: [isize; MAX_AXES],
}

/// The position of a tap along each axis of the window, in the dilated input.
type Tap = [isize; MAX_AXES];

/// Maximum number of axes of a window. Packing keeps the position of each line of a strip on the stack.
pub(crate) const MAX_AXES: usize = 14;

impl Patches {
    /// Returns the patches of the array whose elements are `together` consecutive features. Unless `together` is 1, the
    /// features must be contiguous. Their number must be a multiple of `together`.
    pub(crate) fn of_groups(mut self, together: usize) -> Patches {
        self.features /= together;
        self.axes.iter_mut().for_each(|axis| axis.stride /= together);
        for (_, along) in self.outer.iter_mut().chain(&mut self.lines) {
            if let PatchStep::Batch(stride) = along {
                *stride /= together;
            }
        }
        self
    }

    fn line_count(&self) -> usize {
        self.lines.iter().map(|d| d.0).product()
    }

    fn depth(&self) -> usize {
        self.tap_count() * self.features
    }

    fn start(&self) -> Origin {
        let mut origin = Origin::default();
        for (place, axis) in origin.place.iter_mut().zip(&self.axes) {
            *place = axis.first;
        }
        origin
    }

    /// Returns the origin of a patch. `index` is the patch's flattened index in the output dimensions `dims`, and
    /// `from` is the origin of index 0.
    fn origin(&self, mut from: Origin, dims: &[(usize, PatchStep)], mut index: usize) -> Origin {
        for &(extent, along) in dims.iter().rev() {
            let i = index % extent.max(1);
            index /= extent.max(1);
            match along {
                PatchStep::Axis(axis) => from.place[axis] += isize::try_from(i * self.axes[axis].step).unwrap_or(0),
                PatchStep::Batch(stride) => from.image += i * stride,
            }
        }
        from
    }

    /// Returns whether the input already is the matrix of patches, because the window has one tap and visits every
    /// index in order.
    fn is_matrix(&self) -> bool {
        let mut stride = self.features;
        let follows = self.lines.iter().rev().all(|&(extent, along)| {
            let own = match along {
                PatchStep::Batch(own) => own,
                PatchStep::Axis(i) => {
                    let axis = &self.axes[i];
                    let all = axis.step == 1 && axis.base == 1 && axis.first == 0 && axis.size == extent;
                    if all { axis.stride } else { 0 }
                }
            };
            let fits = extent == 1 || own == stride;
            stride *= extent;
            fits
        });
        // Check every axis. An axis with only one output index may read the padding, which is not part of the input.
        let inside = self.axes.iter().all(|axis| axis.first == 0 && axis.base == 1 && axis.size > 0);
        let plain = self.tap_count() == 1 && self.feature == 1;
        plain && inside && follows
    }

    fn tap_count(&self) -> usize {
        self.taps.iter().map(|&(count, _)| count).product()
    }

    /// Returns the tap with this index.
    fn tap(&self, mut index: usize) -> Tap {
        let mut tap = Tap::default();
        for (at, &(count, step)) in tap.iter_mut().zip(&self.taps).rev() {
            *at = isize::try_from(index % count.max(1)).unwrap_or(0) * step;
            index /= count.max(1);
        }
        tap
    }

    /// Moves to the next tap, or from the last tap to the first.
    #[inline(always)]
    fn advance(&self, tap: &mut Tap) {
        for (at, &(count, step)) in tap.iter_mut().zip(&self.taps).rev() {
            *at += step;
            if *at < isize::try_from(count).unwrap_or(0) * step {
                return;
            }
            *at = 0;
        }
    }

    /// Returns the position in the input of the first feature of one tap of a patch, or `None` in the padding.
    #[inline(always)]
    fn position(&self, origin: &Origin, tap: &Tap) -> Option<usize> {
        let mut at = origin.image;
        for ((axis, &place), &tap) in self.axes.iter().zip(&origin.place).zip(tap) {
            at += axis.index(place + tap)? * axis.stride;
        }
        Some(at)
    }
}

/// The patches of one feature group at one outer index.
struct Source<'a, T> {
    patches: &'a Patches,
    data: &'a [T],
    origin: Origin,
    zeros: &'a [T],
}

impl<T: Operand + Pod> Lines<T> for Source<'_, T> {
    fn pack(&self, part: Part, width: usize, to: &mut [T::Wide]) {
        let by_features = self.patches.feature == 1 && self.patches.features >= RUN;
        let (first, count) = part.lines;
        for (strip, out) in to.chunks_exact_mut(width * part.depth.1).enumerate() {
            let lines = (first + strip * width, width.min(count - strip * width));
            if lines.1 < width {
                out.fill(T::Wide::default());
            }
            if by_features {
                self.runs(lines, part.depth, width, out);
            } else {
                vectorized(Segments { source: self, lines, depth: part.depth, width, out });
            }
        }
    }
}

impl<'a, T: Operand + Pod> Runs<'a, T> for Source<'a, T> {
    fn shape(&self) -> (usize, usize) {
        (self.patches.features, self.patches.tap_count())
    }

    fn row(&self, row: usize, to: &mut [&'a [T]], stride: usize) {
        let p = self.patches;
        let origin = p.origin(self.origin, &p.lines, row);
        let mut tap = Tap::default();
        for to in to.iter_mut().step_by(stride) {
            *to = match p.position(&origin, &tap) {
                Some(at) => &self.data[at..][..p.features],
                None => self.zeros,
            };
            p.advance(&mut tap);
        }
    }
}

impl<T: Operand + Pod> Source<'_, T> {
    /// Packs a strip of patches by copying a run of features of one patch at a time.
    fn runs(&self, (first, count): (usize, usize), (start, depth): (usize, usize), width: usize, out: &mut [T::Wide]) {
        let p = self.patches;
        let mut origins = [Origin::default(); MAX_WIDTH];
        for (i, origin) in origins.iter_mut().enumerate().take(count) {
            *origin = p.origin(self.origin, &p.lines, first + i);
        }
        let (mut tap, mut feature, mut done) = (p.tap(start / p.features), start % p.features, 0);
        while done < depth {
            let run = (p.features - feature).min(depth - done);
            let mut lines: [&[T]; MAX_WIDTH] = [&[]; MAX_WIDTH];
            for (line, origin) in lines.iter_mut().zip(&origins[..count]) {
                *line = match p.position(origin, &tap) {
                    Some(at) => &self.data[at + feature..][..run],
                    None => &self.zeros[..run],
                };
            }
            interleaved(&lines[..count], &mut out[done * width..][..run * width], width);
            p.advance(&mut tap);
            (feature, done) = (0, done + run);
        }
    }
}

/// Packs a strip of patches. Copies the elements of consecutive patches along the innermost output dimension together.
struct Segments<'s, 'a, T: Operand> {
    source: &'s Source<'a, T>,
    lines: (usize, usize),
    depth: (usize, usize),
    width: usize,
    out: &'s mut [T::Wide],
}

impl<T: Operand + Pod> NullaryFnOnce for Segments<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Segments { source, lines: (first, count), depth: (start, depth), width, out } = self;
        let p = source.patches;
        let (extent, along) = p.lines.last().copied().unwrap_or((1, PatchStep::Batch(0)));
        let mut at = 0;
        while at < count {
            let len = (extent - (first + at) % extent).min(count - at);
            let origin = p.origin(source.origin, &p.lines, first + at);
            let (mut tap, mut feature, mut done) = (p.tap(start / p.features), start % p.features, 0);
            while done < depth {
                let features = (p.features - feature).min(depth - done);
                let rows = Rows { out: &mut out[done * width..][..features * width], width, at, len };
                match p.positions(&origin, along, &tap, len) {
                    Positions::Range { inside, first, stride } => {
                        rows.copy(source.data, inside, (first + feature * p.feature, stride), p.feature);
                    }
                    Positions::Dilated { first, axis, place } => {
                        rows.dilated(source.data, &p.axes[axis], place, first + feature * p.feature, p.feature);
                    }
                }
                p.advance(&mut tap);
                (feature, done) = (0, done + features);
            }
            at += len;
        }
    }
}

/// Positions in the input that one tap reads for consecutive patches along the innermost dimension of the output.
enum Positions {
    /// The patches in `inside` read positions that start at `first` and are `stride` elements apart. All other patches
    /// read the padding.
    Range { inside: Range<usize>, first: usize, stride: usize },
    /// The patches move along a dilated axis, on which the first patch is at `place`. `first` is the position at index
    /// 0 of this axis.
    Dilated { first: usize, axis: usize, place: isize },
}

impl Patches {
    #[inline(always)]
    fn positions(&self, origin: &Origin, along: PatchStep, tap: &Tap, len: usize) -> Positions {
        let mut at = origin.image;
        let moved = if let PatchStep::Axis(axis) = along { axis } else { MAX_AXES };
        for (i, (axis, (&place, &tap))) in self.axes.iter().zip(origin.place.iter().zip(tap)).enumerate() {
            if i != moved {
                match axis.index(place + tap) {
                    Some(index) => at += index * axis.stride,
                    None => return Positions::Range { inside: 0..0, first: 0, stride: 1 },
                }
            }
        }
        let i = match along {
            PatchStep::Batch(stride) => return Positions::Range { inside: 0..len, first: at, stride },
            PatchStep::Axis(i) => i,
        };
        let (axis, place) = (&self.axes[i], origin.place[i] + tap[i]);
        if axis.base > 1 {
            return Positions::Dilated { first: at, axis: i, place };
        }
        // Split the patches into those whose position is before the input, inside the input and after the input.
        let before = usize::try_from(-place).unwrap_or(0).div_ceil(axis.step).min(len);
        let offset = usize::try_from(place).unwrap_or(0);
        let left = (axis.size + usize::try_from(-place).unwrap_or(0)).saturating_sub(offset);
        let inside = before..left.div_ceil(axis.step).clamp(before, len);
        let index = place + isize::try_from(before * axis.step).unwrap_or(0);
        at += usize::try_from(index).unwrap_or(0) * axis.stride;
        Positions::Range { inside, first: at, stride: axis.step * axis.stride }
    }
}

/// Rows of a strip, one for each feature of a tap. In each row, `len` elements from `at` on belong to consecutive
/// patches.
struct Rows<'a, W> {
    out: &'a mut [W],
    width: usize,
    at: usize,
    len: usize,
}

impl<W: Copy + Default> Rows<'_, W> {
    /// Copies the elements of the patches `inside` the input to each row, and fills the elements of all other patches
    /// with zeros. `next` is the distance between the features of the input.
    #[inline(always)]
    fn copy<T: Operand<Wide = W>>(
        self,
        data: &[T],
        inside: Range<usize>,
        (first, stride): (usize, usize),
        next: usize,
    ) {
        let Rows { out, width, at, len } = self;
        if inside.len() < len {
            for row in out.chunks_exact_mut(width) {
                let row = &mut row[at..at + len];
                row[..inside.start].fill(W::default());
                row[inside.end..].fill(W::default());
            }
        }
        let (at, len) = (at + inside.start, inside.len());
        let rows = Rows { out, width, at, len };
        match len {
            0 => {}
            _ if stride != 1 => {
                for (feature, row) in rows.out.chunks_exact_mut(width).enumerate() {
                    for (j, o) in row[at..at + len].iter_mut().enumerate() {
                        *o = data[first + feature * next + j * stride].widen();
                    }
                }
            }
            16.. => rows.contiguous::<T, 16>(data, first, next),
            8.. => rows.contiguous::<T, 8>(data, first, next),
            4.. => rows.contiguous::<T, 4>(data, first, next),
            _ => rows.contiguous::<T, 1>(data, first, next),
        }
    }

    /// Copies at least `N` contiguous elements to each row, `N` at a time. The last copy may overlap the copy before
    /// it, because a loop over the remaining single elements would take longer.
    #[inline(always)]
    fn contiguous<T: Operand<Wide = W>, const N: usize>(self, data: &[T], first: usize, next: usize) {
        let Rows { out, width, at, len } = self;
        for (feature, row) in out.chunks_exact_mut(width).enumerate() {
            let (from, to) = (&data[first + feature * next..][..len], &mut row[at..at + len]);
            let copy = |from: Option<&[T; N]>, to: Option<&mut [W; N]>| {
                if let (Some(from), Some(to)) = (from, to) {
                    for i in 0..N {
                        to[i] = from[i].widen();
                    }
                }
            };
            for (from, to) in from.as_chunks::<N>().0.iter().zip(to.as_chunks_mut::<N>().0) {
                copy(Some(from), Some(to));
            }
            if !len.is_multiple_of(N) {
                copy(from.last_chunk(), to.last_chunk_mut());
            }
        }
    }

    /// Copies the elements of patches along a dilated axis. Fills the elements in the padding and in the dilation with
    /// zeros.
    #[inline(always)]
    fn dilated<T: Operand<Wide = W>>(self, data: &[T], axis: &Axis, place: isize, first: usize, next: usize) {
        let Rows { out, width, at, len } = self;
        for (feature, row) in out.chunks_exact_mut(width).enumerate() {
            for (j, o) in row[at..at + len].iter_mut().enumerate() {
                let index = isize::try_from(j * axis.step).ok().and_then(|j| axis.index(place + j));
                let from = first + feature * next;
                *o = index.map_or(W::default(), |index| data[from + index * axis.stride].widen());
            }
        }
    }
}

/// A `convolution` with resolved shapes. The inputs are the input array and the convolution's kernel.
pub(crate) struct Convolution {
    pub(crate) patches: Patches,
    /// Distance in elements between the first input features of consecutive feature groups.
    pub(crate) next: usize,
    pub(crate) groups: usize,
    /// The kernel as `[window, input feature, output feature, features together]`, with the output features of all
    /// groups, where the input features and the features together are those of an [`Element`].
    pub(crate) kernel: View,
    /// Number of output features of a group.
    pub(crate) share: usize,
    /// Whether the features are the last dimension of the output. Otherwise they are between the outer dimensions and
    /// the inner dimensions.
    pub(crate) features_last: bool,
    pub(crate) element: Element,
}

impl Kernel for Convolution {
    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], cx: &Context<'_>) -> Result<(), RunError> {
        let out = &mut *outs[0];
        match self.element {
            Element::F32 => self.floats::<f32>(ins, out, cx),
            Element::F64 => self.floats::<f64>(ins, out, cx),
            Element::I16x2 => {
                self.with(ins, out, cx, |x, kernel, out: &mut [Pair]| self.packed(x, kernel, out, cx.stop))
            }
            Element::I32 => self.with(ins, out, cx, |x, kernel, out: &mut [Word]| {
                if self.is_depthwise() {
                    self.depthwise(x, kernel, out, cx.stop);
                } else {
                    self.packed(x, kernel, out, cx.stop);
                }
            }),
            Element::I64 => self.with(ins, out, cx, |x, kernel, out| self.wrapping(x, kernel, out, cx.stop)),
        }
    }

    fn scratch(&self, ins: &[usize], _: &[usize]) -> usize {
        let copy = if matches!(self.element, Element::I16x2) { ins[0] } else { 0 };
        copy + self.kernel.len() * self.element.size()
    }
}

impl Convolution {
    /// Calls `f` with the input, the kernel as a contiguous array, and the output, which is not empty. If there is
    /// nothing to sum up, fills the output with zeros instead.
    fn with<T: Pod + Default>(
        &self,
        ins: &[&[u8]],
        out: &mut [u8],
        cx: &Context<'_>,
        f: impl FnOnce(&[T], &[T], &mut [T]),
    ) -> Result<(), RunError> {
        let out: &mut [T] = cast_slice_mut(out);
        if self.patches.depth() == 0 || out.is_empty() {
            out.fill(T::default());
            return Ok(());
        }
        // The input may be aligned for the elements of a pair only.
        let copy;
        let input = match try_cast_slice(ins[0]) {
            Ok(input) => input,
            Err(_) => {
                copy = Buffer::copy_of(cx.pool, ins[0])?;
                cast_slice(copy.bytes())
            }
        };
        let mut ordered;
        let (view, size) = (&self.kernel, self.element.size());
        let kernel = if view.is_contiguous() && view.offset() == 0 && size == size_of::<T>() {
            &cast_slice(ins[1])[..view.len()]
        } else {
            ordered = cx.pool.alloc(view.len() * size)?;
            with_size!(size, U => read_all::<U>(view, cast_slice(ins[1]), cast_slice_mut(ordered.write()?)));
            cast_slice(ordered.bytes())
        };
        f(input, kernel, out);
        Ok(())
    }

    fn floats<T: Operand<Wide = T> + Float>(
        &self,
        ins: &[&[u8]],
        out: &mut [u8],
        cx: &Context<'_>,
    ) -> Result<(), RunError> {
        let p = &self.patches;
        self.with(ins, out, cx, |input: &[T], kernel: &[T], out: &mut [T]| {
            if self.is_depthwise() {
                return self.depthwise(input, kernel, out, cx.stop);
            }
            if self.features_last && self.groups == 1 && p.is_matrix() {
                let input = Matrix { data: input, offset: 0, row: p.features, column: 1 };
                let kernel = Matrix { data: kernel, offset: 0, row: self.share, column: 1 };
                return gemm(p.line_count(), p.features, self.share, input, kernel, out, cx.stop);
            }
            self.packed(input, kernel, out, cx.stop);
        })
    }

    fn is_depthwise(&self) -> bool {
        self.features_last && self.share == 1 && self.patches.features == 1 && self.next == 1
    }

    /// Computes the products of packed patches and the kernel.
    fn packed<T: Operand<Wide = T> + Wide>(&self, input: &[T], kernel: &[T], out: &mut [T], stop: Option<&Stop>) {
        let p = &self.patches;
        let zeros = vec![T::default(); p.features];
        let all = self.groups * self.share;
        let lines = p.line_count();
        let outer: usize = p.outer.iter().map(|d| d.0).product();
        let source = |image: usize, group: usize| {
            let mut origin = p.origin(p.start(), &p.outer, image);
            origin.image += group * self.next;
            Source { patches: p, data: input, origin, zeros: &zeros }
        };
        let kernel =
            |group: usize| Matrix { data: kernel, offset: group * self.share, row: all, column: 1 }.transposed();
        if self.features_last {
            let in_place = p.feature == 1 && direct::suits::<T>(p.features, p.depth(), self.share);
            for group in 0..self.groups {
                let to = Out { row: all, column: group * self.share };
                if in_place {
                    direct::product(lines, self.share, &source(0, group), &kernel(group), out, to, stop);
                    continue;
                }
                product((lines, p.depth(), self.share), &source(0, group), &kernel(group), out, to, stop);
            }
            return;
        }
        let one = |(index, out): (usize, &mut [T])| {
            let (image, group) = (index / self.groups, index % self.groups);
            let to = Out { row: lines, column: 0 };
            product((self.share, p.depth(), lines), &kernel(group), &source(image, group), out, to, stop);
        };
        let work = work(lines, p.depth(), self.share).saturating_mul(outer * self.groups);
        let tasks: Vec<_> = out.chunks_exact_mut(self.share * lines).enumerate().collect();
        if tasks.len() >= 4 * parallel::threads(work) {
            parallel::each_until(stop, tasks, work, |task| parallel::alone(|| one(task)));
        } else {
            tasks.into_iter().for_each(one);
        }
    }

    /// Convolves each feature separately: multiplies rows of features by rows of the kernel and adds up the products.
    fn depthwise<T: Wide + Mul<Output = T>>(&self, input: &[T], kernel: &[T], out: &mut [T], stop: Option<&Stop>) {
        let (p, features) = (&self.patches, self.groups);
        let taps = p.tap_count();
        parallel::chunks_until(stop, out, features, size_of_val(input) * taps / 4, |start, part| {
            vectorized(Depthwise { patches: p, input, kernel, features, first: start / features, out: part });
        });
    }

    /// Convolves 64-bit integers, which wrap on overflow.
    fn wrapping(&self, input: &[i64], kernel: &[i64], out: &mut [i64], stop: Option<&Stop>) {
        let (p, all, lines) = (&self.patches, self.groups * self.share, self.patches.line_count());
        out.fill(0);
        let sum = |group: usize, origin: &Origin, to: &mut [i64], stride: usize| {
            let mut next = Tap::default();
            for tap in 0..p.tap_count() {
                let at = p.position(origin, &next);
                p.advance(&mut next);
                let Some(at) = at else { continue };
                for feature in 0..p.features {
                    let x = input[at + group * self.next + feature * p.feature];
                    let row = &kernel[(tap * p.features + feature) * all + group * self.share..][..self.share];
                    for (o, &y) in to.iter_mut().step_by(stride).zip(row) {
                        *o = o.wrapping_add(x.wrapping_mul(y));
                    }
                }
            }
        };
        let work = out.len().saturating_mul(p.depth());
        if self.features_last {
            parallel::chunks_until(stop, out, all, work, |start, part| {
                for (i, row) in part.chunks_exact_mut(all).enumerate() {
                    let origin = p.origin(p.start(), &p.lines, start / all + i);
                    for (group, to) in row.chunks_exact_mut(self.share).enumerate() {
                        sum(group, &origin, to, 1);
                    }
                }
            });
            return;
        }
        parallel::chunks_until(stop, out, self.share * lines, work, |start, part| {
            for (i, block) in part.chunks_exact_mut(self.share * lines).enumerate() {
                let index = start / (self.share * lines) + i;
                let image = p.origin(p.start(), &p.outer, index / self.groups);
                for line in 0..lines {
                    sum(index % self.groups, &p.origin(image, &p.lines, line), &mut block[line..], lines);
                }
            }
        });
    }
}

struct Depthwise<'a, T> {
    patches: &'a Patches,
    input: &'a [T],
    kernel: &'a [T],
    features: usize,
    first: usize,
    out: &'a mut [T],
}

impl<T: Wide + Mul<Output = T>> NullaryFnOnce for Depthwise<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Depthwise { patches, input, kernel, features, first, out } = self;
        for (i, out) in out.chunks_exact_mut(features).enumerate() {
            let origin = patches.origin(patches.start(), &patches.lines, first + i);
            out.fill(T::default());
            let mut tap = Tap::default();
            for weights in kernel.chunks_exact(features) {
                let at = patches.position(&origin, &tap);
                patches.advance(&mut tap);
                let Some(at) = at else { continue };
                for ((o, &x), &w) in out.iter_mut().zip(&input[at..at + features]).zip(weights) {
                    *o += x * w;
                }
            }
        }
    }
}
