//! Settings for how a framework lowers its operations for the device.

use serde::{Deserialize, Serialize};

use crate::ElementType;
use crate::names::codes;

codes! {
    /// Algorithm of StableHLO's `rng_bit_generator` that suits the device.
    #[derive(Default)]
    pub enum RngBitGenerator {
        /// The compiler chooses the algorithm.
        #[default]
        Default = 0 "default",
        /// Philox 4x32.
        Philox = 1 "philox",
        /// ThreeFry 2x32.
        ThreeFry = 2 "three_fry",
    }
}

codes! {
    /// PyTorch's list of the operations to which automatic mixed precision applies.
    pub enum AutocastKind {
        /// PyTorch's list of autocast operations for XLA devices.
        Xla = 1 "xla",
        /// PyTorch's list of autocast operations for CUDA devices.
        Cuda = 2 "cuda",
    }
}

/// Automatic mixed precision: frameworks run chosen operations in a narrower float type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
// Exhaustive, because vendors construct this struct.
pub struct Autocast {
    /// The list of operations that run in the narrower type.
    pub kind: AutocastKind,
    /// The narrower types that a user may choose.
    pub dtypes: Vec<ElementType>,
    /// The type that applies if the user does not choose one. It must be in `dtypes`.
    pub default_dtype: ElementType,
}

impl Autocast {
    /// Creates autocast with PyTorch's operation list for XLA devices. The first of `dtypes` is the default type, and
    /// the user can choose any of them.
    ///
    /// If `dtypes` is empty, the default is [`ElementType::Bf16`], and
    /// [`Capabilities::validate`](super::Capabilities::validate) rejects the result.
    pub fn xla(dtypes: impl IntoIterator<Item = ElementType>) -> Self {
        let dtypes: Vec<_> = dtypes.into_iter().collect();
        let default_dtype = dtypes.first().copied().unwrap_or(ElementType::Bf16);
        Self { kind: AutocastKind::Xla, dtypes, default_dtype }
    }
}

codes! {
    /// How a device handles 64-bit integers.
    #[derive(Default)]
    pub enum Int64Policy {
        /// The device computes with 64-bit integers.
        #[default]
        Native = 0 "native",
        /// Like [`Self::Native`], but integer dot products with a 64-bit operand run on the host.
        DotOnHost = 1 "dot_on_host",
        /// Frameworks store 64-bit integers as 32-bit integers, and compute with 32-bit integers.
        Remapped = 2 "remapped",
    }
}

codes! {
    /// Whether `f32` and `f64` arrays of a program are stored in narrower types.
    #[derive(Default)]
    pub enum Bf16Policy {
        /// Every float type is stored as the program declares it.
        #[default]
        Native = 0 "native",
        /// `f32` is stored as `bf16`, and `f64` as `f32`.
        Downcast = 1 "downcast",
        /// `f32` and `f64` are stored as `bf16`.
        Replace = 2 "replace",
    }
}

codes! {
    /// Support for dot products of operands with different types.
    #[derive(Default)]
    pub enum MixedDot {
        /// Frameworks convert both operands to the result type first.
        #[default]
        Converted = 0 "converted",
        /// The device accepts one float and one integer operand without a conversion.
        FloatAndInteger = 1 "float_and_integer",
    }
}

codes! {
    /// Algorithms of StableHLO's `dot_general`, with JAX's names. Each name except `default` begins with the types of
    /// the two operands and of the accumulator.
    pub enum DotAlgorithm {
        /// The operand types determine the algorithm.
        Default = 1 "default",
        /// Any 8-bit floats, summed in `f32`.
        AnyF8AnyF8F32 = 2 "any_f8_any_f8_f32",
        /// Any 8-bit floats, summed in `f32`, faster and less exact.
        AnyF8AnyF8F32FastAccum = 3 "any_f8_any_f8_f32_fast_accum",
        /// Any 8-bit floats, summed in the result's type.
        AnyF8AnyF8Any = 4 "any_f8_any_f8_any",
        /// Any 8-bit floats, summed in the result's type, faster and less exact.
        AnyF8AnyF8AnyFastAccum = 5 "any_f8_any_f8_any_fast_accum",
        /// `f16`, summed in `f16`.
        F16F16F16 = 6 "f16_f16_f16",
        /// `f16`, summed in `f32`.
        F16F16F32 = 7 "f16_f16_f32",
        /// `bf16`, summed in `bf16`.
        Bf16Bf16Bf16 = 8 "bf16_bf16_bf16",
        /// `bf16`, summed in `f32`.
        Bf16Bf16F32 = 9 "bf16_bf16_f32",
        /// `f32`, computed with 3 operations on `bf16`.
        Bf16Bf16F32X3 = 10 "bf16_bf16_f32_x3",
        /// `f32`, computed with 6 operations on `bf16`.
        Bf16Bf16F32X6 = 11 "bf16_bf16_f32_x6",
        /// `f32`, computed with 9 operations on `bf16`.
        Bf16Bf16F32X9 = 12 "bf16_bf16_f32_x9",
        /// `tf32`, summed in `f32`.
        Tf32Tf32F32 = 13 "tf32_tf32_f32",
        /// `f32`, computed with 3 operations on `tf32`.
        Tf32Tf32F32X3 = 14 "tf32_tf32_f32_x3",
        /// `f32`, summed in `f32`.
        F32F32F32 = 15 "f32_f32_f32",
        /// `f64`, summed in `f64`.
        F64F64F64 = 16 "f64_f64_f64",
    }
}
