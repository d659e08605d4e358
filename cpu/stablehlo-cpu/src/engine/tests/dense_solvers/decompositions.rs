//! Eigenvalues of Hermitian matrices, singular values and LU factors, in all precisions.

use super::*;
use crate::engine::dtype::DType;
use crate::engine::kernels::linalg::lapack::{Lapack, Routine};

/// An element type of the decompositions. `Number` is not implemented for `Complex<f32>`.
trait Element: Scalar<Real: Scalar> {
    const DTYPE: DType;
    const EPSILON: f64;
    /// A power of two whose square overflows.
    const HUGE: f64;
    fn of(x: C64) -> Self;
}

macro_rules! element {
    ($t:ty, $dtype:ident, $epsilon:expr, $huge:expr, $of:expr) => {
        impl Element for $t {
            const DTYPE: DType = DType::$dtype;
            const EPSILON: f64 = $epsilon;
            const HUGE: f64 = $huge;
            fn of(x: C64) -> Self {
                $of(x)
            }
        }
    };
}

/// `2^100`.
const HUGE_F32: f64 = (1u128 << 100) as f64;
/// `2^600`.
const HUGE_F64: f64 = HUGE_F32 * HUGE_F32 * HUGE_F32 * HUGE_F32 * HUGE_F32 * HUGE_F32;

element!(f32, F32, f32::EPSILON as f64, HUGE_F32, |x: C64| f32::real(x.re));
element!(f64, F64, f64::EPSILON, HUGE_F64, |x: C64| x.re);
element!(Complex<f32>, C64, f32::EPSILON as f64, HUGE_F32, |x: C64| Complex::new(f32::real(x.re), f32::real(x.im)));
element!(C64, C128, f64::EPSILON, HUGE_F64, |x| x);

fn wide<T: Scalar>(x: T) -> C64 {
    Complex::new(x.real_part(), x.imaginary())
}

fn matrix<T: Scalar>(rows: usize, columns: usize, data: &[T]) -> Matrix {
    Matrix { rows, columns, data: data.iter().map(|x| wide(*x)).collect() }
}

fn float(x: usize) -> f64 {
    f64::from(u32::try_from(x).unwrap())
}

fn frobenius(a: &Matrix) -> f64 {
    let largest = a.largest().max(f64::MIN_POSITIVE);
    a.data.iter().map(|x| (x / largest).norm_sqr()).sum::<f64>().sqrt() * largest
}

/// Returns a unitary matrix. It is real for real types.
fn unitary<T: Element>(n: usize, seed: usize) -> Matrix {
    let reflection = |seed: usize| {
        let v: Vec<C64> = values::<C64>(n, seed).into_iter().map(|x| wide(T::of(x))).collect();
        let square: f64 = v.iter().map(|x| x.norm_sqr()).sum::<f64>().max(1e-3);
        Matrix::by(n, n, |i, j| C64::real(if i == j { 1.0 } else { 0.0 }) - v[i] * v[j].conj() * (2.0 / square))
    };
    reflection(seed).times(&reflection(seed + 77))
}

fn diagonal(values: &[f64]) -> Matrix {
    Matrix::by(values.len(), values.len(), |i, j| C64::real(if i == j { values[i] } else { 0.0 }))
}

/// Returns `n` eigenvalues or singular values of various distributions.
fn spectra(n: usize) -> [(&'static str, Vec<f64>); 6] {
    let random = values::<f64>(n, 5);
    let by = |value: &dyn Fn(usize) -> f64| (0..n).map(value).collect();
    [
        ("random", random.clone()),
        ("graded", by(&|i| 10f64.powf(-12.0 * float(i) / float(n)))),
        ("clustered", by(&|i| if i < n / 4 { random[i] } else { 1.0 + 1e-7 * random[i] })),
        ("two values", by(&|i| if i % 2 == 0 { 1.0 } else { -1.0 })),
        ("rank-deficient", by(&|i| if i < n / 8 + 1 { random[i] } else { 0.0 })),
        ("zero", vec![0.0; n]),
    ]
}

const SIZES: [usize; 6] = [1, 2, 5, 17, 33, 64];

fn lapack<T: Element>(routine: Routine, m: usize, n: usize, a: &[T], outs: &mut [&mut [u8]]) {
    run(&Lapack { routine, m, n, batch: 1, dtype: T::DTYPE }, &[cast_slice(a)], outs);
}

/// Returns the eigenvectors, the eigenvalues and `info`.
fn eigen<T: Element>(n: usize, lower: bool, a: &[T]) -> (Vec<T>, Vec<T::Real>, i32) {
    let (mut v, mut w, mut info) = (vec![T::real(7.0); n * n], vec![T::Real::real(7.0); n], [7]);
    let outs = &mut [cast_slice_mut(&mut v), cast_slice_mut(&mut w), cast_slice_mut(&mut info)];
    lapack(Routine::Symmetric { lower }, n, n, a, outs);
    (v, w, info[0])
}

fn check_eigen<T: Element>(name: &str, a: &Matrix, scale: f64) {
    let n = a.rows;
    let a = Matrix::by(n, n, |i, j| a.at(i, j).scaled(scale));
    for lower in [true, false] {
        // The other triangle must not be read.
        let own = |i: usize, j: usize| if lower { j <= i } else { i <= j };
        let given: Vec<T> =
            (0..n * n).map(|at| if own(at / n, at % n) { T::of(a.data[at]) } else { T::real(f64::NAN) }).collect();
        let (v, w, info) = eigen(n, lower, &given);
        assert_eq!(info, 0);
        let w: Vec<f64> = w.iter().map(|w| w.real_part()).collect();
        assert!(w.is_sorted());
        let rounded = Matrix::by(n, n, |i, j| {
            let x = if own(i, j) { wide(given[i * n + j]) } else { wide(given[j * n + i]).conj() };
            if i == j { C64::real(x.re) } else { x }
        });
        let (v, norm) = (matrix(n, n, &v), frobenius(&rounded).max(T::EPSILON * scale));
        let context = format!("{name} of {n} rows times {scale:e} in {:?}", T::DTYPE);
        let residual = rounded.times(&v).distance(&v.times(&diagonal(&w))) / norm / T::EPSILON;
        assert!(residual < 30.0, "{context}: residual {residual}");
        let orthogonality = v.adjoint().times(&v).distance(&Matrix::identity(n)) / T::EPSILON;
        assert!(orthogonality < 40.0, "{context}: orthogonality {orthogonality}");
        if size_of::<T::Real>() == size_of::<f32>() {
            let exact = eigen(n, true, &rounded.data).1;
            let error = w.iter().zip(exact).fold(0.0f64, |error, (w, x)| error.max((w - x).abs())) / norm / T::EPSILON;
            assert!(error < 10.0, "{context}: error {error}");
        }
    }
}

fn hermitian_matrices<T: Element>() {
    for n in SIZES {
        let q = unitary::<T>(n, n);
        for (name, spectrum) in spectra(n) {
            let a = q.times(&diagonal(&spectrum)).times(&q.adjoint());
            check_eigen::<T>(name, &a, 1.0);
            if n == 33 {
                check_eigen::<T>(name, &a, T::HUGE);
                check_eigen::<T>(name, &a, T::HUGE.recip());
            }
        }
        check_eigen::<T>("ones", &Matrix::by(n, n, |_, _| C64::real(1.0)), 1.0);
    }
}

#[test]
fn eigenvalues() {
    hermitian_matrices::<f32>();
    hermitian_matrices::<f64>();
    hermitian_matrices::<Complex<f32>>();
    hermitian_matrices::<C64>();
}

/// The results of a singular value decomposition.
struct Singular<T: Element> {
    u: Vec<T>,
    s: Vec<f64>,
    vt: Vec<T>,
    info: i32,
}

fn singular<T: Element>(m: usize, n: usize, a: &[T], full: bool, vectors: bool) -> Singular<T> {
    let k = m.min(n);
    let (rows, columns) = if full { (m, n) } else { (k, k) };
    let [mut copy, mut u, mut vt] = [m * n, m * rows, columns * n].map(|size| vec![T::real(7.0); size]);
    let (mut s, mut info) = (vec![T::Real::real(7.0); k], [7]);
    let outs = &mut [
        cast_slice_mut(&mut copy),
        cast_slice_mut(&mut s),
        cast_slice_mut(&mut u),
        cast_slice_mut(&mut vt),
        cast_slice_mut(&mut info),
    ];
    lapack(Routine::Singular { full, vectors }, m, n, a, outs);
    Singular { u, s: s.iter().map(|s| s.real_part()).collect(), vt, info: info[0] }
}

fn check_singular<T: Element>(name: &str, a: &Matrix, scale: f64) {
    let (m, n) = (a.rows, a.columns);
    let k = m.min(n);
    let given: Vec<T> = a.data.iter().map(|x| T::of(x.scaled(scale))).collect();
    let a = matrix(m, n, &given);
    let norm = frobenius(&a).max(T::EPSILON * scale);
    let context = format!("{name} of {m} x {n} times {scale:e} in {:?}", T::DTYPE);
    let near = |s: &[f64], expected: &[f64]| {
        let error = s.iter().zip(expected).fold(0.0f64, |error, (s, x)| error.max((s - x).abs())) / norm / T::EPSILON;
        assert!(error < 10.0, "{context}: error {error}");
    };
    for full in [true, false] {
        let Singular { u, s, vt, info } = singular(m, n, &given, full, true);
        assert_eq!(info, 0);
        assert!(s.is_sorted_by(|a, b| a >= b));
        let (rows, columns) = if full { (m, n) } else { (k, k) };
        let (u, vt) = (matrix(m, rows, &u), matrix(columns, n, &vt));
        let us = Matrix::by(m, k, |i, j| u.at(i, j) * s[j]);
        let first = Matrix::by(k, n, |i, j| vt.at(i, j));
        let residual = us.times(&first).distance(&a) / norm / T::EPSILON;
        assert!(residual < 30.0, "{context}: residual {residual}");
        for (product, size) in [(u.adjoint().times(&u), rows), (vt.times(&vt.adjoint()), columns)] {
            let orthogonality = product.distance(&Matrix::identity(size)) / T::EPSILON;
            assert!(orthogonality < 40.0, "{context}: orthogonality {orthogonality}");
        }
        near(&singular(m, n, &given, full, false).s, &s);
        if size_of::<T::Real>() == size_of::<f32>() {
            near(&s, &singular(m, n, &a.data, full, false).s);
        }
    }
}

fn general_matrices<T: Element>() {
    for n in SIZES {
        for (name, spectrum) in spectra(n) {
            let a = unitary::<T>(n, n).times(&diagonal(&spectrum)).times(&unitary::<T>(n, n + 1));
            check_singular::<T>(name, &a, 1.0);
            if n == 33 {
                check_singular::<T>(name, &a, T::HUGE);
                check_singular::<T>(name, &a, T::HUGE.recip());
            }
        }
    }
    for (m, n) in [(1, 4), (4, 1), (20, 30), (30, 20), (50, 20), (20, 50)] {
        let random = values::<C64>(m * n, m);
        check_singular::<T>("rectangle", &Matrix::by(m, n, |i, j| random[i * n + j]), 1.0);
    }
}

#[test]
fn singular_values() {
    general_matrices::<f32>();
    general_matrices::<f64>();
    general_matrices::<Complex<f32>>();
    general_matrices::<C64>();
}

#[test]
fn spectra_of_infinite_and_nan() {
    for (at, bad) in [(0, f32::NAN), (3, f32::INFINITY), (7, f32::NEG_INFINITY)] {
        let mut a = [1.0f32; 9];
        a[at] = bad;
        assert_eq!(eigen(3, true, &a).2, 1, "{bad}");
        assert_eq!(singular(3, 3, &a, true, true).info, 1, "{bad}");
        assert_eq!(singular(3, 3, &a, true, false).info, 1, "{bad}");
    }
}

/// Returns the packed factors, the zero-based exchanged rows and `info`.
fn lu<T: Element>(m: usize, n: usize, a: &[T]) -> (Vec<T>, Vec<usize>, i32) {
    let (mut factors, mut rows, mut info) = (vec![T::real(7.0); m * n], vec![7; m.min(n)], [7]);
    let outs = &mut [cast_slice_mut(&mut factors), cast_slice_mut(&mut rows), cast_slice_mut(&mut info)];
    lapack(Routine::Lu, m, n, a, outs);
    (factors, rows.iter().map(|&row: &i32| usize::try_from(row).unwrap() - 1).collect(), info[0])
}

fn check_lu<T: Element>(m: usize, n: usize, a: &[T]) -> i32 {
    let (factors, rows, info) = lu(m, n, a);
    let (mut exchanged, packed) = (matrix(m, n, a), matrix(m, n, &factors));
    for (k, &row) in rows.iter().enumerate() {
        assert!((k..m).contains(&row));
        (0..n).for_each(|j| exchanged.data.swap(k * n + j, row * n + j));
    }
    let k = m.min(n);
    let l = Matrix::by(m, k, |i, j| match i.cmp(&j) {
        std::cmp::Ordering::Greater => packed.at(i, j),
        std::cmp::Ordering::Equal => C64::real(1.0),
        std::cmp::Ordering::Less => C64::real(0.0),
    });
    let u = Matrix::by(k, n, |i, j| if i <= j { packed.at(i, j) } else { C64::real(0.0) });
    // LAPACK compares complex numbers by the sum of the absolute values of their parts.
    assert!(l.largest() < 1.5, "{m} x {n}");
    let error = l.times(&u).distance(&exchanged) / u.largest().max(1.0) / T::EPSILON;
    assert!(error < 40.0, "{m} x {n} in {:?}: {error}", T::DTYPE);
    info
}

fn matrices_for_lu<T: Element>() {
    for (m, n) in [(1, 1), (5, 5), (31, 33), (33, 31), (32, 32), (33, 33), (64, 64), (80, 80), (20, 90), (90, 20)] {
        let a: Vec<T> = values::<C64>(m * n, n).into_iter().map(T::of).collect();
        assert_eq!(check_lu(m, n, &a), 0);
        // With a column of zeros, the factors are finite, and the diagonal element of this column is zero.
        let empty = (m / 2).min(n / 2);
        if empty > 0 {
            let zero = |at: usize| if at % n == empty { T::real(0.0) } else { a[at] };
            let singular: Vec<T> = (0..m * n).map(zero).collect();
            assert_eq!(check_lu(m, n, &singular), i32::try_from(empty + 1).unwrap());
        }
    }
}

#[test]
fn lu_factors() {
    matrices_for_lu::<f32>();
    matrices_for_lu::<f64>();
    matrices_for_lu::<Complex<f32>>();
    matrices_for_lu::<C64>();
}

#[test]
fn lu_pivots() {
    // The first of the largest elements is the pivot, and NaN counts as infinity.
    assert_eq!(lu(3, 3, &[1.0f32, 2.0, 3.0, -4.0, 5.0, 6.0, 4.0, 8.0, 9.0]).1[0], 1);
    assert_eq!(lu(2, 2, &[1.0, 2.0, f64::NAN, 4.0]).1[0], 1);
    assert_eq!(lu::<f64>(0, 3, &[]).2, 0);
    assert_eq!(lu::<f64>(3, 0, &[]).2, 0);
}
