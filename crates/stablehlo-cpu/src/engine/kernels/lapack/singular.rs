//! Singular value decompositions. `faer` computes them, except for the singular values of most matrices without
//! vectors, which [`dqds`] computes.

use faer::diag::Diag;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::svd::{self, ComputeSvdVectors, SvdParams, bidiag};
use faer::{Auto, Mat, MatMut, MatRef, Par, Spec};

use super::dqds;
use super::precision::minimum_recursive_rows;
use super::scaling::Scaling;
use crate::engine::kernels::linalg::Scalar;
use crate::engine::kernels::transpose::transpose;

/// Maximum ratio of the longer to the shorter side of a matrix that [`values`] reduces to bidiagonal form directly. For
/// larger ratios, it is faster to let `faer` compute a QR factorization first.
const TALL: usize = 2;

/// The outputs for `u` and for the adjoint of `v`, and whether both matrices are square.
type SingularVectors<'a, T> = (&'a mut [T], &'a mut [T], bool);

/// Computes the descending singular values `s` of the `m x n` matrix `a`, and the singular vectors if requested.
/// Returns whether it succeeded.
pub(super) fn decompose<T: Scalar<Real: Scalar>>(
    a: &[T],
    m: usize,
    n: usize,
    s: &mut [T::Real],
    vectors: Option<SingularVectors<'_, T>>,
) -> bool {
    if m == 0 || n == 0 {
        if let Some((u, vt, true)) = vectors {
            for (matrix, size) in [(u, m), (vt, n)] {
                matrix.fill(T::real(0.0));
                (0..size).for_each(|i| matrix[i * size + i] = T::real(1.0));
            }
        }
        return true;
    }
    let Some(scaling) = Scaling::of([a]) else { return false };
    if vectors.is_none() && m.max(n) <= TALL * m.min(n) && values(a, m, n, s, scaling) {
        return true;
    }
    // `faer` expects column-major matrices, and the row-major matrix `a` is a column-major matrix `b = a^T`. If
    // `b = x s y*`, then `u` is the conjugate of `y`, and the adjoint of `v` is `x^T`. The column-major matrix `x` is
    // the row-major matrix `x^T`, so `faer` can write it to the output directly.
    let scaled: Vec<T> = a.iter().map(|x| scaling.apply(*x)).collect();
    let parameters =
        Spec::new(SvdParams { recursion_threshold: minimum_recursive_rows::<T>(), ..<SvdParams as Auto<T>>::auto() });
    let k = m.min(n);
    let kind = match vectors {
        None => ComputeSvdVectors::No,
        Some((.., true)) => ComputeSvdVectors::Full,
        Some(_) => ComputeSvdVectors::Thin,
    };
    let mut memory = MemBuffer::new(svd::svd_scratch::<T>(n, m, kind, kind, Par::Seq, parameters));
    let mut values = Diag::<T>::zeros(k);
    let (u, x) = vectors.map(|(u, vt, _)| (u, vt)).unzip();
    let mut y = vec![T::zeroed(); u.as_deref().map_or(0, <[T]>::len)];
    let done = svd::svd(
        MatRef::from_column_major_slice(&scaled, n, m),
        values.as_mut(),
        x.map(|x| {
            let columns = x.len() / n;
            MatMut::from_column_major_slice_mut(x, n, columns)
        }),
        u.is_some().then(|| {
            let columns = y.len() / m;
            MatMut::from_column_major_slice_mut(&mut y, m, columns)
        }),
        Par::Seq,
        MemStack::new(&mut memory),
        parameters,
    );
    if done.is_err() {
        return false;
    }
    if let Some(u) = u {
        transpose(&y, y.len() / m, m, u, Scalar::conj);
    }
    for (to, from) in s.iter_mut().zip(values.column_vector().iter()) {
        *to = scaling.undo(<T::Real as Scalar>::real(from.real_part()));
    }
    true
}

/// Computes only the singular values, from the bidiagonal form. Returns whether the algorithm converged.
fn values<T: Scalar<Real: Scalar>>(a: &[T], m: usize, n: usize, s: &mut [T::Real], scaling: Scaling) -> bool {
    let (rows, columns) = (m.max(n), m.min(n));
    // A matrix and its transpose have the same singular values. Store the one with at least as many rows as columns, in
    // column-major order.
    let mut matrix = vec![T::zeroed(); m * n];
    match m >= n {
        true => transpose(a, m, n, &mut matrix, |x| scaling.apply(x)),
        false => matrix.iter_mut().zip(a).for_each(|(to, x)| *to = scaling.apply(*x)),
    }
    let mut matrix = MatMut::from_column_major_slice_mut(&mut matrix, rows, columns);
    let (mut left, mut right) = (Mat::<T>::zeros(1, columns), Mat::<T>::zeros(1, columns - 1));
    let scratch = bidiag::bidiag_in_place_scratch::<T>(rows, columns, Par::Seq, Default::default());
    bidiag::bidiag_in_place(
        matrix.as_mut(),
        left.as_mut(),
        right.as_mut(),
        Par::Seq,
        MemStack::new(&mut MemBuffer::new(scratch)),
        Default::default(),
    );
    let mut d: Vec<f64> = (0..columns).map(|i| matrix[(i, i)].abs()).collect();
    let e: Vec<f64> = (1..columns).map(|i| matrix[(i - 1, i)].abs()).collect();
    if !dqds::singular_values(&mut d, &e) {
        return false;
    }
    for (to, from) in s.iter_mut().zip(d) {
        *to = scaling.undo(<T::Real as Scalar>::real(from));
    }
    true
}
