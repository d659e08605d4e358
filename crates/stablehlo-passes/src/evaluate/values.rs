//! The elements of constants.

use stablehlo::ir::{Literal, TensorType};

/// Maximum number of elements of a constant that is stored element by element. Constants of equal elements, and
/// constants that share the bytes of an operand, may be larger.
pub(super) const MAX_ELEMENTS: usize = 1024;

/// Returns the bytes of an element of a constant.
pub(super) fn element(literal: &Literal, index: usize) -> Option<&[u8]> {
    let size = literal.ty.element.byte_size();
    let at = if literal.splat { 0 } else { index };
    literal.data.get(at.checked_mul(size)?..)?.get(..size)
}

/// Returns the bytes of the only element, or of the element that all elements are equal to.
pub(super) fn uniform(literal: &Literal) -> Option<&[u8]> {
    (literal.data.len() == literal.ty.element.byte_size()).then_some(&literal.data[..])
}

/// Returns a constant of equal elements.
pub(super) fn splat(ty: &TensorType, element: Vec<u8>) -> Option<Literal> {
    let data = if ty.num_elements()? == 0 { Vec::new() } else { element };
    Literal::new(ty.clone(), data).ok()
}
