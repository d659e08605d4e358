//! `sort`. The sort is stable even if the op does not require a stable sort.

use std::collections::BinaryHeap;

use bytemuck::{cast_slice, cast_slice_mut};

use super::{Context, Kernel};
use crate::engine::dtype::{DType, with_dtype, with_size};
use crate::engine::elementwise::num::Num;
use crate::engine::parallel;
use crate::engine::scalar_fn::ScalarFn;
use crate::engine::stop::Stop;
use crate::engine::tile::TileProgram;
use crate::error::RunError;

/// If at most this part of the elements is kept, the kernel collects the smallest elements in a heap.
const FEW: usize = 16;

/// Sorts tensors of shape `[outer, n, inner]` along the middle dimension. All tensors are permuted in the same way. The
/// results have the shape `[outer, kept, inner]`, and contain only the first elements in sorted order.
pub(crate) struct Sort {
    pub(crate) outer: usize,
    pub(crate) n: usize,
    pub(crate) kept: usize,
    pub(crate) inner: usize,
    pub(crate) sizes: Vec<usize>,
    pub(crate) order: Order,
}

/// The order of the elements along the sorted dimension.
pub(crate) enum Order {
    /// By the elements of one operand, or by a key that the program `key` computes from them. The keys have type
    /// `dtype`, and `size` is the size of a key in bytes. If `total` is not set, -0 and +0 are equal.
    Key { operand: usize, key: Option<TileProgram>, size: usize, dtype: DType, descending: bool, total: bool },
    /// By a comparator of two elements of every operand. The arguments of the comparator alternate between the two
    /// elements.
    Comparator(ScalarFn),
}

impl Kernel for Sort {
    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], cx: &Context<'_>) -> Result<(), RunError> {
        let count = self.sizes.len();
        let (tensors, captured) = ins.split_at(count);
        if self.kept == 0 || self.inner == 0 {
            return Ok(());
        }
        // Create one task per outer index, because the elements of an outer index are contiguous in every output.
        let mut rest: Vec<&mut [u8]> = outs.iter_mut().map(|o| &mut **o).collect();
        let mut tasks = Vec::with_capacity(self.outer);
        for outer in 0..self.outer {
            let mut mine = Vec::with_capacity(count);
            for (out, &size) in rest.iter_mut().zip(&self.sizes) {
                let (head, tail) = std::mem::take(out).split_at_mut(self.kept * self.inner * size);
                mine.push(head);
                *out = tail;
            }
            tasks.push((outer, mine));
        }
        let bytes = tensors.iter().map(|t| t.len()).sum::<usize>().saturating_mul(16);
        let failure = parallel::Failure::default();
        parallel::each_until(cx.stop, tasks, bytes, |(outer, mut outs)| {
            let copied = if self.inner == 1 { 0 } else { self.n };
            let mut rows: Vec<Vec<u128>> = self.sizes.iter().map(|&s| vec![0; (copied * s).div_ceil(16)]).collect();
            for inner in 0..self.inner {
                // Copy rows whose elements are not contiguous.
                for ((tensor, row), &size) in tensors.iter().zip(&mut rows).zip(&self.sizes).filter(|_| copied > 0) {
                    with_size!(size, T => {
                        let src: &[T] = &cast_slice::<u8, T>(tensor)[outer * self.n * self.inner + inner..];
                        let row = &mut cast_slice_mut::<u128, T>(row)[..self.n];
                        row.iter_mut().zip(src.iter().step_by(self.inner)).for_each(|(r, &s)| *r = s);
                    });
                }
                let each = tensors.iter().zip(&rows).zip(&self.sizes);
                let rows: Vec<&[u8]> = each
                    .map(|((tensor, row), &size)| {
                        let (all, start): (&[u8], usize) =
                            if copied > 0 { (cast_slice(row), 0) } else { (tensor, outer) };
                        &all[start * self.n * size..][..self.n * size]
                    })
                    .collect();
                let order = match cx.check().and_then(|()| self.permutation(&rows, captured, cx.stop)) {
                    Ok(order) => order,
                    Err(error) => return failure.note(Err(error)),
                };
                for ((out, row), &size) in outs.iter_mut().zip(&rows).zip(&self.sizes) {
                    with_size!(size, T => {
                        let row: &[T] = cast_slice(row);
                        let out = cast_slice_mut::<u8, T>(out)[inner..].iter_mut().step_by(self.inner);
                        out.zip(&order).for_each(|(o, &i)| *o = row[i as usize]);
                    });
                }
            }
        });
        failure.result()
    }

    fn has_loop(&self) -> bool {
        match &self.order {
            Order::Key { .. } => false,
            Order::Comparator(body) => body.has_loop(),
        }
    }
}

/// Returns the indices of the `kept` smallest of `n` pairs of a key and an index, in ascending order of the pairs. Equal
/// keys are ordered by their index, so the sort is stable.
fn first_of(pairs: impl Iterator<Item = (u64, u32)>, n: usize, kept: usize) -> Vec<u32> {
    let smallest = if kept <= n / FEW {
        // Most elements are larger than the largest of the smallest pairs so far, and only cost a comparison.
        let mut pairs = pairs;
        let mut heap: BinaryHeap<(u64, u32)> = pairs.by_ref().take(kept).collect();
        for pair in pairs {
            if let Some(mut largest) = heap.peek_mut()
                && pair < *largest
            {
                *largest = pair;
            }
        }
        heap.into_sorted_vec()
    } else {
        let mut all: Vec<(u64, u32)> = pairs.collect();
        if kept < n {
            all.select_nth_unstable(kept);
            all.truncate(kept);
        }
        all.sort_unstable();
        all
    };
    smallest.into_iter().map(|(_, i)| i).collect()
}

impl Sort {
    /// Returns the indices of the first elements of one row in sorted order.
    fn permutation(&self, rows: &[&[u8]], captured: &[&[u8]], stop: Option<&Stop>) -> Result<Vec<u32>, RunError> {
        match &self.order {
            Order::Key { operand, key, size, dtype, descending, total } => {
                let mut computed: Vec<u128> = Vec::new();
                let keys = match key {
                    None => rows[*operand],
                    Some(program) => {
                        computed.resize((self.n * size).div_ceil(16), 0);
                        let out: &mut [u8] = &mut cast_slice_mut(&mut computed)[..self.n * size];
                        let ins: Vec<&[u8]> = std::iter::once(rows[*operand]).chain(captured.iter().copied()).collect();
                        program.run(self.n, &ins, &mut [out], &[]);
                        &cast_slice(&computed)[..self.n * size]
                    }
                };
                let flip = if *descending { u64::MAX } else { 0 };
                Ok(with_dtype!(*dtype, T => {
                    let zero = T::order(bytemuck::Zeroable::zeroed());
                    let pairs = cast_slice::<u8, T>(keys).iter().zip(0..).map(|(&k, i)| {
                        // `T::order` is a total order, in which -0 immediately precedes +0. If `total` is not set, -0
                        // and +0 are equal, so map -0 to the key of +0.
                        let order = k.order();
                        let order = if !*total && dtype.is_float() && order.wrapping_add(1) == zero { zero } else { order };
                        (order ^ flip, i)
                    });
                    first_of(pairs, self.n, self.kept)
                }, _ => Vec::new()))
            }
            Order::Comparator(body) => {
                let mut order = self.merge(body, rows, captured, stop)?;
                order.truncate(self.kept);
                Ok(order)
            }
        }
    }

    /// Sorts by merging sorted runs. Each element finds its position in the other run of a merge by binary search. All
    /// elements search at the same time, so that one call of the comparator processes many pairs.
    fn merge(
        &self,
        body: &ScalarFn,
        rows: &[&[u8]],
        captured: &[&[u8]],
        stop: Option<&Stop>,
    ) -> Result<Vec<u32>, RunError> {
        let n = self.n;
        let mut order: Vec<u32> = (0..u32::try_from(n).unwrap_or(u32::MAX)).collect();
        let mut next = order.clone();
        let (mut low, mut high) = (vec![0usize; n], vec![0usize; n]);
        let (mut first, mut second) = (vec![0u32; n], vec![0u32; n]);
        let mut pairs: Vec<Vec<u128>> =
            self.sizes.iter().flat_map(|&s| [s, s]).map(|s| vec![0; (n * s).div_ceil(16)]).collect();
        let mut less = vec![0u8; n];
        let mut width = 1;
        while width < n {
            // Each element searches for its position in the other one of the two runs that are merged.
            for (at, (low, high)) in low.iter_mut().zip(&mut high).enumerate() {
                let left = at / (2 * width) * (2 * width);
                let middle = (left + width).min(n);
                (*low, *high) = if at < middle { (middle, (left + 2 * width).min(n)) } else { (left, middle) };
            }
            loop {
                let mut open = false;
                for at in 0..n {
                    let (mine, mut other) = (order[at], order[at]);
                    if low[at] < high[at] {
                        open = true;
                        other = order[(low[at] + high[at]) / 2];
                    }
                    // Elements of the left run precede equal elements of the right run. The search for an element of
                    // the left run therefore passes only elements that are strictly smaller.
                    let in_left = at % (2 * width) < width;
                    (first[at], second[at]) = if in_left { (other, mine) } else { (mine, other) };
                }
                if !open {
                    break;
                }
                for (operand, &size) in self.sizes.iter().enumerate() {
                    for (side, positions) in [&first, &second].into_iter().enumerate() {
                        with_size!(size, T => {
                            let row: &[T] = cast_slice(rows[operand]);
                            let to = cast_slice_mut::<u128, T>(&mut pairs[2 * operand + side]);
                            to.iter_mut().zip(positions).for_each(|(t, &p)| *t = row[p as usize]);
                        });
                    }
                }
                let sizes = self.sizes.iter().flat_map(|&s| [s, s]);
                let mut ins: Vec<&[u8]> = pairs.iter().zip(sizes).map(|(p, s)| &cast_slice(p)[..n * s]).collect();
                ins.extend(captured);
                body.run(n, &ins, &mut [&mut less], &[], stop)?;
                for at in 0..n {
                    if low[at] < high[at] {
                        let middle = (low[at] + high[at]) / 2;
                        let in_left = at % (2 * width) < width;
                        // For an element of the left run, test whether the other element is smaller. For an element of
                        // the right run, test whether the other element is not greater.
                        if (less[at] != 0) == in_left { low[at] = middle + 1 } else { high[at] = middle }
                    }
                }
            }
            for at in 0..n {
                let left = at / (2 * width) * (2 * width);
                let middle = (left + width).min(n);
                let place = if at < middle { at + (low[at] - middle) } else { (at - middle) + low[at] };
                next[place] = order[at];
            }
            std::mem::swap(&mut order, &mut next);
            width *= 2;
        }
        Ok(order)
    }
}
