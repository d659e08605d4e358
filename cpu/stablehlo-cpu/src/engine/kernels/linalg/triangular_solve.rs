//! Solutions of triangular systems of equations. Large systems are solved by blocks of rows, with matrix products.

use bytemuck::{cast_slice, cast_slice_mut};
use stablehlo_cpu_math::faer::{Accum, Conj, MatMut, MatRef};

use super::scalar::{Field, Scalar, in_field};
use crate::engine::kernels::{Context, Kernel};
use crate::error::RunError;

/// Number of rows of a block.
const BLOCK: usize = 64;
/// Minimum number of rows for a solution by blocks. Smaller systems are solved element by element.
const SMALL: usize = 16;

/// Solutions of `op(a) x = b` or `x op(a) = b` for a batch. The inputs are `a` and `b`. The output starts as a copy of
/// `b`.
pub(crate) struct TriangularSolve {
    pub(crate) n: usize,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) left: bool,
    pub(crate) lower: bool,
    pub(crate) unit: bool,
    pub(crate) transpose: bool,
    /// Whether `op` conjugates the elements of `a`.
    pub(crate) conjugate: bool,
    pub(crate) field: Field,
}

impl Kernel for TriangularSolve {
    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], cx: &Context<'_>) -> Result<(), RunError> {
        in_field!(self.field, T => self.solve::<T>(ins[0], outs[0], cx))
    }
}

impl TriangularSolve {
    fn solve<T: Scalar>(&self, a: &[u8], x: &mut [u8], cx: &Context<'_>) -> Result<(), RunError> {
        let n = self.n;
        let (a, x): (&[T], &mut [T]) = (cast_slice(a), cast_slice_mut(x));
        if x.is_empty() {
            return Ok(());
        }
        for (a, x) in a.chunks_exact(n * n).zip(x.chunks_exact_mut(self.rows * self.columns)) {
            cx.check()?;
            // `large` multiplies by reciprocals of the diagonal, so they must be finite.
            let is_finite = |d: &T| d.reciprocal().abs().is_finite();
            if n < SMALL || !(self.unit || a.iter().step_by(n + 1).all(is_finite)) {
                self.small(a, x);
            } else {
                self.large(a, x, cx)?;
            }
        }
        Ok(())
    }

    /// Returns whether `a` is used transposed. `x op(a) = b` is solved as `op(a)^T x^T = b^T`.
    fn flipped(&self) -> bool {
        self.transpose == self.left
    }

    /// Solves one system element by element. `x` contains the right-hand sides and receives the solutions.
    fn small<T: Scalar>(&self, a: &[T], x: &mut [T]) {
        let n = self.n;
        let flipped = self.flipped();
        let at = |i: usize, k: usize| if flipped { k * n + i } else { i * n + k };
        let forwards = self.lower != flipped;
        let (across, step, line) =
            if self.left { (self.columns, self.columns, 1) } else { (self.rows, 1, self.columns) };
        for position in 0..n {
            let i = if forwards { position } else { n - 1 - position };
            for done in 0..position {
                let k = if forwards { done } else { n - 1 - done };
                let factor = if self.conjugate { a[at(i, k)].conj() } else { a[at(i, k)] };
                for c in 0..across {
                    let known = x[k * step + c * line];
                    let target = &mut x[i * step + c * line];
                    *target = target.sub(factor.mul(known));
                }
            }
            if !self.unit {
                let d = if self.conjugate { a[at(i, i)].conj() } else { a[at(i, i)] };
                for c in 0..across {
                    let target = &mut x[i * step + c * line];
                    *target = target.div(d);
                }
            }
        }
    }

    /// Solves one system like [`small`](Self::small), but by blocks of rows.
    fn large<T: Scalar>(&self, a: &[T], x: &mut [T], cx: &Context<'_>) -> Result<(), RunError> {
        let n = self.n;
        let mut a = MatRef::from_row_major_slice(a, n, n);
        let mut x = MatMut::from_row_major_slice_mut(x, self.rows, self.columns);
        if self.flipped() {
            a = a.transpose();
        }
        if !self.left {
            x = x.transpose_mut();
        }
        if self.lower == self.flipped() {
            // An upper triangle with its rows and columns reversed is a lower triangle.
            a = a.reverse_rows_and_cols();
            x = x.reverse_rows_mut();
        }
        let conjugate = if self.conjugate { Conj::Yes } else { Conj::No };
        for first in (0..n).step_by(BLOCK) {
            cx.check()?;
            let count = BLOCK.min(n - first);
            let (done, rest) = x.as_mut().split_at_row_mut(first);
            let mut block = rest.subrows_mut(0, count);
            let before = (a.submatrix(first, 0, count, first), conjugate);
            T::multiply(block.as_mut(), Accum::Add, before, (done.as_ref(), Conj::No), T::real(-1.0));
            let triangle = (a.submatrix(first, first, count, count), conjugate);
            T::solve_lower_triangular(triangle, self.unit, block);
        }
        Ok(())
    }
}
