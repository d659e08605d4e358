//! Schur forms. A matrix is reduced to Hessenberg form. Shifted QR steps then make a complex matrix upper triangular.
//! They make a real matrix quasi-triangular, with 1x1 and 2x2 blocks on the diagonal.
//!
//! A Schur form is not unique. The shifts, convergence tests and signs are those of LAPACK's `lahqr` and `lanv2`, which
//! LAPACK uses for matrices of up to 75 rows. Tests compare real forms of up to 4 rows with those of LAPACK. For larger
//! matrices and for complex matrices, the form is also valid, but the order of eigenvalues, the signs and the phases
//! may differ from those of LAPACK.

use super::packed::hessenberg;
use super::precision::Precision;
use crate::engine::kernels::linalg::householder::form;
use crate::engine::kernels::linalg::reflections::Panel;
use crate::engine::kernels::linalg::scalar::{C64, Scalar};

/// Maximum number of QR steps for one eigenvalue or one 2x2 block. The routine fails if more steps are necessary.
const STEPS: usize = 300;

/// Interval between exceptional shifts, in QR steps for the same eigenvalue. Without exceptional shifts, the steps may
/// cycle.
const EXCEPTIONAL: usize = 10;

/// Returns whether all elements are finite. If an element is not finite, the calling routine fails.
pub(super) fn finite<T: Scalar>(a: &[T]) -> bool {
    a.iter().all(|x| x.real_part().is_finite() && x.imaginary().is_finite())
}

/// Replaces `t` by its Hessenberg form, and `z` by the unitary matrix of the similarity transformation.
fn prepare<T: Scalar>(t: &mut [T], z: &mut [T], n: usize) {
    let mut tau = vec![T::real(0.0); n.saturating_sub(1)];
    hessenberg(t, n, &mut tau);
    for i in 0..n {
        for j in 0..n {
            z[i * n + j] = T::real(if i == j { 1.0 } else { 0.0 });
        }
    }
    let m = n - 1;
    if m == 0 {
        return;
    }
    let mut q: Vec<T> = vec![T::real(0.0); m * m];
    for i in 0..m {
        for j in 0..i {
            q[i * m + j] = t[(i + 1) * n + j];
            if i > j {
                t[(i + 1) * n + j] = T::real(0.0);
            }
        }
    }
    form(&tau, &mut q, m, &mut Panel::new(), None);
    for i in 0..m {
        z[(i + 1) * n + 1..(i + 2) * n].copy_from_slice(&q[i * m..(i + 1) * m]);
    }
}

/// Returns the sum of the absolute values of the real and imaginary parts.
fn size<T: Scalar>(x: T) -> f64 {
    x.real_part().abs() + x.imaginary().abs()
}

/// The limits up to which a subdiagonal element counts as zero.
#[derive(Clone, Copy)]
struct Tolerance {
    /// Limit relative to the absolute values of the neighboring elements.
    epsilon: f64,
    /// Absolute limit.
    least: f64,
}

impl Tolerance {
    fn new(precision: Precision, n: usize) -> Self {
        let epsilon = precision.epsilon();
        Self { epsilon, least: precision.least() * (n as f64 / epsilon) }
    }

    /// Returns the first row of the unreduced diagonal block whose last row is `last`. If the block does not start at
    /// row 0, sets the negligible subdiagonal element in the block's first row to zero.
    fn block<T: Scalar>(self, t: &mut [T], n: usize, last: usize) -> usize {
        let start = (1..=last).rev().find(|k| self.is_zero(t, n, *k)).unwrap_or(0);
        if start > 0 {
            t[start * n + start - 1] = T::real(0.0);
        }
        start
    }

    /// Returns whether the subdiagonal element in row `k` counts as zero.
    fn is_zero<T: Scalar>(self, t: &[T], n: usize, k: usize) -> bool {
        let at = |i: usize, j: usize| size(t[i * n + j]);
        let (below, above) = (at(k, k - 1), at(k - 1, k));
        if below <= self.least {
            return true;
        }
        let mut near = at(k - 1, k - 1) + at(k, k);
        if near == 0.0 {
            near += if k > 1 { at(k - 1, k - 2) } else { 0.0 };
            near += if k + 1 < n { at(k + 1, k) } else { 0.0 };
        }
        if below > self.epsilon * near {
            return false;
        }
        // Apply the test of Ahues and Tisseur. The element counts as zero only if zeroing it does not change the
        // eigenvalues noticeably.
        let apart = size(t[(k - 1) * n + k - 1].sub(t[k * n + k]));
        let (greater, less) = (below.max(above), below.min(above));
        let (outer, inner) = (at(k, k).max(apart), at(k, k).min(apart));
        let sum = outer + greater;
        less * (greater / sum) <= self.least.max(self.epsilon * (inner * (outer / sum)))
    }
}

/// Multiplies row `k`, from column `from` on, by `factor`, and column `k`, in the rows before `to`, by the conjugate of
/// `factor`. This scales the elements above the diagonal in a diagonal similarity transformation. The caller scales the
/// subdiagonal elements that change.
fn turn(t: &mut [C64], n: usize, k: usize, from: usize, to: usize, factor: C64) {
    t[k * n + from..(k + 1) * n].iter_mut().for_each(|x| *x *= factor);
    (0..to).for_each(|i| t[i * n + k] *= factor.conj());
}

/// Multiplies column `k` of the Schur vectors by `factor`.
fn turn_column(z: &mut [C64], n: usize, k: usize, factor: C64) {
    (0..n).for_each(|i| z[i * n + k] *= factor);
}

/// Returns `tau`, `v` and `beta` of a reflection `I - tau u u*`, where `u` is the column `(1, v)`. The adjoint of the
/// reflection maps the column `(alpha, x)` to `(beta, 0)`, and `beta` is real.
fn reflect_pair(alpha: C64, x: C64) -> (C64, C64, f64) {
    if x.norm() == 0.0 && alpha.im == 0.0 {
        return (C64::ZERO, C64::ZERO, alpha.re);
    }
    let beta = -alpha.norm().hypot(x.norm()).copysign(alpha.re);
    ((beta - alpha) / beta, x / (alpha - beta), beta)
}

/// Replaces `t` by the triangular form, `z` by the Schur vectors, and `w` by the eigenvalues. Returns false if the
/// matrix is not finite or the iteration does not converge.
pub(super) fn complex(t: &mut [C64], z: &mut [C64], n: usize, w: &mut [C64], precision: Precision) -> bool {
    if n == 0 {
        return true;
    }
    if !finite(t) {
        return false;
    }
    prepare(t, z, n);
    let tolerance = Tolerance::new(precision, n);
    let (mut last, mut steps) = (n - 1, 0);
    while last > 0 {
        let start = tolerance.block(t, n, last);
        if start == last {
            (last, steps) = (last - 1, 0);
            continue;
        }
        steps += 1;
        if steps > STEPS {
            return false;
        }
        single_step(t, z, n, start, last, steps, tolerance.epsilon);
    }
    for i in 0..n {
        t[i * n..i * n + i].fill(C64::ZERO);
        w[i] = t[i * n + i];
    }
    true
}

/// Returns the shift of QR step `step` on rows `start` to `last`. The usual shift is the eigenvalue of the trailing 2x2
/// block of these rows that is closer to the last diagonal element of the block. Every [`EXCEPTIONAL`] steps, the shift
/// is an exceptional one.
fn shift(t: &[C64], n: usize, start: usize, last: usize, step: usize) -> C64 {
    let at = |i: usize, j: usize| t[i * n + j];
    let corner = at(last, last);
    if step.is_multiple_of(2 * EXCEPTIONAL) {
        return corner + 0.75 * at(last, last - 1).re.abs();
    }
    if step.is_multiple_of(EXCEPTIONAL) {
        return at(start, start) + 0.75 * at(start + 1, start).re.abs();
    }
    let u = at(last - 1, last).sqrt() * at(last, last - 1).sqrt();
    if size(u) == 0.0 {
        return corner;
    }
    let x = (at(last - 1, last - 1) - corner) * 0.5;
    let scale = size(u).max(size(x));
    let mut y = ((x / scale).powu(2) + (u / scale).powu(2)).sqrt() * scale;
    if x.re * y.re + x.im * y.im < 0.0 {
        y = -y;
    }
    corner - u * (u / (x + y))
}

/// Runs one single-shift QR step on rows `start` to `last`. The subdiagonal elements are real before and after the
/// step.
fn single_step(t: &mut [C64], z: &mut [C64], n: usize, start: usize, last: usize, step: usize, epsilon: f64) {
    let shift = shift(t, n, start, last, step);
    // If two consecutive subdiagonal elements are small enough, the step may begin in a row after `start`.
    let mut m = last - 1;
    let mut v;
    loop {
        let (own, next) = (t[m * n + m], t[(m + 1) * n + m + 1]);
        let (from, below) = (own - shift, t[(m + 1) * n + m].re);
        let scale = size(from) + below.abs();
        v = [from / scale, C64::new(below / scale, 0.0)];
        if m == start {
            break;
        }
        let before = t[m * n + m - 1].re.abs();
        if before * v[1].re.abs() <= epsilon * (size(v[0]) * (size(own) + size(next))) {
            break;
        }
        m -= 1;
    }
    for k in m..last {
        if k > m {
            v = [t[k * n + k - 1], t[(k + 1) * n + k - 1]];
        }
        let (tau, below, beta) = reflect_pair(v[0], v[1]);
        if k > m {
            t[k * n + k - 1] = C64::new(beta, 0.0);
            t[(k + 1) * n + k - 1] = C64::ZERO;
        }
        for j in k..n {
            let (x, y) = (t[k * n + j], t[(k + 1) * n + j]);
            let dot = tau.conj() * (x + below.conj() * y);
            (t[k * n + j], t[(k + 1) * n + j]) = (x - dot, y - dot * below);
        }
        let columns = |a: &mut [C64], rows: usize| {
            for row in a.chunks_exact_mut(n).take(rows) {
                let dot = tau * (row[k] + row[k + 1] * below);
                row[k] -= dot;
                row[k + 1] -= dot * below.conj();
            }
        };
        columns(t, last.min(k + 2) + 1);
        columns(z, n);
        if k == m && m > start {
            // If the step began at a row `m` after `start`, the subdiagonal element in row `m` became complex. Make
            // this element real again.
            let factor = C64::ONE - tau;
            let factor = factor / factor.norm();
            t[(m + 1) * n + m] *= factor.conj();
            if m + 2 <= last {
                t[(m + 2) * n + m + 1] *= factor;
            }
            for j in (m..=last).filter(|j| *j != m + 1) {
                turn(t, n, j, j + 1, j, factor);
                turn_column(z, n, j, factor.conj());
            }
        }
    }
    let below = t[last * n + last - 1];
    if below.im != 0.0 {
        let length = below.norm();
        t[last * n + last - 1] = C64::new(length, 0.0);
        let factor = below / length;
        turn(t, n, last, last + 1, last, factor.conj());
        turn_column(z, n, last, factor);
    }
}

/// Replaces `t` by a quasi-triangular form with 1x1 and 2x2 blocks on the diagonal. In a 2x2 block, the diagonal
/// elements are equal and the off-diagonal elements differ in sign. `z` receives the Schur vectors, and `re` and `im`
/// receive the eigenvalues. Returns false if the matrix is not finite or the iteration does not converge.
pub(super) fn real(
    t: &mut [f64],
    z: &mut [f64],
    n: usize,
    re: &mut [f64],
    im: &mut [f64],
    precision: Precision,
) -> bool {
    if n == 0 {
        return true;
    }
    if !finite(t) {
        return false;
    }
    prepare(t, z, n);
    let tolerance = Tolerance::new(precision, n);
    let (mut left, mut steps) = (n, 0);
    while left > 0 {
        let last = left - 1;
        let start = tolerance.block(t, n, last);
        if start == last {
            (re[last], im[last]) = (t[last * n + last], 0.0);
            (left, steps) = (left - 1, 0);
        } else if start + 1 == last {
            let values = standardize(t, z, n, start, tolerance.epsilon);
            [(re[start], im[start]), (re[last], im[last])] = values;
            (left, steps) = (left - 2, 0);
        } else {
            steps += 1;
            if steps > STEPS {
                return false;
            }
            double_step(t, z, n, start, last, steps, tolerance.epsilon);
        }
    }
    true
}

/// Returns the two shifts of QR step `step` on rows `start` to `last`, each as its real and imaginary part. The usual
/// shifts are the eigenvalues of the trailing 2x2 block of these rows. If the two eigenvalues are real, both shifts are
/// the eigenvalue that is closer to the last diagonal element of the block. Every [`EXCEPTIONAL`] steps, the shifts are
/// exceptional ones.
fn shifts(t: &[f64], n: usize, start: usize, last: usize, step: usize) -> [(f64, f64); 2] {
    let at = |i: usize, j: usize| t[i * n + j];
    let exceptional = |sum: f64, corner: f64| (0.75 * sum + corner, -0.4375 * sum, sum, 0.75 * sum + corner);
    let (a, b, c, d) = if step.is_multiple_of(2 * EXCEPTIONAL) {
        exceptional(at(last, last - 1).abs() + at(last - 1, last - 2).abs(), at(last, last))
    } else if step.is_multiple_of(EXCEPTIONAL) {
        exceptional(at(start + 1, start).abs() + at(start + 2, start + 1).abs(), at(start, start))
    } else {
        (at(last - 1, last - 1), at(last - 1, last), at(last, last - 1), at(last, last))
    };
    let scale = a.abs() + b.abs() + c.abs() + d.abs();
    if scale == 0.0 {
        return [(0.0, 0.0); 2];
    }
    let [a, b, c, d] = [a, b, c, d].map(|x| x / scale);
    let middle = (a + d) / 2.0;
    let determinant = (a - middle) * (d - middle) - b * c;
    let root = determinant.abs().sqrt();
    if determinant >= 0.0 {
        return [(middle * scale, root * scale), (middle * scale, -root * scale)];
    }
    let (greater, less) = (middle + root, middle - root);
    let closer = if (greater - d).abs() <= (less - d).abs() { greater } else { less };
    [(closer * scale, 0.0); 2]
}

/// Runs one double-shift QR step on rows `start` to `last`, which must be at least three rows.
fn double_step(t: &mut [f64], z: &mut [f64], n: usize, start: usize, last: usize, step: usize, epsilon: f64) {
    let [(r1, i1), (r2, i2)] = shifts(t, n, start, last, step);
    let at = |i: usize, j: usize| t[i * n + j];
    // Compute the first column of (t - shift)(t - other shift). If two consecutive subdiagonal elements are small
    // enough, the step may begin in a row after `start`.
    let mut m = last - 2;
    let mut v;
    loop {
        let own = at(m, m);
        let scale = (own - r2).abs() + i2.abs() + at(m + 1, m).abs();
        let below = at(m + 1, m) / scale;
        v = [
            below * at(m, m + 1) + (own - r1) * ((own - r2) / scale) - i1 * (i2 / scale),
            below * (own + at(m + 1, m + 1) - r1 - r2),
            below * at(m + 2, m + 1),
        ];
        let sum = v[0].abs() + v[1].abs() + v[2].abs();
        v = v.map(|x| x / sum);
        if m == start {
            break;
        }
        let near = at(m - 1, m - 1).abs() + own.abs() + at(m + 1, m + 1).abs();
        if at(m, m - 1).abs() * (v[1].abs() + v[2].abs()) <= epsilon * v[0].abs() * near {
            break;
        }
        m -= 1;
    }
    for k in m..last {
        let count = if k + 1 < last { 3 } else { 2 };
        if k > m {
            let column = |i: usize| if i < count { t[(k + i) * n + k - 1] } else { 0.0 };
            v = [column(0), column(1), column(2)];
        } else {
            v[2] = if count == 3 { v[2] } else { 0.0 };
        }
        // Compute the reflection I - tau v v*, where the first element of v is 1.
        let norm = v[1].hypot(v[2]);
        let (mut tau, mut beta, mut scale) = (0.0, v[0], 0.0);
        if norm != 0.0 {
            beta = -v[0].hypot(norm).copysign(v[0]);
            (tau, scale) = ((beta - v[0]) / beta, 1.0 / (v[0] - beta));
        }
        let v = [1.0, v[1] * scale, v[2] * scale];
        if k > m {
            t[k * n + k - 1] = beta;
            (1..count).for_each(|i| t[(k + i) * n + k - 1] = 0.0);
        } else if m > start {
            t[k * n + k - 1] *= 1.0 - tau;
        }
        let u = v.map(|x| tau * x);
        for j in k..n {
            let dot: f64 = (0..count).map(|i| v[i] * t[(k + i) * n + j]).sum();
            (0..count).for_each(|i| t[(k + i) * n + j] -= dot * u[i]);
        }
        let apply = |a: &mut [f64], rows: usize| {
            for row in a.chunks_exact_mut(n).take(rows) {
                let row = &mut row[k..k + count];
                let dot: f64 = row.iter().zip(v).map(|(x, v)| x * v).sum();
                row.iter_mut().zip(u).for_each(|(x, u)| *x -= dot * u);
            }
        };
        apply(t, last.min(k + 3) + 1);
        apply(z, n);
    }
}

/// Brings the 2x2 diagonal block at row `k` to its standard form by a rotation of the matrix. The block becomes
/// triangular if its eigenvalues are real. Otherwise its diagonal elements become equal. Returns the real and imaginary
/// parts of the eigenvalues.
fn standardize(t: &mut [f64], z: &mut [f64], n: usize, k: usize, epsilon: f64) -> [(f64, f64); 2] {
    let block = [(k, k), (k, k + 1), (k + 1, k), (k + 1, k + 1)].map(|(i, j)| t[i * n + j]);
    let ([a, b, c, d], (cs, sn)) = standard_block(block, epsilon);
    for j in k + 2..n {
        let (x, y) = (t[k * n + j], t[(k + 1) * n + j]);
        (t[k * n + j], t[(k + 1) * n + j]) = (cs * x + sn * y, cs * y - sn * x);
    }
    let columns = |a: &mut [f64], rows: usize| {
        for row in a.chunks_exact_mut(n).take(rows) {
            let (x, y) = (row[k], row[k + 1]);
            (row[k], row[k + 1]) = (cs * x + sn * y, cs * y - sn * x);
        }
    };
    columns(t, k);
    columns(z, n);
    (t[k * n + k], t[k * n + k + 1], t[(k + 1) * n + k], t[(k + 1) * n + k + 1]) = (a, b, c, d);
    let imaginary = if c == 0.0 { 0.0 } else { b.abs().sqrt() * c.abs().sqrt() };
    [(a, imaginary), (d, -imaginary)]
}

/// Returns the standard form of a 2x2 block in row-major order, and the cosine and sine of the rotation that produces
/// this form.
fn standard_block([a, b, c, d]: [f64; 4], epsilon: f64) -> ([f64; 4], (f64, f64)) {
    let differs = |x: f64, y: f64| x.is_sign_negative() != y.is_sign_negative();
    if c == 0.0 {
        return ([a, b, c, d], (1.0, 0.0));
    }
    if b == 0.0 {
        // Exchange the rows and columns, which makes the block triangular.
        return ([d, -c, 0.0, a], (0.0, 1.0));
    }
    if a == d && differs(b, c) {
        return ([a, b, c, d], (1.0, 0.0));
    }
    let half = 0.5 * (a - d);
    let greatest = b.abs().max(c.abs());
    let least = b.abs().min(c.abs()).copysign(if differs(b, c) { -1.0 } else { 1.0 });
    let scale = half.abs().max(greatest);
    let discriminant = (half / scale) * half + (greatest / scale) * least;
    if discriminant >= 4.0 * epsilon {
        // The block has two real eigenvalues.
        let root = half + (scale.sqrt() * discriminant.sqrt()).copysign(half);
        let length = c.hypot(root);
        return ([d + root, b - c, 0.0, d - (greatest / root) * least], (root / length, c / length));
    }
    // The eigenvalues are complex, or real and nearly equal. Make the diagonal elements equal.
    let sum = b + c;
    let length = sum.hypot(a - d);
    let cs = (0.5 * (1.0 + sum.abs() / length)).sqrt();
    let sn = -(half / (length * cs)) * 1f64.copysign(sum);
    let [aa, bb, cc, dd] = [a * cs + b * sn, b * cs - a * sn, c * cs + d * sn, d * cs - c * sn];
    let (b, c) = (bb * cs + dd * sn, cc * cs - aa * sn);
    let middle = 0.5 * ((aa * cs + cc * sn) + (dd * cs - bb * sn));
    if c == 0.0 || (b != 0.0 && differs(b, c)) {
        return ([middle, b, c, middle], (cs, sn));
    }
    if b == 0.0 {
        return ([middle, -c, 0.0, middle], (-sn, cs));
    }
    // The eigenvalues are real, so make the block triangular.
    let (root_b, root_c, length) = (b.abs().sqrt(), c.abs().sqrt(), (b + c).abs().sqrt());
    let root = (root_b * root_c).copysign(c);
    let (cs1, sn1) = (root_b / length, root_c / length);
    ([middle + root, b - c, 0.0, middle - root], (cs * cs1 - sn * sn1, cs * sn1 + sn * cs1))
}
