//! `rng_bit_generator`: counter-based generators that produce the same bits as XLA.
#![expect(clippy::cast_possible_truncation, reason = "counters and products are cut into 32-bit words")]

use bytemuck::{cast_slice, cast_slice_mut};

use super::{Context, Kernel};
use crate::engine::parallel;
use crate::error::RunError;

/// The algorithm of `rng_bit_generator`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Generator {
    /// Philox 4x32 with 10 rounds. Each counter produces four words.
    Philox,
    /// ThreeFry 2x32 with 20 rounds. Each counter produces two words. For elements of up to 32 bits, the result
    /// alternates between the first and the second word along one dimension. This dimension has `extent` indices of
    /// `inner` elements each.
    ThreeFry { extent: usize, inner: usize },
}

/// `rng_bit_generator`. The input is the state, `u64[2]` (or `u64[3]` for Philox). The outputs are the next state and
/// the random bits.
pub(crate) struct RngBits {
    pub(crate) generator: Generator,
    /// Size of an element in bytes.
    pub(crate) size: usize,
}

impl Kernel for RngBits {
    fn run(&self, ins: &[&[u8]], outs: &mut [&mut [u8]], _: &Context<'_>) -> Result<(), RunError> {
        let state: &[u64] = cast_slice(ins[0]);
        let (key, counter) = (state[0], state[1]);
        let [next, bits] = outs else {
            return Err(RunError::Internal("two outputs are needed".into()));
        };
        let n = bits.len() / self.size;
        let next: &mut [u64] = cast_slice_mut(next);
        next.copy_from_slice(state);
        match self.generator {
            Generator::Philox => {
                // With a state of type `u64[2]`, the key is also the upper half of the counter.
                let first = u128::from(counter) | u128::from(state.get(2).copied().unwrap_or(key)) << 64;
                let per = if self.size == 8 { 2 } else { 4 };
                let used = first.wrapping_add(n.div_ceil(per) as u128);
                next[1] = used as u64;
                if let Some(high) = next.get_mut(2) {
                    *high = (used >> 64) as u64;
                }
                self.fill(bits, per, |i, word| philox(first.wrapping_add(i as u128), key)[word]);
            }
            Generator::ThreeFry { .. } if self.size == 8 => {
                next[1] = counter.wrapping_add(n as u64);
                self.fill(bits, 1, |i, word| threefry(key, counter.wrapping_add(i as u64))[word]);
            }
            Generator::ThreeFry { extent, inner } => {
                let half = extent.div_ceil(2);
                let (row, half_row) = (extent * inner, half * inner);
                next[1] = counter.wrapping_add((n.checked_div(row).unwrap_or(0) * half_row) as u64);
                self.fill(bits, 1, |i, _| {
                    let (outer, along, within) = (i / row, (i % row) / inner, i % inner);
                    let at = outer * half_row + along / 2 * inner + within;
                    threefry(key, counter.wrapping_add(at as u64))[along % 2]
                });
            }
        }
        Ok(())
    }
}

impl RngBits {
    /// Writes random elements to `out`. Each counter produces `per` elements. `word` returns 32 bits for the index of a
    /// counter and the index of a word.
    fn fill(&self, out: &mut [u8], per: usize, word: impl Fn(usize, usize) -> u32 + Sync) {
        let size = self.size;
        let work = out.len().saturating_mul(8);
        parallel::chunks(out, 4096 * size, work, |start, part| {
            for (i, to) in part.chunks_exact_mut(size).enumerate() {
                let i = start / size + i;
                let (counter, at) = (i / per, i % per);
                if size == 8 {
                    let bits = u64::from(word(counter, 2 * at)) | u64::from(word(counter, 2 * at + 1)) << 32;
                    to.copy_from_slice(&bits.to_ne_bytes());
                } else {
                    // Copy the little-endian bytes, so that narrow elements consist of the low bits.
                    to.copy_from_slice(&word(counter, at).to_le_bytes()[..size]);
                }
            }
        });
    }
}

fn philox(counter: u128, key: u64) -> [u32; 4] {
    let mut c = [counter as u32, (counter >> 32) as u32, (counter >> 64) as u32, (counter >> 96) as u32];
    let mut k = [key as u32, (key >> 32) as u32];
    for _ in 0..10 {
        let a = u64::from(c[0]) * 0xD251_1F53;
        let b = u64::from(c[2]) * 0xCD9E_8D57;
        c = [(b >> 32) as u32 ^ c[1] ^ k[0], b as u32, (a >> 32) as u32 ^ c[3] ^ k[1], a as u32];
        k = [k[0].wrapping_add(0x9E37_79B9), k[1].wrapping_add(0xBB67_AE85)];
    }
    c
}

fn threefry(key: u64, counter: u64) -> [u32; 2] {
    const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
    let (k0, k1) = (key as u32, (key >> 32) as u32);
    let keys = [k0, k1, k0 ^ k1 ^ 0x1BD1_1BDA];
    let (mut x, mut y) = ((counter as u32).wrapping_add(k0), ((counter >> 32) as u32).wrapping_add(k1));
    for i in 0..5 {
        for r in ROTATIONS[i % 2] {
            x = x.wrapping_add(y);
            y = y.rotate_left(r) ^ x;
        }
        x = x.wrapping_add(keys[(i + 1) % 3]);
        y = y.wrapping_add(keys[(i + 2) % 3]).wrapping_add(i as u32 + 1);
    }
    [x, y]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(generator: Generator, n: usize) -> (Vec<u64>, Vec<u32>) {
        let state = [0x1234_5678_9abc_def0u64, 0xffff_ffff_ffff_fffe];
        let (mut next, mut out) = ([0u64; 2], vec![0u32; n]);
        let kernel = RngBits { generator, size: 4 };
        let outs: &mut [&mut [u8]] = &mut [cast_slice_mut(&mut next), cast_slice_mut(&mut out)];
        kernel.run(&[cast_slice(&state)], outs, &Context::unstoppable(crate::engine::pool::Pool::global())).unwrap();
        (next.to_vec(), out)
    }

    /// The expected words were computed by XLA's CPU backend. The counter overflows its lower half.
    #[test]
    fn philox_matches_xla() {
        let (next, out) = bits(Generator::Philox, 10);
        assert_eq!(next, [0x1234_5678_9abc_def0, 1]);
        let want = [
            0xbbd8_56ff,
            0xb795_d4a1,
            0x9db4_dbb7,
            0xb129_d7a7,
            0x583d_df1e,
            0xb3bb_590c,
            0xea99_e9da,
            0x4023_0b26,
            0x102d_8cf3,
            0x2012_dc06,
        ];
        assert_eq!(out, want);
    }

    #[test]
    fn threefry_matches_xla() {
        let (next, out) = bits(Generator::ThreeFry { extent: 6, inner: 1 }, 6);
        assert_eq!(next, [0x1234_5678_9abc_def0, 1]);
        assert_eq!(out, [0x3c3b_507a, 0x7093_e72c, 0xa431_7ba7, 0x21f1_aaca, 0x5eff_803d, 0x4ce3_80f9]);
    }
}
