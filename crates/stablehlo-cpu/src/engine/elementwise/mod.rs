//! Elementwise ops as loops over slices. Each (op, element type) is resolved to a function once, at compile time.

pub(crate) mod chain;
mod complex;
mod convert;
mod function;
mod inverse;
pub(crate) mod map;
mod math;
mod narrow;
pub(crate) mod num;
mod special;
mod table;

pub(crate) use chain::F32;
pub(crate) use complex::complex;
pub(crate) use convert::{convert, reduce_precision};
pub(crate) use function::{Map, One, Two};
pub(crate) use inverse::complex_special;
pub(crate) use narrow::{counted, wrap};
pub(crate) use special::{multiply_high, next_after, special, special_f32, special2};
pub(crate) use table::{binary, clamp, compare, select, unary};
