//! Memory for tensors, in blocks that are aligned to 64 bytes. The pages of freed blocks are kept for reuse.
//!
//! The operating system maps fresh pages one page fault at a time. These page faults take several times longer than the
//! computation of a memory-bound program. The pool therefore keeps freed blocks for the next tensor of the same size
//! class.

use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use super::huge_pages::Lines;
pub(crate) use super::huge_pages::{LINE, Line};
use super::machine_memory::MachineMemory;
use crate::error::RunError;

/// An allocator of buffers. Clones share one pool.
#[derive(Clone)]
pub struct Pool(Arc<Inner>);

struct Inner {
    cap: usize,
    limit: Option<usize>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Free blocks of each size class.
    classes: Vec<Vec<Lines>>,
    /// Number of bytes in `classes`.
    held: usize,
    usage: PoolUsage,
}

/// Statistics of a pool. Sizes are those of blocks. A block may be larger than the memory that was requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolUsage {
    /// Number of bytes in the blocks in use.
    pub in_use: usize,
    /// Largest number of bytes that were in use at the same time since the last reset.
    pub peak: usize,
    /// Number of allocations since the last reset, including those that reused a free block.
    pub allocations: u64,
    /// Size in bytes of the largest block that was allocated since the last reset.
    pub largest: usize,
}

impl PoolUsage {
    fn add(&mut self, bytes: usize) {
        self.in_use += bytes;
        self.peak = self.peak.max(self.in_use);
        self.allocations += 1;
        self.largest = self.largest.max(bytes);
    }
}

impl State {
    /// Takes all free blocks, so that the caller can drop them after releasing the lock.
    fn take_free(&mut self) -> Vec<Vec<Lines>> {
        self.held = 0;
        std::mem::take(&mut self.classes)
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    /// Creates a pool that keeps at most `cap` bytes of free blocks.
    pub fn new(cap: usize) -> Self {
        Self::limited(cap, None)
    }

    /// Creates a pool that keeps at most `cap` bytes of free blocks and allows at most `limit` bytes in use at a time.
    /// If `limit` is `None`, any number of bytes may be in use.
    pub fn limited(cap: usize, limit: Option<usize>) -> Self {
        Pool(Arc::new(Inner { cap, limit, state: Mutex::default() }))
    }

    /// Returns the pool that the whole process shares. It keeps up to 2 GiB of free blocks.
    pub fn global() -> &'static Pool {
        static GLOBAL: LazyLock<Pool> = LazyLock::new(|| Pool::new(2 << 30));
        &GLOBAL
    }

    /// Returns the number of bytes in free blocks that are kept for reuse.
    pub fn held(&self) -> usize {
        self.0.state().held
    }

    /// Returns the maximum number of bytes in use at a time, or `None` if the pool has no limit.
    pub fn limit(&self) -> Option<usize> {
        self.0.limit
    }

    /// Returns the number of bytes that can be allocated without exceeding the limit or the memory of `machine`.
    pub(crate) fn available(&self, machine: Option<MachineMemory>) -> usize {
        let allowed = self.limit().map(|limit| limit.saturating_sub(self.usage().in_use));
        let free = machine.map(|memory| memory.available.saturating_add(self.held()));
        allowed.into_iter().chain(free).min().unwrap_or(usize::MAX)
    }

    /// Returns the current and peak use of memory.
    pub fn usage(&self) -> PoolUsage {
        self.0.state().usage
    }

    /// Resets the peak, the number of allocations and the largest block size.
    pub fn reset_usage(&self) {
        let usage = &mut self.0.state().usage;
        *usage = PoolUsage { in_use: usage.in_use, peak: usage.in_use, ..PoolUsage::default() };
    }

    /// Returns all free blocks to the system.
    pub fn trim(&self) {
        let free = self.0.state().take_free();
        drop(free);
    }

    /// Returns whether `other` is a clone of this pool.
    pub fn is(&self, other: &Pool) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Allocates a buffer of `bytes` bytes with arbitrary contents.
    pub(crate) fn alloc(&self, bytes: usize) -> Result<Buffer, RunError> {
        let lines = bytes.div_ceil(LINE);
        if lines == 0 {
            return Ok(Buffer(Arc::new(Block { storage: Storage::Lines(Lines::default()), bytes, pool: None })));
        }
        let (class, size) = size_class(lines);
        let (reused, surplus) = {
            let mut state = self.0.state();
            if let Some(limit) = self.0.limit
                && state.usage.in_use.saturating_add(size * LINE) > limit
            {
                return Err(RunError::LimitReached { wanted: bytes, in_use: state.usage.in_use, limit });
            }
            state.usage.add(size * LINE);
            let found = state.classes.get_mut(class).and_then(Vec::pop);
            if found.is_some() {
                state.held -= size * LINE;
            }
            // Free blocks also occupy system memory. The limit therefore applies to free blocks and blocks in use
            // together.
            let is_full = self.0.limit.is_some_and(|limit| state.usage.in_use + state.held > limit);
            let surplus = if is_full { state.take_free() } else { Vec::new() };
            (found, surplus)
        };
        drop(surplus);
        let lines = match reused.or_else(|| Lines::new(size)) {
            Some(lines) => lines,
            None => {
                // If the system has no memory left, free the pool's unused blocks and try again.
                self.trim();
                Lines::new(size).ok_or_else(|| {
                    self.0.state().usage.in_use -= size * LINE;
                    RunError::OutOfMemory(bytes)
                })?
            }
        };
        Ok(Buffer(Arc::new(Block { storage: Storage::Lines(lines), bytes, pool: Some(self.0.clone()) })))
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (held, usage) = (self.held(), self.usage());
        f.debug_struct("Pool").field("cap", &self.0.cap).field("held", &held).field("usage", &usage).finish()
    }
}

/// Returns the size class for a block of `lines` lines, and the number of lines of each block in this class. There are
/// four classes per power of two, so the block is at most 25 % larger than `lines`.
fn size_class(lines: usize) -> (usize, usize) {
    let last = lines - 1;
    if last < 4 {
        return (last, lines);
    }
    let power = last.ilog2() as usize;
    let step = 1usize << (power - 2);
    let quarter = (last - (1 << power)) / step;
    (4 * power + quarter - 4, (1 << power) + (quarter + 1) * step)
}

struct Block {
    storage: Storage,
    bytes: usize,
    pool: Option<Arc<Inner>>,
}

enum Storage {
    Lines(Lines),
    /// Memory that belongs to another owner and is only read.
    Foreign(Box<dyn AsRef<[u8]> + Send + Sync>),
}

impl Drop for Block {
    fn drop(&mut self) {
        let Some(pool) = self.pool.take() else { return };
        let Storage::Lines(lines) = &mut self.storage else { return };
        let lines = std::mem::take(lines);
        if lines.is_empty() {
            return;
        }
        let (class, size) = size_class(lines.len());
        let mut state = pool.state();
        state.usage.in_use -= size * LINE;
        if state.held + size * LINE > pool.cap {
            drop(state);
            return; // `lines` is freed after the lock is released.
        }
        if state.classes.len() <= class {
            state.classes.resize_with(class + 1, Vec::new);
        }
        state.held += size * LINE;
        state.classes[class].push(lines);
    }
}

/// Reference-counted bytes. The holder of the only reference may write to them.
#[derive(Clone)]
pub(crate) struct Buffer(Arc<Block>);

impl Buffer {
    /// Wraps the memory of `owner`. The memory must neither move nor change while `owner` lives. Returns `None` if the
    /// memory is empty, or if its first byte is not aligned like a pool's blocks.
    pub(crate) fn foreign(owner: impl AsRef<[u8]> + Send + Sync + 'static) -> Option<Buffer> {
        let owner: Box<dyn AsRef<[u8]> + Send + Sync> = Box::new(owner);
        let slice = (*owner).as_ref();
        let bytes = slice.len();
        Self::is_aligned(slice).then(|| Buffer(Arc::new(Block { storage: Storage::Foreign(owner), bytes, pool: None })))
    }

    /// Returns whether memory is aligned like a pool's blocks. Returns false for an empty slice.
    pub(crate) fn is_aligned(bytes: &[u8]) -> bool {
        !bytes.is_empty() && bytes.as_ptr().addr().is_multiple_of(LINE)
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.0.storage {
            Storage::Lines(lines) => &bytemuck::cast_slice::<Line, u8>(lines)[..self.0.bytes],
            Storage::Foreign(owner) => (**owner).as_ref(),
        }
    }

    /// Returns the bytes for writing, or `None` if the buffer is shared or its memory belongs to another owner.
    pub(crate) fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        let block = Arc::get_mut(&mut self.0)?;
        match &mut block.storage {
            Storage::Lines(lines) => Some(&mut bytemuck::cast_slice_mut::<Line, u8>(lines)[..block.bytes]),
            Storage::Foreign(_) => None,
        }
    }

    /// Returns whether the memory comes from `pool`.
    pub(crate) fn is_of(&self, pool: &Pool) -> bool {
        self.0.pool.as_ref().is_some_and(|own| Arc::ptr_eq(own, &pool.0))
    }

    /// Allocates a buffer with a copy of `bytes`.
    pub(crate) fn copy_of(pool: &Pool, bytes: &[u8]) -> Result<Buffer, RunError> {
        let mut buffer = pool.alloc(bytes.len())?;
        buffer.write()?.copy_from_slice(bytes);
        Ok(buffer)
    }

    /// Returns the bytes for writing, or an error if the buffer is shared or its memory belongs to another owner.
    pub(crate) fn write(&mut self) -> Result<&mut [u8], RunError> {
        self.bytes_mut().ok_or_else(|| RunError::Internal("cannot write to a shared buffer".into()))
    }

    /// Returns whether another buffer shares the bytes, or the bytes belong to a foreign owner.
    #[inline]
    pub(crate) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1 || matches!(self.0.storage, Storage::Foreign(_))
    }

    /// Returns whether this is the only reference to memory of a pool.
    pub(crate) fn is_unique(&mut self) -> bool {
        Arc::get_mut(&mut self.0).is_some_and(|block| matches!(block.storage, Storage::Lines(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_classes_waste_at_most_a_quarter() {
        let mut previous = (usize::MAX, 0);
        for lines in 1..5000 {
            let (class, size) = size_class(lines);
            assert!(size >= lines && size * 4 <= lines * 5 + 4, "{lines} -> {size}");
            assert_eq!(size_class(size), (class, size), "a class's own size is in the class");
            if (class, size) != previous {
                assert_eq!(class, previous.0.wrapping_add(1));
                assert!(size > previous.1);
                previous = (class, size);
            }
        }
    }

    #[test]
    fn freed_blocks_are_reused_up_to_cap() {
        let pool = Pool::new(1 << 20);
        let first = pool.alloc(1000).unwrap();
        let address = first.bytes().as_ptr();
        assert_eq!(address.align_offset(LINE), 0);
        drop(first);
        assert_eq!(pool.held(), 1024);
        let second = pool.alloc(1024).unwrap();
        assert_eq!(second.bytes().as_ptr(), address);
        assert_eq!(pool.held(), 0);
        drop(pool.alloc(4 << 20).unwrap());
        assert_eq!(pool.held(), 0, "a block larger than the cap is not kept");
        drop(second);
        pool.trim();
        assert_eq!(pool.held(), 0);
    }

    #[test]
    fn use_is_counted_and_limited() {
        let pool = Pool::limited(1 << 20, Some(4096));
        let first = pool.alloc(1000).unwrap();
        let second = pool.alloc(3072).unwrap();
        let usage = PoolUsage { in_use: 4096, peak: 4096, allocations: 2, largest: 3072 };
        assert_eq!(pool.usage(), usage);
        let error = pool.alloc(1).map(drop).unwrap_err();
        assert_eq!(error, RunError::LimitReached { wanted: 1, in_use: 4096, limit: 4096 });
        drop(first);
        assert_eq!(pool.usage(), PoolUsage { in_use: 3072, ..usage });
        // Free blocks do not count as in use.
        drop(pool.alloc(1024).unwrap());
        drop(second);
        pool.reset_usage();
        assert_eq!((pool.usage(), pool.held()), (PoolUsage::default(), 4096));
        let third = pool.alloc(2048).unwrap();
        assert_eq!(pool.held(), 0, "free blocks give way to others");
        drop(third);
    }

    #[test]
    fn foreign_memory_is_read_only() {
        let lines = vec![Line::of(7); 2];
        struct Owner(Vec<Line>, usize);
        impl AsRef<[u8]> for Owner {
            fn as_ref(&self) -> &[u8] {
                &bytemuck::cast_slice(&self.0)[self.1..]
            }
        }
        let address = lines.as_ptr().addr();
        assert!(Buffer::foreign(Owner(lines.clone(), 4)).is_none(), "not aligned");
        assert!(Buffer::foreign(Owner(lines.clone(), 128)).is_none(), "empty");
        let mut buffer = Buffer::foreign(Owner(lines, 0)).unwrap();
        assert_eq!((buffer.bytes().as_ptr().addr(), buffer.bytes().len()), (address, 128));
        assert!(buffer.bytes_mut().is_none() && !buffer.is_unique());
    }

    #[test]
    fn only_sole_owner_writes() {
        let pool = Pool::new(1 << 20);
        let mut a = Buffer::copy_of(&pool, &[1, 2, 3]).unwrap();
        let b = a.clone();
        assert!(a.bytes_mut().is_none());
        drop(b);
        a.bytes_mut().unwrap()[0] = 9;
        assert_eq!(a.bytes(), [9, 2, 3]);
    }
}
