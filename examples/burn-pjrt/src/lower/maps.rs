//! Fourier transforms, and operations that apply a constant matrix to each spatial dimension: adaptive average pooling
//! and interpolation.

use burn_ir::{IRfftOpIr, InterpolateModeIr, InterpolateOptionsIr, ModuleOperationIr as M, RfftOpIr, TensorIr};
use stablehlo::builder::{DotGeneral, Value};
use stablehlo::ir::{FftType, Precision, TensorType};

use super::{Lower, Result};
use crate::dtype::extents;
use crate::error::Error;

/// A row-major matrix with one row for each element of the result.
struct Matrix {
    rows: usize,
    columns: usize,
    numbers: Vec<f64>,
}

impl Matrix {
    fn new(rows: usize, columns: usize) -> Self {
        Self { rows, columns, numbers: vec![0.0; rows * columns] }
    }

    fn add(&mut self, row: usize, column: usize, number: f64) {
        self.numbers[row * self.columns + column] += number;
    }

    /// Returns the matrix that computes the averages of adaptive pooling from `input` to `output` elements.
    fn averages(input: usize, output: usize) -> Self {
        let mut matrix = Self::new(output, input);
        for row in 0..output {
            let (start, end) = (row * input / output, ((row + 1) * input).div_ceil(output));
            (start..end).for_each(|column| matrix.add(row, column, 1.0 / (end - start) as f64));
        }
        matrix
    }

    /// Returns the matrix that selects the nearest input element for each output element.
    fn nearest(input: usize, output: usize) -> Self {
        let mut matrix = Self::new(output, input);
        nearest(input, output).into_iter().enumerate().for_each(|(row, column)| matrix.add(row, column as usize, 1.0));
        matrix
    }

    /// Returns the matrix that interpolates with a kernel. With `align_corners`, the first elements of the input and
    /// the output have the same position, and so do the last ones. The kernel covers `reach` elements on each side of a
    /// position. With `repeat_edge`, an element outside the input is replaced by the element at the edge. Otherwise it
    /// is omitted, and the weights of the other elements are scaled up.
    fn kernel(input: usize, output: usize, align_corners: bool, reach: i64, repeat_edge: bool) -> Self {
        let mut matrix = Self::new(output, input);
        let last = input as i64 - 1;
        for row in 0..output {
            let at = if align_corners {
                row as f64 * last as f64 / (output.max(2) - 1) as f64
            } else {
                (row as f64 + 0.5) * input as f64 / output as f64 - 0.5
            };
            let first = at.floor() as i64 - reach + 1;
            let inside = |tap: &i64| repeat_edge || (0..=last).contains(tap);
            let taps: Vec<(usize, f64)> = (first..first + 2 * reach)
                .filter(inside)
                .map(|tap| (tap.clamp(0, last) as usize, weight(at - tap as f64, reach)))
                .collect();
            let sum: f64 = taps.iter().map(|(_, weight)| weight).sum();
            taps.into_iter().for_each(|(column, weight)| matrix.add(row, column, weight / sum));
        }
        matrix
    }
}

/// Returns the weight of an element at this distance. The kernel is linear if `reach` is 1, cubic with the parameter
/// -0.75 if it is 2, and Lanczos with three lobes if it is 3.
fn weight(distance: f64, reach: i64) -> f64 {
    let t = distance.abs();
    let sinc = |x: f64| if x == 0.0 { 1.0 } else { (std::f64::consts::PI * x).sin() / (std::f64::consts::PI * x) };
    match reach {
        1 => (1.0 - t).max(0.0),
        2 if t < 1.0 => 1.0 - 2.25 * t.powi(2) + 1.25 * t.powi(3),
        2 if t < 2.0 => -0.75 * (t.powi(3) - 5.0 * t.powi(2) + 8.0 * t - 4.0),
        3 if t < 3.0 => sinc(t) * sinc(t / 3.0),
        _ => 0.0,
    }
}

fn nearest(input: usize, output: usize) -> Vec<i64> {
    let ratio = input as f64 / output as f64;
    (0..output).map(|row| ((row as f64 * ratio).floor() as i64).min(input as i64 - 1)).collect()
}

fn interpolation(options: &InterpolateOptionsIr, input: usize, output: usize) -> Matrix {
    match options.mode {
        InterpolateModeIr::Nearest => Matrix::nearest(input, output),
        InterpolateModeIr::Bilinear => Matrix::kernel(input, output, options.align_corners, 1, true),
        InterpolateModeIr::Bicubic => Matrix::kernel(input, output, options.align_corners, 2, true),
        InterpolateModeIr::Lanczos3 => Matrix::kernel(input, output, options.align_corners, 3, false),
    }
}

impl Lower<'_> {
    pub(super) fn map_op(&mut self, op: &M) -> Result<()> {
        match op {
            M::AdaptiveAvgPool1d(op) => self.mapped(&op.x, &op.out, false, Matrix::averages),
            M::AdaptiveAvgPool2d(op) => self.mapped(&op.x, &op.out, false, Matrix::averages),
            M::AdaptiveAvgPool1dBackward(op) => self.mapped(&op.grad, &op.out, true, Matrix::averages),
            M::AdaptiveAvgPool2dBackward(op) => self.mapped(&op.grad, &op.out, true, Matrix::averages),
            M::Interpolate(op) if matches!(op.options.mode, InterpolateModeIr::Nearest) => {
                let mut x = self.value(&op.x)?;
                for d in 2..op.out.shape.num_dims() {
                    let positions = nearest(op.x.shape[d], op.out.shape[d]);
                    x = self.take_sparse(x, d, self.f.constant_slice(&positions, &[positions.len() as i64])?)?;
                }
                self.set(&op.out, x)
            }
            M::Interpolate(op) => {
                self.mapped(&op.x, &op.out, false, |input, output| interpolation(&op.options, input, output))
            }
            M::InterpolateBackward(op) => {
                self.mapped(&op.grad, &op.out, true, |input, output| interpolation(&op.options, input, output))
            }
            M::Rfft(op) => self.rfft(op),
            M::IRfft(op) => self.irfft(op),
            _ => Err(Error::unsupported("Module", "the operation is not lowered to StableHLO")),
        }
    }

    /// Multiplies each spatial dimension by a matrix. `matrix` creates this matrix from the extents of the operation's
    /// input and output. If `gradient` is set, multiplies by the transposed matrix instead.
    fn mapped(
        &mut self,
        from: &TensorIr,
        to: &TensorIr,
        gradient: bool,
        matrix: impl Fn(usize, usize) -> Matrix,
    ) -> Result<()> {
        let f = self.f;
        let mut x = self.wide(self.value(from)?)?;
        let rank = from.shape.num_dims();
        for d in 2..rank {
            let (input, output) = if gradient { (to.shape[d], from.shape[d]) } else { (from.shape[d], to.shape[d]) };
            let matrix = matrix(input, output);
            let ty = TensorType::new([matrix.rows as i64, matrix.columns as i64], self.element(x)?);
            let constant = f.constant(stablehlo::ir::Literal::numbers(&matrix.numbers, ty)?)?;
            let contracted = usize::from(!gradient);
            let options =
                DotGeneral::new().contracting([d], [contracted]).precision([Precision::Highest, Precision::Highest]);
            // The last dimension of the product is the mapped dimension. Move it back to its place.
            let product = f.dot_general(x, constant, options)?;
            let mut permutation: Vec<usize> = (0..rank - 1).collect();
            permutation.insert(d, rank - 1);
            x = f.transpose(product, &permutation)?;
        }
        self.set(to, x)
    }

    /// Swaps `dimension` with the last dimension.
    fn swapped(&self, x: Value, dimension: usize) -> Result<Value> {
        let mut permutation: Vec<usize> = (0..self.rank(x)?).collect();
        let last = permutation.len() - 1;
        permutation.swap(dimension, last);
        Ok(self.f.transpose(x, &permutation)?)
    }

    /// Truncates the last dimension to `extent`, or extends it to `extent` with zeros.
    fn resized(&self, x: Value, extent: i64) -> Result<Value> {
        let shape = self.shape(x)?;
        let (none, mut high) = (vec![0; shape.len()], vec![0; shape.len()]);
        high[shape.len() - 1] = extent - shape[shape.len() - 1];
        Ok(self.f.pad(x, self.number_like(0.0, x)?, &none, &high, &none)?)
    }

    fn rfft(&mut self, op: &RfftOpIr) -> Result<()> {
        let f = self.f;
        let length = op.n.unwrap_or(op.signal.shape[op.dim]) as i64;
        let signal = self.wide(self.value(&op.signal)?)?;
        let signal = self.resized(self.swapped(signal, op.dim)?, length)?;
        let spectrum = f.fft(signal, FftType::Rfft, &[length])?;
        let real = self.swapped(f.real(spectrum)?, op.dim)?;
        let imaginary = self.swapped(f.imag(spectrum)?, op.dim)?;
        self.set(&op.out_re, real)?;
        self.set(&op.out_im, imaginary)
    }

    fn irfft(&mut self, op: &IRfftOpIr) -> Result<()> {
        let f = self.f;
        let length = extents(&op.out_signal)[op.dim];
        let part = |tensor: &TensorIr| -> Result<Value> {
            let wide = self.wide(self.value(tensor)?)?;
            self.resized(self.swapped(wide, op.dim)?, length / 2 + 1)
        };
        let spectrum = f.complex(part(&op.input_re)?, part(&op.input_im)?)?;
        let signal = self.swapped(f.fft(spectrum, FftType::Irfft, &[length])?, op.dim)?;
        self.set(&op.out_signal, signal)
    }
}
