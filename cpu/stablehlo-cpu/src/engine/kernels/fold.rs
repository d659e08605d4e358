//! Reductions of a row of `f32`s, with the accumulators in vector registers.

use bytemuck::cast_slice;
use pulp::{NullaryFnOnce, Simd, WithSimd};

use crate::engine::elementwise::Chained;
use crate::engine::elementwise::chain::{lanes, max, min};
use crate::engine::elementwise::map::{arch, vectorized};
use crate::engine::elementwise::num::Num;

/// Number of accumulators of a contiguous reduction. They hide the latency of `max`, which takes several instructions.
pub(super) const LANES: usize = 64;
/// Number of elements per lane after which a new partial sum starts, so that rounding errors grow more slowly than the
/// length of the row.
pub(super) const FRESH: usize = 64;

/// Combines all elements of `row` with `function`, which is an addition, a multiplication, a maximum or a minimum. The
/// order of combination does not depend on the machine's vector length.
pub(super) fn fold(function: Chained, row: &[f32]) -> f32 {
    arch().dispatch(Fold { function, row })
}

/// Minimum length of a row that is reduced with [`LANES`] accumulators. Shorter rows are reduced in order.
pub(crate) const IN_ORDER: usize = LANES / 4;

/// Reduces each of several adjacent rows of at most [`LANES`] elements, as [`fold`] or in order. Short rows would not
/// fill the lanes.
pub(super) fn fold_short_rows(function: Chained, rows: &[f32], length: usize, out: &mut [f32]) {
    match function {
        Chained::Max => vectorized(ShortRows { rows, length, out, identity: f32::NEG_INFINITY, f: Num::max }),
        Chained::Min => vectorized(ShortRows { rows, length, out, identity: f32::INFINITY, f: Num::min }),
        Chained::Mul => vectorized(ShortRows { rows, length, out, identity: 1.0, f: Num::mul }),
        _ => vectorized(ShortRows { rows, length, out, identity: -0.0, f: |a: f32, b: f32| a + b }),
    }
}

struct ShortRows<'a, F> {
    rows: &'a [f32],
    length: usize,
    out: &'a mut [f32],
    identity: f32,
    f: F,
}

/// Number of elements of several rows that are combined together.
const ROOM: usize = 16 * LANES;

impl<F: Fn(f32, f32) -> f32> NullaryFnOnce for ShortRows<'_, F> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { rows, length, out, identity, f } = self;
        if length < IN_ORDER {
            return in_order(rows, length, out, identity, &f);
        }
        let width = length.next_power_of_two();
        let at_once = ROOM / width;
        let (mut first, mut second) = ([identity; ROOM], [identity; ROOM]);
        let (mut from, mut to) = (&mut first, &mut second);
        for (rows, out) in rows.chunks(at_once * length).zip(out.chunks_mut(at_once)) {
            for (padded, row) in from.chunks_exact_mut(width).zip(rows.chunks_exact(length)) {
                padded[..length].copy_from_slice(row);
                padded[length..].fill(identity);
            }
            let n = out.len();
            let mut width = width;
            while width > 1 {
                match width {
                    64 => halve_rows::<64, 32>(from, to, n, &f),
                    32 => halve_rows::<32, 16>(from, to, n, &f),
                    16 => halve_rows::<16, 8>(from, to, n, &f),
                    8 => halve_rows::<8, 4>(from, to, n, &f),
                    4 => halve_rows::<4, 2>(from, to, n, &f),
                    _ => halve_rows::<2, 1>(from, to, n, &f),
                }
                std::mem::swap(&mut from, &mut to);
                width /= 2;
            }
            for (out, &x) in out.iter_mut().zip(&*from) {
                *out = f(identity, x);
            }
        }
    }
}

/// Number of rows that are reduced in order at the same time.
const ABREAST: usize = 16;

/// Reduces rows in order, several at a time, so that an operation need not wait for the one before it.
#[inline(always)]
fn in_order(rows: &[f32], length: usize, out: &mut [f32], identity: f32, f: &impl Fn(f32, f32) -> f32) {
    for (rows, out) in rows.chunks(ABREAST * length).zip(out.chunks_mut(ABREAST)) {
        out.fill(identity);
        if let (Ok(out), true) = (<&mut [f32; ABREAST]>::try_from(&mut *out), rows.len() == ABREAST * length) {
            for i in 0..length {
                for k in 0..ABREAST {
                    out[k] = f(out[k], rows[k * length + i]);
                }
            }
        } else {
            for (out, row) in out.iter_mut().zip(rows.chunks_exact(length)) {
                *out = row.iter().fold(identity, |acc, &x| f(acc, x));
            }
        }
    }
}

/// Combines the first half of each of the first `n` rows with the second half.
#[inline(always)]
fn halve_rows<const WIDTH: usize, const HALF: usize>(
    from: &[f32; ROOM],
    to: &mut [f32; ROOM],
    n: usize,
    f: &impl Fn(f32, f32) -> f32,
) {
    let (rows, halves) = (from.as_chunks::<WIDTH>().0, to.as_chunks_mut::<HALF>().0);
    for (row, half) in rows[..n].iter().zip(&mut halves[..n]) {
        for i in 0..HALF {
            half[i] = f(row[i], row[i + HALF]);
        }
    }
}

struct Fold<'a> {
    function: Chained,
    row: &'a [f32],
}

impl WithSimd for Fold<'_> {
    type Output = f32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) -> f32 {
        match self.function {
            Chained::Max => by_width(s, self.row, f32::NEG_INFINITY, |a, b| max(s, a, b), Num::max),
            Chained::Min => by_width(s, self.row, f32::INFINITY, |a, b| min(s, a, b), Num::min),
            Chained::Mul => by_width(s, self.row, 1.0, |a, b| s.mul_f32s(a, b), Num::mul),
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
        let functions: [(Chained, f32, Function); 4] = [
            (Chained::Add, -0.0, Num::add),
            (Chained::Mul, 1.0, Num::mul),
            (Chained::Max, f32::NEG_INFINITY, Num::max),
            (Chained::Min, f32::INFINITY, Num::min),
        ];
        for n in [0usize, 1, 2, 3, 8, 15, 16, 17, 63, 64, 65, 100, 128, 4095, 4096, 4097, 9000] {
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
                    if (1..=LANES).contains(&n) {
                        let got = if n < IN_ORDER { row.iter().fold(identity, |acc, &x| one(acc, x)) } else { got };
                        let rows = row.repeat(40);
                        let mut out = [0f32; 40];
                        fold_short_rows(function, &rows, n, &mut out);
                        let is_same = |x: &f32| x.to_bits() == got.to_bits() || (x.is_nan() && got.is_nan());
                        assert!(out.iter().all(is_same), "{function:?} of {n} with {odd}: {out:?}, not {got}");
                    }
                }
            }
        }
    }
}
