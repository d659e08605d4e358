//! Runs scatters into arrays of equal elements row by row, together with the ops that read the result.
//!
//! Only the rows that are being processed exist in memory. The windows are therefore first sorted by blocks of rows.
//! The windows of one block keep their order, so each element combines its updates in the same order as in the unfused
//! scatter.

use std::any::Any;
use std::sync::Arc;

use super::graph::{Constant, Node, Op, Value};
use super::kernels::combine::Body;
use super::kernels::index::{OUTSIDE, Scatter, Windows};
use super::parallel;
use super::program::Fill;
use super::schedule::Item;

/// Minimum ratio of the number of elements in the array to the number of windows. With more windows, sorting takes
/// longer than the fusion saves.
const MIN_ELEMENTS: usize = 16;

/// A scatter that can be fused by rows.
pub(crate) struct RowScatter {
    scatter: Arc<Scatter>,
    run: fn(&mut [u8], &[u8]),
    fill: Fill,
    elements: usize,
}

impl RowScatter {
    /// Returns the scatter of an item, if it can be fused.
    pub(crate) fn of_item(item: &Item, values: &[Value]) -> Option<Self> {
        match item {
            Item::Node(node) => Self::of_node(node, values),
            _ => None,
        }
    }

    /// Returns the scatter of a node, if it can be fused. Its input must be a constant of equal elements, and its body
    /// must be [fast](Body::Fast). Its array must be large, both in bytes and in comparison with the number of windows.
    /// Each of its windows must be contiguous and start at a multiple of its length, which divides the array.
    pub(crate) fn of_node(node: &Node, values: &[Value]) -> Option<Self> {
        let Op::Kernel { kernel, .. } = &node.op else { return None };
        let kernel: Arc<dyn Any + Send + Sync> = kernel.clone();
        let scatter = kernel.downcast::<Scatter>().ok()?;
        let Body::Fast { run, .. } = scatter.body else { return None };
        let value = &values[node.ins[0] as usize];
        let Some(Constant::Splat(element)) = value.constant else { return None };
        let windows = &scatter.windows;
        let large = value.bytes() >= parallel::WORTH && windows.count <= value.n / MIN_ELEMENTS;
        let fill = Fill { element, size: value.size };
        let whole = windows.are_aligned() && value.n.is_multiple_of(windows.run);
        (large && whole).then_some(RowScatter { scatter, run, fill, elements: value.n })
    }

    /// Returns the number of rows of the array and their length, such that each window is a row.
    pub(crate) fn shape(&self) -> (usize, usize) {
        let columns = self.windows().run;
        (self.elements / columns, columns)
    }

    /// Returns whether the array has the size of `rows` rows of `columns` elements, and each window lies in one row.
    pub(crate) fn fits(&self, rows: usize, columns: usize) -> bool {
        self.elements == rows * columns && columns.is_multiple_of(self.windows().run)
    }

    fn windows(&self) -> &Windows {
        &self.scatter.windows
    }

    /// Returns the maximum number of bytes that [`Self::sort`] allocates.
    pub(crate) fn sorting_bytes(&self) -> usize {
        self.windows().count * size_of::<[usize; 5]>()
    }

    /// Sorts the windows by blocks of `rows` rows.
    pub(crate) fn sort(&self, indices: &[u8], rows: usize, columns: usize) -> SortedWindows {
        let windows = self.windows();
        let block = rows * columns;
        let mut offsets = vec![0; windows.count];
        windows.inside(indices, 0, &mut offsets);
        let placed: Vec<(usize, usize)> = offsets.into_iter().zip(0..).filter(|&(at, _)| at != OUTSIDE).collect();
        // Use a counting sort, because it keeps the order of the windows in each block.
        let mut ends = vec![0; self.elements.div_ceil(block) + 1];
        placed.iter().for_each(|(at, _)| ends[at / block + 1] += 1);
        for next in 1..ends.len() {
            ends[next] += ends[next - 1];
        }
        let mut sorted = vec![(0, 0); placed.len()];
        for window in placed {
            let end = &mut ends[window.0 / block];
            sorted[*end] = window;
            *end += 1;
        }
        SortedWindows { sorted, ends, rows, columns }
    }

    /// Computes the block of the result that begins at row `row`.
    pub(crate) fn run(&self, row: usize, updates: &[u8], windows: &SortedWindows, out: &mut [u8]) {
        self.fill.apply_to(out);
        let size = usize::from(self.fill.size);
        let bytes = self.windows().run * size;
        let start = row * windows.columns;
        for &(at, window) in windows.of_block(row / windows.rows) {
            (self.run)(&mut out[(at - start) * size..][..bytes], &updates[window * bytes..][..bytes]);
        }
    }
}

/// Windows sorted by block of rows. Windows outside the array are omitted.
pub(crate) struct SortedWindows {
    /// Offset and index of each window.
    sorted: Vec<(usize, usize)>,
    /// For each block, the end of its windows in `sorted`.
    ends: Vec<usize>,
    /// Number of rows of a block. `columns` is the length of a row.
    rows: usize,
    columns: usize,
}

impl SortedWindows {
    fn of_block(&self, block: usize) -> &[(usize, usize)] {
        let start = block.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.sorted[start..self.ends[block]]
    }
}
