//! How a product is divided into blocks of work.

/// Maximum rows and columns of the output per task, so that the output and its part of a panel of A stay in the
/// second-level cache.
pub(super) const MC: usize = 240;
pub(super) const NT: usize = 512;
/// Work of a product in the unit of [`threads`](crate::engine::parallel::threads), bytes of memory-bound work.
pub(crate) fn work(m: usize, k: usize, n: usize) -> usize {
    m.saturating_mul(n).saturating_mul(k) / 16
}

/// The number of blocks of rows and of columns of the output, such that they fit the caches and occupy all threads.
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

/// The starts of the blocks, and the end. Blocks consist of whole strips of `width` lines, distributed as evenly as
/// possible.
pub(super) fn cuts(lines: usize, width: usize, blocks: usize) -> Vec<usize> {
    let strips = lines.div_ceil(width);
    let blocks = blocks.min(strips);
    (0..=blocks).map(|i| (strips * i / blocks * width).min(lines)).collect()
}

/// The destination of a product: the distance in elements between rows, and the first column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Out {
    pub(crate) row: usize,
    pub(crate) column: usize,
}
