//! QR factorization by Householder reflections, in LAPACK's packed form: `R` on and above the diagonal, the vectors of
//! the reflections below it, and their scalar factors `tau` in a separate array.

use bytemuck::{cast_slice, cast_slice_mut};
use stablehlo_cpu_math::faer::MatMut;

use super::reflections::Panel;
use super::scalar::{Field, Scalar, in_field};
use crate::engine::kernels::{Context, Kernel};
use crate::engine::stop::Stop;
use crate::error::RunError;

/// Number of reflections that are applied together, by matrix products.
const BLOCK: usize = 32;

/// QR factorizations of a batch of `m x n` matrices. The first output initially holds the matrices and receives the
/// packed factorizations. The second output receives the `min(m, n)` scalar factors `tau` of each matrix.
pub(crate) struct Qr {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) field: Field,
}

impl Kernel for Qr {
    fn run(&self, _: &[&[u8]], outs: &mut [&mut [u8]], cx: &Context<'_>) -> Result<(), RunError> {
        let [a, tau] = outs else {
            return Err(RunError::Internal("two outputs are needed".into()));
        };
        in_field!(self.field, T => self.factor::<T>(a, tau, cx))
    }
}

impl Qr {
    fn factor<T: Scalar>(&self, a: &mut [u8], tau: &mut [u8], cx: &Context<'_>) -> Result<(), RunError> {
        let (m, n) = (self.m, self.n);
        if m * n == 0 {
            return Ok(());
        }
        let (a, tau): (&mut [T], &mut [T]) = (cast_slice_mut(a), cast_slice_mut(tau));
        let mut panel = Panel::new();
        for (a, tau) in a.chunks_exact_mut(m * n).zip(tau.chunks_exact_mut(m.min(n))) {
            for (block, tau) in tau.chunks_mut(BLOCK).enumerate() {
                cx.check()?;
                let first = block * BLOCK;
                panel.read(a, n, first, tau.len());
                tau.copy_from_slice(panel.reduce());
                panel.write(a, n, first);
                if let Some(later) = later(a, n, first, tau.len()) {
                    panel.multiply(later, true);
                }
            }
        }
        Ok(())
    }
}

/// Returns the trailing submatrix of a matrix with `n` columns, for a block of `count` columns that starts at column
/// `first`. The submatrix starts at row `first`, in the column after the block. Returns `None` for the last block.
fn later<T>(a: &mut [T], n: usize, first: usize, count: usize) -> Option<MatMut<'_, T>> {
    let (m, next) = (a.len() / n, first + count);
    (next < n).then(|| MatMut::from_row_major_slice_mut(a, m, n).submatrix_mut(first, next, m - first, n - next))
}

/// The first `n` columns of the product of `k` reflections of `m` elements, for a batch. The inputs are the packed
/// vectors (`m x n`) and the scalar factors `tau`. The output starts as a copy of the packed vectors.
pub(crate) struct HouseholderProduct {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) field: Field,
}

impl Kernel for HouseholderProduct {
    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], cx: &Context<'_>) -> Result<(), RunError> {
        in_field!(self.field, T => self.form::<T>(ins[1], outs[0], cx))
    }
}

impl HouseholderProduct {
    fn form<T: Scalar>(&self, tau: &[u8], q: &mut [u8], cx: &Context<'_>) -> Result<(), RunError> {
        let (m, n, k) = (self.m, self.n, self.k);
        if m * n == 0 {
            return Ok(());
        }
        let (tau, q): (&[T], &mut [T]) = (cast_slice(tau), cast_slice_mut(q));
        let mut panel = Panel::new();
        for (batch, q) in q.chunks_exact_mut(m * n).enumerate() {
            cx.check()?;
            form(&tau[batch * k..(batch + 1) * k], q, n, &mut panel, cx.stop);
        }
        Ok(())
    }
}

/// Replaces the packed vectors of reflections by the first `n` columns of the product of the reflections. `panel`
/// provides memory for a block of columns. Returns early after a stop request.
pub(super) fn form<T: Scalar>(tau: &[T], q: &mut [T], n: usize, panel: &mut Panel<T>, stop: Option<&Stop>) {
    let k = tau.len();
    for (i, row) in q.chunks_exact_mut(n).enumerate() {
        row[k..].iter_mut().zip(k..).for_each(|(x, j)| *x = T::real(if i == j { 1.0 } else { 0.0 }));
    }
    // Apply the reflections from the last to the first. The columns of a block are overwritten only after the block was
    // applied to the later columns.
    for (block, tau) in tau.chunks(BLOCK).enumerate().rev() {
        if Stop::check(stop).is_err() {
            return;
        }
        let first = block * BLOCK;
        panel.read(q, n, first, tau.len());
        panel.set_factors(tau);
        if let Some(later) = later(q, n, first, tau.len()) {
            panel.multiply(later, false);
        }
        panel.form();
        panel.write(q, n, first);
        for row in q.chunks_exact_mut(n).take(first) {
            row[first..first + tau.len()].fill(T::real(0.0));
        }
    }
}
