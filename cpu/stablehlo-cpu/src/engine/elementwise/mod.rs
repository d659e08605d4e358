//! Elementwise ops as loops over slices. The function for an op and an element type is chosen once, when the program is
//! compiled.

pub(crate) mod chain;
mod complex;
mod constant_division;
mod convert;
mod function;
mod fused;
mod inverse;
pub(crate) mod map;
pub(crate) mod math;
mod named;
mod narrow;
pub(crate) mod num;
mod special;
mod table;

pub(crate) use chain::Chained;
pub(crate) use constant_division::divide_by;
pub(crate) use function::{Loop, Map, Meaning, One, Two};
pub(crate) use named::{
    binary, clamp, compare, complex, complex_special, convert, counted, fma, fma_to_odd, multiply_high, next_after,
    reduce_precision, select, special, special_f32, special2, unary, wrap,
};
