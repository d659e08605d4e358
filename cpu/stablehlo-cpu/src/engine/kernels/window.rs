//! `reduce_window`, running reductions, and `select_and_scatter`.

use bytemuck::{cast_slice, cast_slice_mut};

use super::combine::Body;
use super::shape::Pad;
use super::{Context, Kernel};
use crate::engine::dtype::with_size;
use crate::engine::parallel;
use crate::engine::pool::Buffer;
use crate::engine::scalar_fn::ScalarFn;
use crate::engine::tile::{TILE, fill};
use crate::engine::view::View;
use crate::error::RunError;

/// A sliding window over a padded tensor.
pub(crate) struct Sliding {
    /// The padding, and the number of elements of the padded tensor. `None` if no padding is needed.
    pub(crate) pad: Option<(Pad, usize)>,
    /// View of the first element of every window.
    pub(crate) firsts: View,
    /// A window's elements, as offsets from the first element.
    pub(crate) elements: View,
}

impl Sliding {
    /// Returns the padded tensor, or `None` if no padding is needed.
    fn padded(&self, x: &[u8], element: &[u8], size: usize, cx: &Context<'_>) -> Result<Option<Buffer>, RunError> {
        let Some((pad, elements)) = &self.pad else {
            return Ok(None);
        };
        let mut padded = cx.pool.alloc(elements * size)?;
        pad.run(&[x, element], &mut [padded.write()?], cx)?;
        Ok(Some(padded))
    }

    /// Returns the number of bytes that [`Self::padded`] allocates for elements of `size` bytes.
    fn scratch(&self, size: usize) -> usize {
        self.pad.as_ref().map_or(0, |(pad, elements)| elements * size + pad.scratch(&[], &[]) / pad.size * size)
    }
}

/// `reduce_window`. The inputs are the tensors, their initial values, and the scalars that the body captures.
pub(crate) struct ReduceWindow {
    pub(crate) slidings: Vec<Sliding>,
    pub(crate) sizes: Vec<usize>,
    pub(crate) body: Body,
}

impl Kernel for ReduceWindow {
    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], cx: &Context<'_>) -> Result<(), RunError> {
        let count = self.sizes.len();
        let (tensors, rest) = ins.split_at(count);
        let (inits, captured) = rest.split_at(count);
        let n = outs[0].len() / self.sizes[0];
        if n == 0 {
            return Ok(());
        }
        let mut padded = Vec::with_capacity(count);
        for i in 0..count {
            padded.push(self.slidings[i].padded(tensors[i], inits[i], self.sizes[i], cx)?);
        }
        let sources: Vec<&[u8]> =
            padded.iter().zip(tensors).map(|(p, &t)| p.as_ref().map_or(t, Buffer::bytes)).collect();
        // Work tile by tile, so that the running values stay in the first-level cache.
        let mut rest: Vec<&mut [u8]> = outs.iter_mut().map(|o| &mut **o).collect();
        let mut tasks = Vec::new();
        for start in (0..n).step_by(TILE) {
            let len = TILE.min(n - start);
            let mut mine = Vec::with_capacity(count);
            for (out, &size) in rest.iter_mut().zip(&self.sizes) {
                let (head, tail) = std::mem::take(out).split_at_mut(len * size);
                mine.push(head);
                *out = tail;
            }
            tasks.push((start, len, mine));
        }
        let work = n.saturating_mul(self.slidings[0].elements.len()).saturating_mul(self.sizes[0]);
        let failure = parallel::Failure::default();
        parallel::each_until(cx.stop, tasks, work, |(start, len, mut acc)| {
            let mut x: Vec<Vec<u128>> = self.sizes.iter().map(|&s| vec![0; (len * s).div_ceil(16)]).collect();
            for ((acc, init), &size) in acc.iter_mut().zip(inits).zip(&self.sizes) {
                fill(acc, &init[..size]);
            }
            for at in 0..self.slidings[0].elements.len() {
                if let Err(error) = cx.check() {
                    return failure.note(Err(error));
                }
                for (i, &size) in self.sizes.iter().enumerate() {
                    let view = self.slidings[i].firsts.shifted(self.slidings[i].elements.position(at));
                    with_size!(size, T => {
                        let to = &mut cast_slice_mut::<u128, T>(&mut x[i])[..len];
                        view.read::<T>(cast_slice(sources[i]), start, to);
                    });
                }
                let xs: Vec<&[u8]> = x.iter().zip(&self.sizes).map(|(x, &s)| &cast_slice(x)[..len * s]).collect();
                failure.note(self.body.apply(len, &mut acc, &xs, captured, cx.stop));
            }
        });
        failure.result()
    }

    fn scratch(&self, _: &[usize], _: &[usize]) -> usize {
        self.slidings.iter().zip(&self.sizes).map(|(sliding, &size)| sliding.scratch(size)).sum()
    }

    fn has_loop(&self) -> bool {
        self.body.has_loop()
    }
}

/// A running reduction along the middle dimension of `[outer, n, inner]`. It is a `reduce_window` in which each window
/// contains all elements from one end of the dimension up to the window's position. The inputs are the tensor, its
/// initial value, and the scalars that the body captures.
pub(crate) struct Running {
    pub(crate) outer: usize,
    pub(crate) n: usize,
    pub(crate) inner: usize,
    pub(crate) size: usize,
    pub(crate) backwards: bool,
    pub(crate) body: Body,
}

impl Kernel for Running {
    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], cx: &Context<'_>) -> Result<(), RunError> {
        let (x, init, captured) = (ins[0], ins[1], &ins[2..]);
        let (outer, n, inner, size) = (self.outer, self.n, self.inner, self.size);
        if outer * n * inner == 0 {
            return Ok(());
        }
        // Use vectors along a dimension that is not accumulated: the inner dimension, or the outer dimension after a
        // transpose.
        if inner == 1 && outer > 1 {
            let stride = |s: usize| isize::try_from(s).unwrap_or(isize::MAX);
            let (mut turned, mut result) = (cx.pool.alloc(x.len())?, cx.pool.alloc(x.len())?);
            with_size!(size, T => {
                View::new(&[n, outer], &[1, stride(n)], 0).read_all::<T>(cast_slice(x), cast_slice_mut(turned.write()?));
                self.rows(turned.bytes(), init, captured, result.write()?, [1, outer], cx)?;
                View::new(&[outer, n], &[1, stride(outer)], 0).read_all::<T>(cast_slice(result.bytes()), cast_slice_mut(outs[0]));
            });
        } else {
            self.rows(x, init, captured, outs[0], [outer, inner], cx)?;
        }
        Ok(())
    }

    fn scratch(&self, ins: &[usize], _: &[usize]) -> usize {
        if self.inner == 1 && self.outer > 1 { 2 * ins[0] } else { 0 }
    }

    fn has_loop(&self) -> bool {
        self.body.has_loop()
    }
}

impl Running {
    fn rows(
        &self,
        x: &[u8],
        init: &[u8],
        captured: &[&[u8]],
        out: &mut [u8],
        [outer, inner]: [usize; 2],
        cx: &Context<'_>,
    ) -> Result<(), RunError> {
        let row = inner * self.size;
        for o in 0..outer {
            let first = o * self.n * row;
            for step in 0..self.n {
                if step % TILE == 0 {
                    cx.check()?;
                }
                let at = if self.backwards { self.n - 1 - step } else { step };
                let here = first + at * row;
                if step == 0 {
                    fill(&mut out[here..here + row], &init[..self.size]);
                } else {
                    let before = if self.backwards { here + row } else { here - row };
                    out.copy_within(before..before + row, here);
                }
                self.body.apply(
                    inner,
                    &mut [&mut out[here..here + row]],
                    &[&x[here..here + row]],
                    captured,
                    cx.stop,
                )?;
            }
        }
        Ok(())
    }
}

/// `select_and_scatter`. The inputs are the operand, the source, the initial value, and the scalars that the bodies
/// capture.
pub(crate) struct SelectAndScatter {
    pub(crate) sliding: Sliding,
    /// The same windows, over the indices of the operand's elements. Padding has no index.
    pub(crate) positions: Sliding,
    pub(crate) size: usize,
    pub(crate) select: ScalarFn,
    pub(crate) scatter: Body,
}

impl Kernel for SelectAndScatter {
    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], cx: &Context<'_>) -> Result<(), RunError> {
        const NOWHERE: u64 = u64::MAX;
        let (x, source, init, size) = (ins[0], ins[1], ins[2], self.size);
        let (for_select, for_scatter) = ins[3..].split_at(self.select.captured.len());
        fill(outs[0], &init[..size]);
        let mut positions = cx.pool.alloc(x.len() / size * size_of::<u64>())?;
        cast_slice_mut(positions.write()?).iter_mut().zip(0u64..).for_each(|(position, i)| *position = i);
        let positions = positions.bytes();
        let padded_x = self.sliding.padded(x, &init[..size], size, cx)?;
        let padded_at = self.positions.padded(positions, &NOWHERE.to_ne_bytes(), 8, cx)?;
        let x = padded_x.as_ref().map_or(x, Buffer::bytes);
        let at: &[u64] = cast_slice(padded_at.as_ref().map_or(positions, Buffer::bytes));
        let n = source.len() / size;
        for start in (0..n).step_by(TILE) {
            let len = TILE.min(n - start);
            let mut best = vec![0u128; (len * size).div_ceil(16)];
            let mut next = best.clone();
            let (mut best_at, mut next_at) = (vec![NOWHERE; len], vec![NOWHERE; len]);
            let mut keep = vec![0u8; len];
            for (here, there) in self.sliding.elements.positions().zip(self.positions.elements.positions()) {
                self.positions.firsts.shifted(there).read(at, start, &mut next_at);
                with_size!(size, T => {
                    let next = &mut cast_slice_mut::<u128, T>(&mut next)[..len];
                    self.sliding.firsts.shifted(here).read::<T>(cast_slice(x), start, next);
                });
                let mut operands: Vec<&[u8]> = vec![&cast_slice(&best)[..len * size], &cast_slice(&next)[..len * size]];
                operands.extend(for_select);
                self.select.run(len, &operands, &mut [&mut keep], &[], cx.stop)?;
                with_size!(size, T => {
                    let (best, next) = (cast_slice_mut::<u128, T>(&mut best), cast_slice::<u128, T>(&next));
                    for i in 0..len {
                        if next_at[i] != NOWHERE && (best_at[i] == NOWHERE || keep[i] == 0) {
                            (best[i], best_at[i]) = (next[i], next_at[i]);
                        }
                    }
                });
            }
            for (i, &to) in best_at.iter().enumerate().filter(|&(_, &to)| to != NOWHERE) {
                let to = usize::try_from(to).unwrap_or(0) * size;
                let from = (start + i) * size;
                let (to, from) = (&mut outs[0][to..to + size], &source[from..from + size]);
                self.scatter.apply(1, &mut [to], &[from], for_scatter, cx.stop)?;
            }
        }
        Ok(())
    }

    fn scratch(&self, ins: &[usize], _: &[usize]) -> usize {
        let positions = ins[0] / self.size * size_of::<u64>();
        positions + self.sliding.scratch(self.size) + self.positions.scratch(size_of::<u64>())
    }

    fn has_loop(&self) -> bool {
        self.select.has_loop() || self.scatter.has_loop()
    }
}
