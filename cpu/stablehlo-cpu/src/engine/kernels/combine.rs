//! Computes `acc = body(acc, x)` elementwise. This is the inner loop of `scatter`, of window reductions and of
//! reductions between members.

use bytemuck::{Pod, cast_slice, cast_slice_mut};
use stablehlo::ir::Binary;

use crate::engine::dtype::{DType, with_dtype, with_size};
use crate::engine::elementwise::num::Num;
use crate::engine::scalar_fn::{Combine, ScalarFn};
use crate::engine::stop::Stop;
use crate::error::RunError;

/// A reduction body, which combines one running value per operand with one new value per operand.
pub(crate) enum Body {
    /// A body for one operand, for which this module has a loop.
    Fast {
        run: fn(&mut [u8], &[u8]),
        /// Combines one element of the second array with the element of the first array at each offset. Skips the
        /// elements whose offset is [`OUTSIDE`](super::index::OUTSIDE).
        scatter: fn(&mut [u8], &[usize], &[u8]),
        combine: Combine,
        dtype: DType,
    },
    Any(ScalarFn),
}

impl Body {
    /// Returns the loop of a recognized body. Returns `None` if this module has no loop for the op or the element type.
    pub(crate) fn fast(combine: Combine, dtype: DType) -> Option<Body> {
        fn each<T: Num>(acc: &mut [u8], x: &[u8], f: impl Fn(T, T) -> T) {
            for (a, &x) in cast_slice_mut::<u8, T>(acc).iter_mut().zip(cast_slice::<u8, T>(x)) {
                *a = f(*a, x);
            }
        }
        fn scattered<T: Pod>(acc: &mut [u8], offsets: &[usize], x: &[u8], f: impl Fn(T, T) -> T) {
            let acc = cast_slice_mut::<u8, T>(acc);
            for (&at, &x) in offsets.iter().zip(cast_slice::<u8, T>(x)) {
                if let Some(a) = acc.get_mut(at) {
                    *a = f(*a, x);
                }
            }
        }
        let op = match combine {
            Combine::Second => {
                return with_size!(dtype.size(), T => Some(Body::Fast {
                    run: |acc, x| acc.copy_from_slice(x),
                    scatter: |acc, offsets, x| scattered::<T>(acc, offsets, x, |_, x| x),
                    combine,
                    dtype,
                }));
            }
            Combine::Op(op) => op,
        };
        macro_rules! body {
            ($t:ty, $f:path) => {
                Some(Body::Fast {
                    run: |acc, x| each::<$t>(acc, x, $f),
                    scatter: |acc, offsets, x| scattered::<$t>(acc, offsets, x, $f),
                    combine,
                    dtype,
                })
            };
        }
        with_dtype!(dtype, T => match op {
            Binary::Add => body!(T, Num::add),
            Binary::Multiply => body!(T, Num::mul),
            Binary::Maximum => body!(T, Num::max),
            Binary::Minimum => body!(T, Num::min),
            _ => None,
        }, _ => None)
    }

    /// Returns the scalars that the body reads in addition to its arguments.
    pub(crate) fn captured(&self) -> &[u32] {
        match self {
            Body::Fast { .. } => &[],
            Body::Any(f) => &f.captured,
        }
    }

    /// Returns whether this module has a loop for the body.
    pub(crate) fn is_fast(&self) -> bool {
        matches!(self, Body::Fast { .. })
    }

    /// Returns whether the body contains a loop.
    pub(crate) fn has_loop(&self) -> bool {
        match self {
            Body::Fast { .. } => false,
            Body::Any(body) => body.has_loop(),
        }
    }

    /// Combines the `n` elements of each array in `x` with the elements of the corresponding array in `acc`. After a
    /// stop request, a body without a fast loop returns an error.
    pub(crate) fn apply(
        &self,
        n: usize,
        acc: &mut [&mut [u8]],
        x: &[&[u8]],
        captured: &[&[u8]],
        stop: Option<&Stop>,
    ) -> Result<(), RunError> {
        match self {
            Body::Fast { run, .. } => {
                run(acc[0], x[0]);
                Ok(())
            }
            Body::Any(body) => {
                let count = acc.len();
                let mut ins: Vec<&[u8]> = vec![&[]; count];
                ins.extend(x);
                ins.extend(captured);
                let alias: Vec<Option<u16>> = (0..count).map(|i| u16::try_from(i).ok()).collect();
                body.run(n, &ins, acc, &alias, stop)
            }
        }
    }
}
