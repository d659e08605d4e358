//! The kernel of `sort`. The sort is stable even if the op does not require a stable sort.

use std::collections::BinaryHeap;
use std::ops::Range;

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
/// Number of elements that a task sorts together, if rows have fewer.
const BLOCK: usize = 4096;
/// Number of elements of a row of which the smallest are not selected before they are sorted.
const SMALL: usize = 32;

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

    /// Returns the keys of `n` elements. Keys that a program computes are in `computed`.
    fn of<'a>(&self, (elements, n): (&'a [u8], usize), captured: &[&[u8]], computed: &'a mut Vec<u128>) -> &'a [u8] {
        let Some(program) = &self.program else { return elements };
        let bytes = n * self.dtype.size();
        computed.resize(bytes.div_ceil(16), 0);
        let out: &mut [u8] = &mut cast_slice_mut(computed)[..bytes];
        let ins: Vec<&[u8]> = std::iter::once(elements).chain(captured.iter().copied()).collect();
        program.run(n, &ins, &mut [out], &[]);
        &cast_slice(computed)[..bytes]
    }
}

/// Sorts one row after the other, in the same memory.
#[derive(Default)]
struct Sorter {
    /// The indices of the row's elements in their current order.
    order: Vec<u32>,
    next: Vec<u32>,
    pairs: Vec<(u64, u32)>,
}

impl Sorter {
    /// Sorts a row of `n` elements by these keys, and keeps the first `kept` elements. The current order of the
    /// elements is that in the row, or else [`Self::order`]. Elements with equal keys keep their current order.
    fn sort(&mut self, key: &SortKey, (keys, n): (&[u8], usize), is_in_row_order: bool, kept: usize) {
        let flip = if key.descending { u64::MAX } else { 0 };
        with_dtype!(key.dtype, T => {
            let zero = T::order(bytemuck::Zeroable::zeroed());
            let is_merged = !key.total && key.dtype.is_float();
            let rank = |key: T| {
                // `T::order` is a total order, in which -0 immediately precedes +0. If -0 and +0 are equal, map -0 to
                // the key of +0.
                let rank = key.order();
                (if is_merged && rank.wrapping_add(1) == zero { zero } else { rank }) ^ flip
            };
            let keys = cast_slice::<u8, T>(keys);
            self.next.clear();
            if is_in_row_order {
                first_of(&mut self.pairs, keys.iter().map(|&key| rank(key)).zip(0..), n, kept);
                self.next.extend(self.pairs.iter().map(|(_, index)| index));
            } else {
                let ranks = self.order.iter().map(|&index| rank(keys[index as usize]));
                first_of(&mut self.pairs, ranks.zip(0..), n, kept);
                self.next.extend(self.pairs.iter().map(|(_, place)| self.order[*place as usize]));
            }
            std::mem::swap(&mut self.order, &mut self.next);
        }, _ => {});
    }
}

impl Kernel for Sort {
    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], cx: &Context<'_>) -> Result<(), RunError> {
        let (tensors, captured) = ins.split_at(self.sizes.len());
        if self.kept == 0 || self.inner == 0 {
            return Ok(());
        }
        // Create one task for each outer index, because the elements of an outer index are contiguous in every output.
        // Rows of adjacent elements that are short share a task.
        let each = if self.inner == 1 { (BLOCK / self.n).max(1) } else { 1 };
        let mut rest: Vec<&mut [u8]> = outs.iter_mut().map(|o| &mut **o).collect();
        let mut tasks = Vec::with_capacity(self.outer.div_ceil(each));
        for start in (0..self.outer).step_by(each) {
            let outer = start..(start + each).min(self.outer);
            let mut mine = Vec::with_capacity(self.sizes.len());
            for (out, &size) in rest.iter_mut().zip(&self.sizes) {
                let (head, tail) = std::mem::take(out).split_at_mut(outer.len() * self.kept * self.inner * size);
                mine.push(head);
                *out = tail;
            }
            tasks.push((outer, mine));
        }
        let bytes = tensors.iter().map(|t| t.len()).sum::<usize>().saturating_mul(16);
        let failure = parallel::Failure::default();
        parallel::each_until(cx.stop, tasks, bytes, |(outer, mut outs)| {
            failure.note(match self.inner {
                1 => self.sort_rows(outer, (tensors, captured), &mut outs, cx.stop),
                _ => self.sort_columns(outer.start, (tensors, captured), &mut outs, cx.stop),
            });
        });
        failure.result()
    }

    fn scratch(&self, _: &[usize], _: &[usize]) -> usize {
        let row: usize = self.sizes.iter().sum();
        // See `Sort::permutations` and `Sort::merge`. Rows that are sorted together have at most `BLOCK` elements.
        let block = self.n.max(BLOCK.min(self.n.saturating_mul(self.outer.max(self.inner))));
        let order = match &self.order {
            Order::Keys(keys) => {
                let computed = keys.iter().filter(|key| key.program.is_some()).map(|key| key.dtype.size());
                // All keys but the first sort all elements, and leave the order for the next one.
                let sorted = if keys.len() == 1 && self.kept <= self.n / FEW { self.kept } else { self.n };
                let pairs = sorted.saturating_mul(size_of::<(u64, u32)>() + 2 * size_of::<u32>());
                pairs.saturating_add(block.saturating_mul(computed.sum()))
            }
            Order::Comparator(_) => self.n.saturating_mul(size_of::<Search>() + 4 * size_of::<u32>() + 2 * row + 1),
        };
        let copied = if self.inner == 1 { 0 } else { block.saturating_mul(row) };
        self.outer.min(parallel::threads(usize::MAX)).saturating_mul(order.saturating_add(copied))
    }

    fn has_loop(&self) -> bool {
        match &self.order {
            Order::Keys(_) => false,
            Order::Comparator(body) => body.has_loop(),
        }
    }
}

/// Replaces `all` by the `kept` smallest of `n` pairs of a key and an index, in ascending order. Pairs with equal keys
/// are in the order of their indices, so the sort is stable.
fn first_of(all: &mut Vec<(u64, u32)>, mut pairs: impl Iterator<Item = (u64, u32)>, n: usize, kept: usize) {
    all.clear();
    if kept <= n / FEW {
        // Most elements are larger than the largest of the smallest pairs so far, and only cost a comparison.
        all.extend(pairs.by_ref().take(kept));
        let mut heap = BinaryHeap::from(std::mem::take(all));
        for pair in pairs {
            if let Some(mut largest) = heap.peek_mut()
                && pair < *largest
            {
                *largest = pair;
            }
        }
        *all = heap.into_sorted_vec();
    } else {
        all.extend(pairs);
        if kept < n && n > SMALL {
            all.select_nth_unstable(kept);
            all.truncate(kept);
        }
        all.sort_unstable();
        all.truncate(kept);
    }
}

/// The operands, and the captured scalars.
type Inputs<'a> = (&'a [&'a [u8]], &'a [&'a [u8]]);

impl Sort {
    /// Sorts rows of adjacent elements. `outs` contains only the results of these rows.
    fn sort_rows(
        &self,
        outer: Range<usize>,
        (tensors, captured): Inputs<'_>,
        outs: &mut [&mut [u8]],
        stop: Option<&Stop>,
    ) -> Result<(), RunError> {
        let rows: Vec<&[u8]> = tensors
            .iter()
            .zip(&self.sizes)
            .map(|(tensor, size)| &tensor[outer.start * self.n * size..outer.end * self.n * size])
            .collect();
        self.permutations(&rows, outer.len(), captured, stop, |row, order| {
            self.place(&rows, row, order, outs, (row * self.kept, 1));
        })
    }

    /// Sorts the columns of one outer index. Copies several columns at a time, so that their elements are adjacent.
    fn sort_columns(
        &self,
        outer: usize,
        (tensors, captured): Inputs<'_>,
        outs: &mut [&mut [u8]],
        stop: Option<&Stop>,
    ) -> Result<(), RunError> {
        let (n, inner) = (self.n, self.inner);
        let most = (BLOCK / n).clamp(1, inner);
        let mut copies: Vec<Vec<u128>> =
            self.sizes.iter().map(|size| vec![0; (most * n * size).div_ceil(16)]).collect();
        for start in (0..inner).step_by(most) {
            let columns = start..(start + most).min(inner);
            for ((tensor, copy), &size) in tensors.iter().zip(&mut copies).zip(&self.sizes) {
                with_size!(size, T => {
                    let lines = cast_slice::<u8, T>(tensor)[outer * n * inner..][..n * inner].chunks_exact(inner);
                    let copy = cast_slice_mut::<u128, T>(copy);
                    for (at, line) in lines.enumerate() {
                        for (&x, row) in line[columns.clone()].iter().zip(copy.chunks_exact_mut(n)) {
                            row[at] = x;
                        }
                    }
                });
            }
            let rows = copies.iter().zip(&self.sizes).map(|(copy, size)| &cast_slice(copy)[..columns.len() * n * size]);
            let rows: Vec<&[u8]> = rows.collect();
            self.permutations(&rows, columns.len(), captured, stop, |column, order| {
                self.place(&rows, column, order, outs, (start + column, inner));
            })?;
        }
        Ok(())
    }

    /// Copies the elements of one of the `rows` to the results, in this order, from a position and with a stride.
    fn place(&self, rows: &[&[u8]], row: usize, order: &[u32], outs: &mut [&mut [u8]], (at, stride): (usize, usize)) {
        for ((out, elements), &size) in outs.iter_mut().zip(rows).zip(&self.sizes) {
            with_size!(size, T => {
                let elements = &cast_slice::<u8, T>(elements)[row * self.n..][..self.n];
                let out = cast_slice_mut::<u8, T>(out)[at..].iter_mut().step_by(stride);
                out.zip(order).for_each(|(o, &i)| *o = elements[i as usize]);
            });
        }
    }

    /// Calls `put` with the number of each row, and with the indices of the row's first elements in sorted order. Each
    /// element of `rows` contains the adjacent elements of `count` rows of one operand.
    fn permutations(
        &self,
        rows: &[&[u8]],
        count: usize,
        captured: &[&[u8]],
        stop: Option<&Stop>,
        mut put: impl FnMut(usize, &[u32]),
    ) -> Result<(), RunError> {
        let n = self.n;
        match &self.order {
            // All sorts are stable, so sorting by the last key first gives the order of all keys.
            Order::Keys(keys) => {
                let mut computed = vec![Vec::new(); keys.len()];
                let mut rest = captured;
                let each = keys.iter().zip(&mut computed).map(|(key, computed)| {
                    let (own, later) = rest.split_at(key.captured);
                    rest = later;
                    (key, key.of((rows[key.operand], count * n), own, computed))
                });
                let keys: Vec<(&SortKey, &[u8])> = each.collect();
                let mut sorter = Sorter::default();
                for row in 0..count {
                    for (index, (key, all)) in keys.iter().enumerate().rev() {
                        let size = n * key.dtype.size();
                        let kept = if index == 0 { self.kept } else { n };
                        sorter.sort(key, (&all[row * size..][..size], n), index + 1 == keys.len(), kept);
                        Stop::check(stop)?;
                    }
                    put(row, &sorter.order);
                }
            }
            Order::Comparator(body) => {
                for row in 0..count {
                    let each = rows.iter().zip(&self.sizes);
                    let own: Vec<&[u8]> = each.map(|(rows, size)| &rows[row * n * size..][..n * size]).collect();
                    let mut order = self.merge(body, &own, captured, stop)?;
                    order.truncate(self.kept);
                    put(row, &order);
                }
            }
        }
        Ok(())
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
