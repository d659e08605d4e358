//! Scaling of a matrix before a decomposition.

use pulp::NullaryFnOnce;

use crate::engine::elementwise::map::vectorized;
use crate::engine::kernels::linalg::scalar::Scalar;

/// A power of two that scales the largest element of a matrix to a magnitude close to 1. In the scaled matrix, squares
/// of elements do not overflow, and squares of the largest elements do not underflow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scaling {
    power: f64,
}

impl Scaling {
    /// Returns the scaling for a matrix that consists of the given slices. Returns `None` if an element is not finite.
    pub(super) fn of<'a, T: Scalar>(slices: impl IntoIterator<Item = &'a [T]>) -> Option<Self> {
        let mut largest = 0.0f64;
        for slice in slices {
            largest = largest.max(vectorized(Largest(slice))?);
        }
        // Limit the exponent, so that both the power and its reciprocal are normal numbers.
        let exponent = i32::try_from(largest.to_bits() >> 52).map_or(0, |biased| biased - 1023).clamp(-1022, 1022);
        Some(Self { power: if largest == 0.0 { 1.0 } else { 2f64.powi(-exponent) } })
    }

    pub(super) fn apply<T: Scalar>(self, x: T) -> T {
        x.scaled(self.power)
    }

    /// Converts an eigenvalue or a singular value of the scaled matrix to that of the original matrix.
    pub(super) fn undo<T: Scalar>(self, x: T) -> T {
        x.scaled(self.power.recip())
    }
}

/// Number of partial maxima. The compiler keeps them in vector registers.
const LANES: usize = 16;

/// Finds the largest absolute value of a real or imaginary part. Returns `None` if an element is not finite.
struct Largest<'a, T>(&'a [T]);

impl<T: Scalar> NullaryFnOnce for Largest<'_, T> {
    type Output = Option<f64>;

    #[inline(always)]
    fn call(self) -> Option<f64> {
        // Zero times an infinite or NaN element is NaN, and every sum that contains it is also NaN.
        let part = |(largest, check): (f64, f64), x: &T| {
            let (re, im) = (x.real_part().abs(), x.imaginary().abs());
            let size = if im > re { im } else { re };
            (if size > largest { size } else { largest }, check + (re * 0.0 + im * 0.0))
        };
        let mut lanes = [(0.0, 0.0); LANES];
        let chunks = self.0.chunks_exact(LANES);
        let rest = chunks.remainder().iter().fold((0.0, 0.0), part);
        for chunk in chunks {
            lanes.iter_mut().zip(chunk).for_each(|(lane, x)| *lane = part(*lane, x));
        }
        let (largest, check) = lanes.iter().fold(rest, |(a, b), (c, d)| (a.max(*c), b + d));
        (check == 0.0).then_some(largest)
    }
}

#[cfg(test)]
mod tests {
    use super::Scaling;

    #[test]
    fn scaling_is_exact_for_the_whole_range() {
        for x in [1.0f64, 3.5, f64::MAX, f64::MIN_POSITIVE, 5e-324, -2e300] {
            let scaling = Scaling::of([&[x][..]]).expect("a finite number");
            let scaled = scaling.apply(x);
            assert!(scaled.abs() < 4.0 && (scaled.abs() >= 1.0 || x.abs() < f64::MIN_POSITIVE), "{x} became {scaled}");
            assert_eq!(scaling.undo(scaled), x);
        }
        for x in [f32::MAX, f32::MIN_POSITIVE, 1e-45] {
            let scaling = Scaling::of([&[x][..]]).expect("a finite number");
            let scaled = scaling.apply(x);
            assert!((1.0..2.0).contains(&scaled), "{x} became {scaled}");
            assert_eq!(scaling.undo(scaled), x);
        }
        assert!(Scaling::of([&[1.0, f32::NAN][..]]).is_none());
        assert!(Scaling::of([&[1.0][..], &[f64::NEG_INFINITY; 40]]).is_none());
    }
}
