use super::*;
use crate::engine::kernels::linalg::cholesky::Cholesky;

fn factor<T: Number>(n: usize, lower: bool, a: &[T]) -> Vec<T> {
    let mut l = vec![T::real(7.0); a.len()];
    run(&Cholesky { n, lower, field: T::FIELD }, &[cast_slice(a)], &mut [cast_slice_mut(&mut l)]);
    l
}

/// Returns positive definite matrices. One triangle of each matrix is NaN, because the kernel must not read it.
fn definite<T: Number>(batch: usize, n: usize, lower: bool) -> Vec<T> {
    let random = values::<T>(batch * n * n, n);
    let element = |at: usize| {
        let (start, i, j) = (at / (n * n) * n * n, at / n % n, at % n);
        let x = random[start + i.max(j) * n + i.min(j)];
        match i.cmp(&j) {
            // The kernel ignores the imaginary part of the diagonal.
            std::cmp::Ordering::Equal => x + T::real(f64::from(u32::try_from(2 * n).unwrap())),
            std::cmp::Ordering::Less if lower => T::real(f64::NAN),
            std::cmp::Ordering::Greater if !lower => T::real(f64::NAN),
            std::cmp::Ordering::Less => x.conj(),
            std::cmp::Ordering::Greater => x,
        }
    };
    (0..batch * n * n).map(element).collect()
}

fn check<T: Number>(n: usize, lower: bool) {
    let a = definite::<T>(2, n, lower);
    let l = factor(n, lower, &a);
    for (a, l) in a.chunks_exact(n * n).zip(l.chunks_exact(n * n)) {
        let (a, l) = (Matrix::new(n, n, a), Matrix::new(n, n, l));
        let own = |i: usize, j: usize| if lower { j <= i } else { i <= j };
        let product = if lower { l.times(&l.adjoint()) } else { l.adjoint().times(&l) };
        for at in 0..n * n {
            let (i, j) = (at / n, at % n);
            if own(i, j) {
                let expected = if i == j { C64::real(a.at(i, i).re) } else { a.at(i, j) };
                let difference = Scalar::abs(product.at(i, j) - expected);
                assert!(difference <= 64.0 * T::EPSILON * a.at(i, i).re, "{n}: {i}, {j} differs by {difference:e}");
            } else {
                assert_eq!(l.at(i, j), C64::real(0.0), "{n}: {i}, {j}");
            }
        }
    }
}

#[test]
fn all_sizes_and_types() {
    for n in [1, 5, 31, 32, 33, 64, 65, 130] {
        for lower in [true, false] {
            check::<f32>(n, lower);
            check::<f64>(n, lower);
            check::<C64>(n, lower);
        }
    }
}

#[test]
fn indefinite_and_nan() {
    for (n, lower) in [(5, true), (5, false), (130, true), (130, false)] {
        for bad in [f64::NAN, -1.0, 0.0] {
            // The second matrix of the batch is positive definite.
            let mut a = definite::<f64>(2, n, lower);
            let at = n - 2;
            a[at * n + at] = bad;
            let l = factor(n, lower, &a);
            for (at, x) in l[..n * n].iter().enumerate() {
                let own = if lower { at % n <= at / n } else { at / n <= at % n };
                assert!(if own { x.is_nan() } else { *x == 0.0 }, "{n}: {x} at {at}");
            }
            assert!(l[n * n..].iter().all(|x| x.is_finite()));
        }
        let mut a = definite::<f64>(1, n, lower);
        a[if lower { (n - 1) * n } else { n - 1 }] = f64::NAN;
        assert!(factor(n, lower, &a)[0].is_nan());
    }
}
