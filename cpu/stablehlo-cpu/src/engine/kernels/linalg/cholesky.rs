//! Cholesky factorization. Large matrices are factorized by blocks of columns, so that matrix multiplications do most
//! of the work.

use bytemuck::{cast_slice, cast_slice_mut};
use stablehlo_cpu_math::faer::dyn_stack::{MemBuffer, MemStack};
use stablehlo_cpu_math::faer::{Accum, Conj, Mat, MatMut};

use super::scalar::{Field, Scalar, in_field};
use crate::engine::kernels::{Context, Kernel};
use crate::error::RunError;

/// Number of columns of a block.
const BLOCK: usize = 32;
/// Minimum number of rows for a factorization by blocks. Smaller matrices are factorized element by element.
const SMALL: usize = 32;

/// Cholesky factorizations of a batch of `n x n` matrices. The kernel reads only the triangle that `lower` selects, and
/// fills the other triangle of each result with zeros.
pub(crate) struct Cholesky {
    pub(crate) n: usize,
    pub(crate) lower: bool,
    pub(crate) field: Field,
}

impl Kernel for Cholesky {
    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], cx: &Context<'_>) -> Result<(), RunError> {
        in_field!(self.field, T => self.factor::<T>(ins[0], outs[0], cx))
    }
}

impl Cholesky {
    fn factor<T: Scalar>(&self, a: &[u8], out: &mut [u8], cx: &Context<'_>) -> Result<(), RunError> {
        let n = self.n;
        if n == 0 {
            return Ok(());
        }
        let (a, out): (&[T], &mut [T]) = (cast_slice(a), cast_slice_mut(out));
        let own = |i: usize| if self.lower { 0..i + 1 } else { i..n };
        for (a, l) in a.chunks_exact(n * n).zip(out.chunks_exact_mut(n * n)) {
            l.fill(T::zeroed());
            for (i, (a, l)) in a.chunks_exact(n).zip(l.chunks_exact_mut(n)).enumerate() {
                l[own(i)].copy_from_slice(&a[own(i)]);
            }
            // A matrix that is not positive definite has no factor. Fill the triangle with NaN, like XLA.
            let definite = if n < SMALL { self.small(l, cx)? } else { self.large(l, cx)? };
            if !definite {
                for (i, l) in l.chunks_exact_mut(n).enumerate() {
                    l.fill(T::zeroed());
                    l[own(i)].fill(T::real(f64::NAN));
                }
            }
        }
        Ok(())
    }

    /// Factorizes a matrix in place, element by element. `l` contains its selected triangle and receives the factor.
    /// Returns whether the matrix is positive definite.
    fn small<T: Scalar>(&self, l: &mut [T], cx: &Context<'_>) -> Result<bool, RunError> {
        let n = self.n;
        // Index of row i, column j of the lower factor, in either layout.
        let at = |i: usize, j: usize| if self.lower { i * n + j } else { j * n + i };
        cx.check()?;
        for j in 0..n {
            let mut d = l[at(j, j)];
            for k in 0..j {
                d = d.sub(l[at(j, k)].mul(l[at(j, k)].conj()));
            }
            if d.real_part().is_nan() || d.real_part() <= 0.0 {
                return Ok(false);
            }
            let d = d.root();
            l[at(j, j)] = d;
            for i in j + 1..n {
                let mut s = l[at(i, j)];
                for k in 0..j {
                    // The expression is the same for both layouts, because the transpose of the upper factor is the
                    // conjugate of the lower factor.
                    s = s.sub(l[at(i, k)].mul(l[at(j, k)].conj()));
                }
                l[at(i, j)] = s.div(d);
            }
        }
        Ok(true)
    }

    /// Factorizes a matrix in place, like [`small`](Self::small) but by blocks of columns. Returns whether the matrix
    /// is positive definite.
    fn large<T: Scalar>(&self, l: &mut [T], cx: &Context<'_>) -> Result<bool, RunError> {
        let n = self.n;
        let mut l = MatMut::from_row_major_slice_mut(l, n, n);
        if !self.lower {
            // The transpose of the upper factor is the lower factor of the transposed matrix.
            l = l.transpose_mut();
        }
        let mut memory = MemBuffer::new(T::cholesky_scratch(BLOCK));
        for first in (0..n).step_by(BLOCK) {
            cx.check()?;
            let count = BLOCK.min(n - first);
            let (done, rest) = l.as_mut().subrows_mut(first, n - first).split_at_col_mut(first);
            let done = done.as_ref();
            let mut block = rest.subcols_mut(0, count);
            let across = (done.subrows(0, count).transpose(), Conj::Yes);
            T::multiply(block.as_mut(), Accum::Add, (done, Conj::No), across, T::real(-1.0));
            let (mut diagonal, below) = block.split_at_row_mut(count);
            // Copy the diagonal block, because `faer` factorizes column-major matrices faster.
            let mut square = Mat::from_fn(count, count, |i, j| match i == j {
                true => T::real(diagonal[(i, i)].real_part()),
                false => diagonal[(i, j)],
            });
            if !T::cholesky(square.as_mut(), MemStack::new(&mut memory)) {
                return Ok(false);
            }
            for j in 0..count {
                (0..j).for_each(|i| diagonal[(i, j)] = T::zeroed());
                (j..count).for_each(|i| diagonal[(i, j)] = square[(i, j)]);
            }
            T::solve_lower_triangular((square.as_ref(), Conj::Yes), false, below.transpose_mut());
        }
        Ok(true)
    }
}
