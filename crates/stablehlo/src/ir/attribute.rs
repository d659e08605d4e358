//! Attributes.

use bytes::Bytes;

use super::literal::Literal;
use super::types::{ElementType, Type};

/// An attribute that this crate keeps without interpreting it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each name is MLIR's own")]
pub enum Attribute {
    Unit,
    Bool(bool),
    /// An integer and its type. Unsigned 64-bit values keep their bits.
    Integer(i64, ElementType),
    /// A floating-point number and its type.
    Float(f64, ElementType),
    /// Bytes, because strings of custom calls need not be UTF-8.
    String(Bytes),
    Symbol(String),
    Type(Type),
    Array(Vec<Attribute>),
    Dictionary(Attributes),
    /// `dense<...>`.
    Tensor(Literal),
    /// `array<...>`, a tensor of one dimension.
    DenseArray(Literal),
    /// MLIR's text of any other attribute, such as a Shardy sharding.
    Other(String),
}

/// Named attributes in program order.
pub type Attributes = Vec<(String, Attribute)>;

/// Whether an attribute of this name is a sharding, of Shardy (`sdy.sharding`) or of GSPMD (`mhlo.sharding`).
#[must_use]
pub fn is_sharding(name: &str) -> bool {
    matches!(name, "sdy.sharding" | "mhlo.sharding")
}
