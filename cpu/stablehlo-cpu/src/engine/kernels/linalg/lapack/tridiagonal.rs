//! Systems of linear equations with a tridiagonal matrix, solved by elimination with row exchanges.

use super::precision::Precision;
use crate::engine::kernels::linalg::scalar::Scalar;

/// Replaces the right-hand sides `x` by the solutions. `x` has as many rows as the matrix.
///
/// `diagonals` are the subdiagonal, the main diagonal and the superdiagonal, indexed by row. The first element of the
/// subdiagonal and the last element of the superdiagonal are not part of the matrix. The function replaces the three
/// diagonals by those of the triangular factor. These are its second superdiagonal, shifted down by one row, its main
/// diagonal and its first superdiagonal.
///
/// With `perturb`, the function enlarges a pivot if a division by it would overflow, and returns 0. The solution for a
/// singular matrix is then large but finite. Without `perturb`, the function returns the one-based row of the first
/// pivot that is zero, or 0 if no pivot is zero.
pub(super) fn solve<T: Scalar>(diagonals: [&mut [T]; 3], x: &mut [T], perturb: Option<Precision>) -> i32 {
    let [below, d, above] = diagonals;
    let n = d.len();
    if n == 0 {
        return 0;
    }
    let columns = x.len() / n;
    let singular = |row: usize| i32::try_from(row + 1).unwrap_or(i32::MAX);
    for i in 0..n - 1 {
        let (pivot, next) = (d[i], below[i + 1]);
        below[i + 1] = T::real(0.0);
        let (row, following) = x[i * columns..(i + 2) * columns].split_at_mut(columns);
        if pivot.abs() >= next.abs() {
            if pivot.abs() == 0.0 {
                if perturb.is_none() {
                    return singular(i);
                }
                continue;
            }
            let factor = next.div(pivot);
            d[i + 1] = d[i + 1].sub(factor.mul(above[i]));
            following.iter_mut().zip(row).for_each(|(x, y)| *x = x.sub(factor.mul(*y)));
        } else {
            // Exchange the rows. The upper row now has one more nonzero column.
            let factor = pivot.div(next);
            let across = d[i + 1];
            (d[i], d[i + 1]) = (next, above[i].sub(factor.mul(across)));
            above[i] = across;
            if i + 2 < n {
                below[i + 1] = above[i + 1];
                above[i + 1] = T::real(0.0).sub(factor.mul(above[i + 1]));
            }
            following.iter_mut().zip(row).for_each(|(x, y)| (*x, *y) = (y.sub(factor.mul(*x)), *x));
        }
    }
    if perturb.is_none() && d[n - 1].abs() == 0.0 {
        return singular(n - 1);
    }
    let inner = d.iter().chain(&above[..n - 1]).chain(&below[1..]);
    let greatest = inner.fold(0.0, |greatest: f64, x| greatest.max(x.abs()));
    for i in (0..n).rev() {
        let (rows, solved) = x.split_at_mut((i + 1) * columns);
        let row = &mut rows[i * columns..];
        for (at, x) in row.iter_mut().enumerate() {
            if i + 1 < n {
                *x = x.sub(above[i].mul(solved[at]));
            }
            if i + 2 < n {
                *x = x.sub(below[i + 1].mul(solved[columns + at]));
            }
        }
        if let Some(precision) = perturb {
            let numerator = row.iter().fold(0.0, |greatest: f64, x| greatest.max(x.abs()));
            d[i] = enlarged(d[i], numerator, precision.epsilon() * greatest, precision.least());
        }
        row.iter_mut().for_each(|x| *x = x.div(d[i]));
    }
    0
}

/// Moves a pivot away from zero until neither its reciprocal nor the quotient `numerator / pivot` overflows, or until
/// its absolute value is at least 1. The first move is by `step` or `least`, whichever is larger, and each further move
/// is twice as long. `least` is the smallest normal number.
fn enlarged<T: Scalar>(mut pivot: T, numerator: f64, step: f64, least: f64) -> T {
    let mut step = step.max(least).copysign(pivot.real_part());
    let overflows = |pivot: T| pivot.abs() < least || numerator * least > pivot.abs();
    while pivot.abs() < 1.0 && overflows(pivot) {
        pivot = pivot.sub(T::real(-step));
        step *= 2.0;
    }
    pivot
}
