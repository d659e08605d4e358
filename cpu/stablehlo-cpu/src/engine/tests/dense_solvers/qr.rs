use super::*;

/// Returns the packed factors, `tau`, and the first `columns` columns of `Q`.
fn factored<T: Number>(a: &[T], m: usize, n: usize, columns: usize) -> (Vec<T>, Vec<T>, Vec<T>) {
    let k = m.min(n);
    let batch = a.len() / (m * n);
    let mut packed = a.to_vec();
    let mut tau = vec![T::zeroed(); batch * k];
    run(&Qr { m, n, field: T::FIELD }, &[&[]], &mut [cast_slice_mut(&mut packed), cast_slice_mut(&mut tau)]);
    let mut q = vec![T::zeroed(); batch * m * columns];
    for (q, packed) in q.chunks_exact_mut(columns).zip(packed.chunks_exact(n)) {
        let count = columns.min(n);
        q[..count].copy_from_slice(&packed[..count]);
    }
    let k = k.min(columns);
    let used: Vec<T> = tau.chunks_exact(m.min(n)).flat_map(|tau| tau[..k].to_vec()).collect();
    run(
        &HouseholderProduct { m, n: columns, k, field: T::FIELD },
        &[&[], cast_slice(&used)],
        &mut [cast_slice_mut(&mut q)],
    );
    (packed, tau, q)
}

/// Computes the product of the reflections by its definition.
fn product(packed: &Matrix, tau: &[C64]) -> Matrix {
    let m = packed.rows;
    let mut q = Matrix::identity(m);
    for (k, &tau) in tau.iter().enumerate() {
        let v: Vec<C64> = (0..m)
            .map(|i| match i.cmp(&k) {
                std::cmp::Ordering::Less => C64::real(0.0),
                std::cmp::Ordering::Equal => C64::real(1.0),
                std::cmp::Ordering::Greater => packed.at(i, k),
            })
            .collect();
        for i in 0..m {
            let dot: C64 = (k..m).map(|j| q.at(i, j) * v[j]).sum();
            (k..m).for_each(|j| q.data[i * m + j] -= dot * tau * v[j].conj());
        }
    }
    q
}

fn check<T: Number>(a: &[T], m: usize, n: usize) {
    let k = m.min(n);
    let (packed, tau, q) = factored(a, m, n, m);
    let (_, _, thin) = factored(a, m, n, k);
    for (batch, a) in a.chunks_exact(m * n).enumerate() {
        let a = Matrix::new(m, n, a);
        let packed = Matrix::new(m, n, &packed[batch * m * n..][..m * n]);
        let q = Matrix::new(m, m, &q[batch * m * m..][..m * m]);
        let thin = Matrix::new(m, k, &thin[batch * m * k..][..m * k]);
        let tau: Vec<C64> = tau[batch * k..][..k].iter().map(|x| x.wide()).collect();
        let r = Matrix::by(m, n, |i, j| if i <= j { packed.at(i, j) } else { C64::real(0.0) });
        assert!((0..k).all(|i| r.at(i, i).im == 0.0), "{m} x {n}: the diagonal is not real");
        let length = (0..m).fold(0.0, |length: f64, i| length.hypot(Scalar::abs(a.at(i, 0))));
        let bound = 4.0 * T::EPSILON * f64::from(u32::try_from(m + n).unwrap());
        let least = f64::from(f32::from_bits(1)) * if T::EPSILON > 1e-10 { 1.0 } else { 0.0 };
        let least = (least + f64::from_bits(1)) * f64::from(u32::try_from(2 * m).unwrap());
        if m > 1 && length > 0.0 {
            let first = -length.copysign(a.at(0, 0).re);
            assert!(
                (r.at(0, 0).re - first).abs() <= bound * length + least,
                "{m} x {n}: {:e} is not {first:e}",
                r.at(0, 0)
            );
        }
        let unitary = q.adjoint().times(&q).distance(&Matrix::identity(m));
        assert!(unitary <= bound, "{m} x {n}: Q* Q differs by {unitary}");
        let residual = q.times(&r).distance(&a);
        assert!(residual <= bound * a.largest() + least, "{m} x {n}: Q R differs by {residual:e}");
        let defined = product(&packed, &tau).distance(&q);
        assert!(defined <= bound, "{m} x {n}: the product of reflections differs by {defined}");
        let head = Matrix::by(m, k, |i, j| q.at(i, j));
        assert!(thin.distance(&head) <= bound, "{m} x {n}: the first columns differ");
    }
}

fn sizes<T: Number>() {
    let square = [1, 5, 31, 32, 33, 64, 130].map(|n| (n, n));
    for (m, n) in square.into_iter().chain([(1, 40), (40, 1), (33, 70), (70, 33), (65, 64), (130, 20), (20, 130)]) {
        check(&values::<T>(2 * m * n, m + n), m, n);
    }
}

#[test]
fn all_sizes_and_types() {
    sizes::<f32>();
    sizes::<f64>();
    sizes::<C64>();
}

#[test]
fn zero_columns() {
    fn zero<T: Number>() {
        let (m, n) = (50, 40);
        let mut a = values::<T>(m * n, 3);
        a.chunks_exact_mut(n).for_each(|row| [0, 7, 35].iter().for_each(|&j| row[j] = T::zeroed()));
        check(&a, m, n);
        check(&vec![T::zeroed(); m * n], m, n);
        // The elements below the diagonal are already zero.
        let upper: Vec<T> = (0..m * n).map(|at| if at / n <= at % n { a[at] } else { T::zeroed() }).collect();
        check(&upper, m, n);
    }
    zero::<f32>();
    zero::<f64>();
    zero::<C64>();
}

#[test]
fn extreme_magnitudes() {
    fn scaled<T: Number>(scale: f64) {
        for (m, n) in [(6, 4), (50, 40)] {
            let a: Vec<T> = values::<T>(m * n, 5).into_iter().map(|x| x * T::real(scale)).collect();
            check(&a, m, n);
        }
    }
    [1e-310, 1e-200, 1e200, 1e300].into_iter().for_each(scaled::<f64>);
    [1e-310, 1e-200, 1e200, 1e300].into_iter().for_each(scaled::<C64>);
    [1e-40, 1e-30, 1e30, 1e36].into_iter().for_each(scaled::<f32>);
}

/// A NaN does not affect the results for the columns before it.
#[test]
fn nan_in_one_column() {
    let (m, n) = (80, 70);
    let clean = values::<f64>(m * n, 9);
    for column in [3, 33, 66] {
        let mut a = clean.clone();
        a[5 * n + column] = f64::NAN;
        let (r, _, q) = factored(&a, m, n, n);
        let (expected, _, expected_q) = factored(&clean, m, n, n);
        for at in 0..m * n {
            let (i, j) = (at / n, at % n);
            if j < column {
                assert_eq!((r[at], q[at]), (expected[at], expected_q[at]), "row {i}, column {j}");
            } else {
                assert!(q[at].is_nan() && (j > column || r[at].is_nan()), "row {i}, column {j}");
            }
        }
    }
}
