//! Eigenvalues and eigenvectors of general matrices, computed by `faer`.

use stablehlo_cpu_math::faer::diag::Diag;
use stablehlo_cpu_math::faer::dyn_stack::{MemBuffer, MemStack};
use stablehlo_cpu_math::faer::{Mat, MatRef};
use stablehlo_cpu_math::{
    complex_eigenvalues, complex_eigenvalues_scratch, real_eigenvalues, real_eigenvalues_scratch,
};

use super::precision::Precision;
use super::schur::{self, finite};
use crate::engine::kernels::linalg::scalar::C64;

/// The outputs for the left and the right eigenvectors. An output is `None` if these eigenvectors are not requested.
type Vectors<'a> = [Option<&'a mut [C64]>; 2];

pub(super) fn general_complex(a: &[C64], n: usize, w: &mut [C64], vectors: Vectors<'_>, precision: Precision) -> bool {
    if n == 0 {
        return true;
    }
    if !finite(a) {
        return false;
    }
    let [left, right] = vectors.each_ref().map(Option::is_some);
    let mut buffer = MemBuffer::new(complex_eigenvalues_scratch(n, left, right));
    let mut values = Diag::<C64>::zeros(n);
    let mut found = vectors.each_ref().map(|v| v.as_ref().map(|_| Mat::<C64>::zeros(n, n)));
    let [left, right] = &mut found;
    let done = complex_eigenvalues(
        MatRef::from_row_major_slice(a, n, n),
        values.as_mut(),
        left.as_mut().map(Mat::as_mut),
        right.as_mut().map(Mat::as_mut),
        MemStack::new(&mut buffer),
    );
    if !done {
        return false;
    }
    let values: Vec<C64> = values.column_vector().iter().copied().collect();
    let order = order(&values, || {
        let (mut t, mut z, mut w) = (a.to_vec(), vec![C64::ZERO; n * n], vec![C64::ZERO; n]);
        schur::complex(&mut t, &mut z, n, &mut w, precision).then_some(w)
    });
    w.iter_mut().zip(&order).for_each(|(to, at)| *to = values[*at]);
    for (to, from) in vectors.into_iter().zip(found) {
        if let (Some(to), Some(from)) = (to, from) {
            for (at, to) in to.iter_mut().enumerate() {
                *to = from[(at / n, order[at % n])];
            }
            normalize(to, n);
        }
    }
    true
}

/// Maximum number of rows for which eigenvalues are returned in LAPACK's order. For larger matrices, LAPACK uses
/// another algorithm.
const ORDERED: usize = 75;

/// Returns the indices of the eigenvalues in LAPACK's order, which is the order on the diagonal of its Schur form.
/// `schur` computes the diagonal of the Schur form. If the matrix has more than [`ORDERED`] rows or `schur` returns
/// `None`, the order of `values` does not change.
fn order(values: &[C64], schur: impl FnOnce() -> Option<Vec<C64>>) -> Vec<usize> {
    let mut left: Vec<usize> = (0..values.len()).collect();
    let Some(diagonal) = (values.len() <= ORDERED).then(schur).flatten() else { return left };
    let mut nearest = |x: &C64| {
        let distance = |place: &usize| (values[left[*place]] - x).norm_sqr();
        let place = (0..left.len()).min_by(|a, b| distance(a).total_cmp(&distance(b)));
        left.remove(place.unwrap_or(0))
    };
    diagonal.iter().map(&mut nearest).collect()
}

pub(super) fn general_real(
    a: &[f64],
    n: usize,
    re: &mut [f64],
    im: &mut [f64],
    vectors: Vectors<'_>,
    precision: Precision,
) -> bool {
    if n == 0 {
        return true;
    }
    if !finite(a) {
        return false;
    }
    let [left, right] = vectors.each_ref().map(Option::is_some);
    let mut buffer = MemBuffer::new(real_eigenvalues_scratch(n, left, right));
    let (mut real, mut imaginary) = (Diag::<f64>::zeros(n), Diag::<f64>::zeros(n));
    let mut found = vectors.each_ref().map(|v| v.as_ref().map(|_| Mat::<f64>::zeros(n, n)));
    let [left, right] = &mut found;
    let done = real_eigenvalues(
        MatRef::from_row_major_slice(a, n, n),
        (real.as_mut(), imaginary.as_mut()),
        left.as_mut().map(Mat::as_mut),
        right.as_mut().map(Mat::as_mut),
        MemStack::new(&mut buffer),
    );
    if !done {
        return false;
    }
    let parts = real.column_vector().iter().zip(imaginary.column_vector().iter());
    let values: Vec<C64> = parts.map(|(re, im)| C64::new(*re, *im)).collect();
    let order = order(&values, || {
        let (mut t, mut z, mut re, mut im) = (a.to_vec(), vec![0.0; n * n], vec![0.0; n], vec![0.0; n]);
        let done = schur::real(&mut t, &mut z, n, &mut re, &mut im, precision);
        done.then(|| re.iter().zip(&im).map(|(re, im)| C64::new(*re, *im)).collect())
    });
    for (j, at) in order.iter().enumerate() {
        (re[j], im[j]) = (values[*at].re, values[*at].im);
    }
    for (to, from) in vectors.into_iter().zip(found) {
        let (Some(to), Some(from)) = (to, from) else { continue };
        let mut columns: Vec<Vec<C64>> = Vec::with_capacity(n);
        while columns.len() < n {
            let j = columns.len();
            if values[j].im == 0.0 || j + 1 == n {
                columns.push((0..n).map(|i| C64::new(from[(i, j)], 0.0)).collect());
                continue;
            }
            // For a conjugate pair of eigenvectors, the first column holds the real parts and the second column the
            // imaginary parts.
            let column: Vec<C64> = (0..n).map(|i| C64::new(from[(i, j)], from[(i, j + 1)])).collect();
            let conjugate = column.iter().map(|x| x.conj()).collect();
            columns.extend([column, conjugate]);
        }
        for (at, to) in to.iter_mut().enumerate() {
            *to = columns[order[at % n]][at / n];
        }
        normalize(to, n);
    }
    true
}

/// Scales each column to length one and makes the element with the largest absolute value real.
fn normalize(v: &mut [C64], n: usize) {
    for j in 0..n {
        let norm = (0..n).map(|i| v[i * n + j].norm_sqr()).sum::<f64>().sqrt();
        let largest = (0..n).max_by(|&a, &b| v[a * n + j].norm_sqr().total_cmp(&v[b * n + j].norm_sqr())).unwrap_or(0);
        let at = v[largest * n + j];
        let real = at.im == 0.0;
        let factor = if real { C64::new(1.0 / norm, 0.0) } else { at.conj() / (at.norm() * norm) };
        (0..n).for_each(|i| v[i * n + j] *= factor);
        if !real {
            v[largest * n + j].im = 0.0;
        }
    }
}
