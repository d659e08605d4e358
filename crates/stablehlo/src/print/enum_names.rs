//! The names of StableHLO's enumeration values.

use crate::ir::*;

/// Returns the name of an enumeration value.
pub(crate) fn precision(precision: Precision) -> &'static str {
    match precision {
        Precision::Default => "DEFAULT",
        Precision::High => "HIGH",
        Precision::Highest => "HIGHEST",
    }
}

/// Returns the name of an enumeration value.
pub(crate) fn direction(direction: ComparisonDirection) -> &'static str {
    use ComparisonDirection::*;
    match direction {
        Eq => "EQ",
        Ne => "NE",
        Ge => "GE",
        Gt => "GT",
        Le => "LE",
        Lt => "LT",
    }
}

/// Returns the name of an enumeration value.
pub(crate) fn comparison(ty: ComparisonType) -> &'static str {
    use ComparisonType::*;
    match ty {
        NoType => "NOTYPE",
        Float => "FLOAT",
        TotalOrder => "TOTALORDER",
        Signed => "SIGNED",
        Unsigned => "UNSIGNED",
        WeakOrder => "WEAKORDER",
    }
}

/// Returns the name of an enumeration value.
pub(crate) fn fft(fft: FftType) -> &'static str {
    match fft {
        FftType::Fft => "FFT",
        FftType::Ifft => "IFFT",
        FftType::Rfft => "RFFT",
        FftType::Irfft => "IRFFT",
    }
}

/// Returns the name of an enumeration value.
pub(crate) fn rng(algorithm: RngAlgorithm) -> &'static str {
    match algorithm {
        RngAlgorithm::Default => "DEFAULT",
        RngAlgorithm::ThreeFry => "THREE_FRY",
        RngAlgorithm::Philox => "PHILOX",
    }
}

/// Returns the name of an enumeration value.
pub(crate) fn transpose(transpose: TransposeA) -> &'static str {
    match transpose {
        TransposeA::NoTranspose => "NO_TRANSPOSE",
        TransposeA::Transpose => "TRANSPOSE",
        TransposeA::Adjoint => "ADJOINT",
    }
}
