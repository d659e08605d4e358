//! Memory for tensors: 64-byte aligned blocks that keep their pages when they are given back.
//!
//! The kernel hands out pages one fault at a time, which costs several times the work of a memory-bound program;
//! so freed blocks wait here for the next tensor of their size class instead of going back to the system.

use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use bytemuck::{Pod, Zeroable};

use super::error::RunError;

/// Alignment of every buffer, and the unit of allocation.
pub(crate) const LINE: usize = 64;

/// One cache line.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
pub(crate) struct Line([u8; LINE]);

/// Where buffers come from and go back to. Clones share one pool.
#[derive(Clone)]
pub struct Pool(Arc<Inner>);

struct Inner {
    cap: usize,
    free: Mutex<Free>,
}

#[derive(Default)]
struct Free {
    /// Free blocks of each size class.
    classes: Vec<Vec<Vec<Line>>>,
    /// Bytes held in `classes`.
    held: usize,
}

impl Pool {
    /// A pool that keeps at most `cap` bytes of free blocks.
    pub fn new(cap: usize) -> Self {
        Pool(Arc::new(Inner { cap, free: Mutex::default() }))
    }

    /// The pool of this process; keeps up to 2 GiB of free blocks.
    pub fn global() -> &'static Pool {
        static GLOBAL: LazyLock<Pool> = LazyLock::new(|| Pool::new(2 << 30));
        &GLOBAL
    }

    /// Bytes of free blocks held for reuse.
    pub fn held(&self) -> usize {
        self.0.free.lock().unwrap_or_else(PoisonError::into_inner).held
    }

    /// Gives all free blocks back to the system.
    pub fn trim(&self) {
        let free = std::mem::take(&mut *self.0.free.lock().unwrap_or_else(PoisonError::into_inner));
        drop(free);
    }

    /// A buffer of `bytes` bytes with arbitrary contents.
    pub(crate) fn alloc(&self, bytes: usize) -> Result<Buffer, RunError> {
        let lines = bytes.div_ceil(LINE);
        if lines == 0 {
            return Ok(Buffer(Arc::new(Block { lines: Vec::new(), bytes, pool: None })));
        }
        let (class, size) = size_class(lines);
        let reused = {
            let mut free = self.0.free.lock().unwrap_or_else(PoisonError::into_inner);
            let found = free.classes.get_mut(class).and_then(Vec::pop);
            if found.is_some() {
                free.held -= size * LINE;
            }
            found
        };
        let lines = match reused {
            Some(lines) => lines,
            None => bytemuck::allocation::try_zeroed_vec(size).map_err(|()| RunError::OutOfMemory(bytes))?,
        };
        Ok(Buffer(Arc::new(Block { lines, bytes, pool: Some(self.0.clone()) })))
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("cap", &self.0.cap).field("held", &self.held()).finish()
    }
}

/// Class of a block of `lines` lines and the class's size in lines: four classes per power of two, so at most a
/// quarter is wasted.
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
    lines: Vec<Line>,
    bytes: usize,
    pool: Option<Arc<Inner>>,
}

impl Drop for Block {
    fn drop(&mut self) {
        let Some(pool) = self.pool.take() else { return };
        let lines = std::mem::take(&mut self.lines);
        if lines.is_empty() {
            return;
        }
        let (class, size) = size_class(lines.len());
        let mut free = pool.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.held + size * LINE > pool.cap {
            drop(free);
            return; // `lines` goes back to the system, outside the lock.
        }
        if free.classes.len() <= class {
            free.classes.resize_with(class + 1, Vec::new);
        }
        free.held += size * LINE;
        free.classes[class].push(lines);
    }
}

/// Reference-counted bytes. A holder of the only reference may write.
#[derive(Clone)]
pub(crate) struct Buffer(Arc<Block>);

impl Buffer {
    pub(crate) fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.0.lines)[..self.0.bytes]
    }

    /// The bytes for writing, if nobody else holds them.
    pub(crate) fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        let block = Arc::get_mut(&mut self.0)?;
        Some(&mut bytemuck::cast_slice_mut(&mut block.lines)[..block.bytes])
    }

    /// A buffer holding a copy of `bytes`.
    pub(crate) fn copy_of(pool: &Pool, bytes: &[u8]) -> Result<Buffer, RunError> {
        let mut buffer = pool.alloc(bytes.len())?;
        buffer.write()?.copy_from_slice(bytes);
        Ok(buffer)
    }

    /// The bytes for writing; an error where somebody else holds them.
    pub(crate) fn write(&mut self) -> Result<&mut [u8], RunError> {
        self.bytes_mut().ok_or_else(|| RunError::Internal("a shared buffer was to be written".into()))
    }

    /// Nobody else holds the bytes.
    pub(crate) fn is_unique(&mut self) -> bool {
        Arc::get_mut(&mut self.0).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_dense_ordered_and_waste_at_most_a_quarter() {
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
    fn freed_blocks_are_reused_up_to_the_cap() {
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
    fn only_the_sole_owner_writes() {
        let pool = Pool::new(1 << 20);
        let mut a = Buffer::copy_of(&pool, &[1, 2, 3]).unwrap();
        let b = a.clone();
        assert!(a.bytes_mut().is_none());
        drop(b);
        a.bytes_mut().unwrap()[0] = 9;
        assert_eq!(a.bytes(), [9, 2, 3]);
    }
}
