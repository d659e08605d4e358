//! `convolution` as matrix products: the windows of the padded input are gathered into rows.

use bytemuck::{Pod, cast_slice, cast_slice_mut};

use super::Kernel;
use super::gemm::{Matrix, Operand, Wide, Windows, gemm, windows_gemm};
use super::shape::{Pad, read_all};
use crate::engine::dtype::with_size;
use crate::engine::error::RunError;
use crate::engine::pool::{Buffer, Pool};
use crate::engine::view::View;

/// Elements of gathered windows held at a time.
const GATHERED: usize = 1 << 20;

/// One feature or batch group: where it is in the input, the kernel and the output.
pub(crate) struct ConvGroup {
    pub(crate) input: usize,
    pub(crate) kernel: usize,
    pub(crate) output: usize,
}

/// What is computed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    F32,
    F64,
    I64,
}

/// A matrix product `rows x depth` by `depth x features`.
type Product<T> = fn(usize, usize, usize, Matrix<'_, T>, Matrix<'_, T>, &mut [T]);

/// The product of integers, which wrap.
fn wrapping(rows: usize, depth: usize, features: usize, a: Matrix<'_, i64>, b: Matrix<'_, i64>, out: &mut [i64]) {
    for (row, out) in out.chunks_exact_mut(features.max(1)).take(rows).enumerate() {
        out.fill(0);
        for p in 0..depth {
            let x = a.data[a.offset + row * a.row + p * a.column];
            let y = &b.data[b.offset + p * b.row..][..features];
            for (o, &y) in out.iter_mut().zip(y) {
                *o = o.wrapping_add(x.wrapping_mul(y));
            }
        }
    }
}

/// A convolution.
pub(crate) struct Convolution {
    /// Padding and dilation of the input, with the elements of the result; `None` where it stays as it is.
    pub(crate) pad: Option<(Pad, usize)>,
    /// The kernel as `[window, input feature, output feature]`.
    pub(crate) kernel: View,
    /// One group's windows as `[batch, output position, window, input feature]`, for a group at offset 0.
    pub(crate) windows: View,
    pub(crate) rows: usize,
    pub(crate) depth: usize,
    /// Output features of a group, and of all.
    pub(crate) features: usize,
    pub(crate) all_features: usize,
    /// One group's output as `[batch, output position, output feature]`.
    pub(crate) output: View,
    pub(crate) groups: Vec<ConvGroup>,
    pub(crate) element: Element,
    /// How windows are read where they are, if that is worth it.
    pub(crate) direct: Option<Direct>,
}

/// Windows made of long runs of the input.
pub(crate) struct Direct {
    /// Where the windows start, as `[batch, output position]`.
    pub(crate) rows: View,
    /// Where each tap is in a window.
    pub(crate) taps: Vec<usize>,
    /// Input features, which are contiguous.
    pub(crate) run: usize,
}

/// A product with windows read in place.
type DirectProduct<T> = fn(&Direct, &[T], usize, Matrix<'_, T>, &mut [T]);

fn in_place<T: Operand<Wide = T> + Wide>(d: &Direct, data: &[T], n: usize, b: Matrix<'_, T>, out: &mut [T]) {
    windows_gemm(&Windows { data, rows: &d.rows, taps: &d.taps, run: d.run }, n, b, out);
}

impl Kernel for Convolution {
    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], pool: &Pool) -> Result<(), RunError> {
        match self.element {
            Element::F32 => self.compute::<f32>(ins, outs[0], pool, gemm, Some(in_place)),
            Element::F64 => self.compute::<f64>(ins, outs[0], pool, gemm, Some(in_place)),
            Element::I64 => self.compute::<i64>(ins, outs[0], pool, wrapping, None),
        }
    }
}

impl Convolution {
    fn compute<T: Pod + Send + Sync>(
        &self,
        ins: &[&[u8]],
        out: &mut [u8],
        pool: &Pool,
        product: Product<T>,
        in_place: Option<DirectProduct<T>>,
    ) -> Result<(), RunError> {
        let size = size_of::<T>();
        if out.is_empty() {
            return Ok(());
        }
        let padded = match &self.pad {
            None => None,
            Some((pad, elements)) => {
                let mut padded = pool.alloc(elements * size)?;
                pad.run(&[ins[0], &[0; 8][..size]], &mut [padded.write()?], pool)?;
                Some(padded)
            }
        };
        let input = padded.as_ref().map_or(ins[0], Buffer::bytes);
        let mut kernel = pool.alloc(self.kernel.len() * size)?;
        with_size!(size, U => read_all::<U>(&self.kernel, cast_slice(ins[1]), cast_slice_mut(kernel.write()?)));
        if let (Some(direct), Some(product)) = (&self.direct, in_place) {
            let b = Matrix { data: cast_slice(kernel.bytes()), offset: 0, row: self.all_features, column: 1 };
            product(direct, cast_slice(input), self.features, b, cast_slice_mut(out));
            return Ok(());
        }
        let step = (GATHERED / self.depth.max(1)).clamp(1, self.rows.max(1));
        let mut gathered = pool.alloc(step * self.depth * size)?;
        let mut result = pool.alloc(self.rows * self.features * size)?;
        for group in &self.groups {
            let windows = self.windows.shifted(group.input);
            let target: &mut [T] = cast_slice_mut(result.write()?);
            for first in (0..self.rows).step_by(step) {
                let rows = step.min(self.rows - first);
                let a: &mut [T] = &mut cast_slice_mut(gathered.write()?)[..rows * self.depth];
                crate::engine::par::chunks(a, self.depth.max(1), rows * self.depth * size, |start, part| {
                    windows.read(cast_slice::<u8, T>(input), first * self.depth + start, part);
                });
                let a = Matrix { data: &*a, offset: 0, row: self.depth, column: 1 };
                let b = Matrix {
                    data: cast_slice(kernel.bytes()),
                    offset: group.kernel,
                    row: self.all_features,
                    column: 1,
                };
                let target = &mut target[first * self.features..][..rows * self.features];
                product(rows, self.depth, self.features, a, b, target);
            }
            self.output.shifted(group.output).write::<T>(cast_slice(result.bytes()), cast_slice_mut(out));
        }
        Ok(())
    }
}
