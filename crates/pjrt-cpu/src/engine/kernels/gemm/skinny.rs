//! Products with few rows: every number of B is used so few times that packing it would cost more than the product.

use pulp::{Simd, WithSimd};

use super::number::{Operand, Wide};
use super::pack::Matrix;
use crate::engine::elementwise::map::arch;
use crate::engine::par;

/// Most rows whose products with lines of B are sums along the lines.
const DOTS: usize = 8;
/// Least depth of such sums: the vectors are added up at their ends.
const LONG: usize = 64;

/// Computes the product and is true, or is false if it is not one of few rows.
pub(super) fn product<T: Operand>(
    m: usize,
    k: usize,
    n: usize,
    a: &Matrix<'_, T>,
    b: &Matrix<'_, T>,
    out: &mut [T::Wide],
) -> bool {
    let (Some(x), Some(y)) = (T::as_wide(a.data), T::as_wide(b.data)) else { return false };
    let a = Matrix { data: x, offset: a.offset, row: a.row, column: a.column };
    let b = Matrix { data: y, offset: b.offset, row: b.row, column: b.column };
    let bytes = k.saturating_mul(n).saturating_mul(size_of::<T>());
    // Columns for each task, a multiple of every vector's length.
    let columns = n.div_ceil(par::threads(bytes) * 4).next_multiple_of(256);
    let mut run = |op: &(dyn Fn(usize, &mut [&mut [T::Wide]]) + Sync)| {
        let mut tasks: Vec<(usize, Vec<&mut [T::Wide]>)> =
            (0..n).step_by(columns).map(|first| (first, Vec::with_capacity(m))).collect();
        for row in out.chunks_exact_mut(n) {
            for (task, part) in tasks.iter_mut().zip(row.chunks_mut(columns)) {
                task.1.push(part);
            }
        }
        par::each(tasks, bytes, |(first, mut rows)| op(first, &mut rows));
    };
    if b.column == 1 && m <= 4 {
        run(&|first, rows| arch().dispatch(Sums { k, a, b, first, rows }));
        return true;
    }
    if b.row == 1 && a.column == 1 && m <= DOTS && k >= LONG {
        run(&|first, rows| arch().dispatch(Dots { k, a, b, first, rows }));
        return true;
    }
    false
}

/// Some columns of the product: rows of B, scaled and added up.
struct Sums<'a, 'out, W> {
    k: usize,
    a: Matrix<'a, W>,
    b: Matrix<'a, W>,
    /// First column.
    first: usize,
    rows: &'a mut [&'out mut [W]],
}

impl<W: Wide> WithSimd for Sums<'_, '_, W> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Sums { k, a, b, first, rows } = self;
        let lanes = W::lanes::<S>();
        let columns = rows.first().map_or(0, |row| row.len());
        for (i, row) in rows.iter_mut().enumerate() {
            let scale = |p: usize| a.data[a.offset + i * a.row + p * a.column];
            let mut done = 0;
            while columns - done >= 8 * lanes {
                let zero = W::splat(simd, W::default());
                let mut acc = [zero; 8];
                for p in 0..k {
                    let x = W::splat(simd, scale(p));
                    let line = W::vectors::<S>(&b.data[b.offset + p * b.row + first + done..][..8 * lanes]);
                    for (acc, &y) in acc.iter_mut().zip(&line[..8]) {
                        *acc = W::mul_add(simd, x, y, *acc);
                    }
                }
                W::vectors_mut::<S>(&mut row[done..done + 8 * lanes]).copy_from_slice(&acc);
                done += 8 * lanes;
            }
            let row = &mut row[done..];
            row.fill(W::default());
            for p in 0..k {
                let x = scale(p);
                let line = &b.data[b.offset + p * b.row + first + done..][..row.len()];
                for (o, &y) in row.iter_mut().zip(line) {
                    *o += x * y;
                }
            }
        }
    }
}

/// Some columns of the product: sums along lines of both operands.
struct Dots<'a, 'out, W> {
    k: usize,
    a: Matrix<'a, W>,
    b: Matrix<'a, W>,
    /// First column.
    first: usize,
    rows: &'a mut [&'out mut [W]],
}

impl<W: Wide> WithSimd for Dots<'_, '_, W> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Dots { k, a, b, first, rows } = self;
        let columns = rows.first().map_or(0, |row| row.len());
        let whole = k / (4 * W::lanes::<S>()) * (4 * W::lanes::<S>());
        for j in 0..columns {
            let y = &b.data[b.offset + (first + j) * b.column..][..k];
            for (i, row) in rows.iter_mut().enumerate() {
                let x = &a.data[a.offset + i * a.row..][..k];
                let zero = W::splat(simd, W::default());
                // Sums apart hide the latency of one another.
                let mut acc = [zero; 4];
                let (xs, ys) = (W::vectors::<S>(&x[..whole]), W::vectors::<S>(&y[..whole]));
                for (x, y) in xs.as_chunks::<4>().0.iter().zip(ys.as_chunks::<4>().0) {
                    for l in 0..4 {
                        acc[l] = W::mul_add(simd, x[l], y[l], acc[l]);
                    }
                }
                let [p, q, r, s] = acc;
                let mut sum = W::sum(simd, W::add(simd, W::add(simd, p, q), W::add(simd, r, s)));
                for (&x, &y) in x[whole..].iter().zip(&y[whole..]) {
                    sum += x * y;
                }
                row[j] = sum;
            }
        }
    }
}
