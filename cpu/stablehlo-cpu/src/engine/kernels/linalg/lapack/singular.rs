//! Singular value decompositions. `faer` computes them, except for the singular values of most matrices without
//! vectors, which [`dqds`] computes.

use stablehlo_cpu_math::faer::diag::{Diag, DiagRef};
use stablehlo_cpu_math::faer::dyn_stack::{MemBuffer, MemStack};
use stablehlo_cpu_math::faer::linalg::svd::ComputeSvdVectors;
use stablehlo_cpu_math::faer::{Accum, Conj, Mat, MatMut, MatRef};

use super::dqds;
use super::precision::{Precision, minimum_recursive_rows};
use super::scaling::Scaling;
use crate::engine::kernels::linalg::scalar::Scalar;
use crate::engine::kernels::transpose::transpose;

/// Maximum ratio of the longer to the shorter side of a matrix that [`values`] reduces to bidiagonal form directly. For
/// larger ratios, it is faster to let `faer` compute a QR factorization first.
const TALL: usize = 2;

/// Number of random vectors with which [`is_accurate`] multiplies. Four of them miss an error of 590 times the machine
/// epsilon about twice in 100,000 cases.
const PROBES: usize = 4;

/// Maximum residual of an accurate decomposition with up to [`ROWS`] singular values, in units of the machine epsilon
/// times the norm of the matrix. Typical residuals are 5 to 20, and those of inaccurate decompositions are several
/// hundred.
const RESIDUAL: f64 = 50.0;

/// If there are more singular values, the maximum residual grows with the square root of their number, as rounding
/// errors do.
const ROWS: f64 = 128.0;

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
    let k = m.min(n);
    let kind = match vectors {
        None => ComputeSvdVectors::No,
        Some((.., true)) => ComputeSvdVectors::Full,
        Some(_) => ComputeSvdVectors::Thin,
    };
    let mut values = Diag::<T>::zeros(k);
    let (u, mut x) = vectors.map(|(u, vt, _)| (u, vt)).unzip();
    let mut y = vec![T::zeroed(); u.as_deref().map_or(0, <[T]>::len)];
    let b = MatRef::from_column_major_slice(&scaled, n, m);
    let mut recursive_rows = minimum_recursive_rows::<T>();
    loop {
        let mut memory = MemBuffer::new(T::singular_scratch(n, m, kind, recursive_rows));
        let done = T::singular_values(
            b,
            values.as_mut(),
            x.as_deref_mut().map(|x| {
                let columns = x.len() / n;
                MatMut::from_column_major_slice_mut(x, n, columns)
            }),
            u.is_some().then(|| {
                let columns = y.len() / m;
                MatMut::from_column_major_slice_mut(&mut y, m, columns)
            }),
            recursive_rows,
            MemStack::new(&mut memory),
        );
        if !done {
            return false;
        }
        // If the result is inaccurate, double the size up to which `faer` uses QR iterations, and repeat. The rounding
        // errors then differ, so the problem is unlikely to recur. The last attempt uses only QR iterations, which do
        // not have the problem.
        let Some(x) = x.as_deref().filter(|_| k >= recursive_rows) else { break };
        let x = MatRef::from_column_major_slice(&x[..n * k], n, k);
        if is_accurate(b, x, values.as_ref(), MatRef::from_column_major_slice(&y[..m * k], m, k)) {
            break;
        }
        recursive_rows *= 2;
    }
    if let Some(u) = u {
        transpose(&y, y.len() / m, m, u, Scalar::conj);
    }
    for (to, from) in s.iter_mut().zip(values.column_vector().iter()) {
        *to = scaling.undo(<T::Real as Scalar>::real(from.real_part()));
    }
    true
}

/// Returns whether the Frobenius norm of `x s y* - b` is small. The norm is estimated from products with random
/// vectors, because the product of the factors would take longer.
///
/// In rare cases, the norm is large after the divide-and-conquer algorithm of `faer`. The algorithm solves a secular
/// equation, and stops when the values of two steps differ by less than the machine epsilon. If an element of the
/// vector that joins two parts of the problem is only a few times the machine epsilon, the equation has a root so close
/// to a pole that the solver stops far too early. The singular values and the orthogonality of the vectors remain
/// accurate, but the vectors belong to another matrix. Scaling the matrix does not help, because the algorithm scales
/// each part.
fn is_accurate<T: Scalar<Real: Scalar>>(
    b: MatRef<'_, T>,
    x: MatRef<'_, T>,
    s: DiagRef<'_, T>,
    y: MatRef<'_, T>,
) -> bool {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let probes = Mat::from_fn(b.ncols(), PROBES, |_, _| {
        // An xorshift generator.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        T::real(if state >> 63 == 0 { 1.0 } else { -1.0 })
    });
    let mut coefficients = Mat::<T>::zeros(s.dim(), PROBES);
    let (probes, one) = ((probes.as_ref(), Conj::No), T::real(1.0));
    T::multiply(coefficients.as_mut(), Accum::Replace, (y.transpose(), Conj::Yes), probes, one);
    for column in coefficients.as_mut().col_iter_mut() {
        column.iter_mut().zip(s.column_vector().iter()).for_each(|(x, s)| *x *= *s);
    }
    let mut errors = Mat::<T>::zeros(b.nrows(), PROBES);
    T::multiply(errors.as_mut(), Accum::Replace, (x, Conj::No), (coefficients.as_ref(), Conj::No), one);
    T::multiply(errors.as_mut(), Accum::Add, (b, Conj::No), probes, T::real(-1.0));
    let largest = errors.col_iter().map(|column| column.norm_l2().real_part()).fold(0.0, f64::max);
    #[expect(clippy::cast_precision_loss, reason = "the number of singular values is far below 2^52")]
    let growth = (s.dim() as f64 / ROWS).sqrt().max(1.0);
    largest <= RESIDUAL * growth * Precision::of_scalar::<T>().epsilon() * b.norm_l2().real_part()
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
    let mut memory = MemBuffer::new(T::bidiagonal_scratch(rows, columns));
    T::bidiagonalize(matrix.as_mut(), left.as_mut(), right.as_mut(), MemStack::new(&mut memory));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// In these bidiagonal matrices, a vector that joins two parts of the divide-and-conquer algorithm has an element
    /// close to the machine epsilon. Without a second attempt, the residual is 450 to 1200 times the machine epsilon.
    #[test]
    #[expect(clippy::cast_precision_loss, reason = "the integers have 24 bits")]
    fn localized_singular_vectors() {
        let n = 128;
        for seed in [2u32, 12, 13, 35, 52, 78] {
            let mut state = seed;
            let mut next = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                0.25 + (state >> 8) as f32 / 16_777_216.0
            };
            let mut a = vec![0f32; n * n];
            for i in 0..n {
                a[i * n + i] = next();
                if i + 1 < n {
                    a[(i + 1) * n + i] = next() * 0.2;
                }
            }
            let (mut s, mut u, mut vt) = (vec![0f32; n], vec![0f32; n * n], vec![0f32; n * n]);
            assert!(decompose(&a, n, n, &mut s, Some((&mut u, &mut vt, true))));
            let norm = a.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
            let mut squares = 0.0;
            for (u, a) in u.chunks_exact(n).zip(a.chunks_exact(n)) {
                for (j, a) in a.iter().enumerate() {
                    let terms = (0..n).map(|k| f64::from(u[k]) * f64::from(s[k]) * f64::from(vt[k * n + j]));
                    squares += (terms.sum::<f64>() - f64::from(*a)).powi(2);
                }
            }
            let error = squares.sqrt() / norm / f64::from(f32::EPSILON);
            assert!(error <= 100.0, "seed {seed}: the residual is {error} times the machine epsilon");
        }
    }
}
