//! The types of MLIR that are not types of values.

use crate::attributes::type_weight;
use crate::ir::{ElementType, Type, function_text};

/// Any type that MLIR prints: of values, of elements, and of functions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ty {
    Element(ElementType),
    Value(Type),
    Function(Vec<Type>, Vec<Type>),
}

impl Ty {
    /// Converts it to the type of a value or of a type attribute.
    pub(crate) fn into_type(self) -> Type {
        match self {
            Self::Element(element) => Type::Other(element.name().to_owned()),
            Self::Value(ty) => ty,
            Self::Function(inputs, outputs) => Type::Other(function_text(&inputs, &outputs)),
        }
    }

    /// Rough heap size, for a [`Budget`](crate::attributes::Budget).
    pub(crate) fn weight(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Element(_) => 0,
                Self::Value(ty) => type_weight(ty),
                Self::Function(inputs, outputs) => inputs.iter().chain(outputs).map(type_weight).sum(),
            }
    }
}
