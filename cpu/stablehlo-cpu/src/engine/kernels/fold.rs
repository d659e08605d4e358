//! Reductions of a row of `f32`s, with the accumulators in vector registers.

use bytemuck::cast_slice;
use pulp::{Simd, WithSimd};

use crate::engine::elementwise::F32;
use crate::engine::elementwise::chain::{lanes, max, min};
use crate::engine::elementwise::map::arch;
use crate::engine::elementwise::num::Num;

/// Number of accumulators of a contiguous reduction. They hide the latency of `max`, which takes several instructions.
pub(super) const LANES: usize = 64;
/// Number of elements per lane after which a new partial sum starts, so that rounding errors grow more slowly than the
/// length of the row.
pub(super) const FRESH: usize = 64;

/// Combines all elements of `row` with `function`, which is an addition, a multiplication, a maximum or a minimum. The
/// order of combination does not depend on the machine's vector length.
pub(super) fn fold(function: F32, row: &[f32]) -> f32 {
    arch().dispatch(Fold { function, row })
}

struct Fold<'a> {
    function: F32,
    row: &'a [f32],
}

impl WithSimd for Fold<'_> {
    type Output = f32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) -> f32 {
        match self.function {
            F32::Max => by_width(s, self.row, f32::NEG_INFINITY, |a, b| max(s, a, b), Num::max),
            F32::Min => by_width(s, self.row, f32::INFINITY, |a, b| min(s, a, b), Num::min),
            F32::Mul => by_width(s, self.row, 1.0, |a, b| s.mul_f32s(a, b), Num::mul),
            // Adding negative zero leaves every number unchanged.
            _ => by_width(s, self.row, -0.0, |a, b| s.add_f32s(a, b), Num::add),
        }
    }
}

/// Calls [`vectors`] with the number of vectors that hold all lanes.
#[inline(always)]
fn by_width<S: Simd>(
    s: S,
    row: &[f32],
    identity: f32,
    f: impl Fn(S::f32s, S::f32s) -> S::f32s,
    one: fn(f32, f32) -> f32,
) -> f32 {
    match lanes::<S>() {
        16 => vectors::<S, 4>(s, row, identity, f, one),
        8 => vectors::<S, 8>(s, row, identity, f, one),
        4 => vectors::<S, 16>(s, row, identity, f, one),
        2 => vectors::<S, 32>(s, row, identity, f, one),
        _ => vectors::<S, 64>(s, row, identity, f, one),
    }
}

/// Combines all elements of `row` with `f`. The accumulators are `N` vectors with [`LANES`] elements in total. `one` is
/// the same function as `f` for single elements.
#[inline(always)]
fn vectors<S: Simd, const N: usize>(
    s: S,
    row: &[f32],
    identity: f32,
    f: impl Fn(S::f32s, S::f32s) -> S::f32s,
    one: fn(f32, f32) -> f32,
) -> f32 {
    let mut total = identity;
    for block in row.chunks(LANES * FRESH) {
        let (vectors, rest) = S::as_simd_f32s(block);
        let (steps, more) = vectors.as_chunks::<N>();
        let mut acc = [s.splat_f32s(identity); N];
        for step in steps {
            for i in 0..N {
                acc[i] = f(acc[i], step[i]);
            }
        }
        if more.is_empty() && rest.is_empty() {
            // Combine the first half of the vectors with the second half, until one vector is left.
            let mut width = N / 2;
            while width > 0 {
                for i in 0..width {
                    acc[i] = f(acc[i], acc[i + width]);
                }
                width /= 2;
            }
            let first = acc[0];
            total = one(total, halves(cast_slice(&[first]), one));
            continue;
        }
        let acc = acc;
        let mut room = [identity; LANES];
        room.copy_from_slice(cast_slice(&acc));
        let left = cast_slice::<S::f32s, f32>(more).iter().chain(rest);
        for (lane, &x) in room.iter_mut().zip(left) {
            *lane = one(*lane, x);
        }
        total = one(total, halves(&room, one));
    }
    total
}

/// Combines the first half of the lanes with the second half, until one lane is left.
#[inline(always)]
fn halves(lanes: &[f32], one: fn(f32, f32) -> f32) -> f32 {
    let mut room = [0f32; LANES];
    let mut width = lanes.len();
    room[..width].copy_from_slice(lanes);
    while width > 1 {
        width /= 2;
        for i in 0..width {
            room[i] = one(room[i], room[i + width]);
        }
    }
    room[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    type Function = fn(f32, f32) -> f32;

    #[test]
    fn every_length() {
        let functions: [(F32, f32, Function); 4] = [
            (F32::Add, -0.0, Num::add),
            (F32::Mul, 1.0, Num::mul),
            (F32::Max, f32::NEG_INFINITY, Num::max),
            (F32::Min, f32::INFINITY, Num::min),
        ];
        for n in [0usize, 1, 15, 16, 17, 63, 64, 65, 100, 128, 4095, 4096, 4097, 9000] {
            let mut row: Vec<f32> =
                (0..n).map(|i| f32::from(u16::try_from(i * 7919 % 4093).unwrap()) / 4096.0 + 0.5).collect();
            for odd in [0.7, -0.0, f32::NAN] {
                if let Some(middle) = row.get_mut(n / 2) {
                    *middle = odd;
                }
                for (function, identity, one) in functions {
                    let mut total = identity;
                    for block in row.chunks(LANES * FRESH) {
                        let mut room = [identity; LANES];
                        block.iter().enumerate().for_each(|(i, &x)| room[i % LANES] = one(room[i % LANES], x));
                        total = one(total, halves(&room, one));
                    }
                    let got = fold(function, &row);
                    let same = got.to_bits() == total.to_bits() || (got.is_nan() && total.is_nan());
                    assert!(same, "{function:?} of {n} with {odd}: {got}, not {total}");
                }
            }
        }
    }
}
