//! Changes programs at random. The random number generator has a fixed seed, so every run makes the same changes.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

/// A small pseudorandom number generator.
pub(crate) struct XorShift(pub(crate) u64);

impl XorShift {
    /// Returns the next random number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns a random number below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(n.max(1)).unwrap()).unwrap()
    }
}

/// Changes a program in one to four random places. Each change flips a bit, overwrites a byte, removes, repeats or
/// inserts bytes, or inserts one of `words`.
pub(crate) fn mutate(rng: &mut XorShift, program: &[u8], words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = program.to_vec();
    for _ in 0..1 + rng.below(4) {
        if bytes.is_empty() {
            break;
        }
        let at = rng.below(bytes.len());
        match rng.below(6) {
            0 => bytes[at] ^= 1 << rng.below(8),
            1 => bytes[at] = rng.next().to_le_bytes()[0],
            2 => {
                let end = (at + 1 + rng.below(8)).min(bytes.len());
                bytes.drain(at..end);
            }
            3 => {
                let end = (at + 1 + rng.below(40)).min(bytes.len());
                let copy = bytes[at..end].to_vec();
                let to = rng.below(bytes.len());
                bytes.splice(to..to, copy);
            }
            4 => bytes.insert(at, rng.next().to_le_bytes()[0]),
            _ => {
                let word = words[rng.below(words.len())];
                bytes.splice(at..at, word.iter().copied());
            }
        }
    }
    bytes
}
