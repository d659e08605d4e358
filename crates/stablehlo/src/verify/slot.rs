//! The result types of an op: existing types to check, or unknown types to infer.

use std::cell::RefCell;

use super::ensure::ensure;
use crate::compatible::agree;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::*;

/// Shape and element type of a result. `None` if they are unknown.
pub(super) type Partial = (Option<Vec<i64>>, Option<ElementType>);

/// Result types that the rules record during inference.
#[derive(Default)]
pub(super) struct Wanted(RefCell<Vec<Partial>>);

/// A result with an existing type, or a result whose type is inferred.
pub(super) enum Slot<'a> {
    There(&'a TensorType),
    Wanted(&'a Wanted, usize),
}

impl<'a> Slot<'a> {
    /// Returns the existing type, if there is one.
    pub(super) fn actual(&self) -> Option<&'a TensorType> {
        match self {
            Self::There(result) => Some(result),
            Self::Wanted(..) => None,
        }
    }

    /// Checks that the existing result has this shape. During inference, records the shape.
    pub(super) fn shape_is(&self, expected: &[i64]) -> Result<()> {
        match self {
            Self::There(result) => shape_is(result, expected),
            Self::Wanted(wanted, index) => {
                wanted.note(*index, |(shape, _)| *shape = Some(expected.to_vec()));
                Ok(())
            }
        }
    }

    /// Checks that the existing result has this element type. During inference, records the element type.
    pub(super) fn element_is(&self, expected: ElementType) -> Result<()> {
        if let Self::There(result) = self {
            ensure!(
                Type,
                result.element == expected,
                "element types differ: the result is {result} but must hold {expected}"
            );
        }
        self.element_may_be(expected);
        Ok(())
    }

    /// Checks that the existing result has the element type and shape of an operand. During inference, records both.
    pub(super) fn is_like(&self, operand: &TensorType) -> Result<()> {
        self.element_is(operand.element)?;
        self.shape_is(&operand.shape)
    }

    /// Records the usual element type during inference. Does not check an existing element type, which may differ.
    pub(super) fn element_may_be(&self, usual: ElementType) {
        if let Self::Wanted(wanted, index) = self {
            wanted.note(*index, |(_, element)| *element = Some(usual));
        }
    }
}

impl Wanted {
    /// Returns the recorded types.
    pub(super) fn into_results(self) -> Vec<Partial> {
        self.0.into_inner()
    }

    fn note(&self, index: usize, write: impl FnOnce(&mut Partial)) {
        let mut results = self.0.borrow_mut();
        if results.len() <= index {
            results.resize(index + 1, (None, None));
        }
        write(&mut results[index]);
    }
}

/// Checks that the result has this computed shape.
pub(super) fn shape_is(result: &TensorType, expected: &[i64]) -> Result<()> {
    if agree(&result.shape, expected) { Ok(()) } else { Err(differs(result, expected)) }
}

#[cold]
fn differs(result: &TensorType, expected: &[i64]) -> Error {
    let expected = TensorType::new(expected, result.element);
    Error::new(ErrorKind::Shape, format_args!("the result is {result} but must be {expected}"))
}
