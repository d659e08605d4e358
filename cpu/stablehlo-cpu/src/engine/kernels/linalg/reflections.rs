//! Householder reflections `H = I - tau v v*`. The first element of `v` is 1 and is not stored.

use pulp::NullaryFnOnce;
use stablehlo_cpu_math::faer::{Accum, Conj, MatMut, MatRef};

use super::scalar::Scalar;
use crate::engine::elementwise::map::vectorized;

/// Number of partial sums of a dot product or a sum of squares. The compiler keeps them in vector registers.
const LANES: usize = 16;

/// Number of columns to which a reflection is applied together. While the sums of one column wait for additions, the
/// processor adds to those of another column.
const GROUP: usize = 2;

/// Number of rows that are copied together between row-major and column-major order.
const TILE: usize = 16;

/// Reflections of adjacent columns. The vector of each reflection starts one row below the vector of the reflection
/// before it.
pub(super) struct Panel<T> {
    rows: usize,
    /// The columns, one after the other. Below the diagonal, they hold the vectors.
    columns: Vec<T>,
    tau: Vec<T>,
}

impl<T: Scalar> Panel<T> {
    pub(super) fn new() -> Self {
        Self { rows: 0, columns: Vec::new(), tau: Vec::new() }
    }

    /// Copies `count` columns of a matrix with `n` columns, starting at column `first`, without the rows above row
    /// `first`.
    pub(super) fn read(&mut self, a: &[T], n: usize, first: usize, count: usize) {
        self.rows = a.len() / n - first;
        self.columns.resize(self.rows * count, T::zeroed());
        for (tile, rows) in a[first * n..].chunks(TILE * n).enumerate() {
            for (j, column) in self.columns.chunks_exact_mut(self.rows).enumerate() {
                let rows = rows.chunks_exact(n);
                column[tile * TILE..].iter_mut().zip(rows).for_each(|(x, row)| *x = row[first + j]);
            }
        }
        self.tau.clear();
    }

    pub(super) fn set_factors(&mut self, tau: &[T]) {
        self.tau.extend_from_slice(tau);
    }

    /// Copies the columns back to the positions in the matrix from which [`read`](Self::read) copied them.
    pub(super) fn write(&self, a: &mut [T], n: usize, first: usize) {
        for (tile, rows) in a[first * n..].chunks_mut(TILE * n).enumerate() {
            for (j, column) in self.columns.chunks_exact(self.rows).enumerate() {
                let rows = rows.chunks_exact_mut(n);
                column[tile * TILE..].iter().zip(rows).for_each(|(x, row)| row[first + j] = *x);
            }
        }
    }

    /// Computes the QR factorization of the columns. Returns the scalar factors of the reflections.
    pub(super) fn reduce(&mut self) -> &[T] {
        let count = self.columns.len() / self.rows;
        for k in 0..count {
            let (done, later) = self.columns.split_at_mut((k + 1) * self.rows);
            let column = &mut done[k * self.rows + k..];
            let tau = reflect(column);
            self.tau.push(tau);
            vectorized(Apply { v: &column[1..], tau: tau.conj(), columns: later, rows: self.rows });
        }
        &self.tau
    }

    /// Replaces the columns by the first columns of the product of the reflections.
    pub(super) fn form(&mut self) {
        for (k, &tau) in self.tau.iter().enumerate().rev() {
            let (done, later) = self.columns.split_at_mut((k + 1) * self.rows);
            let (above, column) = done[k * self.rows..].split_at_mut(k);
            vectorized(Apply { v: &column[1..], tau, columns: later, rows: self.rows });
            above.fill(T::real(0.0));
            column[0] = T::real(1.0).sub(tau);
            column[1..].iter_mut().for_each(|x| *x = T::real(0.0).sub(x.mul(tau)));
        }
    }

    /// Multiplies `a` from the left by the product of the reflections, or by the adjoint of this product.
    ///
    /// The product is `I - V T V*`, where the columns of `V` are the vectors of the reflections and `T` is upper
    /// triangular.
    pub(super) fn multiply(&self, a: MatMut<'_, T>, adjoint: bool) {
        let count = self.tau.len();
        let mut v = self.columns.clone();
        for (k, column) in v.chunks_exact_mut(self.rows).enumerate() {
            column[..k].fill(T::real(0.0));
            column[k] = T::real(1.0);
        }
        let v = MatRef::from_column_major_slice(&v, self.rows, count);
        let t = self.triangle(v);
        let t = MatRef::from_row_major_slice(&t, count, count);
        let mut products = vec![T::zeroed(); 2 * count * a.ncols()];
        let (w, tw) = products.split_at_mut(count * a.ncols());
        let mut w = MatMut::from_row_major_slice_mut(w, count, a.ncols());
        let mut tw = MatMut::from_row_major_slice_mut(tw, count, a.ncols());
        let one = T::real(1.0);
        T::multiply(w.as_mut(), Accum::Replace, (v.transpose(), Conj::Yes), (a.as_ref(), Conj::No), one);
        let t = if adjoint { (t.transpose(), Conj::Yes) } else { (t, Conj::No) };
        T::multiply(tw.as_mut(), Accum::Replace, t, (w.as_ref(), Conj::No), one);
        T::multiply(a, Accum::Add, (v, Conj::No), (tw.as_ref(), Conj::No), T::real(-1.0));
    }

    /// Returns the matrix `T` of [`multiply`](Self::multiply), in row-major order.
    fn triangle(&self, v: MatRef<'_, T>) -> Vec<T> {
        let count = self.tau.len();
        let mut products = vec![T::zeroed(); count * count];
        let view = MatMut::from_row_major_slice_mut(&mut products, count, count);
        T::multiply(view, Accum::Replace, (v.transpose(), Conj::Yes), (v, Conj::No), T::real(1.0));
        let mut t = vec![T::zeroed(); count * count];
        for (k, &tau) in self.tau.iter().enumerate() {
            for i in 0..k {
                let sum = (i..k).fold(T::real(0.0), |sum, j| sum.add(t[i * count + j].mul(products[j * count + k])));
                t[i * count + k] = T::real(0.0).sub(tau.mul(sum));
            }
            t[k * count + k] = tau;
        }
        t
    }
}

/// Computes the reflection whose adjoint zeroes all elements except the first, which becomes real. The vector replaces
/// the zeroed elements. Returns `tau`.
fn reflect<T: Scalar>(column: &mut [T]) -> T {
    let Some((head, tail)) = column.split_first_mut() else { return T::real(0.0) };
    let mut below = norm(tail);
    if below == 0.0 && head.imaginary() == 0.0 {
        return T::real(0.0);
    }
    // Scale tiny columns up, because subnormal numbers have too few significant bits.
    let lift = if head.abs().max(below) < T::TINY { 1.0 / T::TINY } else { 1.0 };
    let mut alpha = *head;
    if lift > 1.0 {
        alpha = alpha.mul(T::real(lift));
        tail.iter_mut().for_each(|x| *x = x.mul(T::real(lift)));
        below = norm(tail);
    }
    let beta = -alpha.abs().hypot(below).copysign(alpha.real_part());
    let scale = alpha.sub(T::real(beta)).reciprocal();
    tail.iter_mut().for_each(|x| *x = x.mul(scale));
    *head = T::real(beta / lift);
    T::real(beta).sub(alpha).mul(T::real(beta).reciprocal())
}

/// Returns the Euclidean norm of `x`, even if squares of its elements overflow or underflow.
fn norm<T: Scalar>(x: &[T]) -> f64 {
    let squares = |scale: f64| vectorized(Squares { x, scale });
    // If the sum of squares is very small or very large, squares may have overflowed or underflowed, so scale the
    // numbers.
    let scaled = |scale: f64| squares(scale).sqrt() / scale;
    match squares(1.0) {
        sum if sum < 1e-270 => scaled(1e180),
        sum if sum > 1e300 => scaled(1e-180),
        sum => sum.sqrt(),
    }
}

/// Multiplies each element by `scale`, and sums the squares of the products.
struct Squares<'a, T> {
    x: &'a [T],
    scale: f64,
}

impl<T: Scalar> NullaryFnOnce for Squares<'_, T> {
    type Output = f64;

    #[inline(always)]
    fn call(self) -> f64 {
        let square = |x: &T| {
            let (re, im) = (x.real_part() * self.scale, x.imaginary() * self.scale);
            re * re + im * im
        };
        let chunks = self.x.chunks_exact(LANES);
        let rest = chunks.remainder().iter().fold(0.0, |sum, x| sum + square(x));
        let mut sums = [0.0; LANES];
        for chunk in chunks {
            sums.iter_mut().zip(chunk).for_each(|(sum, x)| *sum += square(x));
        }
        sums.into_iter().fold(rest, |sum, x| sum + x)
    }
}

/// Subtracts `tau v v* x` from the last elements `x` of each column. The slice `v` does not contain the first element
/// of the vector, which is 1.
struct Apply<'a, T> {
    v: &'a [T],
    tau: T,
    columns: &'a mut [T],
    rows: usize,
}

impl<T: Scalar> NullaryFnOnce for Apply<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { v, tau, columns, rows } = self;
        let mut groups = columns.chunks_exact_mut(GROUP * rows);
        for group in &mut groups {
            apply::<T, GROUP>(v, tau, group, rows);
        }
        for column in groups.into_remainder().chunks_exact_mut(rows) {
            apply::<T, 1>(v, tau, column, rows);
        }
    }
}

/// Applies a reflection to `N` columns, as [`Apply`] describes.
#[inline(always)]
fn apply<T: Scalar, const N: usize>(v: &[T], tau: T, columns: &mut [T], rows: usize) {
    let start = rows - v.len();
    let dots = dots(v, std::array::from_fn::<_, N, _>(|j| &columns[j * rows + start..(j + 1) * rows]));
    for (column, dot) in columns.chunks_exact_mut(rows).zip(dots) {
        let dot = column[start - 1].add(dot).mul(tau);
        column[start - 1] = column[start - 1].sub(dot);
        column[start..].iter_mut().zip(v).for_each(|(x, v)| *x = x.sub(v.mul(dot)));
    }
}

/// Returns the dot products `v* x` with several vectors `x`, which are as long as `v`.
#[inline(always)]
fn dots<T: Scalar, const N: usize>(v: &[T], x: [&[T]; N]) -> [T; N] {
    let whole = v.len() - v.len() % LANES;
    let mut totals = x.map(|x| {
        let rest = v[whole..].iter().zip(&x[whole..]);
        rest.fold(T::real(0.0), |sum, (v, x)| sum.add(v.conj().mul(*x)))
    });
    if whole == 0 {
        return totals;
    }
    let mut sums = [[T::real(0.0); LANES]; N];
    for (at, v) in v.chunks_exact(LANES).enumerate() {
        for (sums, x) in sums.iter_mut().zip(x) {
            for ((sum, v), x) in sums.iter_mut().zip(v).zip(&x[at * LANES..][..LANES]) {
                *sum = sum.add(v.conj().mul(*x));
            }
        }
    }
    for (total, sums) in totals.iter_mut().zip(sums) {
        *total = sums.into_iter().fold(*total, T::add);
    }
    totals
}
