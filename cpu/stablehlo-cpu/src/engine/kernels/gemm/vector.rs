//! Small products of a matrix and a vector, or of two vectors. For these, the setup of the general method costs more
//! than the product.

use pulp::NullaryFnOnce;

use super::number::Float;
use super::pack::Matrix;
use super::rows::{LANES, Rows};
use crate::engine::elementwise::map::vectorized;

/// Maximum number of elements of the matrix, so that it fits the first-level cache.
const SMALL: usize = 4096;
/// Maximum number of elements of the vector. A vector whose elements are not contiguous is copied to the stack.
const LONGEST: usize = 1024;
/// Number of partial sums of each element. They hide the latency of an addition.
pub(crate) const SUMS: usize = 4;

/// The strides of a small product of a matrix and a vector. All strides are in elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VectorProduct {
    /// Whether the matrix is the left operand. The other operand is the vector.
    pub(crate) is_matrix_left: bool,
    /// Number of elements of the result.
    pub(crate) count: usize,
    /// Stride of the matrix along the dimension of the result.
    pub(crate) free: usize,
    /// Stride of the matrix along the summed dimension.
    pub(crate) contract: usize,
    /// Stride of the vector.
    pub(crate) step: usize,
}

impl VectorProduct {
    /// Describes an `m x k` by `k x n` product. `a` and `b` are the strides of the operands between rows and between
    /// columns. Returns `None` if neither operand is a vector, if the product is large, or if no stride of the matrix
    /// is 1.
    pub(crate) fn new((m, k, n): (usize, usize, usize), a: (usize, usize), b: (usize, usize)) -> Option<Self> {
        let product = match (m, n) {
            (_, 1) => Self { is_matrix_left: true, count: m, free: a.0, contract: a.1, step: b.0 },
            (1, _) => Self { is_matrix_left: false, count: n, free: b.1, contract: b.0, step: a.1 },
            _ => return None,
        };
        let is_small = k <= LONGEST && product.count.saturating_mul(k) <= SMALL;
        (is_small && (product.free == 1 || product.contract == 1)).then_some(product)
    }

    /// Returns whether each element is the dot product of the vector and a contiguous row of the matrix. The elements
    /// of such a product are summed in [`LANES`] partial sums, and those of other products in [`SUMS`].
    pub(crate) fn has_contiguous_rows(&self) -> bool {
        self.contract == 1
    }
}

/// Computes a small product of a matrix and a vector. Returns false without computing it if [`VectorProduct::new`]
/// returns `None`.
pub(super) fn product<W: Float>(
    (m, k, n): (usize, usize, usize),
    a: &Matrix<'_, W>,
    b: &Matrix<'_, W>,
    out: &mut [W],
) -> bool {
    let Some(product) = VectorProduct::new((m, k, n), (a.row, a.column), (b.row, b.column)) else { return false };
    let VectorProduct { is_matrix_left, count, free, contract, step } = product;
    let (matrix, vector) = if is_matrix_left { (a, b) } else { (b, a) };
    let (data, out) = (&matrix.data[matrix.offset..], &mut out[..count]);
    with_contiguous(vector, step, k, |x| {
        if product.has_contiguous_rows() {
            Rows { data, stride: free, x, out }.multiply();
        } else {
            vectorized(Columns { data, stride: contract, x, out });
        }
    });
    true
}

/// Passes `then` the vector of `count` elements that starts at the offset of `from` and has this stride. Copies the
/// vector first unless its elements are contiguous. `count` is at most [`LONGEST`].
#[inline(always)]
fn with_contiguous<W: Float>(from: &Matrix<'_, W>, stride: usize, count: usize, then: impl FnOnce(&[W])) {
    let data = &from.data[from.offset..];
    if stride == 1 || count == 1 {
        return then(&data[..count]);
    }
    let mut copy = [W::default(); LONGEST];
    for (x, &y) in copy[..count].iter_mut().zip(data.iter().step_by(stride.max(1))) {
        *x = y;
    }
    then(&copy[..count]);
}

/// Computes the outer product of the column `a` and the row `b`. Returns false without computing it if the result, an
/// `m x n` matrix, is large.
pub(super) fn outer<W: Float>((m, n): (usize, usize), a: &Matrix<'_, W>, b: &Matrix<'_, W>, out: &mut [W]) -> bool {
    if n > LONGEST || m.saturating_mul(n) > SMALL {
        return false;
    }
    let (column, out) = (&a.data[a.offset..], &mut out[..m * n]);
    with_contiguous(b, b.column, n, |row| vectorized(Outer { column, stride: a.row, row, out }));
    true
}

/// The outer product of a column and a row.
struct Outer<'a, W> {
    column: &'a [W],
    stride: usize,
    row: &'a [W],
    out: &'a mut [W],
}

impl<W: Float> NullaryFnOnce for Outer<'_, W> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let column = self.column.iter().step_by(self.stride.max(1));
        for (&a, out) in column.zip(self.out.chunks_exact_mut(self.row.len())) {
            for (o, &b) in out.iter_mut().zip(self.row) {
                // Add the product to 0, as other matrix products do, so that the result is never -0.
                let mut sum = W::default();
                sum += a * b;
                *o = sum;
            }
        }
    }
}

/// A product that is the sum of contiguous columns, each multiplied by an element of the vector.
struct Columns<'a, W> {
    data: &'a [W],
    stride: usize,
    x: &'a [W],
    out: &'a mut [W],
}

impl<W: Float> NullaryFnOnce for Columns<'_, W> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Columns { data, stride, x, out } = self;
        let (blocks, rest) = out.as_chunks_mut::<LANES>();
        let (xs, last) = x.as_chunks::<SUMS>();
        let done = blocks.len() * LANES;
        for (block, o) in blocks.iter_mut().enumerate() {
            let data = &data[block * LANES..];
            let mut sums = [[W::default(); LANES]; SUMS];
            for (p, x) in xs.iter().enumerate() {
                for s in 0..SUMS {
                    let column = &data[(p * SUMS + s) * stride..][..LANES];
                    for l in 0..LANES {
                        sums[s][l] = column[l].fused(x[s], sums[s][l]);
                    }
                }
            }
            for (s, &x) in last.iter().enumerate() {
                let column = &data[(xs.len() * SUMS + s) * stride..][..LANES];
                for l in 0..LANES {
                    sums[s][l] = column[l].fused(x, sums[s][l]);
                }
            }
            for l in 0..LANES {
                let (mut front, mut back) = (sums[0][l], sums[2][l]);
                front += sums[1][l];
                back += sums[3][l];
                front += back;
                o[l] = front;
            }
        }
        for (i, o) in rest.iter_mut().enumerate() {
            let mut sums = [W::default(); SUMS];
            for (p, &x) in x.iter().enumerate() {
                let sum = &mut sums[p % SUMS];
                *sum = data[p * stride + done + i].fused(x, *sum);
            }
            let [mut front, second, mut back, fourth] = sums;
            front += second;
            back += fourth;
            front += back;
            *o = front;
        }
    }
}
