//! LU factorization with row exchanges. The columns are divided into panels. After each panel is factorized, a matrix
//! product updates the columns to the right of it.

use pulp::NullaryFnOnce;
use stablehlo_cpu_math::faer::{Accum, Conj, MatMut, MatRef};

use crate::engine::elementwise::map::vectorized;
use crate::engine::kernels::linalg::scalar::Scalar;

/// Number of columns of a panel.
const BLOCK: usize = 32;
/// Number of partial maxima in the search for a pivot.
const LANES: usize = 16;

/// Replaces `a` by its packed LU factors. `rows[k]` is the one-based index of the row that was exchanged with row `k`.
/// Returns the one-based index of the first diagonal element that is zero, or 0 if there is none.
pub(super) fn lu<T: Scalar>(a: &mut [T], m: usize, n: usize, rows: &mut [i32]) -> i32 {
    let one_based = |index: usize| i32::try_from(index + 1).unwrap_or(i32::MAX);
    let mut zero = 0;
    let mut panel = Vec::new();
    for first in (0..m.min(n)).step_by(BLOCK) {
        let count = BLOCK.min(m.min(n) - first);
        let (height, next) = (m - first, first + count);
        // Copy the panel to column-major order, because its columns are searched, scaled and updated one by one.
        panel.resize(height * count, T::zeroed());
        for (i, row) in a.chunks_exact(n).skip(first).enumerate() {
            row[first..next].iter().enumerate().for_each(|(j, x)| panel[j * height + i] = *x);
        }
        let mut pivots = [0; BLOCK];
        vectorized(Factorize { panel: &mut panel, height, pivots: &mut pivots[..count] });
        for (k, &pivot) in pivots[..count].iter().enumerate() {
            rows[first + k] = one_based(first + pivot);
            if pivot != k {
                let (upper, lower) = a.split_at_mut((first + pivot) * n);
                upper[(first + k) * n..(first + k + 1) * n].swap_with_slice(&mut lower[..n]);
            }
            if zero == 0 && panel[k * height + k].abs() == 0.0 {
                zero = one_based(first + k);
            }
        }
        for (i, row) in a.chunks_exact_mut(n).skip(first).enumerate() {
            row[first..next].iter_mut().enumerate().for_each(|(j, x)| *x = panel[j * height + i]);
        }
        if next < n {
            let (upper, lower) = a.split_at_mut(next * n);
            let upper = &mut upper[first * n..];
            vectorized(Substitute { rows: upper, n, first, next });
            if next < m {
                let factors = MatRef::from_column_major_slice(&panel, height, count).subrows(count, m - next);
                let upper = MatRef::from_row_major_slice(upper, count, n).subcols(next, n - next);
                let later = MatMut::from_row_major_slice_mut(lower, m - next, n).subcols_mut(next, n - next);
                T::multiply(later, Accum::Add, (factors, Conj::No), (upper, Conj::No), T::real(-1.0));
            }
        }
    }
    zero
}

/// Factorizes a panel in column-major order. `pivots[k]` receives the index of the panel's row that was exchanged with
/// row `k`.
struct Factorize<'a, T> {
    panel: &'a mut [T],
    height: usize,
    pivots: &'a mut [usize],
}

impl<T: Scalar> NullaryFnOnce for Factorize<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let height = self.height;
        for (k, pivot) in self.pivots.iter_mut().enumerate() {
            *pivot = k + largest(&self.panel[k * height + k..(k + 1) * height]);
            if *pivot != k {
                self.panel.chunks_exact_mut(height).for_each(|column| column.swap(k, *pivot));
            }
            let (done, later) = self.panel.split_at_mut((k + 1) * height);
            let (diagonal, factors) = done[k * height + k..].split_at_mut(1);
            if diagonal[0].abs() == 0.0 {
                continue;
            }
            factors.iter_mut().for_each(|x| *x = x.div(diagonal[0]));
            for column in later.chunks_exact_mut(height) {
                let (above, below) = column[k..].split_at_mut(1);
                below.iter_mut().zip(&*factors).for_each(|(x, factor)| *x = x.sub(factor.mul(above[0])));
            }
        }
    }
}

/// Returns the index of the element with the largest magnitude, and the first one if there are several. As in LAPACK,
/// the magnitude of a complex number is the sum of the absolute values of its parts. NaN counts as infinity.
#[inline(always)]
fn largest<T: Scalar>(x: &[T]) -> usize {
    let size = |x: &T| {
        let size = x.real_part().abs() + x.imaginary().abs();
        if size.is_nan() { f64::INFINITY } else { size }
    };
    let greater = |a: f64, b: f64| if b > a { b } else { a };
    // The compiler keeps these partial maxima in vector registers.
    let mut maxima = [0.0; LANES];
    let chunks = x.chunks_exact(LANES);
    let rest = chunks.remainder().iter().map(size).fold(0.0, greater);
    for chunk in chunks {
        maxima.iter_mut().zip(chunk).for_each(|(maximum, x)| *maximum = greater(*maximum, size(x)));
    }
    let largest = maxima.into_iter().fold(rest, greater);
    x.iter().position(|x| size(x) == largest).unwrap_or(0)
}

/// Computes the rows of the upper factor to the right of a panel, by forward substitution. The panel consists of the
/// columns `first..next`. `rows` contains the rows `first..next` of the whole matrix, which has `n` columns.
struct Substitute<'a, T> {
    rows: &'a mut [T],
    n: usize,
    first: usize,
    next: usize,
}

impl<T: Scalar> NullaryFnOnce for Substitute<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for i in 1..self.next - self.first {
            let (done, rest) = self.rows.split_at_mut(i * self.n);
            let (factors, row) = rest[..self.n].split_at_mut(self.next);
            for (factor, done) in factors[self.first..].iter().zip(done.chunks_exact(self.n)) {
                row.iter_mut().zip(&done[self.next..]).for_each(|(x, y)| *x = x.sub(factor.mul(*y)));
            }
        }
    }
}
