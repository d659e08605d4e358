//! Eigenvalues and eigenvectors of symmetric and Hermitian matrices. `faer` reduces a matrix to tridiagonal form, which
//! [`divide`] diagonalizes.

use stablehlo_cpu_math::faer::dyn_stack::{MemBuffer, MemStack};
use stablehlo_cpu_math::faer::{Mat, MatMut};

use super::divide;
use super::scaling::Scaling;
use crate::engine::kernels::linalg::scalar::Scalar;
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
    // Number of reflections that are applied together, by matrix products.
    let block = match n {
        ..8 => 1,
        8..512 => 16,
        _ => 32,
    };
    let mut reflections = Mat::<T>::zeros(block, n - 1);
    let mut memory = MemBuffer::new(T::tridiagonal_scratch(n, block));
    let stack = MemStack::new(&mut memory);
    let mut matrix = MatMut::from_column_major_slice_mut(&mut read, n, n);
    T::tridiagonalize(matrix.as_mut(), reflections.as_mut(), stack);
    let mut values: Vec<f64> = (0..n).map(|i| matrix[(i, i)].real_part()).collect();
    // A diagonal unitary matrix transforms the tridiagonal matrix into a real one, whose subdiagonal has the absolute
    // values of the elements. `phases` is the diagonal of the unitary matrix.
    let (mut subdiagonal, mut phases) = (Vec::with_capacity(n), vec![T::real(1.0)]);
    for (i, x) in (1..n).map(|i| (i, matrix[(i, i - 1)])) {
        if T::IS_REAL {
            subdiagonal.push(x.real_part());
            continue;
        }
        subdiagonal.push(x.abs());
        let phase = x.mul(phases[i - 1]);
        phases.push(if phase.abs() < T::TINY { T::real(1.0) } else { phase.mul(T::real(phase.abs().recip())) });
    }
    let mut real = vec![<T::Real as Scalar>::real(0.0); n * n];
    if !divide::decompose(&mut values, &subdiagonal, &mut real) {
        return false;
    }
    let mut vectors: Vec<T> = real.iter().map(|x| T::real(x.real_part())).collect();
    if !T::IS_REAL {
        for column in vectors.chunks_exact_mut(n) {
            column.iter_mut().zip(&phases).for_each(|(x, phase)| *x = x.mul(*phase));
        }
    }
    T::apply_reflections(
        matrix.as_ref().submatrix(1, 0, n - 1, n - 1),
        reflections.as_ref(),
        MatMut::from_column_major_slice_mut(&mut vectors, n, n).subrows_mut(1, n - 1),
        stack,
    );
    transpose(&vectors, n, n, v, |x| x);
    for (to, from) in w.iter_mut().zip(values) {
        *to = scaling.undo(<T::Real as Scalar>::real(from));
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For these matrices, the divide-and-conquer algorithm of `faer` stops too early.
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
