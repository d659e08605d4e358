//! `rng`: random numbers from a generator whose state belongs to the compiled program. Compiling the program again
//! restarts the sequence.

use std::sync::atomic::{AtomicU64, Ordering};

use bytemuck::{cast_slice, cast_slice_mut};

use super::{Context, Kernel};
use crate::engine::parallel;
use crate::error::RunError;

/// The distribution of the random numbers. `a` and `b` are the two scalar operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Distribution {
    /// `f64` in `[a, b)`, computed from 23 random bits if `narrow` is set, and from 53 random bits otherwise. `narrow`
    /// is set for results of types narrower than `f64`.
    Uniform { narrow: bool },
    /// `i64` in `[a, b)`.
    Integers,
    /// `f64` with mean `a` and standard deviation `b`.
    Normal,
}

pub(crate) struct Rng {
    pub(crate) distribution: Distribution,
    /// Number of random numbers that earlier runs have drawn.
    pub(crate) drawn: AtomicU64,
    /// Key of the random sequence, different for each op of the program.
    pub(crate) key: u64,
}

impl Kernel for Rng {
    fn is_pure(&self) -> bool {
        false
    }

    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], _: &Context<'_>) -> Result<(), RunError> {
        let out = &mut *outs[0];
        let n = out.len() / 8;
        let first = self.drawn.fetch_add(n as u64, Ordering::Relaxed);
        let key = splitmix(self.key);
        let bits = |i: usize, stream: u64| splitmix(key ^ stream ^ splitmix(first.wrapping_add(i as u64)));
        let work = out.len() * 4;
        let unit = |bits: u64| (bits >> 11) as f64 / (1u64 << 53) as f64;
        match self.distribution {
            Distribution::Integers => {
                let (a, b) = (cast_slice::<u8, i64>(ins[0])[0], cast_slice::<u8, i64>(ins[1])[0]);
                let span = b.wrapping_sub(a).cast_unsigned().max(1);
                parallel::chunks(cast_slice_mut::<u8, i64>(out), 4096, work, |start, part| {
                    for (i, o) in part.iter_mut().enumerate() {
                        // The upper half of the product maps a random word to the range.
                        let scaled = (u128::from(bits(start + i, 0)) * u128::from(span)) >> 64;
                        *o = a.wrapping_add((scaled as u64).cast_signed());
                    }
                });
            }
            Distribution::Uniform { narrow } => {
                let (a, b) = (cast_slice::<u8, f64>(ins[0])[0], cast_slice::<u8, f64>(ins[1])[0]);
                parallel::chunks(cast_slice_mut::<u8, f64>(out), 4096, work, |start, part| {
                    for (i, o) in part.iter_mut().enumerate() {
                        let u = bits(start + i, 0);
                        // Use few enough bits that rounding to `f32` cannot reach the upper bound.
                        let u = if narrow {
                            (u >> 57) as f64 / 128.0 + (u & 0xFFFF) as f64 / (1u64 << 23) as f64
                        } else {
                            unit(u)
                        };
                        *o = a + u * (b - a);
                    }
                });
            }
            Distribution::Normal => {
                let (a, b) = (cast_slice::<u8, f64>(ins[0])[0], cast_slice::<u8, f64>(ins[1])[0]);
                parallel::chunks(cast_slice_mut::<u8, f64>(out), 4096, work, |start, part| {
                    for (i, o) in part.iter_mut().enumerate() {
                        // Apply the Box-Muller transform. The argument of the logarithm is never 0.
                        let (u, v) = (1.0 - unit(bits(start + i, 0)), unit(bits(start + i, 1 << 63)));
                        *o = a + b * (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos();
                    }
                });
            }
        }
        Ok(())
    }
}

/// A bijection of 64-bit words with good mixing, from the generator SplitMix (Steele, Lea and Flood, 2014).
fn splitmix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}
