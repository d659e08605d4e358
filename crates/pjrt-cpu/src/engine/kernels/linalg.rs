//! `cholesky` and `triangular_solve`, by their definitions.

use bytemuck::{Pod, cast_slice, cast_slice_mut};

use super::Kernel;
use crate::engine::elementwise::num::Real;
use crate::engine::error::RunError;
use crate::engine::pool::Pool;

/// Batches of `n x n` factorisations; the half not asked for is zero.
pub(crate) struct Cholesky {
    pub(crate) n: usize,
    pub(crate) lower: bool,
    pub(crate) wide: bool,
}

impl Kernel for Cholesky {
    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], _: &Pool) -> Result<(), RunError> {
        if self.wide {
            self.factor::<f64>(ins[0], outs[0])
        } else {
            self.factor::<f32>(ins[0], outs[0])
        }
        Ok(())
    }
}

impl Cholesky {
    fn factor<T: Real + Pod>(&self, a: &[u8], out: &mut [u8]) {
        let n = self.n;
        if n == 0 {
            return;
        }
        let (a, out): (&[T], &mut [T]) = (cast_slice(a), cast_slice_mut(out));
        // Row i, column j of the lower factor, in either layout.
        let at = |i: usize, j: usize| if self.lower { i * n + j } else { j * n + i };
        for (a, l) in a.chunks_exact(n * n).zip(out.chunks_exact_mut(n * n)) {
            l.fill(T::zeroed());
            for j in 0..n {
                let mut d = a[at(j, j)];
                for k in 0..j {
                    d = d.sub(l[at(j, k)].mul(l[at(j, k)]));
                }
                let d = d.sqrt();
                l[at(j, j)] = d;
                for i in j + 1..n {
                    let mut s = a[at(i, j)];
                    for k in 0..j {
                        s = s.sub(l[at(i, k)].mul(l[at(j, k)]));
                    }
                    l[at(i, j)] = s.div(d);
                }
            }
        }
    }
}

/// Batches of solutions of `op(a) x = b` or `x op(a) = b`. The output starts as `b`. Inputs: `a`, `b`.
pub(crate) struct TriangularSolve {
    pub(crate) n: usize,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) left: bool,
    pub(crate) lower: bool,
    pub(crate) unit: bool,
    pub(crate) transpose: bool,
    pub(crate) wide: bool,
}

impl Kernel for TriangularSolve {
    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], _: &Pool) -> Result<(), RunError> {
        if self.wide {
            self.solve::<f64>(ins[0], outs[0])
        } else {
            self.solve::<f32>(ins[0], outs[0])
        }
        Ok(())
    }
}

impl TriangularSolve {
    fn solve<T: Real + Pod>(&self, a: &[u8], x: &mut [u8]) {
        let n = self.n;
        let (a, x): (&[T], &mut [T]) = (cast_slice(a), cast_slice_mut(x));
        if x.is_empty() {
            return;
        }
        // x op(a) = b is op(a)^T x^T = b^T: transposed once more, with x read by columns.
        let flipped = self.transpose == self.left;
        let at = |i: usize, k: usize| if flipped { k * n + i } else { i * n + k };
        let forwards = self.lower != flipped;
        let (across, step, line) =
            if self.left { (self.columns, self.columns, 1) } else { (self.rows, 1, self.columns) };
        for (a, x) in a.chunks_exact(n * n).zip(x.chunks_exact_mut(self.rows * self.columns)) {
            for position in 0..n {
                let i = if forwards { position } else { n - 1 - position };
                for done in 0..position {
                    let k = if forwards { done } else { n - 1 - done };
                    let factor = a[at(i, k)];
                    for c in 0..across {
                        let known = x[k * step + c * line];
                        let target = &mut x[i * step + c * line];
                        *target = target.sub(factor.mul(known));
                    }
                }
                if !self.unit {
                    let d = a[at(i, i)];
                    for c in 0..across {
                        let target = &mut x[i * step + c * line];
                        *target = target.div(d);
                    }
                }
            }
        }
    }
}
