//! Functions that run as loops over slices.

use std::sync::Arc;

use super::chain::F32;

/// A function of one operand.
pub(crate) type One = fn(&[u8], &mut [u8]);
/// A function of two operands.
pub(crate) type Two = fn(&[u8], &[u8], &mut [u8]);
/// A function of three operands.
pub(crate) type Three = fn(&[u8], &[u8], &[u8], &mut [u8]);

/// A function of one operand with parameters fixed at compile time.
pub(crate) type Fixed = Arc<dyn Fn(&[u8], &mut [u8]) + Send + Sync>;

/// A loop over all elements of its slices.
#[derive(Clone)]
pub(crate) enum Map {
    One(One),
    Two(Two),
    Three(Three),
    With(Fixed),
    /// A function that can be part of a chain.
    F32(F32),
}

impl Map {
    /// Runs the loop. Extra operands are ignored.
    #[inline]
    pub(crate) fn run(&self, a: &[u8], b: &[u8], c: &[u8], out: &mut [u8]) {
        match self {
            Map::One(f) => f(a, out),
            Map::Two(f) => f(a, b, out),
            Map::Three(f) => f(a, b, c, out),
            Map::With(f) => f(a, out),
            Map::F32(f) => f.run(a, b, out),
        }
    }
}
