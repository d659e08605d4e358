use super::*;
use crate::engine::kernels::linalg::triangular_solve::TriangularSolve;

/// Returns a solver for each valid combination of the attributes, for a matrix of `n` rows and `across` right-hand
/// sides.
fn solvers(n: usize, across: usize, field: Field) -> Vec<TriangularSolve> {
    let solver = |bits: usize| {
        let bit = |at: usize| bits >> at & 1 == 1;
        let (left, transpose) = (bit(0), bit(3));
        let (rows, columns) = if left { (n, across) } else { (across, n) };
        let conjugate = transpose && bit(4);
        TriangularSolve { n, rows, columns, left, lower: bit(1), unit: bit(2), transpose, conjugate, field }
    };
    (0..32).map(solver).filter(|solver| solver.transpose || !solver.conjugate).collect()
}

/// Returns the solutions `x` of the systems with the matrices `a` and the right-hand sides `b`.
fn solve<T: Number>(solver: &TriangularSolve, a: &[T], b: &[T]) -> Vec<T> {
    let mut x = b.to_vec();
    run(solver, &[cast_slice(a), &[]], &mut [cast_slice_mut(&mut x)]);
    x
}

/// Returns triangular matrices with a dominant diagonal. The other triangle is NaN, and so is the diagonal if the
/// kernel does not read it.
fn triangles<T: Number>(batch: usize, solver: &TriangularSolve) -> Vec<T> {
    let n = solver.n;
    let scale = f64::from(u32::try_from(n).unwrap()).recip();
    let mut a = values::<T>(batch * n * n, n);
    for (at, x) in a.iter_mut().enumerate() {
        let (i, j) = (at / n % n, at % n);
        *x = match (i == j, (i > j) == solver.lower) {
            (true, _) if solver.unit => T::real(f64::NAN),
            (true, _) => *x + T::real(2.0),
            (false, true) => *x * T::real(scale),
            (false, false) => T::real(f64::NAN),
        };
    }
    a
}

fn check<T: Number>(n: usize, across: usize) {
    for solver in solvers(n, across, T::FIELD) {
        let case = (n, across, solver.left, solver.lower, solver.unit, solver.transpose, solver.conjugate);
        let a = triangles::<T>(2, &solver);
        let b = values::<T>(2 * n * across, 5);
        let x = solve(&solver, &a, &b);
        for batch in 0..2 {
            let a = Matrix::new(n, n, &a[batch * n * n..][..n * n]);
            let of = |data: &[T]| Matrix::new(solver.rows, solver.columns, &data[batch * n * across..][..n * across]);
            let (b, x) = (of(&b), of(&x));
            let whole = Matrix::by(n, n, |i, j| match (i == j, (i > j) == solver.lower) {
                (true, _) if solver.unit => C64::real(1.0),
                (false, false) => C64::real(0.0),
                _ => a.at(i, j),
            });
            let op = Matrix::by(n, n, |i, j| {
                let x = if solver.transpose { whole.at(j, i) } else { whole.at(i, j) };
                if solver.conjugate { x.conj() } else { x }
            });
            let product = if solver.left { op.times(&x) } else { x.times(&op) };
            let residual = product.distance(&b);
            assert!(residual <= 64.0 * T::EPSILON * (1.0 + x.largest()), "{case:?}: differs by {residual:e}");
        }
    }
}

#[test]
fn all_sizes_and_types() {
    for (n, across) in [(1, 3), (5, 1), (23, 4), (24, 4), (31, 9), (33, 1), (64, 3), (65, 70), (130, 2)] {
        check::<f32>(n, across);
        check::<f64>(n, across);
        check::<C64>(n, across);
    }
}

/// Elements that are computed before the zero on the diagonal is used are finite. All later elements are infinite or
/// NaN.
#[test]
fn singular() {
    for (n, zero) in [(5, 2), (90, 70)] {
        for solver in solvers(n, 3, Field::F64).into_iter().filter(|solver| !solver.unit) {
            let mut a = triangles::<f64>(1, &solver);
            a[zero * n + zero] = 0.0;
            let x = solve(&solver, &a, &values::<f64>(3 * n, 5));
            let forwards = solver.lower != solver.transpose;
            let forwards = forwards == solver.left;
            for (at, x) in x.iter().enumerate() {
                let row = if solver.left { at / 3 } else { at % n };
                let known = if forwards { row < zero } else { row > zero };
                assert_eq!(x.is_finite(), known, "{n}: row {row}");
            }
        }
    }
}

/// The reciprocals of these diagonals overflow, but the solutions do not.
#[test]
fn subnormal_diagonals() {
    let tiny = f64::MIN_POSITIVE / 1024.0;
    for n in [5, 40] {
        for solver in solvers(n, 2, Field::F64).into_iter().filter(|solver| !solver.unit) {
            let mut a = vec![0.0; n * n];
            a.iter_mut().step_by(n + 1).for_each(|d| *d = tiny);
            assert_eq!(solve(&solver, &a, &vec![3.0 * tiny; 2 * n]), vec![3.0; 2 * n]);
        }
    }
}
