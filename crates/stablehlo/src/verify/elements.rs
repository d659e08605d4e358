//! The sets of element types that the specification names, and those of elementwise ops.

use super::site::ensure;
use crate::error::Result;
use crate::ir::*;

/// Sets of element types the specification names.
#[derive(Clone, Copy)]
pub(super) struct Set {
    booleans: bool,
    integers: bool,
    floats: bool,
    complex: bool,
}

const fn set(booleans: bool, integers: bool, floats: bool, complex: bool) -> Set {
    Set { booleans, integers, floats, complex }
}

pub(super) const ANY: Set = set(true, true, true, true);
pub(super) const NUMBERS: Set = set(false, true, true, true);
pub(super) const REALS: Set = set(true, true, true, false);
pub(super) const LOGICAL: Set = set(true, true, false, false);
pub(super) const INTEGERS: Set = set(false, true, false, false);
pub(super) const FLOATS: Set = set(false, false, true, false);
pub(super) const INEXACT: Set = set(false, false, true, true);

impl Set {
    fn has(self, element: ElementType) -> bool {
        match element {
            ElementType::Bool => self.booleans,
            e if e.is_integer() => self.integers,
            e if e.is_complex() => self.complex,
            _ => self.floats,
        }
    }

    fn names(self) -> String {
        let names = [
            (self.booleans, "booleans"),
            (self.integers, "integers"),
            (self.floats, "floating-point numbers"),
            (self.complex, "complex numbers"),
        ];
        names.iter().filter(|(on, _)| *on).map(|(_, name)| *name).collect::<Vec<_>>().join(" or ")
    }
}

/// The elements of a tensor are in a set.
pub(super) fn of(tensor: &TensorType, set: Set, what: &str) -> Result<()> {
    ensure!(set.has(tensor.element), "{what} must hold {}, not {}", set.names(), tensor.element);
    Ok(())
}

macro_rules! element_sets {
    ($( $(#[$doc:meta])* $kind:ident { $($variant:ident $name:literal $set:ident;)* } )*) => {
        $(
            impl $kind {
                /// The element types of the operands.
                pub(super) fn elements(self) -> Set {
                    match self {
                        $(Self::$variant => $set,)*
                    }
                }
            }
        )*
    };
}

elementwise_table!(element_sets);
