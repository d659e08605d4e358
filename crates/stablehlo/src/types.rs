//! The types that an MLIR program can contain, including element types and function types, which values cannot have.

use std::sync::Arc;

use crate::attributes::type_weight;
use crate::ir::{ElementType, Type, function_text};

/// Type of an element, of a value or of a function.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ty {
    Element(ElementType),
    Value(Type),
    Function(Vec<Arc<Type>>, Vec<Arc<Type>>),
}

impl Ty {
    /// Converts to a [`Type`], which the IR uses for the types of values and for the types in type attributes.
    pub(crate) fn into_type(self) -> Type {
        match self {
            Self::Element(element) => Type::Other(element.name().to_owned()),
            Self::Value(ty) => ty,
            Self::Function(inputs, outputs) => {
                Type::Other(function_text(&cloned_types(&inputs), &cloned_types(&outputs)))
            }
        }
    }

    /// Returns the approximate heap size in bytes, for a [`Budget`](crate::attributes::Budget).
    pub(crate) fn weight(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Element(_) => 0,
                Self::Value(ty) => type_weight(ty),
                Self::Function(inputs, outputs) => inputs.iter().chain(outputs).map(|ty| type_weight(ty)).sum(),
            }
    }
}

/// Copies shared types.
pub(crate) fn cloned_types(types: &[Arc<Type>]) -> Vec<Type> {
    // A loop with `push` compiles to less code than an iterator.
    let mut copies = Vec::with_capacity(types.len());
    for ty in types {
        copies.push(Type::clone(ty));
    }
    copies
}
