//! The loops of elementwise functions, by op and element type. A function in this module returns `None` for a type that
//! has no loop.

use stablehlo::ir::{Binary, ComparisonDirection, ComparisonType, Unary};

use super::function::{Loop, Map, Meaning};
use super::{inverse, narrow, table};
use crate::engine::dtype::DType;

fn with(code: Option<Loop>, meaning: Meaning) -> Option<Map> {
    code.map(|code| Map { code, meaning: Some(meaning) })
}

/// Returns the function of a unary op.
pub(crate) fn unary(op: Unary, dtype: DType) -> Option<Map> {
    with(table::unary(op, dtype), Meaning::Unary(op, dtype))
}

/// Returns the function of a binary op whose operands have the same type.
pub(crate) fn binary(op: Binary, dtype: DType) -> Option<Map> {
    with(table::binary(op, dtype), Meaning::Binary(op, dtype))
}

/// Returns the function of `compare`, which writes one `Pred` per element.
pub(crate) fn compare(direction: ComparisonDirection, kind: ComparisonType, dtype: DType) -> Option<Map> {
    with(table::compare(direction, kind, dtype), Meaning::Compare(direction, kind, dtype))
}

/// Returns the function of `select` for elements of `size` bytes, of any type.
pub(crate) fn select(size: usize) -> Map {
    Map { code: table::select(size), meaning: Some(Meaning::Select) }
}

/// Returns the function of `clamp`. Its operands are the lower bound, the number and the upper bound.
pub(crate) fn clamp(dtype: DType) -> Option<Map> {
    with(table::clamp(dtype), Meaning::Clamp(dtype))
}

/// Returns the function of `fma`. Its operands are the factors and the summand.
pub(crate) fn fma(dtype: DType) -> Option<Map> {
    with(table::fma(dtype), Meaning::Fma(dtype))
}

/// Returns the function of `fma` for `f32`s whose result is then rounded to a narrower type. See [`table::fma_to_odd`].
pub(crate) fn fma_to_odd() -> Map {
    Map::from(table::fma_to_odd())
}

/// Returns the functions that together convert one type to another, in the order in which they run. Each function is
/// paired with its result type.
pub(crate) fn convert(from: DType, to: DType) -> Option<Vec<(Map, DType)>> {
    let mut operand = from;
    let steps = super::convert::convert(from, to)?.into_iter().map(|(code, result)| {
        // The stored byte of a narrow integer is also the 8-bit integer. The stored byte of a narrow float is not an
        // `f32`.
        let whole = if operand.narrow_bits().is_some() { operand.computed() } else { operand };
        operand = result;
        (Map { code, meaning: Some(Meaning::Convert(whole, result)) }, result)
    });
    Some(steps.collect())
}

/// Returns the function of `reduce_precision`.
pub(crate) fn reduce_precision(dtype: DType, exponent_bits: u32, mantissa_bits: u32) -> Option<Map> {
    super::convert::reduce_precision(dtype, exponent_bits, mantissa_bits).map(Map::from)
}

/// Returns the function that combines two floats into a complex number.
pub(crate) fn complex(part: DType) -> Option<Map> {
    super::complex::complex(part).map(Map::from)
}

/// Returns the function of complex numbers called `name`.
pub(crate) fn complex_special(name: &str, dtype: DType) -> Option<Map> {
    inverse::complex_special(name, dtype).map(Map::from)
}

/// Returns the function of `count_leading_zeros` if `zeros` is set, and of `popcnt` otherwise. The type must be an
/// integer type narrower than a byte.
pub(crate) fn counted(dtype: DType, zeros: bool) -> Option<Map> {
    narrow::counted(dtype, zeros).map(Map::from)
}

/// Returns the function that sign- or zero-extends a narrow integer into the unused bits of its byte.
pub(crate) fn wrap(dtype: DType) -> Option<Map> {
    narrow::wrap(dtype).map(Map::from)
}

/// Returns the unary function called `name`.
pub(crate) fn special(name: &str) -> Option<Map> {
    super::special::special(name).map(Map::from)
}

/// Returns the unary function called `name` if it has a separate loop for `f32`.
pub(crate) fn special_f32(name: &str) -> Option<Map> {
    super::special::special_f32(name).map(Map::from)
}

/// Returns the binary function called `name`.
pub(crate) fn special2(name: &str) -> Option<Map> {
    super::special::special2(name).map(Map::from)
}

/// Returns the function that computes the next representable number after the first operand, toward the second
/// operand.
pub(crate) fn next_after(dtype: DType) -> Option<Map> {
    super::special::next_after(dtype).map(Map::from)
}

/// Returns the function that computes the upper half of the product of two integers.
pub(crate) fn multiply_high(dtype: DType) -> Option<Map> {
    super::special::multiply_high(dtype).map(Map::from)
}
