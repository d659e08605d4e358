//! The loops of elementwise functions, by op and element type. A function here returns `None` for a type that has no loop.

use stablehlo::ir::{Binary, ComparisonDirection, ComparisonType, Unary};

use super::function::{Loop, Map, Meaning};
use super::{inverse, narrow, table};
use crate::engine::dtype::DType;

fn with(code: Option<Loop>, meaning: Meaning) -> Option<Map> {
    code.map(|code| Map { code, meaning: Some(meaning) })
}

/// An op of one operand.
pub(crate) fn unary(op: Unary, dtype: DType) -> Option<Map> {
    with(table::unary(op, dtype), Meaning::Unary(op, dtype))
}

/// An op of two operands of one type.
pub(crate) fn binary(op: Binary, dtype: DType) -> Option<Map> {
    with(table::binary(op, dtype), Meaning::Binary(op, dtype))
}

/// `compare`. The result is one truth value per element.
pub(crate) fn compare(direction: ComparisonDirection, kind: ComparisonType, dtype: DType) -> Option<Map> {
    with(table::compare(direction, kind, dtype), Meaning::Compare(direction, kind, dtype))
}

/// `select`. Moves elements of any type of this size.
pub(crate) fn select(size: usize) -> Map {
    Map { code: table::select(size), meaning: Some(Meaning::Select) }
}

/// `clamp`: operands are lower bound, value, upper bound.
pub(crate) fn clamp(dtype: DType) -> Option<Map> {
    with(table::clamp(dtype), Meaning::Clamp(dtype))
}

/// The functions that `convert` between two types, in order, each with its result type.
pub(crate) fn convert(from: DType, to: DType) -> Option<Vec<(Map, DType)>> {
    let mut operand = from;
    let steps = super::convert::convert(from, to)?.into_iter().map(|(code, result)| {
        // A narrow integer is stored as a whole one. A narrow float is not stored as the type in which it is computed.
        let whole = if operand.narrow_bits().is_some() { operand.computed() } else { operand };
        operand = result;
        (Map { code, meaning: Some(Meaning::Convert(whole, result)) }, result)
    });
    Some(steps.collect())
}

/// `reduce_precision`.
pub(crate) fn reduce_precision(dtype: DType, exponent_bits: u32, mantissa_bits: u32) -> Option<Map> {
    super::convert::reduce_precision(dtype, exponent_bits, mantissa_bits).map(Map::from)
}

/// Combines two floats to a complex number.
pub(crate) fn complex(part: DType) -> Option<Map> {
    super::complex::complex(part).map(Map::from)
}

/// A function of complex numbers that frameworks call by name.
pub(crate) fn complex_special(name: &str, dtype: DType) -> Option<Map> {
    inverse::complex_special(name, dtype).map(Map::from)
}

/// `count_leading_zeros` or `popcnt` of an integer narrower than a byte.
pub(crate) fn counted(dtype: DType, zeros: bool) -> Option<Map> {
    narrow::counted(dtype, zeros).map(Map::from)
}

/// Clears or extends the bits of a byte that a narrow integer does not use.
pub(crate) fn wrap(dtype: DType) -> Option<Map> {
    narrow::wrap(dtype).map(Map::from)
}

/// The function of one operand with that name.
pub(crate) fn special(name: &str) -> Option<Map> {
    super::special::special(name).map(Map::from)
}

/// The function of that name, if `f32` has a separate loop for it.
pub(crate) fn special_f32(name: &str) -> Option<Map> {
    super::special::special_f32(name).map(Map::from)
}

/// The function of two operands with that name.
pub(crate) fn special2(name: &str) -> Option<Map> {
    super::special::special2(name).map(Map::from)
}

/// The next representable number after the first operand, in the direction of the second.
pub(crate) fn next_after(dtype: DType) -> Option<Map> {
    super::special::next_after(dtype).map(Map::from)
}

/// The upper half of the product of two integers.
pub(crate) fn multiply_high(dtype: DType) -> Option<Map> {
    super::special::multiply_high(dtype).map(Map::from)
}
