//! Functions that run as loops over slices.

use std::sync::Arc;

use stablehlo::ir::{Binary, ComparisonDirection, ComparisonType, Unary};

use super::chain::Chained;
use crate::engine::dtype::DType;

/// A loop over the elements of one operand, which writes the results to the last argument.
pub(crate) type One = fn(&[u8], &mut [u8]);
/// A loop over the elements of two operands, which writes the results to the last argument.
pub(crate) type Two = fn(&[u8], &[u8], &mut [u8]);
/// A loop over the elements of three operands, which writes the results to the last argument.
pub(crate) type Three = fn(&[u8], &[u8], &[u8], &mut [u8]);

/// A loop over the elements of one operand, with parameters that are fixed when the program is compiled.
pub(crate) type Fixed = Arc<dyn Fn(&[u8], &mut [u8]) + Send + Sync>;

/// An elementwise function.
#[derive(Clone)]
pub(crate) struct Map {
    /// The loop that computes the function.
    pub(crate) code: Loop,
    /// The op that the function implements. `None` if the loop compiler cannot generate code for the function.
    pub(crate) meaning: Option<Meaning>,
}

impl From<Loop> for Map {
    fn from(code: Loop) -> Self {
        Map { code, meaning: None }
    }
}

/// The op that an elementwise function implements. Element types are those of the operands. `Convert` also contains the
/// element type of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Meaning {
    Unary(Unary, DType),
    Binary(Binary, DType),
    Compare(ComparisonDirection, ComparisonType, DType),
    /// `select` for elements of any type.
    Select,
    /// `clamp`, with the operands lower bound, number and upper bound.
    Clamp(DType),
    /// `fma`, with the operands first factor, second factor and summand.
    Fma(DType),
    Convert(DType, DType),
}

/// A loop that computes an elementwise function for all elements of its operands.
#[derive(Clone)]
pub(crate) enum Loop {
    One(One),
    Two(Two),
    Three(Three),
    With(Fixed),
    /// A function that can be part of a chain.
    Chained(Chained),
}

impl Loop {
    /// Runs the loop. Ignores operands that the loop does not read.
    #[inline]
    pub(crate) fn run(&self, a: &[u8], b: &[u8], c: &[u8], out: &mut [u8]) {
        match self {
            Loop::One(f) => f(a, out),
            Loop::Two(f) => f(a, b, out),
            Loop::Three(f) => f(a, b, c, out),
            Loop::With(f) => f(a, out),
            Loop::Chained(f) => f.run(a, b, out),
        }
    }
}
