//! LAPACK routines, with their operands and results.

use bytemuck::{cast_slice, cast_slice_mut};
use num_complex::Complex;

use super::precision::Precision;
use super::{hermitian, lu, packed, schur, singular, spectral, tridiagonal};
use crate::engine::dtype::DType;
use crate::engine::kernels::linalg::scalar::{C64, Scalar};
use crate::engine::kernels::{Context, Kernel};
use crate::error::RunError;

/// A LAPACK routine. The documentation of each variant lists its results in order. Each operand and each result
/// contains one item per matrix of the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Routine {
    /// `syevd`, `heevd`: eigenvectors, eigenvalues in ascending order, info. Only one triangle is read.
    Symmetric { lower: bool },
    /// `gesdd`, `gesvd`: a copy of the operand, singular values in descending order, `u`, the adjoint of `v`, info.
    Singular { full: bool, vectors: bool },
    /// `geev`: eigenvalues (real and imaginary parts separately if the matrix is real), left eigenvectors, right
    /// eigenvectors, info.
    General { left: bool, right: bool, precision: Precision },
    /// `gees`: Schur form, Schur vectors, eigenvalues as in `General`, the number of selected eigenvalues (always 0),
    /// info.
    Schur { precision: Precision },
    /// `gehrd`: packed Hessenberg form, scalar factors of the reflections, info.
    Hessenberg,
    /// `sytrd`, `hetrd`: packed tridiagonal form, diagonal, off-diagonal, scalar factors of the reflections, info.
    Tridiagonal { lower: bool },
    /// `getrf`: packed factors, one-based indices of the exchanged rows, info.
    Lu,
    /// XLA's `LuDecomposition`: packed factors, zero-based indices of the exchanged rows, zero-based order of the rows.
    PermutedLu,
    /// `geqp3`: packed factors, one-based order of the columns, scalar factors of the reflections. The second operand
    /// selects columns that are moved to the front.
    PivotedQr,
    /// `gtsv`: the diagonals of the triangular factor, the solutions, info. The operands are the diagonals of the
    /// matrix and the right-hand sides, a matrix of `m` rows. With `perturb`, the matrix may be singular, and the only
    /// result is the solutions.
    ThreeDiagonals { perturb: Option<Precision> },
}

impl Routine {
    /// Returns whether the routine computes in the precision of its operands. The other routines need operands in
    /// double precision.
    pub(crate) fn is_native(self) -> bool {
        matches!(self, Self::Symmetric { .. } | Self::Singular { .. } | Self::Lu | Self::PermutedLu)
    }
}

/// A routine on a batch of `m x n` matrices.
pub(crate) struct Lapack {
    pub(crate) routine: Routine,
    pub(crate) m: usize,
    pub(crate) n: usize,
    /// Number of matrices.
    pub(crate) batch: usize,
    /// Element type of the matrices. It is `F64` or `C128`, or for native routines also `F32` or `C64`. See
    /// [`Routine::is_native`].
    pub(crate) dtype: DType,
}

/// Returns the bytes of an operand that belong to matrix `index` of the batch.
fn part(bytes: &[u8], index: usize, batch: usize) -> &[u8] {
    let size = bytes.len() / batch.max(1);
    &bytes[index * size..(index + 1) * size]
}

impl Kernel for Lapack {
    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], cx: &Context<'_>) -> Result<(), RunError> {
        // Clear the results, because a routine does not write all of them. It skips results that were not requested,
        // and it may write none if it fails.
        outs.iter_mut().for_each(|out| out.fill(0));
        let sizes: Vec<usize> = outs.iter().map(|out| out.len() / self.batch.max(1)).collect();
        for index in 0..self.batch {
            cx.check()?;
            let ins: Vec<&[u8]> = ins.iter().map(|bytes| part(bytes, index, self.batch)).collect();
            let mut outs: Vec<&mut [u8]> =
                outs.iter_mut().zip(&sizes).map(|(out, size)| &mut out[index * size..(index + 1) * size]).collect();
            let done = match self.dtype {
                DType::F64 => self.real_one(&ins, &mut outs),
                DType::C128 => self.complex_one(&ins, &mut outs),
                DType::F32 => self.native::<f32>(&ins, &mut outs),
                DType::C64 => self.native::<Complex<f32>>(&ins, &mut outs),
                _ => None,
            };
            done.ok_or_else(|| RunError::Internal(format!("{:?} with {} results", self.routine, outs.len())))?;
        }
        Ok(())
    }

    fn scratch(&self, _: &[usize], _: &[usize]) -> usize {
        // The number of matrices that a routine keeps beside its results, as measured for 500 to 1200 rows, rounded up.
        // The routines run one after the other.
        let matrices = match self.routine {
            Routine::Symmetric { .. } => 5,
            Routine::Singular { vectors: true, .. } => 9,
            Routine::Singular { vectors: false, .. } => 2,
            Routine::General { .. } => 8,
            Routine::Schur { .. } => 2,
            Routine::Hessenberg | Routine::Tridiagonal { .. } => 0,
            Routine::Lu | Routine::PermutedLu | Routine::PivotedQr => 0,
            Routine::ThreeDiagonals { .. } => return 3 * self.m.saturating_mul(self.dtype.size()),
        };
        self.m.max(self.n).saturating_pow(2).saturating_mul(matrices * self.dtype.size())
    }
}

/// Stores 0 in `info` if the routine succeeded, and 1 if it failed. Always returns `Some`.
fn tell(info: &mut [u8], success: bool) -> Option<()> {
    info.copy_from_slice(&i32::from(!success).to_ne_bytes());
    Some(())
}

impl Lapack {
    fn real_one(&self, ins: &[&[u8]], outs: &mut [&mut [u8]]) -> Option<()> {
        let a: &[f64] = cast_slice(ins.first()?);
        match (self.routine, outs) {
            (Routine::General { left, right, precision }, [re, im, vl, vr, info]) => {
                let (re, im) = (cast_slice_mut(re), cast_slice_mut(im));
                let vectors = [left.then(|| cast_slice_mut(vl)), right.then(|| cast_slice_mut(vr))];
                tell(info, spectral::general_real(a, self.n, re, im, vectors, precision))
            }
            (Routine::Schur { precision }, [t, vs, re, im, sorted, info]) => {
                let (t, re, im): (&mut [f64], &mut [f64], &mut [f64]) =
                    (cast_slice_mut(t), cast_slice_mut(re), cast_slice_mut(im));
                sorted.fill(0);
                t.copy_from_slice(a);
                tell(info, schur::real(t, cast_slice_mut(vs), self.n, re, im, precision))
            }
            (_, outs) => self.common::<f64>(a, ins, outs),
        }
    }

    fn complex_one(&self, ins: &[&[u8]], outs: &mut [&mut [u8]]) -> Option<()> {
        let a: &[C64] = cast_slice(ins.first()?);
        match (self.routine, outs) {
            (Routine::General { left, right, precision }, [w, vl, vr, info]) => {
                let vectors = [left.then(|| cast_slice_mut(vl)), right.then(|| cast_slice_mut(vr))];
                tell(info, spectral::general_complex(a, self.n, cast_slice_mut(w), vectors, precision))
            }
            (Routine::Schur { precision }, [t, vs, w, sorted, info]) => {
                let t: &mut [C64] = cast_slice_mut(t);
                sorted.fill(0);
                t.copy_from_slice(a);
                tell(info, schur::complex(t, cast_slice_mut(vs), self.n, cast_slice_mut(w), precision))
            }
            (_, outs) => self.common::<C64>(a, ins, outs),
        }
    }

    /// Runs the routines that compute in the precision of their operands.
    fn native<T: Scalar<Real: Scalar>>(&self, ins: &[&[u8]], outs: &mut [&mut [u8]]) -> Option<()> {
        let a: &[T] = cast_slice(ins.first()?);
        let (m, n) = (self.m, self.n);
        match (self.routine, outs) {
            (Routine::Symmetric { lower }, [v, w, info]) => {
                tell(info, hermitian::decompose(a, n, lower, cast_slice_mut(v), cast_slice_mut(w)))
            }
            (Routine::Singular { full, vectors }, [copy, s, u, vt, info]) => {
                copy.copy_from_slice(cast_slice(a));
                let vectors = vectors.then_some((cast_slice_mut(u), cast_slice_mut(vt), full));
                tell(info, singular::decompose(a, m, n, cast_slice_mut(s), vectors))
            }
            (Routine::Lu, [factors, rows, info]) => {
                let factors: &mut [T] = cast_slice_mut(factors);
                factors.copy_from_slice(a);
                let zero = lu::lu(factors, m, n, cast_slice_mut(rows));
                info.copy_from_slice(&zero.to_ne_bytes());
                Some(())
            }
            (Routine::PermutedLu, [factors, rows, order]) => {
                let factors: &mut [T] = cast_slice_mut(factors);
                let (rows, order): (&mut [i32], &mut [i32]) = (cast_slice_mut(rows), cast_slice_mut(order));
                factors.copy_from_slice(a);
                lu::lu(factors, m, n, rows);
                (0..).zip(order.iter_mut()).for_each(|(row, place)| *place = row);
                for (row, exchanged) in rows.iter_mut().enumerate() {
                    *exchanged -= 1;
                    order.swap(row, usize::try_from(*exchanged).ok()?);
                }
                Some(())
            }
            _ => None,
        }
    }

    /// Runs the routines whose code is the same for real and complex matrices.
    fn common<T: Scalar<Real: Scalar>>(&self, a: &[T], ins: &[&[u8]], outs: &mut [&mut [u8]]) -> Option<()> {
        let (m, n) = (self.m, self.n);
        match (self.routine, outs) {
            (routine, outs) if routine.is_native() => self.native::<T>(ins, outs),
            (Routine::Hessenberg, [h, tau, info]) => {
                let h: &mut [T] = cast_slice_mut(h);
                h.copy_from_slice(a);
                packed::hessenberg(h, n, cast_slice_mut(tau));
                tell(info, true)
            }
            (Routine::Tridiagonal { lower }, [t, d, e, tau, info]) => {
                let t: &mut [T] = cast_slice_mut(t);
                t.copy_from_slice(a);
                packed::tridiagonal(t, n, lower, cast_slice_mut(d), cast_slice_mut(e), cast_slice_mut(tau));
                tell(info, true)
            }
            (Routine::PivotedQr, [qr, columns, tau]) => {
                let (qr, columns): (&mut [T], &mut [i32]) = (cast_slice_mut(qr), cast_slice_mut(columns));
                qr.copy_from_slice(a);
                columns.copy_from_slice(cast_slice(ins.get(1)?));
                packed::pivoted_qr(qr, m, n, columns, cast_slice_mut(tau));
                Some(())
            }
            (Routine::ThreeDiagonals { perturb: None }, [below, d, above, x, info]) => {
                for (to, from) in [&mut *below, &mut *d, &mut *above, &mut *x].into_iter().zip(ins) {
                    to.copy_from_slice(from);
                }
                let diagonals = [below, d, above].map(|diagonal| cast_slice_mut(diagonal));
                let zero = tridiagonal::solve::<T>(diagonals, cast_slice_mut(x), None);
                info.copy_from_slice(&zero.to_ne_bytes());
                Some(())
            }
            (Routine::ThreeDiagonals { perturb }, [x]) => {
                let [below, d, above, b] = ins else { return None };
                x.copy_from_slice(b);
                let mut diagonals = [below, d, above].map(|diagonal| cast_slice::<u8, T>(diagonal).to_vec());
                let diagonals = diagonals.each_mut().map(Vec::as_mut_slice);
                tridiagonal::solve(diagonals, cast_slice_mut(x), perturb);
                Some(())
            }
            _ => None,
        }
    }
}
