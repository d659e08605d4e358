//! Eigenvalues and eigenvectors of symmetric and Hermitian matrices, computed by `faer`.

use faer::diag::Diag;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::evd::{self, ComputeEigenvectors, SelfAdjointEvdParams};
use faer::{Auto, MatMut, MatRef, Par, Spec};

use super::precision::minimum_recursive_rows;
use super::scaling::Scaling;
use crate::engine::kernels::linalg::Scalar;
use crate::engine::kernels::transpose::transpose;

/// Computes the eigenvectors `v` and the ascending eigenvalues `w` of a Hermitian matrix. `a` contains the matrix in
/// its lower or upper triangle, as `lower` selects. Returns whether the computation succeeded.
pub(super) fn decompose<T: Scalar<Real: Scalar>>(
    a: &[T],
    n: usize,
    lower: bool,
    v: &mut [T],
    w: &mut [T::Real],
) -> bool {
    if n == 0 {
        return true;
    }
    // The other triangle may contain arbitrary numbers, so neither the scaling nor `faer` may use it. Ignore the
    // imaginary parts of the diagonal, because a Hermitian matrix has a real diagonal.
    let diagonal: Vec<T> = (0..n).map(|i| T::real(a[i * n + i].real_part())).collect();
    let others = a.chunks_exact(n).enumerate().map(|(i, row)| if lower { &row[..i] } else { &row[i + 1..] });
    let Some(scaling) = Scaling::of(others.chain([&diagonal[..]])) else { return false };
    // `faer` reads the lower triangle of `read`, which is in column-major order. If the upper triangle is selected,
    // store its adjoint there.
    let mut read = vec![T::zeroed(); n * n];
    match lower {
        true => transpose(a, n, n, &mut read, |x| scaling.apply(x)),
        false => read.iter_mut().zip(a).for_each(|(to, x)| *to = scaling.apply(x.conj())),
    }
    (0..n).for_each(|i| read[i * n + i] = T::real(read[i * n + i].real_part()));
    let scaling = scaling.reduce(&mut read, n);
    let parameters = Spec::new(SelfAdjointEvdParams {
        recursion_threshold: minimum_recursive_rows::<T>(),
        ..<SelfAdjointEvdParams as Auto<T>>::auto()
    });
    let scratch = evd::self_adjoint_evd_scratch::<T>(n, ComputeEigenvectors::Yes, Par::Seq, parameters);
    let (mut values, mut vectors) = (Diag::<T>::zeros(n), vec![T::zeroed(); n * n]);
    let done = evd::self_adjoint_evd(
        MatRef::from_column_major_slice(&read, n, n),
        values.as_mut(),
        Some(MatMut::from_column_major_slice_mut(&mut vectors, n, n)),
        Par::Seq,
        MemStack::new(&mut MemBuffer::new(scratch)),
        parameters,
    );
    if done.is_err() {
        return false;
    }
    transpose(&vectors, n, n, v, |x| x);
    for (to, from) in w.iter_mut().zip(values.column_vector().iter()) {
        *to = scaling.undo(<T::Real as Scalar>::real(from.real_part()));
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For these matrices, the divide-and-conquer algorithm stops too early if the eigenvalues are not scaled.
    #[test]
    fn residuals_of_matrices_with_large_eigenvalues() {
        let n = 80;
        for seed in [72, 177] {
            let (mut state, mut a) = (seed, vec![0f32; n * n]);
            for i in 0..n {
                for j in 0..=i {
                    state = u32::wrapping_add(u32::wrapping_mul(state, 1_664_525), 1_013_904_223);
                    let magnitude = if state >> 24 & 7 == 0 { 0.9375 } else { 1.875 };
                    let x = if state >> 31 == 0 { magnitude } else { -magnitude };
                    (a[i * n + j], a[j * n + i]) = (x, x);
                }
            }
            let (mut v, mut w) = (vec![0f32; n * n], vec![0f32; n]);
            assert!(decompose(&a, n, true, &mut v, &mut w));
            let norm = a.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
            let mut squares = 0.0;
            for (i, row) in a.chunks_exact(n).enumerate() {
                for (j, w) in w.iter().enumerate() {
                    let terms = row.iter().enumerate().map(|(k, x)| f64::from(*x) * f64::from(v[k * n + j]));
                    squares += (terms.sum::<f64>() - f64::from(v[i * n + j]) * f64::from(*w)).powi(2);
                }
            }
            let error = squares.sqrt() / norm / f64::from(f32::EPSILON);
            assert!(error <= 30.0, "seed {seed}: the residual is {error} times the machine epsilon");
        }
    }
}
