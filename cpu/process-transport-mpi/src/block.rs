//! Memory of messages that are sent.
//!
//! Between processes of one machine, Open MPI copies a large message directly from the sender's memory to the
//! receiver's. If the sender's memory consists of huge pages, this copy takes less than half the time.

use std::ops::Deref;
use std::sync::{Mutex, PoisonError};

use memmap2::MmapMut;

/// Size of a huge page on most systems. A message of at least this size gets a large block, whose size is a multiple of
/// it.
const HUGE_PAGE: usize = 2 << 20;
/// Maximum number of bytes in the large blocks that are kept for later messages.
const MAX_FREE_BYTES: usize = 256 << 20;

/// The bytes of a message.
pub(crate) enum Block {
    Small(Vec<u8>),
    /// A block of whole huge pages. Its first `len` bytes contain the message.
    Large {
        map: MmapMut,
        len: usize,
    },
}

impl Deref for Block {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Small(bytes) => bytes,
            Self::Large { map, len } => map.get(..*len).unwrap_or_default(),
        }
    }
}

/// Free large blocks, in the order in which they became free.
#[derive(Default)]
pub(crate) struct Blocks(Mutex<Vec<MmapMut>>);

impl Blocks {
    /// Returns a block with a message of `len` bytes. `fill` writes these bytes.
    pub(crate) fn filled(&self, len: usize, fill: impl FnOnce(&mut [u8])) -> Block {
        if len >= HUGE_PAGE
            && let Some(mut map) = self.take(len.next_multiple_of(HUGE_PAGE))
        {
            fill(map.get_mut(..len).unwrap_or_default());
            return Block::Large { map, len };
        }
        let mut bytes = vec![0; len];
        fill(&mut bytes);
        Block::Small(bytes)
    }

    /// Returns memory of at least `size` bytes, or `None` if the system cannot allocate it.
    fn take(&self, size: usize) -> Option<MmapMut> {
        let mut free = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |map: &MmapMut| map.len() >= size && map.len() / 2 <= size;
        let fitting = free.iter().enumerate().filter(|(_, map)| fits(map));
        if let Some(best) = fitting.min_by_key(|(_, map)| map.len()).map(|(at, _)| at) {
            return Some(free.remove(best));
        }
        drop(free);
        let map = MmapMut::map_anon(size).ok()?;
        // Ignore a failure. Without huge pages, the copies are only slower.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        Some(map)
    }

    /// Keeps the memory of a large block for later messages. If the kept memory exceeds [`MAX_FREE_BYTES`], frees the
    /// oldest blocks.
    pub(crate) fn put(&self, block: Block) {
        let Block::Large { map, .. } = block else { return };
        let mut free = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        free.push(map);
        let mut held: usize = free.iter().map(|map| map.len()).sum();
        while held > MAX_FREE_BYTES {
            held -= free.remove(0).len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_reused_and_freed() {
        let blocks = Blocks::default();
        let small = blocks.filled(5, |bytes| bytes.fill(1));
        assert_eq!(small[..], [1; 5]);
        blocks.put(small);
        assert!(blocks.0.lock().unwrap().is_empty());
        let large = blocks.filled(HUGE_PAGE + 1, |bytes| bytes.fill(2));
        assert_eq!(large[..], [2; HUGE_PAGE + 1]);
        blocks.put(large);
        let other = blocks.filled(2 * HUGE_PAGE, |_| {});
        assert_eq!((other.len(), other[HUGE_PAGE]), (2 * HUGE_PAGE, 2));
        assert!(blocks.0.lock().unwrap().is_empty());
        (0..2).for_each(|_| blocks.put(blocks.filled(2 * HUGE_PAGE, |_| {})));
        blocks.put(blocks.filled(MAX_FREE_BYTES, |_| {}));
        let free = blocks.0.lock().unwrap();
        assert_eq!(free.iter().map(|map| map.len()).collect::<Vec<_>>(), [MAX_FREE_BYTES]);
    }
}
