//! The kernel of `sort`. The sort is stable even if the op does not require a stable sort.

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
    /// By the first key. Elements with equal keys are in the order of the next key.
    Keys(Vec<SortKey>),
    /// By a comparator of two elements of every operand. The arguments of the comparator alternate between the two
    /// elements.
    Comparator(ScalarFn),
}

/// The elements of one operand, or a key that a program computes from them.
pub(crate) struct SortKey {
    pub(crate) operand: usize,
    /// Computes the keys from the elements and the captured scalars. `None` if the elements themselves are the keys.
    pub(crate) program: Option<TileProgram>,
    /// Number of scalars that the program captures. The captured scalars of all keys follow the operands of the sort.
    pub(crate) captured: usize,
    /// Type of the keys. Its values map to integers in the same order.
    pub(crate) dtype: DType,
    pub(crate) descending: bool,
    /// Whether -0 precedes +0. Otherwise, they are equal.
    pub(crate) total: bool,
}

impl SortKey {
    /// Returns a key that consists of the elements of the operand, in the total order of their type.
    pub(crate) fn elements(operand: usize, dtype: DType, descending: bool) -> Self {
        Self { operand, program: None, captured: 0, dtype, descending, total: true }
    }

    /// Sorts the `n` elements in `row` and returns the indices of the first `kept` elements. `order` contains the
    /// indices of the elements in their current order, or is `None` if this is the order in `row`. Elements with equal
    /// keys keep their current order.
    fn sorted(&self, (row, n): (&[u8], usize), captured: &[&[u8]], order: Option<&[u32]>, kept: usize) -> Vec<u32> {
        let size = self.dtype.size();
        let mut computed: Vec<u128> = Vec::new();
        let keys = match &self.program {
            None => row,
            Some(program) => {
                computed.resize((n * size).div_ceil(16), 0);
                let out: &mut [u8] = &mut cast_slice_mut(&mut computed)[..n * size];
                let ins: Vec<&[u8]> = std::iter::once(row).chain(captured.iter().copied()).collect();
                program.run(n, &ins, &mut [out], &[]);
                &cast_slice(&computed)[..n * size]
            }
        };
        let flip = if self.descending { u64::MAX } else { 0 };
        with_dtype!(self.dtype, T => {
            let zero = T::order(bytemuck::Zeroable::zeroed());
            let is_merged = !self.total && self.dtype.is_float();
            let rank = |key: T| {
                // `T::order` is a total order, in which -0 immediately precedes +0. If -0 and +0 are equal, map -0 to
                // the key of +0.
                let rank = key.order();
                (if is_merged && rank.wrapping_add(1) == zero { zero } else { rank }) ^ flip
            };
            let keys = cast_slice::<u8, T>(keys);
            match order {
                None => first_of(keys.iter().map(|&key| rank(key)).zip(0..), n, kept),
                Some(order) => {
                    let ranks = order.iter().map(|&index| rank(keys[index as usize]));
                    let mut places = first_of(ranks.zip(0..), n, kept);
                    places.iter_mut().for_each(|place| *place = order[*place as usize]);
                    places
                }
            }
        }, _ => Vec::new())
    }
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

    fn scratch(&self, _: &[usize], _: &[usize]) -> usize {
        let row: usize = self.sizes.iter().sum();
        // See `SortKey::sorted` and `Sort::merge`.
        let order = match &self.order {
            Order::Keys(keys) => {
                let computed = keys.iter().filter(|key| key.program.is_some()).map(|key| key.dtype.size());
                // All keys but the first sort all elements, and leave the order for the next one.
                let sorted = if keys.len() == 1 && self.kept <= self.n / FEW { self.kept } else { self.n };
                let pairs = sorted.saturating_mul(size_of::<(u64, u32)>() + keys.len().min(2) * size_of::<u32>());
                pairs.saturating_add(self.n.saturating_mul(computed.max().unwrap_or(0)))
            }
            Order::Comparator(_) => self.n.saturating_mul(size_of::<Search>() + 4 * size_of::<u32>() + 2 * row + 1),
        };
        let copied = if self.inner == 1 { 0 } else { self.n.saturating_mul(row) };
        self.outer.min(parallel::threads(usize::MAX)).saturating_mul(order.saturating_add(copied))
    }

    fn has_loop(&self) -> bool {
        match &self.order {
            Order::Keys(_) => false,
            Order::Comparator(body) => body.has_loop(),
        }
    }
}

/// Returns the indices of the `kept` smallest of `n` pairs of a key and an index, in ascending order of the pairs.
/// Equal keys are ordered by their index, so the sort is stable.
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
            // All sorts are stable, so sorting by the last key first gives the order of all keys.
            Order::Keys(keys) => {
                let mut order: Option<Vec<u32>> = None;
                let mut end = captured.len();
                for (index, key) in keys.iter().enumerate().rev() {
                    let own = &captured[end - key.captured..end];
                    end -= key.captured;
                    let kept = if index == 0 { self.kept } else { self.n };
                    order = Some(key.sorted((rows[key.operand], self.n), own, order.as_deref(), kept));
                    Stop::check(stop)?;
                }
                Ok(order.unwrap_or_default())
            }
            Order::Comparator(body) => {
                let mut order = self.merge(body, rows, captured, stop)?;
                order.truncate(self.kept);
                Ok(order)
            }
        }
    }

    /// Sorts by merging pairs of sorted runs. Each element of a left run finds its position in the right run by binary
    /// search. All elements search at the same time, so that one call of the comparator processes many pairs.
    ///
    /// The result is a permutation even if the comparator is not a strict weak order, for example because it compares
    /// NaN.
    fn merge(
        &self,
        body: &ScalarFn,
        rows: &[&[u8]],
        captured: &[&[u8]],
        stop: Option<&Stop>,
    ) -> Result<Vec<u32>, RunError> {
        let n = self.n;
        let mut order: Vec<u32> = (0..u32::try_from(n).unwrap_or(u32::MAX)).collect();
        let mut next: Vec<u32> = Vec::with_capacity(n);
        let mut searches: Vec<Search> = Vec::with_capacity(n);
        let (mut first, mut second) = (vec![0u32; n], vec![0u32; n]);
        let mut pairs: Vec<Vec<u128>> =
            self.sizes.iter().flat_map(|&s| [s, s]).map(|s| vec![0; (n * s).div_ceil(16)]).collect();
        let mut less = vec![0u8; n];
        let mut width = 1;
        while width < n {
            let runs = || (0..n - width).step_by(2 * width).map(|left| (left, left + width, (left + 2 * width).min(n)));
            searches.clear();
            for (left, middle, end) in runs() {
                searches.extend((left..middle).map(|at| Search { at, low: middle, high: end }));
            }
            let count = searches.len();
            while searches.iter().any(|search| search.low < search.high) {
                for ((search, first), second) in searches.iter().zip(&mut first).zip(&mut second) {
                    *first = order[if search.low < search.high { search.middle() } else { search.at }];
                    *second = order[search.at];
                }
                for (operand, &size) in self.sizes.iter().enumerate() {
                    for (side, positions) in [&first, &second].into_iter().enumerate() {
                        with_size!(size, T => {
                            let row: &[T] = cast_slice(rows[operand]);
                            let to = cast_slice_mut::<u128, T>(&mut pairs[2 * operand + side]);
                            to.iter_mut().zip(&positions[..count]).for_each(|(t, &p)| *t = row[p as usize]);
                        });
                    }
                }
                let sizes = self.sizes.iter().flat_map(|&s| [s, s]);
                let mut ins: Vec<&[u8]> = pairs.iter().zip(sizes).map(|(p, s)| &cast_slice(p)[..count * s]).collect();
                ins.extend(captured);
                body.run(count, &ins, &mut [&mut less[..count]], &[], stop)?;
                for (search, &less) in searches.iter_mut().zip(&less).filter(|(search, _)| search.low < search.high) {
                    // Elements of the left run precede equal elements of the right run, so the search passes only
                    // elements that are smaller.
                    let middle = search.middle();
                    if less != 0 { search.low = middle + 1 } else { search.high = middle }
                }
            }
            next.clear();
            let mut found = searches.iter();
            for (left, middle, end) in runs() {
                // The first element of the right run that is not in `next` yet.
                let mut right = middle;
                for (&element, search) in order[left..middle].iter().zip(&mut found) {
                    let until = search.low.max(right);
                    next.extend(&order[right..until]);
                    next.push(element);
                    right = until;
                }
                next.extend(&order[right..end]);
            }
            // The last left run may have no right run.
            next.extend(&order[next.len()..]);
            std::mem::swap(&mut order, &mut next);
            width *= 2;
        }
        Ok(order)
    }
}

/// The binary search for the position of an element of a left run in the right run. All fields are positions in the
/// order before the merge.
struct Search {
    /// Position of the element.
    at: usize,
    low: usize,
    high: usize,
}

impl Search {
    fn middle(&self) -> usize {
        usize::midpoint(self.low, self.high)
    }
}
