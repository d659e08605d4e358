//! MLIR attributes of modules, functions and ops.

use bytes::Bytes;

use super::literal::Literal;
use super::types::{ElementType, Type};

/// An MLIR attribute. The IR keeps an attribute in this form if the [`OpKind`](super::OpKind) has no field for it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each name is MLIR's own")]
pub enum Attribute {
    Unit,
    Bool(bool),
    /// Integer and its type. Unsigned 64-bit integers are stored with the same bits.
    Integer(i64, ElementType),
    /// Floating-point number and its type.
    Float(f64, ElementType),
    /// String as bytes, because strings of custom calls need not be UTF-8.
    String(Bytes),
    Symbol(String),
    Type(Type),
    Array(Vec<Attribute>),
    Dictionary(Attributes),
    /// `dense<...>`.
    Tensor(Literal),
    /// `array<...>`, as a tensor with one dimension.
    DenseArray(Literal),
    /// MLIR text of any other attribute, such as a Shardy sharding.
    Other(String),
}

/// Named attributes in program order.
pub type Attributes = Vec<(String, Attribute)>;

/// Returns whether an attribute of this name is a sharding of Shardy (`sdy.sharding`) or of GSPMD (`mhlo.sharding`).
#[must_use]
pub fn is_sharding(name: &str) -> bool {
    matches!(name, "sdy.sharding" | "mhlo.sharding")
}

/// Returns the integers in the list after `name = [`. Returns `None` if the field `name` is absent or is not such a
/// list.
pub(crate) fn list_field(text: &str, name: &str) -> Option<Vec<i64>> {
    let rest = text[text.find(name)? + name.len()..].trim_start().strip_prefix('=')?;
    let inside = rest.trim_start().strip_prefix('[')?.split(']').next()?;
    inside.split(',').map(str::trim).filter(|i| !i.is_empty()).map(|i| i.parse().ok()).collect()
}
