//! Hazard pointers for the buffers of a client, and counters for the outputs of its executions.
//!
//! # The problem
//!
//! An execution reads its arguments while other threads may delete them. Reference counts would make this safe, but
//! they are too slow: one atomic addition on memory that other threads use costs more than all other work of this SDK
//! for an execution.
//!
//! # The algorithm
//!
//! This module uses [hazard pointers](https://en.wikipedia.org/wiki/Hazard_pointer), but each thread publishes a set of
//! buffers instead of single pointers:
//!
//! - Each client has one [`HazardDomain`], and each thread that runs executions has its own [`ThreadSlots`] in that
//!   domain. Only the owning thread changes the counters in its slots, so it updates them without atomic
//!   read-modify-write instructions.
//! - Before an execution reads its arguments, it publishes them: [`HazardDomain::protect`] adds the arguments to the
//!   slots and returns a [`Guard`]. Dropping the guard withdraws the arguments. After publishing, the execution checks
//!   that no argument is marked as deleted.
//! - A thread that deletes a buffer first marks the buffer as deleted. The thread then scans the slots of all threads
//!   with [`HazardDomain::is_protected`]. If no slots contain the buffer, the thread drops the buffer's value.
//!   Otherwise it retires the buffer: the client keeps a list of retired buffers, and each execution checks this list
//!   when it ends.
//! - Publishing, marking and both checks are sequentially consistent. In the single total order of these operations,
//!   either the execution sees the mark and rejects the buffer, or the deleting thread sees the published buffer and
//!   retires it.
//!
//! # The set of buffers
//!
//! An execution may have hundreds of arguments, so the slots do not contain a list of pointers. Instead, they contain a
//! [Bloom filter](https://en.wikipedia.org/wiki/Bloom_filter) of 64 bits with one hash function: the address of the
//! buffer divided by 64, modulo 64 (`BufferHandle::bit`). Two buffers may share a bit. A buffer may therefore be
//! retired although no execution reads it, and its value is dropped later than necessary. The filter never misses a
//! buffer that is protected.
//!
//! Executions nest when a callback runs another execution on the same thread. A guard remembers the previous bits and
//! restores them, so the slots always hold the union of the bits of all nested executions.
//!
//! # Counting outputs
//!
//! The outputs of executions hold no counted references to their client, because an atomic addition for each output
//! would also be too slow. Each thread counts in its slots how many outputs it created and how many it destroyed. A
//! client may be freed if it has no counted reference and both sums over all threads are equal. The sums matter only
//! after the last counted reference is dropped ([`HazardDomain::close`]). From then on no output can be created,
//! because an execution needs an executable, and each executable holds a counted reference. Every thread that destroys
//! an output then compares the sums under the domain's lock.
//!
//! `tests/loom` checks this module in every interleaving of a few threads.

use std::cell::{Cell, RefCell};
use std::ptr::{NonNull, null};
use std::sync::{Arc, PoisonError};

use crate::abi::reclaim::sync::{
    AtomicBool, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, per_thread, process_wide,
};

/// The slots of all threads that use the buffers of one client.
pub(crate) struct HazardDomain {
    state: Mutex<DomainState>,
    /// Number of outputs that were destroyed on ending threads, which had already returned their slots.
    elsewhere: AtomicUsize,
}

struct DomainState {
    threads: Vec<Arc<ThreadSlots>>,
    phase: Phase,
}

enum Phase {
    Open,
    /// Only outputs of executions still refer to the owner.
    Closed(Owner),
    /// The owner has been freed or is about to be freed.
    Freed,
}

/// The object to which a domain belongs: a client.
#[derive(Clone, Copy)]
pub(crate) struct Owner {
    pub(crate) object: NonNull<()>,
    /// Returns whether the object has no counted references.
    pub(crate) is_unused: unsafe fn(NonNull<()>) -> bool,
    /// Frees the object.
    pub(crate) free: unsafe fn(NonNull<()>),
}

// SAFETY: V7 (counting): one thread at a time inspects the object, and the thread that finds it unused frees it.
unsafe impl Send for Owner {}

/// The data that one thread publishes about its use of one client. Other threads read it. They write only `closing`
/// and, to claim or return the slots, `taken`.
#[repr(align(128))]
pub(crate) struct ThreadSlots {
    /// Bloom filter of the buffers that executions of this thread use now.
    protected: AtomicU64,
    /// Number of nested executions that this thread runs now.
    depth: AtomicUsize,
    /// Outputs that executions of this thread created.
    created: AtomicUsize,
    /// Outputs that this thread destroyed.
    destroyed: AtomicUsize,
    /// Whether the domain is closed. A thread that destroys an output must then check whether it can free the owner.
    closing: AtomicBool,
    /// Whether a thread owns the slots.
    taken: AtomicBool,
    domain: Arc<HazardDomain>,
}

/// Keeps the arguments of an execution alive until the guard is dropped.
pub(crate) struct Guard {
    slots: NonNull<ThreadSlots>,
    /// The Bloom filter of the enclosing executions on this thread. Dropping the guard restores this filter.
    before: u64,
    /// Number of nested executions on this thread, including the execution of this guard.
    depth: usize,
    /// The slots that only this guard uses, if the thread is ending and has returned its own slots.
    _own: Option<BorrowedSlots>,
}

// SAFETY: V9 (hazard pointers): other threads only compare the address of the guard's slots. Only the thread of the
// framework's call, which starts and ends the launch, writes the slots.
unsafe impl Send for Guard {}
// SAFETY: the reason for `Send` of this type also applies here.
unsafe impl Sync for Guard {}

/// Slots that an ending thread borrows for one execution.
struct BorrowedSlots(Arc<ThreadSlots>);

impl Drop for BorrowedSlots {
    fn drop(&mut self) {
        self.0.taken.store(false, Ordering::Release);
    }
}

/// The slots that a thread owns: one `ThreadSlots` for each domain.
struct LocalSlots(RefCell<Vec<Arc<ThreadSlots>>>);

/// The slots that a thread used last. This type has no destructor, because each access to a thread-local value with a
/// destructor first checks whether the destructor has run.
struct LastSlots {
    /// The domain of the slots. The slots in [`LOCAL`] keep it alive. Null if the thread has used no slots yet, or has
    /// returned its slots.
    domain: Cell<*const HazardDomain>,
    slots: Cell<*const ThreadSlots>,
}

per_thread! {
    static LOCAL: LocalSlots = const { LocalSlots(RefCell::new(Vec::new())) };
}

per_thread! {
    static LAST: LastSlots = const { LastSlots { domain: Cell::new(null()), slots: Cell::new(null()) } };
}

process_wide! {
    /// Domains that are closed and not yet freed. The thread that destroys the last output normally frees the owner.
    /// But if another thread closes the domain at the same moment, possibly neither thread notices that it must free
    /// the owner. A later call of [`free_unused`] then finds the domain here.
    static CLOSED: Mutex<Vec<Arc<HazardDomain>>> = Mutex::new(Vec::new());
}

fn closed() -> MutexGuard<'static, Vec<Arc<HazardDomain>>> {
    CLOSED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Frees the owner of each closed domain without outputs and without counted references.
pub(crate) fn free_unused() {
    let all = closed().clone();
    for domain in all {
        domain.free_if_unused();
    }
}

impl Drop for LocalSlots {
    fn drop(&mut self) {
        let _ = LAST.try_with(|last| last.domain.set(null()));
        let all = std::mem::take(&mut *self.0.borrow_mut());
        for slots in all {
            // After this store, another thread may claim the slots. That thread continues their counters.
            slots.taken.store(false, Ordering::Release);
            slots.domain.free_if_unused();
        }
    }
}

impl LocalSlots {
    /// Finds or creates this thread's slots in a domain.
    fn find(&self, domain: &Arc<HazardDomain>) -> *const ThreadSlots {
        let mut all = self.0.borrow_mut();
        all.retain(|slots| !slots.domain.is_freed());
        let known = all.iter().find(|slots| Arc::ptr_eq(&slots.domain, domain)).cloned();
        let slots = known.unwrap_or_else(|| {
            let slots = domain.take_slots();
            all.push(Arc::clone(&slots));
            slots
        });
        Arc::as_ptr(&slots)
    }
}

/// Finds or creates this thread's slots in a domain, and stores them as the slots that the thread used last. Returns
/// `None` if the thread is ending.
#[cold]
fn find_and_cache_slots(domain: &Arc<HazardDomain>) -> Option<NonNull<ThreadSlots>> {
    let slots = LOCAL.try_with(|local| local.find(domain)).ok()?;
    let _ = LAST.try_with(|last| {
        last.slots.set(slots);
        last.domain.set(Arc::as_ptr(domain));
    });
    NonNull::new(slots.cast_mut())
}

/// Returns this thread's slots in a domain if they are the slots that the thread used last. If it returns `None`, use
/// [`find_and_cache_slots`]. The slots are valid until the client is freed or the thread ends.
#[inline]
fn last_slots(domain: &Arc<HazardDomain>) -> Option<NonNull<ThreadSlots>> {
    let find = |last: &LastSlots| if last.domain.get() == Arc::as_ptr(domain) { last.slots.get() } else { null() };
    NonNull::new(LAST.try_with(find).unwrap_or(null()).cast_mut())
}

impl ThreadSlots {
    /// Adds to a counter that only this thread changes.
    #[inline]
    fn add(counter: &AtomicUsize, count: usize) {
        counter.store(counter.load(Ordering::Relaxed).wrapping_add(count), Ordering::Release);
    }

    /// Counts destroyed outputs. Frees the owner if the domain is closed and these were the last outputs.
    #[inline]
    fn count_destroyed(&self, count: usize) {
        Self::add(&self.destroyed, count);
        if self.closing.load(Ordering::SeqCst) {
            self.free_owner_if_unused();
        }
    }

    #[cold]
    fn free_owner_if_unused(&self) {
        let domain = Arc::clone(&self.domain);
        domain.free_if_unused();
    }
}

impl HazardDomain {
    pub(crate) fn new() -> Arc<Self> {
        let state = DomainState { threads: Vec::new(), phase: Phase::Open };
        Arc::new(Self { state: Mutex::new(state), elsewhere: AtomicUsize::new(0) })
    }

    fn state(&self) -> MutexGuard<'_, DomainState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_freed(&self) -> bool {
        matches!(self.state().phase, Phase::Freed)
    }

    /// Returns slots for this thread: either slots that an ended thread has returned, or new slots.
    #[cold]
    fn take_slots(self: &Arc<Self>) -> Arc<ThreadSlots> {
        let mut state = self.state();
        let take = |slots: &&Arc<ThreadSlots>| {
            slots.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        if let Some(slots) = state.threads.iter().find(take) {
            return Arc::clone(slots);
        }
        let slots = Arc::new(ThreadSlots {
            protected: AtomicU64::new(0),
            depth: AtomicUsize::new(0),
            created: AtomicUsize::new(0),
            destroyed: AtomicUsize::new(0),
            closing: AtomicBool::new(matches!(state.phase, Phase::Closed(_))),
            taken: AtomicBool::new(true),
            domain: Arc::clone(self),
        });
        state.threads.push(Arc::clone(&slots));
        slots
    }

    /// Publishes that an execution of this thread uses the buffers with these bits. If another thread marks such a
    /// buffer as deleted, one of two things happens. Either this thread sees the mark when it checks the buffer
    /// afterwards, or the other thread sees the bits when it calls [`HazardDomain::is_protected`] afterwards.
    #[inline(always)]
    pub(crate) fn protect(self: &Arc<Self>, bits: u64) -> Guard {
        let (slots, own) = match last_slots(self) {
            Some(slots) => (slots, None),
            None => self.slots_uncached(),
        };
        // SAFETY: V9 (hazard pointers): the slots belong to this thread or to `own`, and the client lives until the
        // execution ends.
        let published = unsafe { slots.as_ref() };
        let before = published.protected.load(Ordering::Relaxed);
        let depth = published.depth.load(Ordering::Relaxed) + 1;
        published.depth.store(depth, Ordering::Release);
        if bits != 0 {
            published.protected.swap(before | bits, Ordering::SeqCst);
        }
        Guard { slots, before, depth, _own: own }
    }

    /// Returns the slots for an execution on this thread: the slots of the thread, or borrowed slots if the thread is
    /// ending.
    #[cold]
    #[inline(never)]
    fn slots_uncached(self: &Arc<Self>) -> (NonNull<ThreadSlots>, Option<BorrowedSlots>) {
        if let Some(slots) = find_and_cache_slots(self) {
            return (slots, None);
        }
        let own = self.take_slots();
        (NonNull::from(&*own), Some(BorrowedSlots(own)))
    }

    /// Returns the counter of outputs that this thread destroys.
    #[inline(always)]
    pub(crate) fn output_counter(self: &Arc<Self>) -> OutputCounter {
        match last_slots(self) {
            Some(slots) => OutputCounter(Ok(slots)),
            None => self.output_counter_uncached(),
        }
    }

    /// Finds the counter of outputs if the thread used the slots of another domain last, or none.
    #[cold]
    #[inline(never)]
    fn output_counter_uncached(self: &Arc<Self>) -> OutputCounter {
        OutputCounter(find_and_cache_slots(self).ok_or_else(|| Arc::clone(self)))
    }

    /// Counts an output that an ending thread destroyed. Frees the owner if this was the last output.
    #[cold]
    #[inline(never)]
    fn count_on_ending_thread(self: Arc<Self>) {
        self.elsewhere.fetch_add(1, Ordering::SeqCst);
        self.free_if_unused();
    }

    /// Returns whether any execution may use a buffer with this bit. Ignores the execution that holds the guard `own`.
    pub(crate) fn is_protected(&self, bit: u64, own: Option<&Guard>) -> bool {
        self.state().threads.iter().any(|slots| {
            let protected = slots.protected.load(Ordering::SeqCst);
            // Ignore the bits that the execution of `own` added, unless a nested execution runs, which may have added
            // the same bits.
            let is_own = |guard: &Guard| {
                NonNull::from(&**slots) == guard.slots && slots.depth.load(Ordering::Acquire) == guard.depth
            };
            own.filter(|guard| is_own(guard)).map_or(protected, |guard| guard.before) & bit != 0
        })
    }

    /// Records that only outputs of executions still refer to the owner. Frees the owner if no outputs exist.
    pub(crate) fn close(self: Arc<Self>, owner: Owner) {
        {
            let mut state = self.state();
            if matches!(state.phase, Phase::Open) {
                state.phase = Phase::Closed(owner);
                for slots in &state.threads {
                    slots.closing.store(true, Ordering::SeqCst);
                }
                closed().push(Arc::clone(&self));
            }
        }
        self.free_if_unused();
    }

    /// Frees the owner if the domain is closed, no output exists and no counted reference to the owner is left.
    fn free_if_unused(self: &Arc<Self>) {
        let mut state = self.state();
        let Phase::Closed(owner) = state.phase else { return };
        // Read `destroyed` before `created`. `destroyed` only grows, and `created` grows only while a counted reference
        // exists. An output may create a new counted reference, but releasing that reference calls this function again.
        let destroyed = state.threads.iter().map(|slots| slots.destroyed.load(Ordering::SeqCst));
        let destroyed = destroyed.fold(0, usize::wrapping_add).wrapping_add(self.elsewhere.load(Ordering::SeqCst));
        let created = state.threads.iter().map(|slots| slots.created.load(Ordering::SeqCst));
        let created = created.fold(0, usize::wrapping_add);
        // SAFETY: V7 (counting): the domain is closed and not freed, so the object is alive.
        if destroyed != created || !unsafe { (owner.is_unused)(owner.object) } {
            return;
        }
        state.phase = Phase::Freed;
        state.threads.clear();
        drop(state);
        closed().retain(|domain| !Arc::ptr_eq(domain, self));
        // SAFETY: V7 (counting): only this thread found the owner unused while the phase was `Closed`.
        unsafe { (owner.free)(owner.object) };
    }
}

impl Guard {
    /// Counts outputs that the execution creates.
    #[inline]
    pub(crate) fn add_outputs(&self, count: usize) {
        // SAFETY: V9 (hazard pointers): the slots outlive the guard.
        ThreadSlots::add(&unsafe { self.slots.as_ref() }.created, count);
    }

    /// Corrects the count for outputs that were counted but not created.
    #[inline]
    pub(crate) fn remove_outputs(&self, count: usize) {
        // SAFETY: V9 (hazard pointers): the slots outlive the guard.
        unsafe { self.slots.as_ref() }.count_destroyed(count);
    }
}

impl Drop for Guard {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: V9 (hazard pointers): the slots outlive the guard.
        let slots = unsafe { self.slots.as_ref() };
        slots.protected.store(self.before, Ordering::Release);
        slots.depth.store(self.depth - 1, Ordering::Release);
    }
}

/// Counts a destroyed output without access to the client, because counting may free the client.
pub(crate) struct OutputCounter(Result<NonNull<ThreadSlots>, Arc<HazardDomain>>);

impl OutputCounter {
    /// Counts one destroyed output. Frees the client if this was the last output and no counted reference to the client
    /// is left.
    #[inline]
    pub(crate) fn count_destroyed(self) {
        match self.0 {
            // SAFETY: V9 (hazard pointers): the slots belong to this thread, which is not ending.
            Ok(slots) => unsafe { slots.as_ref() }.count_destroyed(1),
            Err(domain) => domain.count_on_ending_thread(),
        }
    }
}
