//! Memory of large messages, kept for later messages.
//!
//! If a large block is freed, the C library returns its memory to the operating system. The next message would then
//! cause a page fault for each of its pages. These page faults can take several times longer than the copies of the
//! message.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Minimum size in bytes of the blocks that are kept.
const LARGE: usize = 256 << 10;
/// Maximum number of bytes in the blocks that are kept.
const KEPT: usize = 256 << 20;

/// Free blocks of memory.
#[derive(Default)]
pub(crate) struct Memory(Mutex<Free>);

#[derive(Default)]
struct Free {
    /// The free blocks, in the order in which they became free.
    blocks: VecDeque<Vec<u8>>,
    /// Number of bytes in `blocks`.
    held: usize,
}

impl Memory {
    fn lock(&self) -> MutexGuard<'_, Free> {
        // The lock is never poisoned, because no code here panics while it holds the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a block for `len` bytes. Its length and its contents are arbitrary. If no block fits, returns an empty
    /// one without memory, because the caller may never receive `len` bytes.
    pub(crate) fn take(&self, len: usize) -> Vec<u8> {
        if len >= LARGE {
            let mut free = self.lock();
            let fits = |block: &Vec<u8>| block.capacity() >= len && block.capacity() / 2 <= len;
            let fitting = free.blocks.iter().enumerate().filter(|(_, block)| fits(block));
            let best = fitting.min_by_key(|(_, block)| block.capacity()).map(|(at, _)| at);
            if let Some(block) = best.and_then(|at| free.blocks.remove(at)) {
                free.held -= block.capacity();
                return block;
            }
        }
        Vec::new()
    }

    /// Keeps a large block for a later call of [`take`](Self::take). If the kept blocks exceed [`KEPT`], frees the
    /// oldest ones.
    pub(crate) fn put(&self, block: Vec<u8>) {
        if !(LARGE..=KEPT).contains(&block.capacity()) {
            return;
        }
        let mut surplus = Vec::new();
        let mut free = self.lock();
        free.held += block.capacity();
        free.blocks.push_back(block);
        while free.held > KEPT
            && let Some(oldest) = free.blocks.pop_front()
        {
            free.held -= oldest.capacity();
            surplus.push(oldest);
        }
        // Release the lock before `surplus` is freed.
        drop(free);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_blocks_are_reused() {
        const SIZE: usize = 4 * LARGE;
        let memory = Memory::default();
        let mut block = memory.take(SIZE);
        block.resize(SIZE, 5);
        let place = block.as_ptr();
        memory.put(block);
        assert!(memory.take(SIZE + 1).is_empty(), "the block is too small");
        assert!(memory.take(SIZE / 2 - 1).is_empty(), "the block is too large");
        let block = memory.take(SIZE - 1);
        assert_eq!((block.as_ptr(), block.len()), (place, SIZE));
        assert!(memory.take(SIZE).is_empty(), "the block is in use");
    }

    #[test]
    fn oldest_blocks_are_freed() {
        let memory = Memory::default();
        memory.put(Vec::with_capacity(LARGE));
        memory.put(Vec::with_capacity(10));
        (0..2).for_each(|_| memory.put(Vec::with_capacity(KEPT / 2)));
        memory.put(Vec::with_capacity(KEPT + 1));
        let free = memory.lock();
        assert_eq!((free.blocks.len(), free.held), (2, KEPT));
    }
}
