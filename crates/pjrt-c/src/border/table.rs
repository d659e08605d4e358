//! The objects that C programs use, and the handles by which they name them.
//!
//! A handle is a number in the form of a pointer, not an address. It names a slot of a table, and contains how often
//! the slot was used before. Therefore every use of a handle can be checked without trusting the program: a handle that
//! was released, of another type or never set names no object. Slots are never deallocated.

use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// The number of slots in the first chunk of a table. Each further chunk has twice as many slots as the one before it.
const FIRST_CHUNK: u32 = 64;

/// The number of chunks for all indices of 31 bits.
const CHUNKS: usize = 26;

/// How often a slot is used. Handles have 24 bits for this number.
const GENERATIONS: u32 = 1 << 24;

/// Position of the kind in a handle. Below are the index of the slot and a bit that is always 1, so that no aligned
/// address is a handle.
const KIND_SHIFT: u32 = 32;

/// Position of the generation in a handle.
const GENERATION_SHIFT: u32 = 40;

const _: () = assert!(usize::BITS == 64, "handles need 64 bits");

/// A type of object that C programs use through handles.
pub(crate) trait Object: Send + Sync + Sized + 'static {
    /// Name of the type in C.
    const NAME: &'static str;
    /// A number that no other type has, less than 64. With larger numbers, a handle could look like an address of the
    /// garbage-collected memory of Go, whose runtime checks such pointers.
    const KIND: u8;

    /// Returns the table with all objects of this type.
    fn table() -> &'static Table<Self>;

    /// Calls a function with this thread's spare slot: the index plus 1 of a free slot of the table that no other
    /// thread takes, or 0. Returns `None` if the thread is ending.
    fn spare<R>(use_spare: impl FnOnce(&Cell<u32>) -> R) -> Option<R>;
}

/// Returns the kind of object that a handle names.
pub(crate) fn kind_of(handle: usize) -> Option<u8> {
    (handle & 1 == 1).then_some(low_byte(handle >> KIND_SHIFT))
}

/// All objects of one type.
pub(crate) struct Table<T> {
    chunks: [AtomicPtr<Slot<T>>; CHUNKS],
    /// The number of slots that were ever used.
    used: AtomicU32,
    /// The list of free slots that no thread keeps: the index of the first one plus 1, or 0, and above it a count of
    /// all changes, by which a change that another thread makes meanwhile is noticed.
    free: AtomicU64,
}

struct Slot<T> {
    /// The handle that names the object, or 0 if there is none.
    handle: AtomicUsize,
    references: AtomicU32,
    /// How often the slot was used before.
    generation: AtomicU32,
    /// The next free slot: its index plus 1, or 0.
    next_free: AtomicU32,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the value of a slot is written before its handle is published, and moved out or dropped by the one thread
// that removes the handle. In between, it is only borrowed.
unsafe impl<T: Send + Sync> Sync for Table<T> {}

impl<T: Object> Table<T> {
    pub(crate) const fn new() -> Self {
        Self {
            chunks: [const { AtomicPtr::new(null_mut()) }; CHUNKS],
            used: AtomicU32::new(0),
            free: AtomicU64::new(0),
        }
    }

    /// Stores an object with one reference, and returns its handle.
    #[inline(always)]
    pub(crate) fn insert(&self, value: T) -> usize {
        let (index, slot) = self.spare().or_else(|| self.pop()).unwrap_or_else(|| self.fresh());
        let generation = slot.generation.load(Ordering::Relaxed);
        let handle =
            (generation as usize) << GENERATION_SHIFT | usize::from(T::KIND) << KIND_SHIFT | (index as usize) << 1 | 1;
        // SAFETY: the slot was free, so that only this thread uses it.
        unsafe { slot.value.get().cast::<T>().write(value) };
        slot.references.store(1, Ordering::Relaxed);
        slot.handle.store(handle, Ordering::Release);
        handle
    }

    /// Returns the object that a handle names.
    #[inline]
    pub(crate) fn get(&self, handle: usize) -> Option<NonNull<T>> {
        let slot = self.named(handle)?;
        NonNull::new(slot.value.get().cast::<T>())
    }

    /// Adds a reference. Returns whether the handle names an object.
    pub(crate) fn retain(&self, handle: usize) -> bool {
        let Some(slot) = self.named(handle) else { return false };
        let more = |references: u32| if references == 0 { None } else { references.checked_add(1) };
        slot.references.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Removes a reference. Frees the object and returns `true` if it was the last one. Returns an error if the handle
    /// names no object.
    #[inline]
    pub(crate) fn release(&self, handle: usize) -> Result<bool, NotLive> {
        let slot = self.named(handle).ok_or(NotLive)?;
        // A single reference is that of the caller, so no other thread changes the number.
        if slot.references.load(Ordering::Acquire) != 1 {
            let fewer = |references: u32| references.checked_sub(1);
            match slot.references.fetch_update(Ordering::AcqRel, Ordering::Relaxed, fewer) {
                Err(_) => return Err(NotLive),
                Ok(1) => {}
                Ok(_) => return Ok(false),
            }
        }
        let value = Self::claim(handle, slot)?;
        // SAFETY: the handle named a value, and only the thread that replaced the handle drops the value.
        unsafe { value.drop_in_place() };
        self.free(handle, slot);
        Ok(true)
    }

    /// Returns whether the object has one reference. Also returns true if the handle names no object.
    pub(crate) fn is_sole(&self, handle: usize) -> bool {
        self.named(handle).is_none_or(|slot| slot.references.load(Ordering::Acquire) == 1)
    }

    /// Returns the number of objects.
    pub(crate) fn count(&self) -> usize {
        let used = 0..self.used.load(Ordering::Acquire);
        used.filter(|index| self.slot(*index).is_some_and(|slot| slot.handle.load(Ordering::Acquire) != 0)).count()
    }

    /// Removes the object if it has one reference. Returns `None` if it has more, and an error if the handle names no
    /// object.
    pub(crate) fn take(&self, handle: usize) -> Result<Option<T>, NotLive> {
        let slot = self.named(handle).ok_or(NotLive)?;
        match slot.references.compare_exchange(1, 0, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => self.remove(handle, slot).map(Some),
            Err(0) => Err(NotLive),
            Err(_) => Ok(None),
        }
    }

    /// Removes the object. Only the first thread that does so succeeds.
    fn remove(&self, handle: usize, slot: &Slot<T>) -> Result<T, NotLive> {
        let value = Self::claim(handle, slot)?;
        // SAFETY: the handle named a value, and only the thread that replaced the handle moves the value.
        let value = unsafe { value.read() };
        self.free(handle, slot);
        Ok(value)
    }

    /// Removes the handle from its slot. Only the first thread that does so gets the value.
    #[inline]
    fn claim(handle: usize, slot: &Slot<T>) -> Result<*mut T, NotLive> {
        slot.handle.compare_exchange(handle, 0, Ordering::AcqRel, Ordering::Relaxed).map_err(|_| NotLive)?;
        Ok(slot.value.get().cast())
    }

    /// Makes a slot free whose handle and value were removed.
    #[inline]
    fn free(&self, handle: usize, slot: &Slot<T>) {
        let generation = slot.generation.load(Ordering::Relaxed) + 1;
        slot.generation.store(generation, Ordering::Relaxed);
        // A slot that was used too often to count is not used again.
        if generation < GENERATIONS {
            self.keep(index_of(handle));
        }
    }

    /// Makes a free slot this thread's spare slot. If there is one already, it becomes free for all threads.
    #[inline]
    fn keep(&self, index: u32) {
        match T::spare(|spare| spare.replace(index + 1)) {
            Some(0) => {}
            Some(earlier) => self.give_back(earlier),
            None => self.give_back(index + 1),
        }
    }

    /// Makes a slot that was spare free for all threads.
    pub(crate) fn give_back(&self, spare: u32) {
        if let Some(index) = spare.checked_sub(1)
            && let Some(slot) = self.slot(index)
        {
            self.push(index, slot);
        }
    }

    /// Takes this thread's spare slot.
    #[inline]
    fn spare(&self) -> Option<(u32, &Slot<T>)> {
        let index = T::spare(Cell::take)?.checked_sub(1)?;
        Some((index, self.slot(index)?))
    }

    /// Returns the slot whose object the handle names.
    #[inline]
    fn named(&self, handle: usize) -> Option<&Slot<T>> {
        if handle & 1 == 0 {
            return None;
        }
        let slot = self.slot(index_of(handle))?;
        (slot.handle.load(Ordering::Acquire) == handle).then_some(slot)
    }

    /// Returns the slot at an index, if its chunk exists.
    #[inline]
    fn slot(&self, index: u32) -> Option<&Slot<T>> {
        let (chunk, offset) = place(index);
        let start = NonNull::new(self.chunks[chunk].load(Ordering::Acquire))?;
        // SAFETY: the chunk has more than `offset` slots.
        let slot = unsafe { start.add(offset) };
        // SAFETY: the chunk is never deallocated.
        Some(unsafe { slot.as_ref() })
    }

    fn pop(&self) -> Option<(u32, &Slot<T>)> {
        let mut head = self.free.load(Ordering::Acquire);
        loop {
            let index = low_half(head).checked_sub(1)?;
            let slot = self.slot(index)?;
            let next = changed(head, slot.next_free.load(Ordering::Relaxed));
            match self.free.compare_exchange_weak(head, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some((index, slot)),
                Err(now) => head = now,
            }
        }
    }

    fn push(&self, index: u32, slot: &Slot<T>) {
        let mut head = self.free.load(Ordering::Relaxed);
        loop {
            slot.next_free.store(low_half(head), Ordering::Relaxed);
            let next = changed(head, index + 1);
            match self.free.compare_exchange_weak(head, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Returns a slot that was never used.
    #[cold]
    fn fresh(&self) -> (u32, &Slot<T>) {
        let index = self.used.fetch_add(1, Ordering::Relaxed);
        assert!(index < u32::MAX >> 1, "there are too many objects of type {}", T::NAME);
        let (chunk, _) = place(index);
        if self.chunks[chunk].load(Ordering::Acquire).is_null() {
            let len = (FIRST_CHUNK as usize) << chunk;
            let slots: Box<[Slot<T>]> = (0..len).map(|_| Slot::default()).collect();
            let slots = Box::into_raw(slots).cast::<Slot<T>>();
            let first = self.chunks[chunk].compare_exchange(null_mut(), slots, Ordering::AcqRel, Ordering::Acquire);
            if first.is_err() {
                // SAFETY: another thread was faster, so that nobody knows these slots, which came from a box.
                drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(slots, len)) });
            }
        }
        match self.slot(index) {
            Some(slot) => (index, slot),
            None => unreachable!("the chunk was stored above"),
        }
    }
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self {
            handle: AtomicUsize::new(0),
            references: AtomicU32::new(0),
            // No small number is a handle.
            generation: AtomicU32::new(1),
            next_free: AtomicU32::new(0),
            value: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }
}

/// The handle names no object.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotLive;

#[inline]
fn index_of(handle: usize) -> u32 {
    low_half(handle as u64) >> 1
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the upper half has another meaning")]
fn low_half(number: u64) -> u32 {
    number as u32
}

#[expect(clippy::cast_possible_truncation, reason = "the upper bits have another meaning")]
fn low_byte(number: usize) -> u8 {
    number as u8
}

/// Returns the chunk of a slot, and its offset in the chunk.
#[inline]
fn place(index: u32) -> (usize, usize) {
    let from_first = index + FIRST_CHUNK;
    let chunk = from_first.ilog2() - FIRST_CHUNK.ilog2();
    (chunk as usize, (from_first - (FIRST_CHUNK << chunk)) as usize)
}

/// Returns a list of free slots that begins with another slot.
fn changed(head: u64, first: u32) -> u64 {
    (head >> 32).wrapping_add(1) << 32 | u64::from(first)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    struct Counted(u64, &'static AtomicUsize);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.1.fetch_sub(1, Ordering::Relaxed);
        }
    }

    impl Object for Counted {
        const NAME: &'static str = "counted";
        const KIND: u8 = 200;
        fn table() -> &'static Table<Self> {
            static TABLE: Table<Counted> = Table::new();
            &TABLE
        }
        fn spare<R>(_: impl FnOnce(&Cell<u32>) -> R) -> Option<R> {
            None
        }
    }

    fn counted(value: u64, count: &'static AtomicUsize) -> Counted {
        count.fetch_add(1, Ordering::Relaxed);
        Counted(value, count)
    }

    fn value(table: &Table<Counted>, handle: usize) -> Option<u64> {
        // SAFETY: no other thread uses the table.
        table.get(handle).map(|found| unsafe { found.as_ref() }.0)
    }

    #[test]
    fn released_handles_name_nothing() {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let table = Table::new();
        let first = table.insert(counted(1, &COUNT));
        assert_eq!((value(&table, first), kind_of(first)), (Some(1), Some(200)));
        assert!(table.release(first).unwrap());
        assert_eq!(value(&table, first), None);
        assert_eq!(table.release(first).err(), Some(NotLive));
        // The same slot, under another handle.
        let second = table.insert(counted(2, &COUNT));
        assert_eq!(index_of(second), index_of(first));
        assert_eq!((value(&table, first), value(&table, second)), (None, Some(2)));
        assert!(!table.retain(first) && table.release(first).is_err() && table.take(first).is_err());
        assert!(table.release(second).unwrap());
        assert_eq!(COUNT.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn last_reference_frees() {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let table = Table::new();
        let handle = table.insert(counted(7, &COUNT));
        assert!(table.retain(handle));
        assert!(!table.release(handle).unwrap());
        assert_eq!(value(&table, handle), Some(7));
        assert!(table.retain(handle));
        assert!(table.take(handle).unwrap().is_none());
        assert!(!table.release(handle).unwrap());
        drop(table.take(handle).unwrap().unwrap());
        assert_eq!((value(&table, handle), COUNT.load(Ordering::Relaxed)), (None, 0));
        assert!(table.release(handle).is_err());
    }

    #[test]
    fn other_numbers_name_nothing() {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let table = Table::new();
        let handle = table.insert(counted(1, &COUNT));
        let bits = (0..usize::BITS).map(|bit| handle ^ (1 << bit));
        for other in bits.chain([0, 1, usize::MAX, usize::MAX - 1, (&raw const table).addr()]) {
            assert!(table.get(other).is_none() && table.release(other).is_err(), "{other:#x}");
        }
        assert!(table.release(handle).unwrap());
    }

    struct Kept;

    impl Object for Kept {
        const NAME: &'static str = "kept";
        const KIND: u8 = 201;
        fn table() -> &'static Table<Self> {
            static TABLE: Table<Kept> = Table::new();
            &TABLE
        }
        fn spare<R>(use_spare: impl FnOnce(&Cell<u32>) -> R) -> Option<R> {
            thread_local! {
                static SPARE: Cell<u32> = const { Cell::new(0) };
            }
            SPARE.try_with(use_spare).ok()
        }
    }

    #[test]
    fn threads_keep_last_freed_slot() {
        let table = Kept::table();
        let [first, second] = [table.insert(Kept), table.insert(Kept)];
        assert!(table.release(first).unwrap() && table.release(second).unwrap());
        // Another thread takes the slot that was freed first, and this one the other.
        let other = std::thread::spawn(|| Kept::table().insert(Kept)).join().unwrap();
        let mine = table.insert(Kept);
        assert_eq!([other, mine].map(index_of), [first, second].map(index_of));
        assert!(table.release(mine).unwrap() && table.release(other).unwrap());
        table.give_back(Kept::spare(Cell::take).unwrap());
        assert_eq!(table.count(), 0);
        let [third, fourth] = [table.insert(Kept), table.insert(Kept)];
        assert_eq!([third, fourth].map(index_of), [first, second].map(index_of));
    }

    #[test]
    fn threads_share_slots() {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        static TABLE: Table<Counted> = Table::new();
        let rounds = if cfg!(miri) { 50 } else { 20_000 };
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                scope.spawn(move || {
                    let mut live = Vec::new();
                    for round in 0..rounds {
                        live.push((
                            thread * 1_000_000 + round,
                            TABLE.insert(counted(thread * 1_000_000 + round, &COUNT)),
                        ));
                        if round % 3 != 0 {
                            let (expected, handle) = live.swap_remove(usize::try_from(round).unwrap() % live.len());
                            let found = TABLE.take(handle).unwrap().unwrap();
                            assert_eq!(found.0, expected);
                        }
                    }
                    let handles: BTreeSet<usize> = live.iter().map(|(_, handle)| *handle).collect();
                    assert_eq!(handles.len(), live.len());
                    for (expected, handle) in live {
                        assert_eq!(value(&TABLE, handle), Some(expected));
                        assert!(TABLE.release(handle).unwrap());
                    }
                });
            }
        });
        assert_eq!(COUNT.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn slots_have_places() {
        let places: Vec<_> = [0, 63, 64, 191, 192, u32::MAX >> 1].map(place).into();
        assert_eq!(places[..5], [(0, 0), (0, 63), (1, 0), (1, 127), (2, 0)]);
        assert_eq!(places[5].0, CHUNKS - 1);
    }
}
