//! Small products of a matrix with contiguous rows and a vector.

use std::array::from_fn;

use pulp::{Simd, WithSimd};

use super::number::Float;
use crate::engine::elementwise::map::narrow_arch;

/// Number of partial sums of a dot product. The compiler keeps them in one or two vector registers.
pub(crate) const LANES: usize = 8;
/// Number of rows that are multiplied together. Their independent sums hide the latency of an addition.
const ROWS: usize = 4;

/// A product whose elements are the dot products of the vector and each contiguous row of the matrix.
pub(super) struct Rows<'a, W> {
    pub(super) data: &'a [W],
    /// Number of elements between the starts of two rows.
    pub(super) stride: usize,
    pub(super) x: &'a [W],
    /// The result, with one element for each row.
    pub(super) out: &'a mut [W],
}

impl<W: Float> Rows<'_, W> {
    /// Computes the product. Each dot product has [`LANES`] partial sums, of elements that are [`LANES`] apart. The
    /// second half of them is added to the first half until one sum is left. All machines add in this order.
    pub(super) fn multiply(self) {
        narrow_arch().dispatch(Blocks(self));
    }

    #[inline(always)]
    fn multiply_scalars(self) {
        let (xs, rest_of_x) = self.x.as_chunks::<LANES>();
        for (i, o) in self.out.iter_mut().enumerate() {
            let (row, rest) = self.data[i * self.stride..][..self.x.len()].as_chunks::<LANES>();
            let mut lanes = [W::default(); LANES];
            for (a, x) in row.iter().zip(xs) {
                for l in 0..LANES {
                    lanes[l] = a[l].fused(x[l], lanes[l]);
                }
            }
            for ((lane, &a), &x) in lanes.iter_mut().zip(rest).zip(rest_of_x) {
                *lane = a.fused(x, *lane);
            }
            let mut width = LANES / 2;
            while width > 0 {
                for l in 0..width {
                    lanes[l] += lanes[l + width];
                }
                width /= 2;
            }
            *o = lanes[0];
        }
    }
}

/// The same product. Uses explicit vectors on x86 machines whose vectors have 256 bits, and scalar code elsewhere.
struct Blocks<'a, W>(Rows<'a, W>);

impl<W: Float> WithSimd for Blocks<'_, W> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // The partial sums of a row are one vector of `f32` or two of `f64`. Other machines than x86 add the elements
        // of a vector in another order.
        match LANES / W::lanes::<S>() {
            1 if cfg!(target_arch = "x86_64") => blocks::<W, S, 1>(simd, self.0),
            2 if cfg!(target_arch = "x86_64") => blocks::<W, S, 2>(simd, self.0),
            _ => self.0.multiply_scalars(),
        }
    }
}

/// Multiplies [`ROWS`] rows at a time, and then the remaining rows. The partial sums of a row are `PARTS` vectors.
#[inline(always)]
fn blocks<W: Float, S: Simd, const PARTS: usize>(simd: S, product: Rows<'_, W>) {
    let Rows { data, stride, x, out } = product;
    let whole = x.len() / LANES * LANES;
    // The last vector of a row is padded with 0, and that of `x` with -0. The products of the padding are -0. Adding -0
    // changes no partial sum, not even a sum of -0.
    let mut last = [-W::default(); LANES];
    last[..x.len() - whole].copy_from_slice(&x[whole..]);
    let (blocks, rest) = out.as_chunks_mut::<ROWS>();
    for (i, out) in blocks.iter_mut().enumerate() {
        let data = &data[i * ROWS * stride..];
        *out = dot_products::<W, S, PARTS, ROWS>(simd, from_fn(|r| &data[r * stride..][..x.len()]), x, &last);
    }
    let done = blocks.len() * ROWS;
    for (i, out) in rest.iter_mut().enumerate() {
        let row = &data[(done + i) * stride..][..x.len()];
        [*out] = dot_products::<W, S, PARTS, 1>(simd, [row], x, &last);
    }
}

/// Returns the dot products of `x` and each of the rows. `last` contains the elements after the last multiple of
/// [`LANES`] in `x`, padded with -0.
#[inline(always)]
fn dot_products<W: Float, S: Simd, const PARTS: usize, const COUNT: usize>(
    simd: S,
    rows: [&[W]; COUNT],
    x: &[W],
    last: &[W; LANES],
) -> [W; COUNT] {
    let whole = x.len() / LANES * LANES;
    let zero = W::splat(simd, W::default());
    let mut sums = [[zero; PARTS]; COUNT];
    let xs = W::vectors::<S>(&x[..whole]).as_chunks::<PARTS>().0;
    let vectors: [&[[W::Vector<S>; PARTS]]; COUNT] =
        from_fn(|r| &W::vectors::<S>(&rows[r][..whole]).as_chunks::<PARTS>().0[..xs.len()]);
    for (p, x) in xs.iter().enumerate() {
        for r in 0..COUNT {
            for part in 0..PARTS {
                sums[r][part] = W::mul_add(simd, vectors[r][p][part], x[part], sums[r][part]);
            }
        }
    }
    if whole < x.len() {
        let lanes = W::lanes::<S>();
        let last = W::vectors::<S>(last);
        for r in 0..COUNT {
            for (part, row) in rows[r][whole..].chunks(lanes).enumerate() {
                sums[r][part] = W::mul_add(simd, W::load_padded(simd, row), last[part], sums[r][part]);
            }
        }
    }
    from_fn(|r| {
        let sum = sums[r].into_iter().reduce(|a, b| W::plus(simd, a, b)).unwrap_or(zero);
        W::sum(simd, sum)
    })
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use super::*;

    /// Compares the bits of both methods for matrices whose products are rounded and whose partial sums can be -0.
    fn compare<W: Float + Debug>(value: impl Fn(usize) -> W) {
        for (count, k, stride) in [(9, 67, 67), (4, 8, 11), (5, 7, 7), (64, 64, 64), (3, 0, 2), (6, 13, 0), (1, 30, 40)]
        {
            let data: Vec<W> =
                (0..count * stride + k).map(|i: usize| value(i.wrapping_mul(0x9E37_79B9) >> 5)).collect();
            let x: Vec<W> = (0..k).map(|i: usize| value(i.wrapping_mul(0x85EB_CA6B) >> 3)).collect();
            let [mut expected, mut actual] = [vec![W::default(); count], vec![W::default(); count]];
            Rows { data: &data, stride, x: &x, out: &mut expected }.multiply_scalars();
            Rows { data: &data, stride, x: &x, out: &mut actual }.multiply();
            let bits = |values: &[W]| bytemuck::cast_slice::<W, u8>(values).to_vec();
            assert_eq!(bits(&actual), bits(&expected), "{count} rows of {k} elements: {actual:?}, not {expected:?}");
        }
    }

    #[test]
    fn vectors_and_scalars_give_equal_bits() {
        let fraction = |i: usize| f64::from(u16::try_from(i % 2003).unwrap()) / 2003.0 - 0.5;
        compare(fraction);
        compare(|i| half::f16::from_f64(fraction(i)).to_f32() * 1.1);
        // The products are too small for the type, so that negative sums are rounded to -0.
        compare(|i| fraction(i) * 1e-170);
        compare(|i| half::f16::from_f64(fraction(i)).to_f32() * 1e-25);
    }
}
