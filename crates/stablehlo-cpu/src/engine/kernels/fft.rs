//! `fft`: discrete Fourier transforms over the last dimensions.

use std::sync::Arc;

use bytemuck::{Pod, cast_slice, cast_slice_mut};
use num_complex::Complex;
use rustfft::{FftNum, FftPlanner};
use stablehlo::ir::FftType;

use super::{Context, Kernel};
use crate::engine::parallel;
use crate::engine::stop::Stop;
use crate::error::RunError;

/// The transform of a batch. Outputs are complex, except that those of `irfft` are real.
pub(crate) struct Fft<T: FftNum> {
    kind: FftType,
    /// Extents of the transformed dimensions of the real or complex signal.
    lengths: Vec<usize>,
    /// One plan per dimension.
    plans: Vec<Arc<dyn rustfft::Fft<T>>>,
}

impl<T: FftNum> Fft<T> {
    pub(crate) fn new(kind: FftType, lengths: &[usize]) -> Self {
        let mut planner = FftPlanner::new();
        let forward = matches!(kind, FftType::Fft | FftType::Rfft);
        let plan = |&n: &usize| if forward { planner.plan_fft_forward(n) } else { planner.plan_fft_inverse(n) };
        Fft { kind, lengths: lengths.to_vec(), plans: lengths.iter().map(plan).collect() }
    }
}

impl<T: FftNum + Pod> Kernel for Fft<T>
where
    Complex<T>: Pod,
{
    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], cx: &Context<'_>) -> Result<(), RunError> {
        let (Some((&last, outer)), false) = (self.lengths.split_last(), outs[0].is_empty()) else {
            return Ok(());
        };
        let half = last / 2 + 1;
        let zero = Complex { re: T::zero(), im: T::zero() };
        let mut dims = self.lengths.clone();
        match self.kind {
            FftType::Fft | FftType::Ifft => {
                let out: &mut [Complex<T>] = cast_slice_mut(outs[0]);
                out.copy_from_slice(cast_slice(ins[0]));
                for axis in 0..dims.len() {
                    self.transform(out, &dims, axis, cx.stop);
                }
                if self.kind == FftType::Ifft {
                    scale(out, self.lengths.iter().product());
                }
            }
            FftType::Rfft => {
                let (x, out): (&[T], &mut [Complex<T>]) = (cast_slice(ins[0]), cast_slice_mut(outs[0]));
                let mut row = vec![zero; last];
                let mut scratch = vec![zero; self.plans[outer.len()].get_inplace_scratch_len()];
                for (x, out) in x.chunks_exact(last).zip(out.chunks_exact_mut(half)) {
                    row.iter_mut().zip(x).for_each(|(r, &x)| *r = Complex { re: x, im: T::zero() });
                    self.plans[outer.len()].process_with_scratch(&mut row, &mut scratch);
                    out.copy_from_slice(&row[..half]);
                }
                dims[outer.len()] = half;
                for axis in 0..outer.len() {
                    self.transform(out, &dims, axis, cx.stop);
                }
            }
            FftType::Irfft => {
                let mut work: Vec<Complex<T>> = cast_slice(ins[0]).to_vec();
                dims[outer.len()] = half;
                for axis in 0..outer.len() {
                    self.transform(&mut work, &dims, axis, cx.stop);
                }
                scale(&mut work, self.lengths.iter().product());
                let out: &mut [T] = cast_slice_mut(outs[0]);
                let mut row = vec![zero; last];
                let mut scratch = vec![zero; self.plans[outer.len()].get_inplace_scratch_len()];
                for (x, out) in work.chunks_exact(half).zip(out.chunks_exact_mut(last)) {
                    row[..half].copy_from_slice(x);
                    // The other half of a real signal's spectrum is the mirror image of this one.
                    for i in half..last {
                        row[i] = x[last - i].conj();
                    }
                    // Ignore imaginary parts that the spectrum of a real signal cannot have.
                    row[0].im = T::zero();
                    if last % 2 == 0 {
                        row[last / 2].im = T::zero();
                    }
                    self.plans[outer.len()].process_with_scratch(&mut row, &mut scratch);
                    out.iter_mut().zip(&row).for_each(|(o, r)| *o = r.re);
                }
            }
        }
        Ok(())
    }
}

impl<T: FftNum + Pod> Fft<T>
where
    Complex<T>: Pod,
{
    /// Transforms along one of the last dimensions, whose extents are `dims`.
    fn transform(&self, data: &mut [Complex<T>], dims: &[usize], axis: usize, stop: Option<&Stop>) {
        let (n, inner) = (dims[axis], dims[axis + 1..].iter().product::<usize>());
        let plan = &self.plans[axis];
        let zero = Complex { re: T::zero(), im: T::zero() };
        let work = size_of_val(data).saturating_mul(8);
        parallel::chunks_until(stop, data, n * inner, work, |_, part| {
            let mut scratch = vec![zero; plan.get_inplace_scratch_len()];
            if inner == 1 {
                return plan.process_with_scratch(part, &mut scratch);
            }
            let mut line = vec![zero; n];
            for block in part.chunks_exact_mut(n * inner) {
                for at in 0..inner {
                    line.iter_mut().zip(block[at..].iter().step_by(inner)).for_each(|(l, &x)| *l = x);
                    plan.process_with_scratch(&mut line, &mut scratch);
                    block[at..].iter_mut().step_by(inner).zip(&line).for_each(|(x, &l)| *x = l);
                }
            }
        });
    }
}

fn scale<T: FftNum>(data: &mut [Complex<T>], n: usize) {
    let Some(n) = T::from_usize(n) else { return };
    for z in data {
        *z = Complex { re: z.re / n, im: z.im / n };
    }
}
