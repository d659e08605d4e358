//! Element types, tensor types and types of values: their names, widths and text.

use std::fmt;

use crate::error::{Error, ErrorKind, Result};

/// Extent of a dimension that is known only at run time.
pub const DYNAMIC: i64 = i64::MIN;

/// Element types of the StableHLO specification, and MLIR's `index`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each name is the specification's own")]
pub enum ElementType {
    Bool,
    I2,
    I4,
    I8,
    I16,
    I32,
    I64,
    Ui2,
    Ui4,
    Ui8,
    Ui16,
    Ui32,
    Ui64,
    F4E2M1FN,
    F6E2M3FN,
    F6E3M2FN,
    F8E3M4,
    F8E4M3,
    F8E4M3FN,
    F8E4M3FNUZ,
    F8E4M3B11FNUZ,
    F8E5M2,
    F8E5M2FNUZ,
    F8E8M0FNU,
    Bf16,
    F16,
    F32,
    F64,
    Tf32,
    ComplexF32,
    ComplexF64,
    /// MLIR's `index`, which only occurs in programs with dynamic shapes.
    Index,
}

/// Type of a tensor. `shape` is empty for a scalar.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// Extent of each dimension, or [`DYNAMIC`] if it is unknown.
    pub shape: Vec<i64>,
    /// Element type.
    pub element: ElementType,
}

/// Type of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Type {
    /// A ranked tensor.
    Tensor(TensorType),
    /// A token, which orders side effects.
    Token,
    /// A tuple.
    Tuple(Vec<Type>),
    /// Any other type, as MLIR text if the text is known.
    Other(String),
}

/// Every element type with its StableHLO name and its width in bits.
const ELEMENTS: [(ElementType, &str, u32); 32] = {
    use ElementType::*;
    [
        (Bool, "i1", 1),
        (I2, "i2", 2),
        (I4, "i4", 4),
        (I8, "i8", 8),
        (I16, "i16", 16),
        (I32, "i32", 32),
        (I64, "i64", 64),
        (Ui2, "ui2", 2),
        (Ui4, "ui4", 4),
        (Ui8, "ui8", 8),
        (Ui16, "ui16", 16),
        (Ui32, "ui32", 32),
        (Ui64, "ui64", 64),
        (F4E2M1FN, "f4E2M1FN", 4),
        (F6E2M3FN, "f6E2M3FN", 6),
        (F6E3M2FN, "f6E3M2FN", 6),
        (F8E3M4, "f8E3M4", 8),
        (F8E4M3, "f8E4M3", 8),
        (F8E4M3FN, "f8E4M3FN", 8),
        (F8E4M3FNUZ, "f8E4M3FNUZ", 8),
        (F8E4M3B11FNUZ, "f8E4M3B11FNUZ", 8),
        (F8E5M2, "f8E5M2", 8),
        (F8E5M2FNUZ, "f8E5M2FNUZ", 8),
        (F8E8M0FNU, "f8E8M0FNU", 8),
        (Bf16, "bf16", 16),
        (F16, "f16", 16),
        (F32, "f32", 32),
        (F64, "f64", 64),
        (Tf32, "tf32", 19),
        (ComplexF32, "complex<f32>", 64),
        (ComplexF64, "complex<f64>", 128),
        (Index, "index", 64),
    ]
};

impl ElementType {
    /// Iterates over every element type.
    pub fn all() -> impl Iterator<Item = Self> {
        ELEMENTS.iter().map(|row| row.0)
    }

    /// Returns StableHLO's name, such as `f32`, `i1` for booleans, `ui8` or `complex<f32>`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Returns the type with this StableHLO name. Also accepts the prefix `si` for signed integers, as in `si32`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let plain = name.strip_prefix('s').filter(|rest| rest.starts_with('i')).unwrap_or(name);
        ELEMENTS.iter().find(|row| row.1 == plain).map(|row| row.0)
    }

    /// Returns the width of one element in bits. The width is 1 for booleans and 64 for `complex<f32>`.
    #[must_use]
    pub fn bit_width(self) -> u32 {
        self.row().2
    }

    /// Returns the number of bytes per element in a [`Literal`](crate::ir::Literal) and in host memory. Each element
    /// takes at least one whole byte, and `tf32` takes four bytes.
    #[must_use]
    pub fn byte_size(self) -> usize {
        match self.bit_width() {
            ..=8 => 1,
            9..=16 => 2,
            17..=32 => 4,
            33..=64 => 8,
            _ => 16,
        }
    }

    /// Returns whether this is a real floating-point type.
    #[must_use]
    pub fn is_float(self) -> bool {
        use ElementType::*;
        matches!(
            self,
            F4E2M1FN
                | F6E2M3FN
                | F6E3M2FN
                | F8E3M4
                | F8E4M3
                | F8E4M3FN
                | F8E4M3FNUZ
                | F8E4M3B11FNUZ
                | F8E5M2
                | F8E5M2FNUZ
                | F8E8M0FNU
                | Bf16
                | F16
                | F32
                | F64
                | Tf32
        )
    }

    /// Returns whether this is a complex type.
    #[must_use]
    pub fn is_complex(self) -> bool {
        matches!(self, Self::ComplexF32 | Self::ComplexF64)
    }

    /// Returns the type of the real and the imaginary part. Returns `None` for types that are not complex.
    #[must_use]
    pub fn complex_part(self) -> Option<Self> {
        match self {
            Self::ComplexF32 => Some(Self::F32),
            Self::ComplexF64 => Some(Self::F64),
            _ => None,
        }
    }

    /// Returns whether this is a signed integer type, including `index`. Booleans are not integers.
    #[must_use]
    pub fn is_signed_integer(self) -> bool {
        use ElementType::*;
        matches!(self, I2 | I4 | I8 | I16 | I32 | I64 | Index)
    }

    /// Returns whether this is an unsigned integer type. Booleans are not integers.
    #[must_use]
    pub fn is_unsigned_integer(self) -> bool {
        use ElementType::*;
        matches!(self, Ui2 | Ui4 | Ui8 | Ui16 | Ui32 | Ui64)
    }

    /// Returns whether this is a signed or unsigned integer type. Booleans are not integers.
    #[must_use]
    pub fn is_integer(self) -> bool {
        self.is_signed_integer() || self.is_unsigned_integer()
    }

    fn row(self) -> &'static (ElementType, &'static str, u32) {
        // The table is in declaration order, which a test checks.
        &ELEMENTS[self as usize]
    }
}

impl TensorType {
    /// Creates a tensor type.
    pub fn new(shape: impl Into<Vec<i64>>, element: ElementType) -> Self {
        Self { shape: shape.into(), element }
    }

    /// Returns the number of dimensions.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Returns the type with its dimensions in another order.
    ///
    /// # Errors
    ///
    /// Returns an error if the order has another length than the shape, or contains a number that is not a dimension.
    pub fn permuted(&self, order: &[usize]) -> Result<Self> {
        let shape: Option<Vec<i64>> = order.iter().map(|&dimension| self.shape.get(dimension).copied()).collect();
        match shape.filter(|shape| shape.len() == self.rank()) {
            Some(shape) => Ok(Self { shape, element: self.element }),
            None => {
                let message = format_args!("{order:?} does not order the dimensions of {self}");
                Err(Error::new(ErrorKind::Attribute, message))
            }
        }
    }

    /// Returns whether every extent is static.
    #[must_use]
    pub fn is_static(&self) -> bool {
        self.shape.iter().all(|&d| d != DYNAMIC)
    }

    /// Returns the product of the extents. Returns `None` if an extent is dynamic or negative, or if the product
    /// exceeds `usize`.
    #[must_use]
    pub fn num_elements(&self) -> Option<usize> {
        // A tensor with an extent of zero is empty, even if the product of its other extents overflows.
        if self.shape.contains(&0) {
            return self.shape.iter().all(|&d| d >= 0).then_some(0);
        }
        self.shape.iter().try_fold(1usize, |product, &d| product.checked_mul(usize::try_from(d).ok()?))
    }

    /// Returns the size in bytes of the tensor as a dense row-major array (see [`ElementType::byte_size`]). Returns
    /// `None` if [`Self::num_elements`] does, or if the size exceeds `usize`.
    #[must_use]
    pub fn byte_size(&self) -> Option<usize> {
        self.num_elements()?.checked_mul(self.element.byte_size())
    }
}

impl Type {
    /// Returns the tensor type. Returns `None` for any other type.
    #[must_use]
    pub fn as_tensor(&self) -> Option<&TensorType> {
        match self {
            Self::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }
}

impl From<TensorType> for Type {
    fn from(tensor: TensorType) -> Self {
        Self::Tensor(tensor)
    }
}

impl From<&TensorType> for Type {
    fn from(tensor: &TensorType) -> Self {
        Self::Tensor(tensor.clone())
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tensor<")?;
        for &extent in &self.shape {
            if extent == DYNAMIC {
                f.write_str("?x")?;
            } else {
                write!(f, "{extent}x")?;
            }
        }
        write!(f, "{}>", self.element)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tensor(tensor) => tensor.fmt(f),
            Self::Token => f.write_str("!stablehlo.token"),
            Self::Tuple(types) => {
                f.write_str("tuple<")?;
                write_list(f, types)?;
                f.write_str(">")
            }
            Self::Other(text) => f.write_str(text),
        }
    }
}

/// Writes the text of each type to `f`, separated by commas.
pub(crate) fn write_list(f: &mut impl fmt::Write, types: &[Type]) -> fmt::Result {
    for (i, ty) in types.iter().enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        write!(f, "{ty}")?;
    }
    Ok(())
}

/// Returns a function type in MLIR's form, such as `(tensor<f32>) -> tensor<f32>`.
pub(crate) fn function_text(inputs: &[Type], outputs: &[Type]) -> String {
    let mut text = String::from("(");
    let _ = write_list(&mut text, inputs);
    text.push_str(") -> ");
    let bare = outputs.len() == 1;
    text.push_str(if bare { "" } else { "(" });
    let _ = write_list(&mut text, outputs);
    text.push_str(if bare { "" } else { ")" });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn element_table_order() {
        for (i, row) in ELEMENTS.iter().enumerate() {
            assert_eq!(row.0 as usize, i, "{}", row.1);
            assert_eq!(ElementType::from_name(row.1), Some(row.0));
        }
        assert_eq!(ElementType::from_name("si32"), Some(ElementType::I32));
        assert_eq!(ElementType::from_name("s"), None);
    }

    #[test]
    fn type_spelling() {
        let ty = TensorType::new([2, DYNAMIC, 3], ElementType::ComplexF32);
        assert_eq!(ty.to_string(), "tensor<2x?x3xcomplex<f32>>");
        assert_eq!(ty.num_elements(), None);
        let tuple = Type::Tuple(vec![Type::Tensor(TensorType::new([], ElementType::Bool)), Type::Token]);
        assert_eq!(tuple.to_string(), "tuple<tensor<i1>, !stablehlo.token>");
        assert_eq!(function_text(&[], std::slice::from_ref(&tuple)), "() -> tuple<tensor<i1>, !stablehlo.token>");
    }

    #[test]
    fn element_count_overflow() {
        assert_eq!(TensorType::new([2, 3], ElementType::F32).byte_size(), Some(24));
        assert_eq!(TensorType::new([], ElementType::I4).byte_size(), Some(1));
        assert_eq!(TensorType::new([i64::MAX, i64::MAX], ElementType::F32).num_elements(), None);
        assert_eq!(TensorType::new([i64::MAX, i64::MAX, 0], ElementType::F32).num_elements(), Some(0));
        assert_eq!(TensorType::new([-1], ElementType::F32).num_elements(), None);
    }
}
