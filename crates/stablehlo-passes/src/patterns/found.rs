//! A pattern that was found, and its attributes and operands.

use stablehlo::ir::{Attribute, Attributes, ElementType, ValueId, ValueIds};

/// A pattern that was found.
pub(super) struct Match {
    pub(super) attributes: Attributes,
    /// The operands of the composite.
    pub(super) operands: Vec<ValueId>,
}

pub(super) fn integer(name: &str, value: usize) -> (String, Attribute) {
    (name.to_owned(), Attribute::Integer(i64::try_from(value).unwrap_or(i64::MAX), ElementType::I64))
}

pub(super) fn integers(values: &[usize]) -> Attribute {
    let integer = |&value: &usize| Attribute::Integer(i64::try_from(value).unwrap_or(i64::MAX), ElementType::I64);
    Attribute::Array(values.iter().map(integer).collect())
}

pub(super) fn float(name: &str, value: f64) -> (String, Attribute) {
    (name.to_owned(), Attribute::Float(value, ElementType::F64))
}

pub(super) fn flag(name: &str, value: bool) -> (String, Attribute) {
    (name.to_owned(), Attribute::Bool(value))
}

pub(super) fn text(name: &str, value: &'static str) -> (String, Attribute) {
    (name.to_owned(), Attribute::String(value.as_bytes().into()))
}

/// The operands that a pattern has in any case, and those that it may have.
pub(super) fn operands(required: &[ValueId], optional: &[Option<ValueId>]) -> Vec<ValueId> {
    required.iter().copied().chain(optional.iter().copied().flatten()).collect::<ValueIds>().to_vec()
}
