//! The precision of LAPACK matrices.

use crate::engine::dtype::DType;
use crate::engine::kernels::linalg::scalar::Scalar;

/// The precision of a program's matrices. The computation uses double precision, but its tolerances and limits are
/// those of the element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precision {
    Single,
    Double,
}

impl Precision {
    /// Returns the precision of the element type `f32`, `f64`, `c64` or `c128`.
    pub(crate) fn of(dtype: DType) -> Self {
        if matches!(dtype, DType::F32 | DType::C64) { Self::Single } else { Self::Double }
    }

    /// Returns the precision of the numbers of type `T`.
    pub(super) fn of_scalar<T: Scalar>() -> Self {
        if size_of::<T::Real>() == size_of::<f32>() { Self::Single } else { Self::Double }
    }

    /// Returns the distance from 1 to the next larger number.
    pub(super) fn epsilon(self) -> f64 {
        match self {
            Self::Single => f32::EPSILON.into(),
            Self::Double => f64::EPSILON,
        }
    }

    /// Returns the smallest normal number. Its reciprocal does not overflow.
    pub(super) fn least(self) -> f64 {
        match self {
            Self::Single => f32::MIN_POSITIVE.into(),
            Self::Double => f64::MIN_POSITIVE,
        }
    }
}

/// Returns the number of rows below which `faer` uses QR iterations instead of the divide-and-conquer algorithm.
///
/// The rounding errors of QR iterations grow with the number of rows. With this limit, the errors of `f32` results are
/// as small as those of LAPACK. With `faer`'s default of 128, they are 5 to 10 times as large.
pub(super) fn minimum_recursive_rows<T: Scalar>() -> usize {
    match Precision::of_scalar::<T>() {
        Precision::Single => 16,
        Precision::Double => 32,
    }
}
