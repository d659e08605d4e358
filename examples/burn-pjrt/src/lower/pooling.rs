//! Average and maximum pooling over one or two dimensions, and their gradients.

use burn_ir::{ModuleOperationIr as M, TensorIr};
use stablehlo::builder::{Value, WindowOptions};
use stablehlo::ir::{ComparisonDirection as Direction, ElementType, TensorType};

use super::numeric::Combine;
use super::{Lower, Result};
use crate::dtype::extents;
use crate::error::Error;

/// A pooling window over the spatial dimensions.
struct Pool {
    size: Vec<i64>,
    stride: Vec<i64>,
    padding: Vec<i64>,
    dilation: Vec<i64>,
}

/// Reads the window from an operation, whose fields are integers or arrays of integers.
macro_rules! pool {
    ($op:ident, $to:expr) => {
        Pool {
            size: $to(&$op.kernel_size),
            stride: $to(&$op.stride),
            padding: $to(&$op.padding),
            dilation: $to(&$op.dilation),
        }
    };
    ($op:ident, $to:expr, average) => {{
        let size: Vec<i64> = $to(&$op.kernel_size);
        let dilation = vec![1; size.len()];
        Pool { size, stride: $to(&$op.stride), padding: $to(&$op.padding), dilation }
    }};
}

fn one(value: &usize) -> Vec<i64> {
    vec![*value as i64]
}

fn two(values: &[usize; 2]) -> Vec<i64> {
    values.iter().map(|&value| value as i64).collect()
}

impl Pool {
    /// Returns the extent of a window along a dimension, including its dilation.
    fn reach(&self, d: usize) -> i64 {
        (self.size[d] - 1) * self.dilation[d] + 1
    }

    /// Returns the padding before and after each spatial dimension. In ceil mode, the last window may extend beyond the
    /// declared padding, so the padding after the dimension is larger.
    fn edges(&self, input: &[i64], output: &[i64]) -> Vec<(i64, i64)> {
        (0..self.size.len())
            .map(|d| {
                let needed = (output[d + 2] - 1) * self.stride[d] + self.reach(d) - input[d + 2] - self.padding[d];
                (self.padding[d], needed.max(self.padding[d]))
            })
            .collect()
    }

    /// Returns the window options for batches, features and spatial dimensions.
    fn window(&self, input: &[i64], output: &[i64]) -> WindowOptions {
        let with = |first: i64, rest: &[i64]| [&[first, first], rest].concat();
        let padding = [vec![(0, 0), (0, 0)], self.edges(input, output)].concat();
        WindowOptions::new(with(1, &self.size))
            .strides(with(1, &self.stride))
            .window_dilations(with(1, &self.dilation))
            .padding(padding)
    }

    /// Returns the number of elements in each window along dimension `d`. If `padded` is set, elements of the padding
    /// count, too. The sum of a window is divided by this number.
    fn counts(&self, d: usize, input: i64, output: i64, padded: bool) -> Vec<f64> {
        let (first, last) = if padded { (-self.padding[d], input + self.padding[d]) } else { (0, input) };
        let count = |i: i64| {
            let start = i * self.stride[d] - self.padding[d];
            ((start + self.size[d]).min(last) - start.max(first)) as f64
        };
        (0..output).map(count).collect()
    }
}

impl Lower<'_> {
    pub(super) fn pool_op(&mut self, op: &M) -> Result<()> {
        match op {
            M::AvgPool1d(op) => self.average(&op.x, &pool!(op, one, average), op.count_include_pad, &op.out),
            M::AvgPool2d(op) => self.average(&op.x, &pool!(op, two, average), op.count_include_pad, &op.out),
            M::AvgPool1dBackward(op) => {
                self.average_gradient(&op.grad, &pool!(op, one, average), op.count_include_pad, &op.out)
            }
            M::AvgPool2dBackward(op) => {
                self.average_gradient(&op.grad, &pool!(op, two, average), op.count_include_pad, &op.out)
            }
            M::MaxPool1d(op) => self.maximum(&op.x, &pool!(op, one), &op.out),
            M::MaxPool2d(op) => self.maximum(&op.x, &pool!(op, two), &op.out),
            M::MaxPool1dWithIndices(op) => self.indexed_maximum(&op.x, &pool!(op, one), &op.out, &op.out_indices),
            M::MaxPool2dWithIndices(op) => self.indexed_maximum(&op.x, &pool!(op, two), &op.out, &op.out_indices),
            M::MaxPool1dWithIndicesBackward(op) => self.maximum_gradient(&op.grad, &op.indices, &op.out),
            M::MaxPool2dWithIndicesBackward(op) => self.maximum_gradient(&op.grad, &op.indices, &op.out),
            _ => Err(Error::unsupported("Module", "the operation is not lowered to StableHLO")),
        }
    }

    /// Returns the number by which each window's sum is divided, broadcast to the shape of the output. It is the
    /// product of [`Pool::counts`] over the spatial dimensions.
    fn divisors(&self, pool: &Pool, input: &[i64], output: &[i64], padded: bool, like: Value) -> Result<Value> {
        let f = self.f;
        let spatial = &output[2..];
        let element = self.element(like)?;
        let mut product = f.full(1.0, TensorType::new(spatial, element))?;
        for d in 0..spatial.len() {
            let counts = pool.counts(d, input[d + 2], output[d + 2], padded);
            let literal = stablehlo::ir::Literal::numbers(&counts, TensorType::new([output[d + 2]], element))?;
            product = f.multiply(product, f.broadcast_in_dim(f.constant(literal)?, &[d], spatial)?)?;
        }
        let dims: Vec<usize> = (2..output.len()).collect();
        Ok(f.broadcast_in_dim(product, &dims, output)?)
    }

    fn average(&mut self, x: &TensorIr, pool: &Pool, padded: bool, out: &TensorIr) -> Result<()> {
        let f = self.f;
        let (input, output) = (extents(x), extents(out));
        let x = self.wide(self.value(x)?)?;
        let zero = self.number_like(0.0, x)?;
        let sums = f.reduce_window(x, zero, pool.window(&input, &output), |a, b| f.add(a, b))?;
        let divisors = self.divisors(pool, &input, &output, padded, sums)?;
        self.set(out, f.divide(sums, divisors)?)
    }

    /// Distributes the gradient of each window evenly over its elements. Inserts zeros between the gradients for the
    /// stride, and then sums over windows.
    fn average_gradient(&mut self, grad: &TensorIr, pool: &Pool, padded: bool, out: &TensorIr) -> Result<()> {
        let f = self.f;
        let (input, output) = (extents(out), extents(grad));
        let grad = self.wide(self.value(grad)?)?;
        let shares = f.divide(grad, self.divisors(pool, &input, &output, padded, grad)?)?;
        let zero = self.number_like(0.0, grad)?;
        let (mut low, mut high, mut interior) = (vec![0, 0], vec![0, 0], vec![0, 0]);
        for d in 0..pool.size.len() {
            let before = pool.size[d] - 1 - pool.padding[d];
            let dilated = (output[d + 2] - 1) * pool.stride[d] + 1;
            low.push(before);
            high.push(input[d + 2] + pool.size[d] - 1 - before - dilated);
            interior.push(pool.stride[d] - 1);
        }
        let spread = f.pad(shares, zero, &low, &high, &interior)?;
        let window = WindowOptions::new([&[1, 1], &pool.size[..]].concat());
        self.set(out, f.reduce_window(spread, zero, window, |a, b| f.add(a, b))?)
    }

    fn maximum(&mut self, x: &TensorIr, pool: &Pool, out: &TensorIr) -> Result<()> {
        let f = self.f;
        let window = pool.window(&extents(x), &extents(out));
        let x = self.value(x)?;
        let start = self.neutral(Combine::Max, self.element(x)?)?;
        self.set(out, f.reduce_window(x, start, window, |a, b| f.maximum(a, b))?)
    }

    /// Computes the maxima and their positions in the flattened spatial dimensions.
    fn indexed_maximum(&mut self, x: &TensorIr, pool: &Pool, out: &TensorIr, indices: &TensorIr) -> Result<()> {
        let f = self.f;
        let shape = extents(x);
        let window = pool.window(&shape, &extents(out));
        let spatial = &shape[2..];
        let flat = self.positions(&[spatial.iter().product()], 0, ElementType::I32)?;
        let dims: Vec<usize> = (2..shape.len()).collect();
        let positions = f.broadcast_in_dim(f.reshape(flat, spatial)?, &dims, &shape)?;
        let x = self.value(x)?;
        let start = [self.neutral(Combine::Max, self.element(x)?)?, f.constant(i32::MAX)?];
        let [maxima, at] = f.reduce_window([x, positions], start, window, |a, b| {
            let greater = f.compare(a[0], Direction::Gt, b[0])?;
            let nan = f.compare(a[0], Direction::Ne, a[0])?;
            let tie = f.and(f.compare(a[0], Direction::Eq, b[0])?, f.compare(a[1], Direction::Lt, b[1])?)?;
            let keep = f.or(f.or(greater, nan)?, tie)?;
            Ok([f.select(keep, a[0], b[0])?, f.select(keep, a[1], b[1])?])
        })?;
        self.set(out, maxima)?;
        self.set(indices, at)
    }

    /// Adds the gradient of each maximum to the element at its position.
    fn maximum_gradient(&mut self, grad: &TensorIr, indices: &TensorIr, out: &TensorIr) -> Result<()> {
        let f = self.f;
        let (shape, windows) = (extents(out), extents(grad));
        let rows = shape[0] * shape[1];
        let (elements, count): (i64, i64) = (shape[2..].iter().product(), windows[2..].iter().product());
        let grad = f.reshape(self.value(grad)?, &[rows, count])?;
        let at = f.reshape(self.value(indices)?, &[rows, count])?;
        let element = self.element(grad)?;
        let zeros = f.full(0.0, TensorType::new([rows, elements], element))?;
        let sums = self.scatter(zeros, 1, at, grad, burn_backend::tensor::IndexingUpdateOp::Add)?;
        self.set_reshaped(out, sums)
    }
}
