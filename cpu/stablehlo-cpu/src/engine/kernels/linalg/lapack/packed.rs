//! Packed factorizations in LAPACK's format. The vectors `v` of reflections `I - tau v v*` are stored in the elements
//! that these reflections make zero.

use crate::engine::kernels::linalg::scalar::Scalar;

/// Computes the reflection whose adjoint zeroes the elements of `a` at the indices `rest` and makes the element at
/// `first` real. Stores the vector of the reflection at `rest`, without its first element, which is 1. Returns `tau`
/// and the new element at `first`.
fn reflect<T: Scalar>(a: &mut [T], first: usize, rest: &[usize]) -> (T, f64) {
    let alpha = a[first];
    let below = rest.iter().fold(0.0, |sum: f64, &i| sum.hypot(a[i].abs()));
    if below == 0.0 && alpha.imaginary() == 0.0 {
        return (T::real(0.0), alpha.real_part());
    }
    let beta = -alpha.abs().hypot(below).copysign(alpha.real_part());
    let tau = T::real(beta).sub(alpha).div(T::real(beta));
    let scale = T::real(1.0).div(alpha.sub(T::real(beta)));
    rest.iter().for_each(|&i| a[i] = a[i].mul(scale));
    a[first] = T::real(beta);
    (tau, beta)
}

/// Replaces `a` by its Hessenberg form, with the vectors of the reflections below the subdiagonal.
pub(super) fn hessenberg<T: Scalar>(a: &mut [T], n: usize, tau: &mut [T]) {
    tau.fill(T::real(0.0));
    // For a complex matrix, the last reflection only makes an element real.
    for k in 0..n.saturating_sub(1) {
        let rest: Vec<usize> = (k + 2..n).map(|i| i * n + k).collect();
        let (factor, _) = reflect(a, (k + 1) * n + k, &rest);
        tau[k] = factor;
        let mut v = vec![T::real(1.0)];
        v.extend(rest.iter().map(|&at| a[at]));
        // Apply the reflection from the right, and its adjoint from the left.
        for row in a.chunks_exact_mut(n) {
            let row = &mut row[k + 1..];
            let dot = row.iter().zip(&v).fold(T::real(0.0), |sum, (x, v)| sum.add(x.mul(*v))).mul(factor);
            row.iter_mut().zip(&v).for_each(|(x, v)| *x = x.sub(dot.mul(v.conj())));
        }
        let mut dots = vec![T::real(0.0); n - k - 1];
        for (i, v) in v.iter().enumerate() {
            let row = &a[(k + 1 + i) * n + k + 1..(k + 2 + i) * n];
            dots.iter_mut().zip(row).for_each(|(dot, x)| *dot = dot.add(v.conj().mul(*x)));
        }
        for (i, v) in v.iter().enumerate() {
            let row = &mut a[(k + 1 + i) * n + k + 1..(k + 2 + i) * n];
            row.iter_mut().zip(&dots).for_each(|(x, dot)| *x = x.sub(v.mul(factor.conj()).mul(*dot)));
        }
    }
}

/// Replaces one triangle of `a` by the tridiagonal form, with the vectors of the reflections beyond the off-diagonal.
/// `d`, `e` and `tau` receive the diagonal, the off-diagonal and the scalar factors of the reflections.
pub(super) fn tridiagonal<T: Scalar>(a: &mut [T], n: usize, lower: bool, d: &mut [f64], e: &mut [f64], tau: &mut [T]) {
    // The upper triangle, read from its end, is a lower triangle.
    let at = |i: usize, j: usize| if lower { i * n + j } else { (n - 1 - i) * n + (n - 1 - j) };
    let place = |k: usize, count: usize| if lower { k } else { count - 1 - k };
    for k in 0..n.saturating_sub(1) {
        let rest: Vec<usize> = (k + 2..n).map(|i| at(i, k)).collect();
        let (factor, beta) = reflect(a, at(k + 1, k), &rest);
        let mut v = vec![T::real(1.0)];
        v.extend(rest.iter().map(|&at| a[at]));
        // Multiply the trailing Hermitian matrix by the vector. Only one triangle of the matrix is stored.
        let count = n - k - 1;
        let element = |a: &[T], i: usize, j: usize| {
            let (i, j) = (i + k + 1, j + k + 1);
            match i.cmp(&j) {
                std::cmp::Ordering::Greater => a[at(i, j)],
                std::cmp::Ordering::Less => a[at(j, i)].conj(),
                std::cmp::Ordering::Equal => T::real(a[at(i, i)].real_part()),
            }
        };
        let x: Vec<T> = (0..count)
            .map(|i| (0..count).fold(T::real(0.0), |sum, j| sum.add(element(a, i, j).mul(v[j]))).mul(factor))
            .collect();
        let dot = x.iter().zip(&v).fold(T::real(0.0), |sum, (x, v)| sum.add(x.conj().mul(*v)));
        let half = factor.mul(dot).mul(T::real(-0.5));
        let w: Vec<T> = x.iter().zip(&v).map(|(x, v)| x.add(half.mul(*v))).collect();
        for i in 0..count {
            for j in 0..=i {
                let less = v[i].mul(w[j].conj()).add(w[i].mul(v[j].conj()));
                let to = at(i + k + 1, j + k + 1);
                a[to] = a[to].sub(less);
            }
            let to = at(i + k + 1, i + k + 1);
            a[to] = T::real(a[to].real_part());
        }
        e[place(k, n - 1)] = beta;
        tau[place(k, n - 1)] = factor;
    }
    for k in 0..n {
        a[k * n + k] = T::real(a[k * n + k].real_part());
        d[k] = a[k * n + k].real_part();
    }
}

/// Replaces `a` by the packed QR factors of its permuted columns. `columns` receives the one-based indices of the
/// columns in their new order. A column whose element in `columns` is initially nonzero is moved to the front.
pub(super) fn pivoted_qr<T: Scalar>(a: &mut [T], m: usize, n: usize, columns: &mut [i32], tau: &mut [T]) {
    let exchange = |a: &mut [T], columns: &mut [i32], p: usize, q: usize| {
        (0..m).for_each(|i| a.swap(i * n + p, i * n + q));
        columns.swap(p, q);
    };
    let mut fixed = 0;
    for j in 0..n {
        let keep = columns[j] != 0;
        columns[j] = i32::try_from(j + 1).unwrap_or(i32::MAX);
        if keep {
            exchange(a, columns, fixed, j);
            fixed += 1;
        }
    }
    for k in 0..m.min(n) {
        if k >= fixed {
            let norm = |j: usize| (k..m).fold(0.0, |sum: f64, i| sum.hypot(a[i * n + j].abs()));
            let mut best = (k, norm(k));
            for j in k + 1..n {
                let norm = norm(j);
                if norm > best.1 {
                    best = (j, norm);
                }
            }
            exchange(a, columns, k, best.0);
        }
        let rest: Vec<usize> = (k + 1..m).map(|i| i * n + k).collect();
        let (factor, _) = reflect(a, k * n + k, &rest);
        tau[k] = factor;
        for j in k + 1..n {
            let dot = (k + 1..m).fold(a[k * n + j], |sum, i| sum.add(a[i * n + k].conj().mul(a[i * n + j])));
            let dot = dot.mul(factor.conj());
            a[k * n + j] = a[k * n + j].sub(dot);
            for i in k + 1..m {
                a[i * n + j] = a[i * n + j].sub(a[i * n + k].mul(dot));
            }
        }
    }
}
