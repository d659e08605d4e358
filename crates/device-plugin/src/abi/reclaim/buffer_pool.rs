//! A memory pool for objects that every execution creates and destroys: a short list of free blocks in each thread.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::ptr::{NonNull, null_mut};

/// The layout of all blocks. A free block can be reused for any object that fits into it, even by a thread other than
/// the one that allocated it.
const BLOCK: Layout = match Layout::from_size_align(192, 16) {
    Ok(layout) => layout,
    Err(_) => panic!("the size or alignment of a block is invalid"),
};

/// Maximum number of free blocks of a thread. Further blocks return to the allocator, so that a thread that only
/// destroys objects does not accumulate memory.
const KEPT: usize = 64;

/// The free blocks of a thread. The first word of a free block points to the next free block, or is null. This type has
/// no destructor, because each access to a thread-local value with a destructor first checks whether the destructor has
/// run.
struct Free {
    first: Cell<*mut u8>,
    count: Cell<usize>,
    /// Maximum value of `count`. Zero before the destructor of [`CLEANUP`] is registered, and after it has run.
    limit: Cell<usize>,
}

/// Frees the free blocks of a thread when the thread ends.
struct Cleanup;

thread_local! {
    static FREE: Free = const { Free { first: Cell::new(null_mut()), count: Cell::new(0), limit: Cell::new(0) } };
    static CLEANUP: Cleanup = const { Cleanup };
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        FREE.with(|free| {
            free.limit.set(0);
            free.clear();
        });
    }
}

impl Free {
    #[inline]
    fn pop(&self) -> Option<NonNull<u8>> {
        let first = NonNull::new(self.first.get())?;
        // SAFETY: the first word of a free block points to the next block or is null, and no other thread uses the
        // block.
        self.first.set(unsafe { first.cast::<*mut u8>().read() });
        self.count.set(self.count.get() - 1);
        Some(first)
    }

    /// Adds a block to the free list. Returns `false` if the list is full or the thread is ending.
    ///
    /// # Safety
    ///
    /// The block came from the allocator with the layout [`BLOCK`], and the caller no longer uses it.
    #[inline]
    unsafe fn push(&self, block: NonNull<u8>) -> bool {
        if self.count.get() == self.limit.get() && !self.try_enable() {
            return false;
        }
        // SAFETY: the caller no longer uses the block, and a block is aligned for a pointer.
        unsafe { block.cast::<*mut u8>().write(self.first.get()) };
        self.first.set(block.as_ptr());
        self.count.set(self.count.get() + 1);
        true
    }

    /// Raises the limit to [`KEPT`], and ensures that the blocks are freed when the thread ends. Returns `false` if the
    /// list is full or the thread is ending.
    #[cold]
    #[inline(never)]
    fn try_enable(&self) -> bool {
        let is_enabled = self.limit.get() == 0 && CLEANUP.try_with(|_| ()).is_ok();
        if is_enabled {
            self.limit.set(KEPT);
        }
        is_enabled
    }

    /// Returns all blocks to the allocator.
    fn clear(&self) {
        while let Some(block) = self.pop() {
            // SAFETY: a free block came from the allocator with this layout.
            unsafe { dealloc(block.as_ptr(), BLOCK) };
        }
    }
}

/// Returns whether objects of type `T` come from the pool. Always `false` in debug builds, because memory checkers
/// cannot detect uses of freed memory that the pool has reused.
const fn is_pooled<T>() -> bool {
    !cfg!(debug_assertions) && size_of::<T>() <= BLOCK.size() && align_of::<T>() <= BLOCK.align()
}

const fn layout<T>() -> Layout {
    if is_pooled::<T>() { BLOCK } else { Layout::new::<T>() }
}

/// Allocates memory and creates a value in it. `make` runs after the allocation, so that the value can be built in
/// place.
#[inline]
pub(crate) fn new<T>(make: impl FnOnce() -> T) -> NonNull<T> {
    const { assert!(size_of::<T>() > 0) };
    let pooled = if is_pooled::<T>() { FREE.with(Free::pop) } else { None };
    let place = pooled.unwrap_or_else(|| allocate::<T>()).cast::<T>();
    // SAFETY: this thread owns the memory, which has sufficient size and alignment for the value.
    unsafe { place.write(make()) };
    place
}

/// Allocates memory for a value. Because an `extern "C"` function cannot unwind, [`new`] contains no code that drops
/// the captures of its closure if the allocation fails.
#[cold]
#[inline(never)]
extern "C" fn allocate<T>() -> NonNull<u8> {
    // SAFETY: the size of the layout is not zero.
    let block = unsafe { alloc(layout::<T>()) };
    NonNull::new(block).unwrap_or_else(|| handle_alloc_error(layout::<T>()))
}

/// Drops a value and frees its memory.
///
/// # Safety
///
/// V7 (counting): `value` came from [`new`], and the caller does not use it again.
#[inline]
pub(crate) unsafe fn free<T>(value: NonNull<T>) {
    // The guard frees the memory even if the destructor of the value, which may be vendor code, panics.
    let _memory = Memory(value);
    // SAFETY: V7 (counting), which the caller promises.
    unsafe { value.drop_in_place() };
}

/// A guard whose destructor returns the memory of a value to the pool or to the allocator, but does not drop the value.
struct Memory<T>(NonNull<T>);

impl<T> Drop for Memory<T> {
    #[inline(always)]
    fn drop(&mut self) {
        let block = self.0.cast::<u8>();
        // SAFETY: V7 (counting): nothing uses the value after this drop, and values of a pooled type are in blocks.
        if is_pooled::<T>() && FREE.with(|free| unsafe { free.push(block) }) {
            return;
        }
        // SAFETY: the memory was allocated with this layout, by this or another thread.
        unsafe { dealloc(block.as_ptr(), layout::<T>()) };
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[test]
    fn drops_values_of_any_size_once() {
        fn check<const N: usize>() {
            let counter = Rc::new(());
            let all: Vec<_> = (0..100).map(|i| new(|| (Rc::clone(&counter), [i; N]))).collect();
            for (i, value) in all.iter().enumerate() {
                // SAFETY: the value has not been freed yet.
                assert_eq!(unsafe { value.as_ref() }.1, [i; N]);
            }
            assert_eq!(Rc::strong_count(&counter), 101);
            for value in all {
                // SAFETY: `new` created the value above, and it is not used again.
                unsafe { free(value) };
            }
            assert_eq!(Rc::strong_count(&counter), 1);
        }
        check::<1>();
        check::<23>();
        check::<100>();
    }

    #[test]
    fn reuses_and_limits_free_blocks() {
        // SAFETY: the size of the layout is not zero.
        let block = || NonNull::new(unsafe { alloc(BLOCK) }).unwrap();
        let free = Free { first: Cell::new(null_mut()), count: Cell::new(0), limit: Cell::new(0) };
        assert!(free.pop().is_none());
        let (one, two) = (block(), block());
        for block in [one, two] {
            // SAFETY: the block came from the allocator, and now belongs to the list.
            assert!(unsafe { free.push(block) });
        }
        assert_eq!((free.pop(), free.pop(), free.pop()), (Some(two), Some(one), None));
        for block in [one, two].into_iter().chain(std::iter::repeat_with(block).take(KEPT - 2)) {
            // SAFETY: the block came from the allocator, and now belongs to the list.
            assert!(unsafe { free.push(block) });
        }
        let left = block();
        // SAFETY: the block came from the allocator, and is used again only because the list does not accept it.
        assert!(!unsafe { free.push(left) });
        // SAFETY: the list did not accept the block.
        unsafe { dealloc(left.as_ptr(), BLOCK) };
        free.clear();
    }

    #[test]
    fn cleanup_frees_the_blocks_of_a_thread() {
        let check = || {
            // SAFETY: the size of the layout is not zero.
            let block = NonNull::new(unsafe { alloc(BLOCK) }).unwrap();
            FREE.with(|free| {
                // SAFETY: the block came from the allocator, and now belongs to the list.
                assert!(unsafe { free.push(block) });
                assert_eq!((free.count.get(), free.limit.get()), (1, KEPT));
                drop(Cleanup);
                assert_eq!((free.count.get(), free.limit.get(), free.first.get()), (0, 0, null_mut()));
            });
        };
        std::thread::spawn(check).join().unwrap();
    }
}
