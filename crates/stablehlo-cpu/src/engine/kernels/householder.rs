//! QR factorisation by Householder reflections, in LAPACK's packed form: `R` above the diagonal, the reflections'
//! vectors below it, and their factors in a separate array.

use bytemuck::{cast_slice, cast_slice_mut};

use super::linalg::Scalar;
use super::{Context, Kernel};
use crate::engine::stop::Stop;
use crate::error::RunError;

/// Batches of `m x n` factorisations. Outputs are the packed factors, which start as the input, and the `min(m, n)`
/// factors `tau`.
pub(crate) struct Qr {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) factor: fn(&Qr, &mut [u8], &mut [u8], Option<&Stop>),
}

impl Kernel for Qr {
    fn run(&self, _: &[&[u8]], outs: &mut [&mut [u8]], cx: &Context<'_>) -> Result<(), RunError> {
        let [a, tau] = outs else {
            return Err(RunError::Internal("two outputs are needed".into()));
        };
        (self.factor)(self, a, tau, cx.stop);
        Ok(())
    }
}

pub(crate) fn factor<T: Scalar>(qr: &Qr, a: &mut [u8], tau: &mut [u8], stop: Option<&Stop>) {
    let (m, n) = (qr.m, qr.n);
    if m * n == 0 {
        return;
    }
    let (a, tau): (&mut [T], &mut [T]) = (cast_slice_mut(a), cast_slice_mut(tau));
    for (a, tau) in a.chunks_exact_mut(m * n).zip(tau.chunks_exact_mut(m.min(n))) {
        for (k, tau) in tau.iter_mut().enumerate() {
            if Stop::check(stop).is_err() {
                return;
            }
            // The reflection that zeroes the column's elements below the diagonal.
            let alpha = a[k * n + k];
            let below = (k + 1..m).fold(0.0, |sum: f64, i| sum.hypot(a[i * n + k].abs()));
            if below == 0.0 && alpha.imaginary() == 0.0 {
                *tau = T::real(0.0);
                continue;
            }
            let beta = -alpha.abs().hypot(below).copysign(alpha.real_part());
            *tau = T::real(beta).sub(alpha).div(T::real(beta));
            let scale = T::real(1.0).div(alpha.sub(T::real(beta)));
            for i in k + 1..m {
                a[i * n + k] = a[i * n + k].mul(scale);
            }
            a[k * n + k] = T::real(beta);
            for j in k + 1..n {
                let mut dot = a[k * n + j];
                for i in k + 1..m {
                    dot = dot.add(a[i * n + k].conj().mul(a[i * n + j]));
                }
                let dot = dot.mul(tau.conj());
                a[k * n + j] = a[k * n + j].sub(dot);
                for i in k + 1..m {
                    a[i * n + j] = a[i * n + j].sub(a[i * n + k].mul(dot));
                }
            }
        }
    }
}

/// Batches of the first `n` columns of the product of `k` reflections of `m` elements. Inputs are the packed vectors
/// (`m x n`), which are also the output's initial contents, and the factors `tau`.
pub(crate) struct HouseholderProduct {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) form: fn(&HouseholderProduct, &[u8], &mut [u8], Option<&Stop>),
}

impl Kernel for HouseholderProduct {
    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], cx: &Context<'_>) -> Result<(), RunError> {
        (self.form)(self, ins[1], outs[0], cx.stop);
        Ok(())
    }
}

pub(crate) fn form<T: Scalar>(p: &HouseholderProduct, tau: &[u8], q: &mut [u8], stop: Option<&Stop>) {
    let (m, n, k) = (p.m, p.n, p.k);
    if m * n == 0 {
        return;
    }
    let (tau, q): (&[T], &mut [T]) = (cast_slice(tau), cast_slice_mut(q));
    let none: &[T] = &[];
    for (batch, q) in q.chunks_exact_mut(m * n).enumerate() {
        let tau = if k == 0 { none } else { &tau[batch * k..(batch + 1) * k] };
        for j in k..n {
            for i in 0..m {
                q[i * n + j] = T::real(if i == j { 1.0 } else { 0.0 });
            }
        }
        // Apply the reflections from the last to the first. The column of a reflection is overwritten after the
        // reflection was applied.
        for r in (0..k).rev() {
            if Stop::check(stop).is_err() {
                return;
            }
            let v = |i: usize, q: &[T]| if i == r { T::real(1.0) } else { q[i * n + r] };
            for j in r + 1..n {
                let dot = (r..m).fold(T::real(0.0), |sum, i| sum.add(v(i, q).conj().mul(q[i * n + j])));
                let dot = dot.mul(tau[r]);
                for i in r..m {
                    q[i * n + j] = q[i * n + j].sub(v(i, q).mul(dot));
                }
            }
            for i in 0..m {
                let unit = T::real(if i == r { 1.0 } else { 0.0 });
                q[i * n + r] = if i < r { unit } else { unit.sub(v(i, q).mul(tau[r])) };
            }
        }
    }
}
