//! Sets of element types that the specification defines, and the sets that elementwise ops support.

use super::site::ensure;
use crate::error::Result;
use crate::ir::*;

/// A set of element types. The bits, from the lowest, stand for booleans, integers, floating-point numbers and complex
/// numbers.
#[derive(Clone, Copy)]
pub(super) struct Set(u8);

pub(super) const ANY: Set = Set(0b1111);
pub(super) const NUMBERS: Set = Set(0b1110);
pub(super) const REALS: Set = Set(0b0111);
pub(super) const LOGICAL: Set = Set(0b0011);
pub(super) const INTEGERS: Set = Set(0b0010);
pub(super) const FLOATS: Set = Set(0b0100);
pub(super) const INEXACT: Set = Set(0b1100);

impl Set {
    fn has(self, element: ElementType) -> bool {
        let bit = match element {
            ElementType::Bool => 0,
            e if e.is_integer() => 1,
            e if e.is_complex() => 3,
            _ => 2,
        };
        self.0 >> bit & 1 == 1
    }

    fn names(self) -> String {
        let mut text = String::new();
        for bit in (0..4).filter(|bit| self.0 >> bit & 1 == 1) {
            text.push_str(if text.is_empty() { "" } else { " or " });
            text.push_str(match bit {
                0 => "booleans",
                1 => "integers",
                2 => "floating-point numbers",
                _ => "complex numbers",
            });
        }
        text
    }
}

/// Checks that the element type of a tensor is in a set. `what` names the tensor in the error.
pub(super) fn of(tensor: &TensorType, set: Set, what: &str) -> Result<()> {
    ensure!(Type, set.has(tensor.element), "{what} must hold {}, not {}", set.names(), tensor.element);
    Ok(())
}

macro_rules! element_sets {
    ($( $(#[$doc:meta])* $kind:ident { $($variant:ident $name:literal $set:ident;)* } )*) => {
        $(
            impl $kind {
                /// Returns the valid element types of the operands.
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
