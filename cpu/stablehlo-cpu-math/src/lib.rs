//! The generic functions of `faer`, `rustfft` and `realfft` that `stablehlo-cpu` calls, for its element types.
//!
//! Each method of [`Dense`] and [`Signal`] calls one function of these crates. The implementations are not generic, so
//! this crate contains their machine code, and crates that call them do not compile it again. All functions of
//! [`Dense`] run on the calling thread.

use std::sync::Arc;

pub use faer;
pub use realfft::{ComplexToReal, RealToComplex};
pub use rustfft::Fft;

use faer::diag::DiagMut;
use faer::dyn_stack::{MemStack, StackReq};
use faer::linalg::cholesky::llt;
use faer::linalg::evd::{self, ComputeEigenvectors, tridiag};
use faer::linalg::matmul::matmul_with_conj;
use faer::linalg::svd::{self, ComputeSvdVectors, SvdParams, bidiag};
use faer::linalg::{householder, triangular_solve};
use faer::prelude::default;
use faer::traits::ComplexField;
use faer::{Accum, Auto, Conj, MatMut, MatRef, Par, Spec};
use num_complex::Complex;
use realfft::RealFftPlanner;
use rustfft::{FftNum, FftPlanner};

/// A matrix, and whether to read its elements as their conjugates.
pub type Factor<'a, T> = (MatRef<'a, T>, Conj);

/// An element type of matrices.
pub trait Dense: ComplexField {
    /// Computes `alpha a b`, and stores it in `to` or adds it to `to`.
    fn multiply(to: MatMut<'_, Self>, accum: Accum, a: Factor<'_, Self>, b: Factor<'_, Self>, alpha: Self);

    /// Returns the memory that [`cholesky`](Self::cholesky) needs for a matrix of `n` rows.
    fn cholesky_scratch(n: usize) -> StackReq;

    /// Replaces the lower triangle of a Hermitian matrix by its Cholesky factor. Returns whether the matrix is positive
    /// definite.
    fn cholesky(a: MatMut<'_, Self>, stack: &mut MemStack) -> bool;

    /// Replaces `x` by the solution of a lower triangular system. If `unit` is set, the diagonal of `a` counts as ones.
    fn solve_lower_triangular(a: Factor<'_, Self>, unit: bool, x: MatMut<'_, Self>);

    /// Returns the memory that [`tridiagonalize`](Self::tridiagonalize) and
    /// [`apply_reflections`](Self::apply_reflections) need for a matrix of `n` rows, and for `block` reflections at a
    /// time.
    fn tridiagonal_scratch(n: usize, block: usize) -> StackReq;

    /// Reduces a Hermitian matrix to tridiagonal form by Householder reflections, of which it reads the lower triangle.
    fn tridiagonalize(a: MatMut<'_, Self>, reflections: MatMut<'_, Self>, stack: &mut MemStack);

    /// Applies the reflections whose vectors are the columns of `basis` to `to`, from the left.
    fn apply_reflections(
        basis: MatRef<'_, Self>,
        reflections: MatRef<'_, Self>,
        to: MatMut<'_, Self>,
        stack: &mut MemStack,
    );

    /// Returns the memory that [`bidiagonalize`](Self::bidiagonalize) needs.
    fn bidiagonal_scratch(rows: usize, columns: usize) -> StackReq;

    /// Reduces a matrix to bidiagonal form by Householder reflections.
    fn bidiagonalize(a: MatMut<'_, Self>, left: MatMut<'_, Self>, right: MatMut<'_, Self>, stack: &mut MemStack);

    /// Returns the memory that [`singular_values`](Self::singular_values) needs for a `rows x columns` matrix.
    fn singular_scratch(rows: usize, columns: usize, kind: ComputeSvdVectors, recursive_rows: usize) -> StackReq;

    /// Computes the singular values `s` and, if wanted, the singular vectors `u` and `v`. Matrices of fewer than
    /// `recursive_rows` rows are decomposed by QR iterations. Returns whether the algorithm converged.
    fn singular_values(
        a: MatRef<'_, Self>,
        s: DiagMut<'_, Self>,
        u: Option<MatMut<'_, Self>>,
        v: Option<MatMut<'_, Self>>,
        recursive_rows: usize,
        stack: &mut MemStack,
    ) -> bool;
}

fn with_recursive_rows<T: ComplexField>(recursive_rows: usize) -> Spec<SvdParams, T> {
    Spec::new(SvdParams { recursion_threshold: recursive_rows, ..<SvdParams as Auto<T>>::auto() })
}

macro_rules! dense {
    ($($t:ty),*) => {
        $(impl Dense for $t {
            fn multiply(to: MatMut<'_, Self>, accum: Accum, a: Factor<'_, Self>, b: Factor<'_, Self>, alpha: Self) {
                matmul_with_conj(to, accum, a.0, a.1, b.0, b.1, alpha, Par::Seq);
            }

            fn cholesky_scratch(n: usize) -> StackReq {
                llt::factor::cholesky_in_place_scratch::<Self>(n, Par::Seq, default())
            }

            fn cholesky(a: MatMut<'_, Self>, stack: &mut MemStack) -> bool {
                llt::factor::cholesky_in_place(a, default(), Par::Seq, stack, default()).is_ok()
            }

            fn solve_lower_triangular((a, conj): Factor<'_, Self>, unit: bool, x: MatMut<'_, Self>) {
                if unit {
                    triangular_solve::solve_unit_lower_triangular_in_place_with_conj(a, conj, x, Par::Seq);
                } else {
                    triangular_solve::solve_lower_triangular_in_place_with_conj(a, conj, x, Par::Seq);
                }
            }

            fn tridiagonal_scratch(n: usize, block: usize) -> StackReq {
                use householder::apply_block_householder_sequence_on_the_left_in_place_scratch as scratch;
                StackReq::any_of(&[
                    tridiag::tridiag_in_place_scratch::<Self>(n, Par::Seq, default()),
                    scratch::<Self>(n - 1, block, n),
                ])
            }

            fn tridiagonalize(a: MatMut<'_, Self>, reflections: MatMut<'_, Self>, stack: &mut MemStack) {
                tridiag::tridiag_in_place(a, reflections, Par::Seq, stack, default());
            }

            fn apply_reflections(
                basis: MatRef<'_, Self>,
                reflections: MatRef<'_, Self>,
                to: MatMut<'_, Self>,
                stack: &mut MemStack,
            ) {
                use householder::apply_block_householder_sequence_on_the_left_in_place_with_conj as apply;
                apply(basis, reflections, Conj::No, to, Par::Seq, stack);
            }

            fn bidiagonal_scratch(rows: usize, columns: usize) -> StackReq {
                bidiag::bidiag_in_place_scratch::<Self>(rows, columns, Par::Seq, default())
            }

            fn bidiagonalize(
                a: MatMut<'_, Self>,
                left: MatMut<'_, Self>,
                right: MatMut<'_, Self>,
                stack: &mut MemStack,
            ) {
                bidiag::bidiag_in_place(a, left, right, Par::Seq, stack, default());
            }

            fn singular_scratch(rows: usize, columns: usize, kind: ComputeSvdVectors, recursive_rows: usize) -> StackReq {
                let parameters = with_recursive_rows::<Self>(recursive_rows);
                svd::svd_scratch::<Self>(rows, columns, kind, kind, Par::Seq, parameters)
            }

            fn singular_values(
                a: MatRef<'_, Self>,
                s: DiagMut<'_, Self>,
                u: Option<MatMut<'_, Self>>,
                v: Option<MatMut<'_, Self>>,
                recursive_rows: usize,
                stack: &mut MemStack,
            ) -> bool {
                svd::svd(a, s, u, v, Par::Seq, stack, with_recursive_rows::<Self>(recursive_rows)).is_ok()
            }
        })*
    };
}

dense!(f32, f64, Complex<f32>, Complex<f64>);

/// Returns the memory that [`real_eigenvalues`] needs for a matrix of `n` rows. `left` and `right` are whether to
/// compute the left and the right eigenvectors.
pub fn real_eigenvalues_scratch(n: usize, left: bool, right: bool) -> StackReq {
    evd::evd_scratch::<f64>(n, wanted(left), wanted(right), Par::Seq, default())
}

/// Computes the eigenvalues of a real matrix and, if wanted, its eigenvectors. Returns whether the algorithm converged.
pub fn real_eigenvalues(
    a: MatRef<'_, f64>,
    (real, imaginary): (DiagMut<'_, f64>, DiagMut<'_, f64>),
    left: Option<MatMut<'_, f64>>,
    right: Option<MatMut<'_, f64>>,
    stack: &mut MemStack,
) -> bool {
    evd::evd_real(a, real, imaginary, left, right, Par::Seq, stack, default()).is_ok()
}

/// Returns the memory that [`complex_eigenvalues`] needs, like [`real_eigenvalues_scratch`].
pub fn complex_eigenvalues_scratch(n: usize, left: bool, right: bool) -> StackReq {
    evd::evd_scratch::<Complex<f64>>(n, wanted(left), wanted(right), Par::Seq, default())
}

/// Computes the eigenvalues of a complex matrix and, if wanted, its eigenvectors. Returns whether the algorithm
/// converged.
pub fn complex_eigenvalues(
    a: MatRef<'_, Complex<f64>>,
    values: DiagMut<'_, Complex<f64>>,
    left: Option<MatMut<'_, Complex<f64>>>,
    right: Option<MatMut<'_, Complex<f64>>>,
    stack: &mut MemStack,
) -> bool {
    evd::evd_cplx(a, values, left, right, Par::Seq, stack, default()).is_ok()
}

fn wanted(vectors: bool) -> ComputeEigenvectors {
    if vectors { ComputeEigenvectors::Yes } else { ComputeEigenvectors::No }
}

/// An element type of signals.
pub trait Signal: FftNum {
    /// Returns a function that plans complex transforms, each from its length.
    fn complex_planner(forward: bool) -> Box<dyn FnMut(usize) -> Arc<dyn Fft<Self>>>;
    /// Returns the plan of the transform of `n` real numbers to the first half of their spectrum.
    fn forward_plan(n: usize) -> Arc<dyn RealToComplex<Self>>;
    /// Returns the plan of the transform of the first half of a spectrum to `n` real numbers.
    fn inverse_plan(n: usize) -> Arc<dyn ComplexToReal<Self>>;
}

macro_rules! signal {
    ($($t:ty),*) => {
        $(impl Signal for $t {
            fn complex_planner(forward: bool) -> Box<dyn FnMut(usize) -> Arc<dyn Fft<Self>>> {
                let mut planner = FftPlanner::new();
                Box::new(move |n| if forward { planner.plan_fft_forward(n) } else { planner.plan_fft_inverse(n) })
            }

            fn forward_plan(n: usize) -> Arc<dyn RealToComplex<Self>> {
                RealFftPlanner::new().plan_fft_forward(n)
            }

            fn inverse_plan(n: usize) -> Arc<dyn ComplexToReal<Self>> {
                RealFftPlanner::new().plan_fft_inverse(n)
            }
        })*
    };
}

signal!(f32, f64);
