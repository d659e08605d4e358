//! Eigenvalues and eigenvectors of real symmetric tridiagonal matrices, computed by divide and conquer.
//!
//! The matrix is split into two halves, which are solved recursively. Their eigenvalues and eigenvectors reduce the
//! matrix to a diagonal matrix plus a matrix of rank one. (J. J. M. Cuppen: A divide and conquer method for the
//! symmetric tridiagonal eigenproblem, Numerische Mathematik, 1981.) All numbers except the eigenvectors are `f64`.

use pulp::NullaryFnOnce;
use stablehlo_cpu_math::faer::{Accum, Conj, MatMut, MatRef};

use super::precision::Precision;
use super::secular::{self, Root, Secular};
use crate::engine::elementwise::map::vectorized;
use crate::engine::kernels::linalg::scalar::Scalar;

/// Maximum number of rows of a matrix that QL iterations solve.
const LEAF: usize = 16;

/// Replaces the diagonal `d` by the ascending eigenvalues, and `u` by the eigenvectors. `u` is a matrix in column-major
/// order, and is initially zero. `e` is the subdiagonal. Returns whether the computation succeeded.
pub(super) fn decompose<R: Scalar>(d: &mut [f64], e: &[f64], u: &mut [R]) -> bool {
    let n = d.len();
    let epsilon = Precision::of_scalar::<R>().epsilon();
    let memory = || vec![R::zeroed(); if n > LEAF { n * n } else { 0 }];
    let mut solver = Solver {
        n,
        u,
        epsilon,
        inner: (epsilon / 64.0).max(f64::EPSILON),
        packed: memory(),
        vectors: memory(),
        products: memory(),
        column: vec![0.0; if n > LEAF { n } else { 0 }],
    };
    solver.solve(0, d, e) && d.iter().all(|x| x.is_finite())
}

struct Solver<'a, R> {
    n: usize,
    u: &'a mut [R],
    /// The machine epsilon of the eigenvectors.
    epsilon: f64,
    /// The relative error that a step of the computation may have.
    inner: f64,
    /// The eigenvectors of the two halves that are multiplied by `vectors`.
    packed: Vec<R>,
    /// The eigenvectors of the diagonal matrix plus the matrix of rank one.
    vectors: Vec<R>,
    products: Vec<R>,
    column: Vec<f64>,
}

/// A column of a block of the eigenvectors of two halves.
#[derive(Clone, Copy)]
struct Column {
    index: usize,
    d: f64,
    z: f64,
    /// Whether the column has nonzero elements in the rows of the first and the second half.
    halves: [bool; 2],
}

impl<R: Scalar> Solver<'_, R> {
    /// Solves the diagonal block that starts at row `first`.
    fn solve(&mut self, first: usize, d: &mut [f64], e: &[f64]) -> bool {
        let n = d.len();
        if n <= LEAF {
            return self.iterate(first, d, e);
        }
        let half = n / 2;
        let corner = e[half - 1];
        let (upper, lower) = d.split_at_mut(half);
        upper[half - 1] -= corner.abs();
        lower[0] -= corner.abs();
        let done = self.solve(first, upper, &e[..half - 1]) && self.solve(first + half, lower, &e[half..]);
        if done {
            self.merge(first, half, d, corner);
        }
        done
    }

    fn iterate(&mut self, first: usize, d: &mut [f64], e: &[f64]) -> bool {
        let n = d.len();
        let mut z = [0.0; LEAF * LEAF];
        if !vectorized(Iterate { d, e, z: &mut z[..n * n], tolerance: self.inner }) {
            return false;
        }
        let mut values: [(f64, usize); LEAF] = std::array::from_fn(|j| (d.get(j).copied().unwrap_or(0.0), j));
        values[..n].sort_unstable_by(|(a, _), (b, _)| a.total_cmp(b));
        for (j, (value, from)) in values[..n].iter().enumerate() {
            d[j] = *value;
            let column = &mut self.u[(first + j) * self.n + first..][..n];
            column.iter_mut().zip(&z[from * n..]).for_each(|(to, x)| *to = R::real(*x));
        }
        true
    }

    /// Joins two halves of the block that starts at row `first`. The first half has `half` rows. The halves are joined
    /// by the matrix `[|c| c; c |c|]` in the rows next to the border, where `c` is `corner`.
    fn merge(&mut self, first: usize, half: usize, d: &mut [f64], corner: f64) {
        let n = d.len();
        let at = |column: usize, row: usize| (first + column) * self.n + first + row;
        // The vector that defines the matrix of rank one has the norm 1.
        let sign = std::f64::consts::FRAC_1_SQRT_2.copysign(corner);
        let mut columns: Vec<Column> = (0..half)
            .map(|j| (j, self.u[at(j, half - 1)].real_part() * std::f64::consts::FRAC_1_SQRT_2))
            .chain((half..n).map(|j| (j, self.u[at(j, half)].real_part() * sign)))
            .map(|(j, z)| Column { index: j, d: d[j], z, halves: [j < half, j >= half] })
            .collect();
        columns.sort_by(|a, b| a.d.total_cmp(&b.d));
        let rho = 2.0 * corner.abs();
        let (joined, separate) = self.deflate(first, columns, rho);
        let count = joined.len();
        let values: Vec<f64> = joined.iter().map(|column| column.d).collect();
        let weights: Vec<f64> = joined.iter().map(|column| rho * column.z * column.z).collect();
        let mut roots = vec![Root::default(); count];
        Secular { d: &values, weights: &weights, tolerance: self.inner.max(4.0 * f64::EPSILON) }.roots(&mut roots);
        let mut z: Vec<f64> = joined.iter().map(|column| column.z).collect();
        secular::exact_vector(&values, &roots, &mut z);
        self.multiply(first, half, n, &joined, &z, &roots);

        // Store the eigenvectors in the order of the eigenvalues.
        for (column, to) in separate.iter().zip(self.products[count * n..].chunks_exact_mut(n)) {
            to.copy_from_slice(&self.u[(first + column.index) * self.n + first..][..n]);
        }
        let found = roots.into_iter().map(Root::value).chain(separate.iter().map(|column| column.d));
        let mut found: Vec<(f64, usize)> = found.zip(0..).collect();
        found.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        for (j, (value, from)) in found.into_iter().enumerate() {
            d[j] = value;
            self.u[(first + j) * self.n + first..][..n].copy_from_slice(&self.products[from * n..(from + 1) * n]);
        }
    }

    /// Separates the eigenvectors that the matrix of rank one does not change, up to rounding errors. Of two close
    /// eigenvalues, one can be separated after a rotation of their eigenvectors.
    fn deflate(&mut self, first: usize, columns: Vec<Column>, rho: f64) -> (Vec<Column>, Vec<Column>) {
        let n = columns.len();
        let largest = columns.iter().fold(rho, |largest, column| largest.max(column.d.abs()));
        let tolerance = 4.0 * self.epsilon * largest;
        let (mut joined, mut separate) = (Vec::<Column>::with_capacity(n), Vec::with_capacity(n));
        for mut column in columns {
            if rho * column.z.abs() <= tolerance {
                separate.push(column);
                continue;
            }
            let Some(before) = joined.last_mut() else {
                joined.push(column);
                continue;
            };
            let norm = column.z.hypot(before.z);
            let (c, s) = (column.z / norm, -before.z / norm);
            let gap = column.d - before.d;
            if (gap * c * s).abs() > tolerance {
                joined.push(column);
                continue;
            }
            let start = |column: &Column| (first + column.index) * self.n + first;
            let (x, y) = (start(before), start(&column));
            for row in 0..n {
                let (p, q) = (self.u[x + row].real_part(), self.u[y + row].real_part());
                self.u[x + row] = R::real(c * p + s * q);
                self.u[y + row] = R::real(c * q - s * p);
            }
            let halves = [0, 1].map(|half| before.halves[half] || column.halves[half]);
            (column.z, column.halves) = (norm, halves);
            let value = before.d;
            before.d = value + gap * s * s;
            column.d = value + gap * c * c;
            separate.push(std::mem::replace(before, column));
        }
        (joined, separate)
    }

    /// Multiplies the eigenvectors of the halves by the eigenvectors of the diagonal matrix plus the matrix of rank
    /// one. The first columns of `products` receive the result.
    fn multiply(&mut self, first: usize, half: usize, n: usize, joined: &[Column], z: &[f64], roots: &[Root]) {
        let count = joined.len();
        if count == 0 {
            return;
        }
        // Order the columns so that those with nonzero elements in a half are adjacent.
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by_key(|&j| (joined[j].halves[1], !joined[j].halves[0]));
        let (d, z): (Vec<f64>, Vec<f64>) = order.iter().map(|&j| (joined[j].d, z[j])).unzip();
        let column = &mut self.column[..count];
        for (root, to) in roots.iter().zip(self.vectors.chunks_exact_mut(count)) {
            secular::vector(&d, &z, *root, column);
            to.iter_mut().zip(&*column).for_each(|(to, x)| *to = R::real(*x));
        }
        let vectors = MatRef::from_column_major_slice(&self.vectors[..count * count], count, count);
        let mut products = MatMut::from_column_major_slice_mut(&mut self.products[..n * count], n, count);
        for (side, start, rows) in [(0, 0, half), (1, half, n - half)] {
            let used = order.iter().enumerate().filter(|(_, j)| joined[**j].halves[side]);
            let mut from = count;
            let mut width = 0;
            for ((place, &j), to) in used.zip(self.packed.chunks_exact_mut(rows)) {
                to.copy_from_slice(&self.u[(first + joined[j].index) * self.n + first + start..][..rows]);
                from = from.min(place);
                width += 1;
            }
            let packed = MatRef::from_column_major_slice(&self.packed[..rows * width], rows, width);
            let vectors = vectors.subrows(from.min(count - width), width);
            let to = products.as_mut().subrows_mut(start, rows);
            R::multiply(to, Accum::Replace, (packed, Conj::No), (vectors, Conj::No), R::real(1.0));
        }
    }
}

/// Diagonalizes a tridiagonal matrix by QL iterations with implicit shifts. Stores the eigenvectors in `z`, which is in
/// column-major order and initially zero. The eigenvalues are not sorted. Returns false if the iterations do not
/// converge.
struct Iterate<'a> {
    d: &'a mut [f64],
    e: &'a [f64],
    z: &'a mut [f64],
    /// An element of the subdiagonal is negligible if it is smaller than this number times its neighbors on the
    /// diagonal.
    tolerance: f64,
}

impl NullaryFnOnce for Iterate<'_> {
    type Output = bool;

    #[inline(always)]
    fn call(self) -> bool {
        let Self { d, z, tolerance, .. } = self;
        let n = d.len();
        z.iter_mut().step_by(n + 1).for_each(|x| *x = 1.0);
        let mut e = [0.0; LEAF];
        e[..n - 1].copy_from_slice(self.e);
        let mut steps = 30 * n;
        for first in 0..n {
            loop {
                let is_end = |i: &usize| i + 1 == n || e[*i].abs() <= tolerance * (d[*i].abs() + d[i + 1].abs());
                let end = (first..n).find(is_end).unwrap_or(first);
                if end == first {
                    break;
                }
                if steps == 0 {
                    return false;
                }
                steps -= 1;
                e[end] = 0.0;
                // The shift is the eigenvalue of the first two rows that is closer to the first diagonal element.
                let (p, q) = ((d[first + 1] - d[first]) * 0.5, e[first]);
                let shift = d[first] - q * (q / (p + length(p, q).copysign(p)));
                // Chase the nonzero element `bulge` outside the three diagonals upwards.
                let (mut x, mut bulge) = (d[end] - shift, e[end - 1]);
                for i in (first..end).rev() {
                    let r = length(x, bulge);
                    if i + 1 < end {
                        e[i + 1] = r;
                    }
                    let (c, s) = if r == 0.0 { (1.0, 0.0) } else { (x / r, bulge / r) };
                    let (upper, lower, between) = (d[i], d[i + 1], e[i]);
                    let product = 2.0 * c * s * between;
                    d[i + 1] = c * c * lower + s * s * upper + product;
                    d[i] = s * s * lower + c * c * upper - product;
                    x = c * s * (upper - lower) + (c * c - s * s) * between;
                    e[i] = x;
                    if i > first {
                        bulge = s * e[i - 1];
                        e[i - 1] *= c;
                    }
                    let (left, right) = z[i * n..(i + 2) * n].split_at_mut(n);
                    for (left, right) in left.iter_mut().zip(right) {
                        (*left, *right) = (c * *left - s * *right, s * *left + c * *right);
                    }
                }
            }
        }
        true
    }
}

/// Returns the square root of `x^2 + y^2`.
#[inline(always)]
fn length(x: f64, y: f64) -> f64 {
    let sum = x * x + y * y;
    if sum > 1e-280 && sum < 1e280 { sum.sqrt() } else { x.hypot(y) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the Frobenius norm of `a u - u w`, relative to that of `a`, and the largest element of `u* u - 1`. Both
    /// are in units of the machine epsilon.
    fn errors<R: Scalar>(d: &[f64], e: &[f64]) -> [f64; 2] {
        let n = d.len();
        let (mut w, mut u) = (d.to_vec(), vec![R::real(0.0); n * n]);
        assert!(decompose(&mut w, e, &mut u));
        assert!(w.is_sorted());
        let (mut residual, mut orthogonality) = (0.0, 0.0f64);
        let u: Vec<Vec<f64>> = u.chunks_exact(n).map(|column| column.iter().map(|x| x.real_part()).collect()).collect();
        for (j, (w, v)) in w.iter().zip(&u).enumerate() {
            for i in 0..n {
                let before = if i > 0 { e[i - 1] * v[i - 1] } else { 0.0 };
                let after = if i + 1 < n { e[i] * v[i + 1] } else { 0.0 };
                residual += (before + d[i] * v[i] + after - w * v[i]).powi(2);
                let product: f64 = u[i].iter().zip(v).map(|(x, y)| x * y).sum();
                orthogonality = orthogonality.max((product - if i == j { 1.0 } else { 0.0 }).abs());
            }
        }
        let squares = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>();
        let norm = (squares(d) + 2.0 * squares(e)).sqrt().max(f64::MIN_POSITIVE);
        [residual.sqrt() / norm, orthogonality].map(|error| error / Precision::of_scalar::<R>().epsilon())
    }

    fn check(name: &str, d: &[f64], e: &[f64]) {
        for [residual, orthogonality] in [errors::<f32>(d, e), errors::<f64>(d, e)] {
            let n = d.len();
            assert!(residual <= 15.0, "{name}, {n} rows: the residual is {residual} times the machine epsilon");
            assert!(
                orthogonality <= 40.0,
                "{name}, {n} rows: the vectors deviate by {orthogonality} times the epsilon"
            );
        }
    }

    #[test]
    fn tridiagonal_matrices() {
        let mut state = 1u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f64::from(state >> 8) / f64::from(1 << 24) - 0.5
        };
        for n in [1, 2, 3, 15, 16, 17, 31, 33, 50, 64, 97, 128] {
            let mut vector = |scale: f64| -> Vec<f64> { (0..n).map(|_| scale * random()).collect() };
            let [a, b, weak] = [1.0, 1.0, 1e-5].map(&mut vector);
            let tiny: Vec<f64> = a.iter().map(|x| (46.0 * (x - 0.5)).exp()).collect();
            let graded: Vec<f64> = (0..n).map(|i| 0.5f64.powi(i)).collect();
            let ramp: Vec<f64> = (0..n).map(|i| f64::from((i % 21 - 10).abs())).collect();
            let glue: Vec<f64> = (0..n).map(|i| if i % 21 == 20 { 1e-7 } else { 1.0 }).collect();
            let n = usize::try_from(n).expect("a small number");
            let check = |name, d: &[f64], e: &[f64]| check(name, d, &e[..n - 1]);
            check("random", &a, &b);
            check("weakly coupled", &a, &weak);
            check("coupled by small random elements", &a, &tiny);
            check("equal diagonal elements", &vec![1.0; n], &weak);
            check("graded", &graded, &graded);
            check("glued Wilkinson matrices", &ramp, &glue);
            check("Toeplitz", &vec![2.0; n], &vec![-1.0; n]);
            check("diagonal", &b, &vec![0.0; n]);
            check("zero", &vec![0.0; n], &vec![0.0; n]);
        }
    }
}
