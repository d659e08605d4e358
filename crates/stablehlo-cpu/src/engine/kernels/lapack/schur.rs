//! Schur forms: a Hessenberg form, then shifted QR steps until all elements below the diagonal are zero (or, for a real
//! matrix, below its blocks of two).

use super::packed::hessenberg;
use super::spectral::finite;
use crate::engine::kernels::householder::{HouseholderProduct, form};
use crate::engine::kernels::linalg::{C64, Scalar};

/// Maximum number of steps for one eigenvalue. More steps count as failure.
const STEPS: usize = 60;

/// Replaces `t` by its Hessenberg form, and `z` by the unitary matrix of the transformation.
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
    form::<T>(
        &HouseholderProduct { m, n: m, k: m, form: form::<T> },
        bytemuck::cast_slice(&tau),
        bytemuck::cast_slice_mut(&mut q),
        None,
    );
    for i in 0..m {
        z[(i + 1) * n + 1..(i + 2) * n].copy_from_slice(&q[i * m..(i + 1) * m]);
    }
}

/// The start of the block that ends at `last`: below the last subdiagonal element that is negligible.
fn block<T: Scalar>(t: &mut [T], n: usize, last: usize) -> usize {
    let norm = t.iter().fold(0.0, |sum: f64, x| sum.max(x.abs()));
    let mut l = last;
    while l > 0 {
        let near = t[(l - 1) * n + l - 1].abs() + t[l * n + l].abs();
        let near = if near == 0.0 { norm } else { near };
        if t[l * n + l - 1].abs() <= f64::EPSILON * near {
            t[l * n + l - 1] = T::real(0.0);
            break;
        }
        l -= 1;
    }
    l
}

/// A rotation of two adjacent rows or columns, `[c s; -conj(s) c]`.
#[derive(Clone, Copy)]
struct Rotation {
    c: f64,
    s: C64,
}

impl Rotation {
    /// The rotation that makes `g` zero.
    fn zeroing(f: C64, g: C64) -> Self {
        let r = f.norm().hypot(g.norm());
        if r == 0.0 {
            return Self { c: 1.0, s: C64::ZERO };
        }
        let phase = if f.norm() == 0.0 { C64::ONE } else { f / f.norm() };
        Self { c: f.norm() / r, s: phase * g.conj() / r }
    }

    fn rows(self, a: &mut [C64], n: usize, k: usize, columns: std::ops::Range<usize>) {
        for j in columns {
            let (x, y) = (a[k * n + j], a[(k + 1) * n + j]);
            a[k * n + j] = x * self.c + self.s * y;
            a[(k + 1) * n + j] = y * self.c - self.s.conj() * x;
        }
    }

    /// Applies its adjoint from the right.
    fn columns(self, a: &mut [C64], n: usize, k: usize, rows: std::ops::Range<usize>) {
        for i in rows {
            let (x, y) = (a[i * n + k], a[i * n + k + 1]);
            a[i * n + k] = x * self.c + self.s.conj() * y;
            a[i * n + k + 1] = y * self.c - self.s * x;
        }
    }
}

/// Replaces `t` by the triangular form, `z` by the Schur vectors (unless it is empty), and `w` by the eigenvalues.
pub(super) fn complex(t: &mut [C64], z: &mut [C64], n: usize, w: &mut [C64]) -> bool {
    if n == 0 {
        return true;
    }
    if !finite(t) {
        return false;
    }
    prepare(t, z, n);
    let (mut last, mut steps) = (n - 1, 0);
    while last > 0 {
        let l = block(t, n, last);
        if l == last {
            (last, steps) = (last - 1, 0);
            continue;
        }
        steps += 1;
        if steps > STEPS {
            return false;
        }
        let at = |i: usize, j: usize| t[i * n + j];
        let shift = if steps % 10 == 0 {
            at(last, last) + C64::new(0.75 * at(last, last - 1).norm(), 0.0)
        } else {
            // The eigenvalue of the last two rows that is closer to the last element.
            let (a, b, c, d) = (at(last - 1, last - 1), at(last - 1, last), at(last, last - 1), at(last, last));
            let half = (a - d) * 0.5;
            let root = (half * half + b * c).sqrt();
            let near = if (half + root).norm() > (half - root).norm() { half + root } else { half - root };
            if near.norm() == 0.0 { d } else { d - b * c / near }
        };
        (l..=last).for_each(|i| t[i * n + i] -= shift);
        let rotations: Vec<Rotation> = (l..last)
            .map(|k| {
                let rotation = Rotation::zeroing(t[k * n + k], t[(k + 1) * n + k]);
                rotation.rows(t, n, k, k..n);
                rotation
            })
            .collect();
        for (k, rotation) in (l..last).zip(rotations) {
            rotation.columns(t, n, k, 0..k + 2);
            rotation.columns(z, n, k, 0..n);
        }
        (l..=last).for_each(|i| t[i * n + i] += shift);
    }
    for i in 0..n {
        t[i * n..i * n + i].fill(C64::ZERO);
        w[i] = t[i * n + i];
    }
    true
}

/// Replaces `t` by a form that is triangular except for blocks of two on the diagonal. In a block, the diagonal
/// elements are equal and the others differ in sign. `z` receives the Schur vectors, and `re` and `im` the eigenvalues.
pub(super) fn real(t: &mut [f64], z: &mut [f64], n: usize, re: &mut [f64], im: &mut [f64]) -> bool {
    if n == 0 {
        return true;
    }
    if !finite(t) {
        return false;
    }
    prepare(t, z, n);
    let (mut left, mut steps) = (n, 0);
    while left > 0 {
        let last = left - 1;
        let l = block(t, n, last);
        if l == last {
            (re[last], im[last]) = (t[last * n + last], 0.0);
            (left, steps) = (left - 1, 0);
        } else if l + 1 == last {
            let values = standardize(t, z, n, l);
            ((re[l], im[l]), (re[last], im[last])) = values;
            (left, steps) = (left - 2, 0);
        } else {
            steps += 1;
            if steps > STEPS {
                return false;
            }
            double_step(t, z, n, l, last, steps);
        }
    }
    true
}

/// Runs one step with two shifts on rows `l` to `last`. There must be at least three rows.
fn double_step(t: &mut [f64], z: &mut [f64], n: usize, l: usize, last: usize, step: usize) {
    let at = |i: usize, j: usize| t[i * n + j];
    let (mut x, mut y) = (at(last, last), at(last - 1, last - 1));
    let mut w = at(last, last - 1) * at(last - 1, last);
    if step.is_multiple_of(10) {
        let s = at(last, last - 1).abs() + at(last - 1, last - 2).abs();
        (x, y, w) = (0.75 * s, 0.75 * s, -0.4375 * s * s);
    }
    // The first column of (t - x)(t - y) - w. The step may begin as far down as small elements allow.
    let mut m = last - 2;
    let (mut p, mut q, mut r);
    loop {
        let d = at(m, m);
        let (dx, dy) = (x - d, y - d);
        p = (dx * dy - w) / at(m + 1, m) + at(m, m + 1);
        q = at(m + 1, m + 1) - d - dx - dy;
        r = at(m + 2, m + 1);
        let s = p.abs() + q.abs() + r.abs();
        (p, q, r) = (p / s, q / s, r / s);
        if m == l {
            break;
        }
        let small = at(m, m - 1).abs() * (q.abs() + r.abs());
        if small <= f64::EPSILON * p.abs() * (at(m - 1, m - 1).abs() + d.abs() + at(m + 1, m + 1).abs()) {
            break;
        }
        m -= 1;
    }
    for k in m..last {
        let three = k + 1 < last;
        let mut scale = 0.0;
        if k > m {
            (p, q) = (t[k * n + k - 1], t[(k + 1) * n + k - 1]);
            r = if three { t[(k + 2) * n + k - 1] } else { 0.0 };
            scale = p.abs() + q.abs() + r.abs();
            if scale == 0.0 {
                continue;
            }
            (p, q, r) = (p / scale, q / scale, r / scale);
        }
        let s = (p * p + q * q + r * r).sqrt().copysign(p);
        if s == 0.0 {
            continue;
        }
        if k > m {
            t[k * n + k - 1] = -s * scale;
            t[(k + 1) * n + k - 1] = 0.0;
            if three {
                t[(k + 2) * n + k - 1] = 0.0;
            }
        } else if l < m {
            t[k * n + k - 1] = -t[k * n + k - 1];
        }
        // The reflection I - u v with v = (1, q, r).
        p += s;
        let u = [p / s, q / s, r / s];
        let v = [1.0, q / p, r / p];
        let count = if three { 3 } else { 2 };
        for j in k..n {
            let dot: f64 = (0..count).map(|i| v[i] * t[(k + i) * n + j]).sum();
            (0..count).for_each(|i| t[(k + i) * n + j] -= dot * u[i]);
        }
        let apply = |a: &mut [f64], rows: usize| {
            for i in 0..rows {
                let row = &mut a[i * n + k..i * n + k + count];
                let dot: f64 = row.iter().zip(u).map(|(x, u)| x * u).sum();
                row.iter_mut().zip(v).for_each(|(x, v)| *x -= dot * v);
            }
        };
        apply(t, last.min(k + 3) + 1);
        apply(z, n);
    }
}

/// Rotates the block at `k` so that it is triangular, or has equal diagonal elements and two eigenvalues that are not
/// real. Returns the real and imaginary parts of its eigenvalues.
fn standardize(t: &mut [f64], z: &mut [f64], n: usize, k: usize) -> ((f64, f64), (f64, f64)) {
    let [a, b, c, d] = [(k, k), (k, k + 1), (k + 1, k), (k + 1, k + 1)].map(|(i, j)| t[i * n + j]);
    let half = 0.5 * (a - d);
    let discriminant = half * half + b * c;
    let (cs, sn) = if c == 0.0 {
        (1.0, 0.0)
    } else if discriminant >= 0.0 {
        // If the eigenvalues are real, the eigenvector of one becomes the first basis vector.
        let root = half + discriminant.sqrt().copysign(half);
        let length = c.hypot(root);
        (root / length, c / length)
    } else {
        // Otherwise, rotate by the angle that makes the diagonal elements equal.
        let sigma = b + c;
        let length = sigma.hypot(a - d);
        let cs = if length == 0.0 { 1.0 } else { (0.5 * (1.0 + sigma.abs() / length)).sqrt() };
        let sn = if length == 0.0 { 0.0 } else { -(half / (length * cs)) * 1f64.copysign(sigma) };
        (cs, sn)
    };
    for j in k..n {
        let (x, y) = (t[k * n + j], t[(k + 1) * n + j]);
        (t[k * n + j], t[(k + 1) * n + j]) = (cs * x + sn * y, cs * y - sn * x);
    }
    let columns = |a: &mut [f64], rows: usize| {
        for i in 0..rows {
            let (x, y) = (a[i * n + k], a[i * n + k + 1]);
            (a[i * n + k], a[i * n + k + 1]) = (cs * x + sn * y, cs * y - sn * x);
        }
    };
    columns(t, k + 2);
    columns(z, n);
    if discriminant >= 0.0 || c == 0.0 {
        t[(k + 1) * n + k] = 0.0;
        return ((t[k * n + k], 0.0), (t[(k + 1) * n + k + 1], 0.0));
    }
    let middle = 0.5 * (t[k * n + k] + t[(k + 1) * n + k + 1]);
    (t[k * n + k], t[(k + 1) * n + k + 1]) = (middle, middle);
    let imaginary = t[k * n + k + 1].abs().sqrt() * t[(k + 1) * n + k].abs().sqrt();
    ((middle, imaginary), (middle, -imaginary))
}
