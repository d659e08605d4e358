//! Element types and the Rust types that hold them.

use std::fmt;
use std::sync::Arc;

use bytemuck::{Pod, Zeroable};
use stablehlo::ir::ElementType;

use crate::error::CompileError;

macro_rules! dtypes {
    ($($name:ident = $ir:ident, $size:literal, $text:literal;)*) => {
        /// Element type of a tensor. Types narrower than a byte take one whole byte per element.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[allow(missing_docs, reason = "each name is the StableHLO specification's own")]
        pub enum DType { $($name,)* }

        impl DType {
            /// Returns the size of one element in bytes.
            pub const fn size(self) -> usize {
                match self { $(DType::$name => $size,)* }
            }

            /// Returns StableHLO's spelling of the type.
            pub const fn name(self) -> &'static str {
                match self { $(DType::$name => $text,)* }
            }

            /// Returns the engine's type for an element type of the IR, or `None` for a type that only attributes use.
            pub fn from_ir(element: ElementType) -> Option<Self> {
                match element { $(ElementType::$ir => Some(DType::$name),)* _ => None }
            }

            /// Returns the element type of the IR.
            pub(crate) fn element_type(self) -> ElementType {
                match self { $(DType::$name => ElementType::$ir,)* }
            }
        }
    };
}

dtypes! {
    Bool = Bool, 1, "i1";
    I2 = I2, 1, "i2";
    I4 = I4, 1, "i4";
    I8 = I8, 1, "i8";
    I16 = I16, 2, "i16";
    I32 = I32, 4, "i32";
    I64 = I64, 8, "i64";
    U2 = Ui2, 1, "ui2";
    U4 = Ui4, 1, "ui4";
    U8 = Ui8, 1, "ui8";
    U16 = Ui16, 2, "ui16";
    U32 = Ui32, 4, "ui32";
    U64 = Ui64, 8, "ui64";
    F4E2M1FN = F4E2M1FN, 1, "f4E2M1FN";
    F6E2M3FN = F6E2M3FN, 1, "f6E2M3FN";
    F6E3M2FN = F6E3M2FN, 1, "f6E3M2FN";
    F8E3M4 = F8E3M4, 1, "f8E3M4";
    F8E4M3 = F8E4M3, 1, "f8E4M3";
    F8E4M3FN = F8E4M3FN, 1, "f8E4M3FN";
    F8E4M3FNUZ = F8E4M3FNUZ, 1, "f8E4M3FNUZ";
    F8E4M3B11FNUZ = F8E4M3B11FNUZ, 1, "f8E4M3B11FNUZ";
    F8E5M2 = F8E5M2, 1, "f8E5M2";
    F8E5M2FNUZ = F8E5M2FNUZ, 1, "f8E5M2FNUZ";
    F8E8M0FNU = F8E8M0FNU, 1, "f8E8M0FNU";
    Bf16 = Bf16, 2, "bf16";
    F16 = F16, 2, "f16";
    F32 = F32, 4, "f32";
    F64 = F64, 8, "f64";
    C64 = ComplexF32, 8, "complex<f32>";
    C128 = ComplexF64, 16, "complex<f64>";
}

impl DType {
    /// Returns whether this is a signed or unsigned integer type of one or more whole bytes.
    pub(crate) fn is_integer(self) -> bool {
        use DType::*;
        matches!(self, I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64)
    }

    /// Returns whether this is a signed integer type of whole bytes.
    pub(crate) fn is_signed(self) -> bool {
        matches!(self, DType::I8 | DType::I16 | DType::I32 | DType::I64)
    }

    /// Returns the width in bits of an integer type narrower than a byte, or `None` for any other type. Such an integer
    /// is stored sign- or zero-extended to a byte.
    pub(crate) fn narrow_bits(self) -> Option<u32> {
        match self {
            DType::I2 | DType::U2 => Some(2),
            DType::I4 | DType::U4 => Some(4),
            _ => None,
        }
    }

    /// Returns whether this is a float type that is stored in one byte. The engine computes with such floats in `f32`.
    pub(crate) fn is_narrow_float(self) -> bool {
        self.size() == 1 && !matches!(self, DType::Bool | DType::I8 | DType::U8) && self.narrow_bits().is_none()
    }

    /// Returns the type in which the engine computes with elements of this type. The returned type represents every
    /// element exactly.
    pub(crate) fn computed(self) -> DType {
        match self {
            DType::I2 | DType::I4 => DType::I8,
            DType::U2 | DType::U4 => DType::U8,
            _ if self.is_narrow_float() => DType::F32,
            _ => self,
        }
    }

    /// Returns the type in which elementwise functions compute. Unlike [`Self::computed`], it is `f32` for `bf16` and
    /// `f16`, with which kernels compute directly.
    pub(crate) fn elementwise(self) -> DType {
        match self {
            DType::Bf16 | DType::F16 => DType::F32,
            _ => self.computed(),
        }
    }

    /// Returns the type of the real and the imaginary part, or `None` for a type that is not complex.
    pub(crate) fn part(self) -> Option<DType> {
        match self {
            DType::C64 => Some(DType::F32),
            DType::C128 => Some(DType::F64),
            _ => None,
        }
    }

    /// Returns the width of an element in bits, as the specification defines it.
    pub(crate) fn bits(self) -> usize {
        match self {
            DType::Bool => 1,
            DType::I2 | DType::U2 => 2,
            DType::I4 | DType::U4 | DType::F4E2M1FN => 4,
            DType::F6E2M3FN | DType::F6E3M2FN => 6,
            _ => self.size() * 8,
        }
    }

    /// Returns whether this is a float type in which the engine computes directly.
    pub(crate) fn is_float(self) -> bool {
        use DType::*;
        matches!(self, Bf16 | F16 | F32 | F64)
    }
}

/// Element type and extents of a row-major tensor.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// Element type.
    pub dtype: DType,
    /// Extent of each dimension. Empty for a scalar.
    pub dims: Arc<[usize]>,
}

impl TensorType {
    /// Creates a type. Returns an error if its size does not fit the address space.
    pub fn new(dtype: DType, dims: &[usize]) -> Result<Self, CompileError> {
        let ty = TensorType { dtype, dims: dims.into() };
        let mut bytes = dtype.size();
        // Multiply the extents other than zero even for an empty tensor, so that strides cannot overflow either.
        for &dim in dims.iter().filter(|&&d| d != 0) {
            bytes = bytes
                .checked_mul(dim)
                .filter(|&b| isize::try_from(b).is_ok())
                .ok_or_else(|| CompileError::invalid(format!("{ty} is larger than the address space")))?;
        }
        Ok(ty)
    }

    /// Returns the number of elements.
    pub fn elements(&self) -> usize {
        self.dims.iter().product()
    }

    /// Returns the size in bytes.
    pub fn bytes(&self) -> usize {
        self.elements() * self.dtype.size()
    }

    /// Returns the number of dimensions.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tensor<")?;
        for dim in self.dims.iter() {
            write!(f, "{dim}x")?;
        }
        write!(f, "{}>", self.dtype.name())
    }
}

impl fmt::Debug for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A truth value in memory: 0 or 1. It is a separate type, so that `bool` tensors do not get `u8` arithmetic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Pod, Zeroable)]
#[repr(transparent)]
pub(crate) struct Pred(pub(crate) u8);

impl From<bool> for Pred {
    #[inline(always)]
    fn from(value: bool) -> Self {
        Pred(u8::from(value))
    }
}

impl Pred {
    #[inline(always)]
    pub(crate) fn get(self) -> bool {
        self.0 != 0
    }
}

/// Calls `$body` with `$t` bound to the Rust type of an arithmetic dtype, or evaluates `$otherwise`.
macro_rules! with_dtype {
    ($dtype:expr, $t:ident => $body:expr, _ => $otherwise:expr) => {
        match $dtype {
            $crate::engine::dtype::DType::Bool => {
                type $t = $crate::engine::dtype::Pred;
                $body
            }
            $crate::engine::dtype::DType::I8 => {
                type $t = i8;
                $body
            }
            $crate::engine::dtype::DType::I16 => {
                type $t = i16;
                $body
            }
            $crate::engine::dtype::DType::I32 => {
                type $t = i32;
                $body
            }
            $crate::engine::dtype::DType::I64 => {
                type $t = i64;
                $body
            }
            $crate::engine::dtype::DType::U8 => {
                type $t = u8;
                $body
            }
            $crate::engine::dtype::DType::U16 => {
                type $t = u16;
                $body
            }
            $crate::engine::dtype::DType::U32 => {
                type $t = u32;
                $body
            }
            $crate::engine::dtype::DType::U64 => {
                type $t = u64;
                $body
            }
            $crate::engine::dtype::DType::F16 => {
                type $t = half::f16;
                $body
            }
            $crate::engine::dtype::DType::Bf16 => {
                type $t = half::bf16;
                $body
            }
            $crate::engine::dtype::DType::F32 => {
                type $t = f32;
                $body
            }
            $crate::engine::dtype::DType::F64 => {
                type $t = f64;
                $body
            }
            _ => $otherwise,
        }
    };
}
pub(crate) use with_dtype;

/// Calls `$body` with `$t` bound to an unsigned integer type of `$size` bytes, for code that only moves elements.
macro_rules! with_size {
    ($size:expr, $t:ident => $body:expr) => {
        match $size {
            1 => {
                type $t = u8;
                $body
            }
            2 => {
                type $t = u16;
                $body
            }
            4 => {
                type $t = u32;
                $body
            }
            8 => {
                type $t = u64;
                $body
            }
            _ => {
                type $t = u128;
                $body
            }
        }
    };
}
pub(crate) use with_size;
