//! Matrix multiplication of strided operands.

mod blocking;
#[cfg(feature = "math")]
mod dense;
pub(crate) mod direct;
mod integers;
mod number;
mod pack;
mod product;
mod rows;
mod split;
#[cfg(test)]
mod tests;
mod tile;
mod vector;

pub(crate) use blocking::{Out, work};
pub(crate) use integers::{Integer, Pair, Word};
pub(crate) use number::{Float, Operand, Wide};
pub(crate) use pack::{Lines, MAX_WIDTH, Matrix, Part, interleaved};
pub(crate) use product::{gemm, product};
pub(crate) use rows::LANES;
pub(crate) use vector::{SUMS, VectorProduct};
