//! Division of a matrix product into blocks of work.

/// Maximum number of rows of the output per task. With at most [`NT`] columns, a task's block of the output and its
/// part of a panel of A stay in the second-level cache.
pub(super) const MC: usize = 240;
pub(super) const NT: usize = 512;
/// Estimates the cost of a product in bytes of memory-bound work. [`threads`](crate::engine::parallel::threads) expects
/// this unit.
pub(crate) fn work(m: usize, k: usize, n: usize) -> usize {
    m.saturating_mul(n).saturating_mul(k) / 16
}

/// Returns the number of row blocks and the number of column blocks into which the output is divided. The blocks fit
/// the caches, and they occupy all threads if the output is large enough.
pub(super) fn blocks(m: usize, n: usize, (mr, nr): (usize, usize), threads: usize) -> (usize, usize) {
    let (mut down, mut across) = (m.div_ceil(MC), n.div_ceil(NT));
    let wanted = if threads > 1 { threads * 4 } else { 1 };
    while down * across < wanted {
        if m.div_ceil(down) > 4 * mr {
            down += 1;
        } else if n.div_ceil(across) > 2 * nr {
            across += 1;
        } else {
            break;
        }
    }
    (down, across)
}

/// Divides `lines` rows or columns into at most `blocks` blocks. Returns the first line of each block, followed by
/// `lines`. Blocks consist of whole strips of `width` lines, distributed as evenly as possible.
pub(super) fn cuts(lines: usize, width: usize, blocks: usize) -> Vec<usize> {
    let strips = lines.div_ceil(width);
    let blocks = blocks.min(strips);
    (0..=blocks).map(|i| (strips * i / blocks * width).min(lines)).collect()
}

/// The position of a product in the output slice. `row` is the distance in elements between rows. `column` is the
/// output column of the product's first column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Out {
    pub(crate) row: usize,
    pub(crate) column: usize,
}
