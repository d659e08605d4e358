//! Matrix products that the crate `faer` computes from the operands in their memory layout. The kernels of `faer` are
//! faster than safe code for the same loops. They run on this engine's own threads.

use stablehlo_cpu_math::faer::traits::math_utils::one;
use stablehlo_cpu_math::faer::{Accum, Conj, MatMut, MatRef};

use super::blocking::{cuts, work};
use super::number::Float;
use super::pack::Matrix;
use crate::engine::parallel;
use crate::engine::stop::Stop;

/// Minimum number of multiplications per block if there are more blocks than threads. With more blocks than threads,
/// one slow thread does not delay the others.
const PIECE: usize = 32 << 20;
/// Maximum number of multiplications between two checks for a stop request. This many multiplications take one or two
/// seconds.
const LONG: usize = 64 << 30;
/// Minimum number of rows and of columns of a block of the output. If threads would otherwise be idle, `ROWS` rows
/// suffice.
const SIDE: usize = 128;
const ROWS: usize = 32;
/// Number of consecutive rows, and number of consecutive columns, that always belong to the same block.
const TOGETHER: (usize, usize) = (8, 64);

/// Converts a matrix to `faer`'s type. Returns `None` if neither stride of the matrix is 1.
fn view<'a, W>(m: &Matrix<'a, W>, rows: usize, columns: usize) -> Option<MatRef<'a, W>> {
    let data = m.data.get(m.offset..)?;
    if m.column == 1 {
        Some(MatRef::from_row_major_slice_with_stride(data, rows, columns, m.row))
    } else if m.row == 1 {
        Some(MatRef::from_column_major_slice_with_stride(data, rows, columns, m.column))
    } else {
        None
    }
}

/// Returns the number of row blocks and the number of column blocks into which the output is divided.
pub(super) fn pieces((m, k, n): (usize, usize, usize), threads: usize) -> (usize, usize) {
    let size = m.saturating_mul(k).saturating_mul(n);
    if threads == 1 && size <= LONG {
        return (1, 1);
    }
    let large = size / PIECE >= 2 * threads;
    let wanted = (if large { 2 * threads } else { threads }).max(size / LONG);
    // Split columns first, because `faer` packs more data for wide and low blocks.
    let across = (n / SIDE).clamp(1, wanted);
    let down = wanted.div_ceil(across).min((m / SIDE).max(1));
    let idle = down * across < threads;
    (if idle { threads.div_ceil(across).clamp(down, (m / ROWS).max(down)) } else { down }, across)
}

/// Returns whether `faer` has kernels for this processor whose result for an element does not depend on the block that
/// contains the element. On other processors, `faer` computes large products with the crate `gemm`. The results of
/// `gemm` depend on the blocks, and therefore on the number of threads.
fn has_block_independent_kernels() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as detected;
        detected!("avx512f") || (detected!("avx2") && detected!("fma"))
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Computes a product whose extents are not zero. Returns false without computing it if neither stride of an operand is
/// 1, or if the result would depend on the number of threads.
pub(super) fn product<W: Float>(
    m: usize,
    k: usize,
    n: usize,
    a: &Matrix<'_, W>,
    b: &Matrix<'_, W>,
    out: &mut [W],
    stop: Option<&Stop>,
) -> bool {
    if !has_block_independent_kernels() {
        return false;
    }
    let (Some(a), Some(b)) = (view(a, m, k), view(b, k, n)) else { return false };
    let threads = parallel::threads(work(m, k, n));
    let (down, across) = pieces((m, k, n), threads);
    let (down, across) = (cuts(m, TOGETHER.0, down), cuts(n, TOGETHER.1, across));
    let mut tasks = Vec::with_capacity(down.len() * across.len());
    let mut below = MatMut::from_row_major_slice_mut(out, m, n);
    for i in down.windows(2) {
        let (mut right, rest) = below.split_at_row_mut(i[1] - i[0]);
        below = rest;
        for j in across.windows(2) {
            let (piece, rest) = right.split_at_col_mut(j[1] - j[0]);
            right = rest;
            tasks.push((i[0], j[0], piece));
        }
    }
    let spread = if threads > 1 { usize::MAX } else { 0 };
    parallel::each_until(stop, tasks, spread, |(row, column, piece)| {
        let a = a.subrows(row, piece.nrows());
        let b = b.subcols(column, piece.ncols());
        W::multiply(piece, Accum::Replace, (a, Conj::No), (b, Conj::No), one::<W>());
    });
    true
}
