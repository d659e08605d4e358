//! `fft`: discrete Fourier transforms over the last dimensions.

use std::sync::Arc;

use bytemuck::{Pod, cast_slice, cast_slice_mut};
use num_complex::Complex;
use stablehlo::ir::FftType;
use stablehlo_cpu_math::{ComplexToReal, RealToComplex, Signal};

use super::{Context, Kernel};
use crate::engine::parallel;
use crate::engine::stop::Stop;
use crate::error::RunError;

/// Number of complex numbers that are transformed together, so that they stay in the first-level cache. A longer row or
/// column is transformed alone.
const TOGETHER: usize = 2048;
/// Maximum number of columns that are transformed together. Rows of this many complex numbers fill at least one cache
/// line.
const COLUMNS: usize = 16;
/// Length of a transform, in elements, below which `rustfft` may compute two transforms at a time.
const PAIRED: usize = 64;

/// A Fourier transform of each signal of a batch. The outputs are complex, except those of an inverse real transform
/// (`IRFFT`).
pub(crate) struct Fft<T: Signal> {
    /// Extents of the transformed dimensions of the real or complex signal.
    lengths: Vec<usize>,
    /// One plan for each dimension except the last.
    outer: Vec<Arc<dyn stablehlo_cpu_math::Fft<T>>>,
    last: Last<T>,
    /// Scale factor of the result, for inverse transforms.
    factor: Option<T>,
}

/// The plan of the last dimension.
enum Last<T> {
    Complex(Arc<dyn stablehlo_cpu_math::Fft<T>>),
    Forward(Arc<dyn RealToComplex<T>>),
    Inverse(Arc<dyn ComplexToReal<T>>),
}

impl<T: Signal> Fft<T> {
    pub(crate) fn new(kind: FftType, lengths: &[usize]) -> Self {
        let (&last, outer) = lengths.split_last().unwrap_or((&1, &[]));
        let forward = matches!(kind, FftType::Fft | FftType::Rfft);
        let mut plan = T::complex_planner(forward);
        let size = T::from_usize(lengths.iter().product());
        Fft {
            lengths: lengths.to_vec(),
            outer: outer.iter().map(|&n| plan(n)).collect(),
            last: match kind {
                FftType::Fft | FftType::Ifft => Last::Complex(plan(last)),
                FftType::Rfft => Last::Forward(T::forward_plan(last)),
                FftType::Irfft => Last::Inverse(T::inverse_plan(last)),
            },
            factor: if forward { None } else { size.map(|size| T::one() / size) },
        }
    }
}

impl<T: Signal + Pod> Kernel for Fft<T>
where
    Complex<T>: Pod,
{
    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], cx: &Context<'_>) -> Result<(), RunError> {
        let (Some((&last, outer)), false) = (self.lengths.split_last(), outs[0].is_empty()) else {
            return Ok(());
        };
        let half = last / 2 + 1;
        match &self.last {
            Last::Complex(plan) => {
                let out: &mut [Complex<T>] = cast_slice_mut(outs[0]);
                self.complex_rows(&**plan, cast_slice(ins[0]), out, cx.stop);
                self.outer_dimensions(out, last, cx)
            }
            Last::Forward(plan) => {
                let out: &mut [Complex<T>] = cast_slice_mut(outs[0]);
                forward_rows(&**plan, cast_slice(ins[0]), out, cx.stop);
                self.outer_dimensions(out, half, cx)
            }
            Last::Inverse(plan) if outer.is_empty() => {
                self.inverse_rows(&**plan, cast_slice(ins[0]), cast_slice_mut(outs[0]), cx.stop);
                Ok(())
            }
            Last::Inverse(plan) => {
                let mut work = cx.pool.alloc(ins[0].len())?;
                let work: &mut [Complex<T>] = cast_slice_mut(work.write()?);
                work.copy_from_slice(cast_slice(ins[0]));
                self.outer_dimensions(work, half, cx)?;
                self.inverse_rows(&**plan, work, cast_slice_mut(outs[0]), cx.stop);
                Ok(())
            }
        }
    }

    fn scratch(&self, ins: &[usize], outs: &[usize]) -> usize {
        match self.last {
            _ if self.outer.is_empty() => 0,
            Last::Complex(_) | Last::Forward(_) => outs[0],
            Last::Inverse(_) => 2 * ins[0],
        }
    }
}

/// Transforms each row of real numbers.
fn forward_rows<T: Signal + Pod>(plan: &dyn RealToComplex<T>, x: &[T], out: &mut [Complex<T>], stop: Option<&Stop>) {
    let (n, half) = (plan.len(), plan.complex_len());
    parallel::chunks_until(stop, out, half, work(x), |start, part| {
        let (mut row, mut scratch) = (plan.make_input_vec(), plan.make_scratch_vec());
        let rows = x[start / half * n..].chunks_exact(n);
        for (x, out) in rows.zip(part.chunks_exact_mut(half)) {
            // Copy the row, because the plan overwrites its input.
            row.copy_from_slice(x);
            let fits = plan.process_with_scratch(&mut row, out, &mut scratch);
            debug_assert!(fits.is_ok(), "the plan made these buffers");
        }
    });
}

impl<T: Signal + Pod> Fft<T>
where
    Complex<T>: Pod,
{
    /// Transforms each row of complex numbers.
    fn complex_rows(
        &self,
        plan: &dyn stablehlo_cpu_math::Fft<T>,
        x: &[Complex<T>],
        out: &mut [Complex<T>],
        stop: Option<&Stop>,
    ) {
        let n = plan.len();
        parallel::chunks_until(stop, out, n, work(x), |start, part| {
            let mut scratch = zeros(plan.get_inplace_scratch_len());
            let rows = (TOGETHER / n).max(1) * n;
            for (x, out) in x[start..][..part.len()].chunks(rows).zip(part.chunks_mut(rows)) {
                out.copy_from_slice(x);
                transform(plan, out, &mut scratch);
                if let Some(factor) = self.factor {
                    out.iter_mut().for_each(|z| *z = Complex { re: z.re * factor, im: z.im * factor });
                }
            }
        });
    }

    /// Transforms each row to real numbers. A row contains the first half of the symmetric spectrum of a real signal.
    fn inverse_rows(&self, plan: &dyn ComplexToReal<T>, x: &[Complex<T>], out: &mut [T], stop: Option<&Stop>) {
        let (n, half) = (plan.len(), plan.complex_len());
        parallel::chunks_until(stop, out, n, work(x), |start, part| {
            let (mut row, mut scratch) = (plan.make_input_vec(), plan.make_scratch_vec());
            let rows = x[start / n * half..].chunks_exact(half);
            for (x, out) in rows.zip(part.chunks_exact_mut(n)) {
                row.copy_from_slice(x);
                // Ignore imaginary parts that the spectrum of a real signal cannot contain.
                row[0].im = T::zero();
                if n % 2 == 0 {
                    row[half - 1].im = T::zero();
                }
                let fits = plan.process_with_scratch(&mut row, out, &mut scratch);
                debug_assert!(fits.is_ok(), "the plan made these buffers");
                if let Some(factor) = self.factor {
                    out.iter_mut().for_each(|x| *x = *x * factor);
                }
            }
        });
    }

    /// Transforms along all dimensions except the last, whose extent in `data` is `last`.
    fn outer_dimensions(&self, data: &mut [Complex<T>], last: usize, cx: &Context<'_>) -> Result<(), RunError> {
        let mut inner = last;
        for plan in self.outer.iter().rev() {
            self.columns(&**plan, data, inner, cx)?;
            inner *= plan.len();
        }
        Ok(())
    }

    /// Transforms each column of each matrix in `data`. The matrices have `inner` columns each.
    fn columns(
        &self,
        plan: &dyn stablehlo_cpu_math::Fft<T>,
        data: &mut [Complex<T>],
        inner: usize,
        cx: &Context<'_>,
    ) -> Result<(), RunError> {
        let (n, work) = (plan.len(), work(data));
        let together = (TOGETHER / n).clamp(1, COLUMNS).min(inner);
        if data.len() / (n * inner) >= parallel::threads(work) {
            parallel::chunks_until(cx.stop, data, n * inner, work, |_, part| {
                let (mut lines, mut scratch) = (zeros(together * n), zeros(plan.get_inplace_scratch_len()));
                for matrix in part.chunks_exact_mut(n * inner) {
                    for at in (0..inner).step_by(together) {
                        let count = together.min(inner - at);
                        let lines = &mut lines[..count * n];
                        gather(matrix, inner, at, lines, n);
                        transform(plan, lines, &mut scratch);
                        for (i, row) in matrix.chunks_exact_mut(inner).enumerate() {
                            for (j, x) in row[at..][..count].iter_mut().enumerate() {
                                *x = lines[j * n + i];
                            }
                        }
                    }
                }
            });
            return Ok(());
        }
        // There are fewer matrices than threads, so the columns of a matrix are distributed to the threads.
        let mut turned = cx.pool.alloc(size_of_val(data))?;
        let turned: &mut [Complex<T>] = cast_slice_mut(turned.write()?);
        let from = &*data;
        parallel::chunks_until(cx.stop, turned, n, work, |start, part| {
            let mut scratch = zeros(plan.get_inplace_scratch_len());
            let mut column = start / n;
            let mut rest = part;
            while !rest.is_empty() {
                let at = column % inner;
                let count = together.min(inner - at).min(rest.len() / n);
                let (lines, others) = std::mem::take(&mut rest).split_at_mut(count * n);
                gather(&from[column / inner * n * inner..], inner, at, lines, n);
                transform(plan, lines, &mut scratch);
                (column, rest) = (column + count, others);
            }
        });
        let turned = &*turned;
        parallel::chunks_until(cx.stop, data, inner, work, |start, part| {
            let first = start / inner;
            for (group, rows) in part.chunks_mut(COLUMNS * inner).enumerate() {
                for at in 0..inner {
                    for (i, x) in rows[at..].iter_mut().step_by(inner).enumerate() {
                        let row = first + group * COLUMNS + i;
                        *x = turned[(row / n * inner + at) * n + row % n];
                    }
                }
            }
        });
        Ok(())
    }
}

/// Transforms consecutive lines in place. A line consists of the contiguous elements of one transform.
///
/// Without AVX, `rustfft` computes short transforms of `f32` in pairs with vector instructions. It computes the last
/// transform of an odd count with different operations. To get the same bits for each distribution of the lines to
/// threads, this function adds a line of zeros to an odd count of short lines.
fn transform<T: Signal>(plan: &dyn stablehlo_cpu_math::Fft<T>, lines: &mut [Complex<T>], scratch: &mut [Complex<T>]) {
    let n = plan.len();
    if n >= PAIRED || (lines.len() / n).is_multiple_of(2) {
        plan.process_with_scratch(lines, scratch);
        return;
    }
    let (pairs, last) = lines.split_at_mut(lines.len() - n);
    plan.process_with_scratch(pairs, scratch);
    let mut pair = [Complex { re: T::zero(), im: T::zero() }; 2 * PAIRED];
    pair[..n].copy_from_slice(last);
    plan.process_with_scratch(&mut pair[..2 * n], scratch);
    last.copy_from_slice(&pair[..n]);
}

/// Copies columns of a matrix with `n` rows and `inner` columns, starting at column `at`. Each column becomes `n`
/// consecutive elements of `lines`, whose length determines the number of columns.
fn gather<T: Copy>(matrix: &[T], inner: usize, at: usize, lines: &mut [T], n: usize) {
    let count = lines.len() / n;
    for (i, row) in matrix.chunks_exact(inner).take(n).enumerate() {
        for (j, &x) in row[at..][..count].iter().enumerate() {
            lines[j * n + i] = x;
        }
    }
}

fn zeros<T: Signal>(count: usize) -> Vec<Complex<T>> {
    vec![Complex { re: T::zero(), im: T::zero() }; count]
}

/// Estimates the cost of the transform of `x`, in bytes of memory-bound work. [`parallel::threads`] expects this unit.
fn work<T>(x: &[T]) -> usize {
    size_of_val(x).saturating_mul(8)
}
