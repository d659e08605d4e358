//! Blocks of shared memory, in which a client passes large arrays to its server.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::net::stream::Descriptor;
use crate::shared::limits::{LARGE, MAX_BLOCKS};
use crate::shared::memory::Writable;

/// Maximum number of bytes in free blocks. The system needs more time to provide new memory than to copy to it.
const KEPT: usize = 512 << 20;

/// A block that the server does not use.
struct Free {
    handle: u64,
    memory: Writable,
}

#[derive(Default)]
struct State {
    /// The free blocks, in the order in which they became free.
    free: Vec<Free>,
    /// The blocks that the server uses, by their handles.
    lent: HashMap<u64, Writable>,
}

/// The blocks of a connection.
#[derive(Default)]
pub(crate) struct Pool(Mutex<State>);

/// A block with an array for the server.
pub(crate) struct Filled {
    pub(crate) handle: u64,
    /// The size and the descriptor of a block that the server does not know.
    pub(crate) new: Option<(u64, Descriptor)>,
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies an array to a block, which belongs to the server until [`Self::put_back`]. Returns `None` if the array
    /// must be sent otherwise. `handle` creates the handle of a new block.
    pub(crate) fn fill(&self, bytes: &[u8], handle: impl FnOnce() -> u64) -> Option<Filled> {
        let needed = bytes.len().checked_next_multiple_of(LARGE / 4)?;
        let (mut free, new) = match self.take(needed)? {
            Ok(free) => (free, None),
            Err(()) => {
                let (memory, descriptor) = Writable::create(needed).ok()?;
                (Free { handle: handle(), memory }, Some((needed as u64, descriptor)))
            }
        };
        free.memory.write(0, bytes);
        self.lock().lent.insert(free.handle, free.memory);
        Some(Filled { handle: free.handle, new })
    }

    /// Takes a free block of at least `needed` bytes, but not of many more. Returns `Some(Err)` if there is none, but
    /// the client may create one.
    fn take(&self, needed: usize) -> Option<Result<Free, ()>> {
        let mut state = self.lock();
        let fits = |free: &Free| (needed..=needed + needed / 4).contains(&free.memory.len());
        match state.free.iter().position(fits) {
            Some(index) => Some(Ok(state.free.remove(index))),
            None => (state.free.len() + state.lent.len() < MAX_BLOCKS).then_some(Err(())),
        }
    }

    /// Takes back a block that the server no longer uses. Returns the handles of blocks to release, so that the free
    /// ones do not exceed [`KEPT`]. Returns `None` if the server does not use the block.
    pub(crate) fn put_back(&self, handle: u64) -> Option<Vec<u64>> {
        let mut surplus = Vec::new();
        let mut state = self.lock();
        let memory = state.lent.remove(&handle)?;
        state.free.push(Free { handle, memory });
        let mut bytes: usize = state.free.iter().map(|free| free.memory.len()).sum();
        while bytes > KEPT {
            let oldest = state.free.remove(0);
            bytes -= oldest.memory.len();
            surplus.push(oldest);
        }
        drop(state);
        Some(surplus.into_iter().map(|free| free.handle).collect())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_used_again_and_then_released() {
        let pool = Pool::default();
        let data = vec![1; LARGE];
        let first = pool.fill(&data, || 7).unwrap();
        assert_eq!((first.handle, first.new.unwrap().0), (7, LARGE as u64));
        let second = pool.fill(&data, || 8).unwrap();
        assert_eq!(second.handle, 8, "the first block is in use");
        assert_eq!(pool.put_back(7), Some(vec![]));
        assert_eq!(pool.put_back(7), None);
        let again = pool.fill(&data[1..], || 9).unwrap();
        assert!(again.handle == 7 && again.new.is_none());
        // Larger ones than the pool keeps.
        let large = pool.fill(&vec![0; KEPT], || 10).unwrap();
        assert_eq!(pool.put_back(8), Some(vec![]));
        assert_eq!(pool.put_back(large.handle), Some(vec![8]));
        for handle in 11..=(10 + MAX_BLOCKS as u64 - 2) {
            assert!(pool.fill(&data, || handle).is_some());
        }
        assert!(pool.fill(&data, || 0).is_none());
    }
}
