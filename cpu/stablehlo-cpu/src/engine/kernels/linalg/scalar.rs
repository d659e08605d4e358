//! Element types of the dense solvers.

use bytemuck::Pod;
use num_complex::Complex;
use stablehlo_cpu_math::Dense;

/// A complex number of two `f64`.
pub(crate) type C64 = Complex<f64>;

/// Real and complex element types of the dense solvers.
pub(crate) trait Scalar: Pod + Dense {
    /// The smallest normal number, divided by the distance from 1 to the next number.
    const TINY: f64;
    fn real(x: f64) -> Self;
    fn conj(self) -> Self;
    /// Returns the square root of the real part. The solvers call it only for diagonal elements, which are real.
    fn root(self) -> Self;
    /// Returns one divided by this number, even if the square of the number overflows or underflows.
    fn reciprocal(self) -> Self;
    fn abs(self) -> f64;
    fn real_part(self) -> f64;
    fn imaginary(self) -> f64;
    /// Multiplies by a power of two that `f64` can represent. The power may be outside the range of this type.
    fn scaled(self, power: f64) -> Self;
}

macro_rules! real_scalar {
    ($t:ty, $tiny:expr, $narrow:expr) => {
        impl Scalar for $t {
            const TINY: f64 = $tiny;
            fn real(x: f64) -> Self {
                $narrow(x)
            }
            #[inline(always)]
            fn conj(self) -> Self {
                self
            }
            fn root(self) -> Self {
                self.sqrt()
            }
            fn reciprocal(self) -> Self {
                self.recip()
            }
            fn abs(self) -> f64 {
                f64::from(self).abs()
            }
            fn real_part(self) -> f64 {
                f64::from(self)
            }
            fn imaginary(self) -> f64 {
                0.0
            }
            #[inline(always)]
            fn scaled(self, power: f64) -> Self {
                $narrow(f64::from(self) * power)
            }
        }
    };
}

#[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is the point")]
fn round(x: f64) -> f32 {
    x as f32
}

/// `2^-103`, the quotient of `f32::MIN_POSITIVE` and `f32::EPSILON`.
const TINY: f64 = 1.0 / (1u128 << 103) as f64;

real_scalar!(f32, TINY, round);
real_scalar!(f64, f64::MIN_POSITIVE / f64::EPSILON, std::convert::identity);

macro_rules! complex_scalar {
    ($t:ty, $narrow:expr) => {
        impl Scalar for Complex<$t> {
            const TINY: f64 = <$t as Scalar>::TINY;
            fn real(x: f64) -> Self {
                Complex::new($narrow(x), 0.0)
            }
            #[inline(always)]
            fn conj(self) -> Self {
                Complex::new(self.re, -self.im)
            }
            fn root(self) -> Self {
                Complex::new(self.re.sqrt(), 0.0)
            }
            fn reciprocal(self) -> Self {
                let scale = self.re.hypot(self.im).recip();
                Complex::new(self.re * scale * scale, -self.im * scale * scale)
            }
            fn abs(self) -> f64 {
                f64::from(self.re).hypot(f64::from(self.im))
            }
            fn real_part(self) -> f64 {
                f64::from(self.re)
            }
            fn imaginary(self) -> f64 {
                f64::from(self.im)
            }
            #[inline(always)]
            fn scaled(self, power: f64) -> Self {
                Complex::new(self.re.scaled(power), self.im.scaled(power))
            }
        }
    };
}

complex_scalar!(f32, round);
complex_scalar!(f64, std::convert::identity);

/// Evaluates `$result` with `$T` as the Rust type of a [`Field`].
macro_rules! in_field {
    ($field:expr, $T:ident => $result:expr) => {
        match $field {
            $crate::engine::kernels::linalg::scalar::Field::F32 => {
                type $T = f32;
                $result
            }
            $crate::engine::kernels::linalg::scalar::Field::F64 => {
                type $T = f64;
                $result
            }
            $crate::engine::kernels::linalg::scalar::Field::C128 => {
                type $T = $crate::engine::kernels::linalg::scalar::C64;
                $result
            }
        }
    };
}
pub(super) use in_field;

/// Element type of a dense solver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    F32,
    F64,
    C128,
}
