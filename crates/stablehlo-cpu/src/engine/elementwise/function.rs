//! Functions that run as loops over slices.

use std::sync::Arc;

use stablehlo::ir::{Binary, ComparisonDirection, ComparisonType, Unary};

use super::chain::F32;
use crate::engine::dtype::DType;

/// A function of one operand.
pub(crate) type One = fn(&[u8], &mut [u8]);
/// A function of two operands.
pub(crate) type Two = fn(&[u8], &[u8], &mut [u8]);
/// A function of three operands.
pub(crate) type Three = fn(&[u8], &[u8], &[u8], &mut [u8]);

/// A function of one operand with parameters fixed at compile time.
pub(crate) type Fixed = Arc<dyn Fn(&[u8], &mut [u8]) + Send + Sync>;

/// An elementwise function.
#[derive(Clone)]
pub(crate) struct Map {
    /// The loop that computes it.
    pub(crate) code: Loop,
    /// The op that it computes. `None` if compiled loops cannot compute it.
    pub(crate) meaning: Option<Meaning>,
}

impl From<Loop> for Map {
    fn from(code: Loop) -> Self {
        Map { code, meaning: None }
    }
}

/// The op that an elementwise function computes. Types are those of the operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Meaning {
    Unary(Unary, DType),
    Binary(Binary, DType),
    Compare(ComparisonDirection, ComparisonType, DType),
    /// Moves elements of any type.
    Select,
    /// Lower bound, value, upper bound.
    Clamp(DType),
    Convert(DType, DType),
}

/// A loop over all elements of its slices.
#[derive(Clone)]
pub(crate) enum Loop {
    One(One),
    Two(Two),
    Three(Three),
    With(Fixed),
    /// A function that can be part of a chain.
    F32(F32),
}

impl Loop {
    /// Runs the loop. Extra operands are ignored.
    #[inline]
    pub(crate) fn run(&self, a: &[u8], b: &[u8], c: &[u8], out: &mut [u8]) {
        match self {
            Loop::One(f) => f(a, out),
            Loop::Two(f) => f(a, b, out),
            Loop::Three(f) => f(a, b, c, out),
            Loop::With(f) => f(a, out),
            Loop::F32(f) => f.run(a, b, out),
        }
    }
}
