//! Checks whether a value of one type may be used as a value of another type.

use crate::ir::{DYNAMIC, ElementType, Type};

/// Returns whether two shapes have the same rank and their extents agree in every dimension. See [`extents_agree`].
pub(crate) fn agree(a: &[i64], b: &[i64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(&a, &b)| extents_agree(a, b))
}

/// Returns whether two extents are equal or at least one of them is dynamic.
pub(crate) fn extents_agree(a: i64, b: i64) -> bool {
    a == b || a == DYNAMIC || b == DYNAMIC
}

/// Returns whether a value of one type may be used where the other type is expected. Two types are compatible if they
/// are equal, or if they are tensor types that differ only in extents that are dynamic in one of the types. For tensor
/// types that the IR keeps as text, see [`loosely`].
pub(crate) fn compatible(a: &Type, b: &Type) -> bool {
    // Most values share one allocation per type, so compare the addresses first.
    if std::ptr::eq(a, b) {
        return true;
    }
    match (a, b) {
        (Type::Tensor(a), Type::Tensor(b)) => a.element == b.element && agree(&a.shape, &b.shape),
        (Type::Other(a), b) if a.starts_with("tensor<") => loosely(a, b),
        (a, Type::Other(b)) if b.starts_with("tensor<") => loosely(b, a),
        (a, b) => a == b,
    }
}

/// Returns whether a tensor type with bounds or quantized elements, given as text, is compatible with `other`. Two
/// types that are kept as text must be equal, or at least one must have a dynamic extent. If `other` is a
/// [`Type::Tensor`], the element types must be equal and the shapes must agree. All other types are incompatible.
#[cold]
fn loosely(text: &str, other: &Type) -> bool {
    match other {
        Type::Other(other) => other == text || text.contains('?') || other.contains('?'),
        Type::Tensor(other) => {
            unbounded(text).is_some_and(|(shape, element)| element == other.element && agree(&shape, &other.shape))
        }
        _ => false,
    }
}

/// Returns the shape and the element type of a tensor type that is given as text, such as `tensor<4x?xf32, …>`. Ignores
/// the bounds after the comma. Returns `None` if the text is not a tensor type, if an extent exceeds 64 bits, or if the
/// element type is not an [`ElementType`], for example if it is quantized.
pub(crate) fn unbounded(text: &str) -> Option<(Vec<i64>, ElementType)> {
    let inner = text.strip_prefix("tensor<")?;
    // Search for bytes instead of `str` patterns, which compile to more code. Every plugin contains this function.
    let end = inner.bytes().position(|byte| byte == b',' || byte == b'>').unwrap_or(inner.len());
    let mut rest = inner[..end].trim_ascii();
    let mut shape = Vec::new();
    loop {
        let end = rest.bytes().position(|byte| !byte.is_ascii_digit() && byte != b'?').unwrap_or(rest.len());
        let Some(after) = rest[end..].strip_prefix("x").filter(|_| end > 0) else { break };
        let extent = &rest[..end];
        shape.push(if extent == "?" { DYNAMIC } else { extent.parse().ok()? });
        rest = after;
    }
    let element = match rest {
        "complex<f32" => ElementType::ComplexF32,
        "complex<f64" => ElementType::ComplexF64,
        name => ElementType::from_name(name)?,
    };
    Some((shape, element))
}

/// Applies [`compatible`] to each pair of types of two lists. Lists of different lengths are not compatible.
pub(crate) fn all_compatible<'a>(a: impl IntoIterator<Item = &'a Type>, b: impl IntoIterator<Item = &'a Type>) -> bool {
    let (mut a, mut b) = (a.into_iter(), b.into_iter());
    loop {
        match (a.next(), b.next()) {
            (None, None) => return true,
            (Some(a), Some(b)) if compatible(a, b) => {}
            _ => return false,
        }
    }
}

/// Formats types as a comma-separated list.
pub(crate) fn list<'a>(types: impl IntoIterator<Item = &'a Type>) -> String {
    let mut text = String::new();
    for ty in types {
        if !text.is_empty() {
            text.push_str(", ");
        }
        text.push_str(&ty.to_string());
    }
    text
}
