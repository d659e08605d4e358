//! What a `PJRT_Buffer*` points to: a value that can be deleted while others use it.

use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use pjrt_sys::PJRT_Buffer;

use crate::abi::client_state::Client;
use crate::abi::counted::Ref;
use crate::abi::lists::drop_contained;
use crate::abi::pool;
use crate::abi::raw::handles;
use crate::{Backend, ElementType, Error, Event, Placement, Result, Shape};

/// A buffer of the framework.
///
/// `state` counts who uses the value, the framework included until it deletes the buffer, and carries two flags. The
/// value is dropped by whoever takes the count to zero. No lock is needed to use a buffer: an execution adds one and
/// takes it away.
pub(crate) struct BufferHandle<B: Backend> {
    state: AtomicUsize,
    value: UnsafeCell<Value<B>>,
    /// References that other libraries hold on the memory; each is also a use.
    external: AtomicU32,
    pub(crate) ready: Event,
    /// Whether the value comes only with `ready`.
    late: bool,
    pub(crate) client: Ref<Client<B>>,
    pub(crate) placement: Placement,
    pub(crate) form: Form,
}

/// The backend's part of a buffer.
pub(crate) enum Value<B: Backend> {
    Now(B::Buffer),
    /// Set before the buffer's event is ready.
    Later(Arc<OnceLock<B::Buffer>>),
    Gone,
}

impl<B: Backend> Value<B> {
    /// The value; none when it was taken, or is yet to come.
    #[inline]
    pub(crate) fn get(&self) -> Option<&B::Buffer> {
        match self {
            Self::Now(value) => Some(value),
            Self::Later(value) => value.get(),
            Self::Gone => None,
        }
    }

    /// The value, or an error that only a broken promise can bring about.
    pub(crate) fn expect(&self) -> Result<&B::Buffer> {
        self.get().ok_or_else(|| Error::internal("the buffer is ready, but has no value"))
    }

    fn take(&mut self) -> Option<B::Buffer> {
        match std::mem::replace(self, Self::Gone) {
            Self::Now(value) => Some(value),
            Self::Later(value) => value.get().cloned(),
            Self::Gone => None,
        }
    }
}

impl<B: Backend> Clone for Value<B> {
    fn clone(&self) -> Self {
        match self {
            Self::Now(value) => Self::Now(value.clone()),
            Self::Later(value) => Self::Later(Arc::clone(value)),
            Self::Gone => Self::Gone,
        }
    }
}

/// The framework deleted the buffer, or an execution took it: no new uses.
const DELETED: usize = 1 << (usize::BITS - 1);
/// The framework destroyed the handle: the last user frees it.
const DESTROYED: usize = 1 << (usize::BITS - 2);
const USES: usize = DESTROYED - 1;

handles! {
    PJRT_Buffer => BufferHandle<P::Backend>;
}

// SAFETY: the value is shared while the count of uses is not zero, and changed only by the one who owns it alone.
unsafe impl<B: Backend> Send for BufferHandle<B> {}
// SAFETY: as above.
unsafe impl<B: Backend> Sync for BufferHandle<B> {}

/// Element type and extents, without an allocation for the usual ranks, so that shapes of outputs are copied and those
/// of arguments compared in a few moves.
#[derive(Clone, PartialEq)]
pub(crate) struct Form {
    pub(crate) element_type: ElementType,
    /// How many of `few` count, where there are no more.
    rank: u8,
    /// Zero beyond the rank.
    few: [i64; Form::FEW],
    /// All extents, where they are too many.
    many: Option<Box<[i64]>>,
}

impl Form {
    const FEW: usize = 5;

    pub(crate) fn new(shape: &Shape) -> Self {
        let mut new = Self { element_type: shape.element_type, rank: 0, few: [0; Self::FEW], many: None };
        match (new.few.get_mut(..shape.dimensions.len()), u8::try_from(shape.dimensions.len())) {
            (Some(few), Ok(rank)) => {
                few.copy_from_slice(&shape.dimensions);
                new.rank = rank;
            }
            _ => new.many = Some(shape.dimensions.as_slice().into()),
        }
        new
    }

    pub(crate) fn dims(&self) -> &[i64] {
        match &self.many {
            None => &self.few[..usize::from(self.rank)],
            Some(many) => many,
        }
    }

    pub(crate) fn shape(&self) -> Shape {
        Shape::new(self.element_type, self.dims())
    }
}

impl<B: Backend> BufferHandle<B> {
    /// Gives the framework a buffer, which it destroys.
    #[inline]
    pub(crate) fn give(
        client: Ref<Client<B>>,
        value: Value<B>,
        form: &Form,
        placement: Placement,
        ready: Event,
    ) -> *mut PJRT_Buffer {
        let handle = pool::new(|| Self {
            state: AtomicUsize::new(1),
            late: matches!(value, Value::Later(_)),
            value: UnsafeCell::new(value),
            external: AtomicU32::new(0),
            ready,
            client,
            placement,
            form: form.clone(),
        });
        handle.as_ptr().cast()
    }

    /// Takes back a buffer that nobody but the framework's array knows.
    ///
    /// # Safety
    ///
    /// V7: the buffer came from [`BufferHandle::give`], was never used, and is given up.
    #[inline]
    pub(crate) unsafe fn take_back(buffer: *mut PJRT_Buffer) {
        if let Some(handle) = NonNull::new(buffer.cast::<Self>()) {
            // SAFETY: the caller's contract.
            unsafe { pool::free(handle) };
        }
    }

    pub(crate) fn shape(&self) -> Shape {
        self.form.shape()
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.state.load(Ordering::Acquire) & DELETED != 0
    }

    /// Uses the buffer.
    #[inline]
    pub(crate) fn hold(&self) -> Result<Held<'_, B>> {
        if self.acquire() { Ok(Held { buffer: self }) } else { Err(deleted()) }
    }

    /// Adds a use, which [`BufferHandle::release`] takes away; false when the buffer is deleted.
    #[inline]
    fn acquire(&self) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        while state & DELETED == 0 {
            match self.state.compare_exchange_weak(state, state + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }

    /// Takes a use away.
    ///
    /// # Safety
    ///
    /// The use was added by [`BufferHandle::acquire`], and the value is not touched under it any more. Once the
    /// framework has destroyed the buffer, `self` may be gone after this.
    #[inline]
    unsafe fn release(&self) {
        let mut state = self.state.load(Ordering::Acquire);
        // The last use of a deleted buffer stays counted until the value is gone, so that nobody frees the handle
        // meanwhile.
        while state & DELETED == 0 || state & USES != 1 {
            match self.state.compare_exchange_weak(state, state - 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(now) => state = now,
            }
        }
        // SAFETY: the caller's contract; this is the last use, and the flag keeps new ones away.
        unsafe { self.end() };
    }

    /// Drops the value and the use, and the handle if the framework left that to the last use.
    ///
    /// # Safety
    ///
    /// V7: the caller has the last use and gives it up.
    #[cold]
    unsafe fn end(&self) {
        let this = NonNull::from(self);
        // SAFETY: the caller's contract.
        drop_contained(unsafe { self.take_value() });
        if self.state.fetch_sub(1, Ordering::AcqRel) & DESTROYED != 0 {
            // SAFETY: the caller's contract.
            unsafe { pool::free(this) };
        }
    }

    /// The value, present or to come.
    ///
    /// # Safety
    ///
    /// A use added by [`BufferHandle::acquire`] outlives the reference.
    #[inline]
    unsafe fn value(&self) -> &Value<B> {
        // SAFETY: the use keeps the value from being taken or dropped.
        unsafe { &*self.value.get() }
    }

    /// Waits until the buffer can be given to the backend: until it is ready, or not at all where the device keeps
    /// the order itself.
    #[inline]
    pub(crate) fn wait(&self) -> Result<()> {
        if self.ready.is_born_ready() {
            return Ok(());
        }
        match self.ready.result() {
            Some(result) => result,
            None if B::QUEUED && !self.late => Ok(()),
            None => self.ready.wait(),
        }
    }

    /// Takes the value under a use, which deletes the buffer. None when it was deleted before.
    ///
    /// # Safety
    ///
    /// The caller has one use added by [`BufferHandle::acquire`], and no reference to the value.
    unsafe fn take(&self) -> Option<B::Buffer> {
        // The framework's use and this one are two: then nobody else is left, and nobody comes.
        if self.state.compare_exchange(2, DELETED | 1, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            // SAFETY: V7, this is the only use.
            return unsafe { self.take_value() };
        }
        // SAFETY: the caller's contract.
        let value = unsafe { self.value() }.get().cloned();
        // Another execution may have taken it in between: then it is not ours to give.
        if self.delete() { value } else { None }
    }

    /// Gives up the framework's use; false if that was done before.
    pub(crate) fn delete(&self) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            if state & DELETED != 0 {
                return false;
            }
            // The framework's own use goes with the flag.
            let next = (state | DELETED) - 1;
            match self.state.compare_exchange_weak(state, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => {
                    if next & USES == 0 {
                        // SAFETY: V7, the last use is gone and the flag keeps new ones away.
                        drop_contained(unsafe { self.take_value() });
                    }
                    return true;
                }
                Err(now) => state = now,
            }
        }
    }

    /// # Safety
    ///
    /// Nobody else uses the value, now or later.
    #[inline]
    unsafe fn take_value(&self) -> Option<B::Buffer> {
        // SAFETY: the caller's contract.
        let value = unsafe { &mut *self.value.get() };
        value.take()
    }

    /// Frees the framework's handle, now or with the last use.
    ///
    /// # Safety
    ///
    /// V2: the handle came from [`BufferHandle::give`] and is given up.
    pub(crate) unsafe fn destroy(this: NonNull<Self>) {
        // SAFETY: V2, live until the end of this function.
        let buffer = unsafe { this.as_ref() };
        // Alone, or deleted and unused: the usual case, which needs no further atomic operation.
        if matches!(buffer.state.load(Ordering::Acquire), 1 | DELETED) {
            // SAFETY: V2 and V7; `give` made it.
            return unsafe { pool::free(this) };
        }
        buffer.delete();
        let before = buffer.state.fetch_or(DESTROYED, Ordering::AcqRel);
        if before & USES == 0 {
            // SAFETY: V7; with no use left, none of them frees it.
            unsafe { pool::free(this) };
        }
    }

    /// Keeps the memory for another library.
    pub(crate) fn add_external(&self) -> Result<()> {
        let held = self.hold()?;
        self.external.fetch_add(1, Ordering::Relaxed);
        // The use is given back by `remove_external`.
        std::mem::forget(held);
        Ok(())
    }

    pub(crate) fn remove_external(&self) -> Result<()> {
        let removed = self.external.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        removed.map_err(|_| {
            Error::failed_precondition("the buffer has no external reference; increase the count first").unnamed()
        })?;
        // SAFETY: the use was added by `add_external`, and only as many are taken away.
        unsafe { self.release() };
        Ok(())
    }
}

pub(crate) fn deleted() -> Error {
    Error::invalid_argument("the buffer was deleted or donated").unnamed()
}

/// A use of a buffer: its value stays until this is dropped.
pub(crate) struct Held<'a, B: Backend> {
    buffer: &'a BufferHandle<B>,
}

impl<B: Backend> Held<'_, B> {
    /// The value, present or to come.
    pub(crate) fn value(&self) -> &Value<B> {
        // SAFETY: this is a use.
        unsafe { self.buffer.value() }
    }
}

impl<B: Backend> Drop for Held<'_, B> {
    fn drop(&mut self) {
        // SAFETY: made with the use that ends here.
        unsafe { self.buffer.release() };
    }
}

/// Uses of the arguments of an execution, in the framework's own array.
pub(crate) struct Uses<'a, B: Backend> {
    handles: &'a [&'a BufferHandle<B>],
    /// How many of them are used, from the first on.
    held: usize,
    /// For each argument whether it is given up; empty when none is. No given-up buffer is another argument too.
    donated: &'a [bool],
}

impl<'a, B: Backend> Uses<'a, B> {
    #[inline]
    pub(crate) fn new(handles: &'a [&'a BufferHandle<B>]) -> Self {
        Self { handles, held: 0, donated: &[] }
    }

    /// Uses the next argument.
    #[inline]
    pub(crate) fn hold_next(&mut self) -> Result<()> {
        match self.handles.get(self.held) {
            Some(handle) if handle.acquire() => {
                self.held += 1;
                Ok(())
            }
            _ => Err(deleted()),
        }
    }

    /// Gives arguments up. A buffer that is given up may be no other argument.
    pub(crate) fn donate(&mut self, donated: &'a [bool]) -> Result<()> {
        let addresses = self.handles().iter().map(|handle| std::ptr::from_ref(*handle).addr());
        let mut sorted: Vec<_> = addresses.zip(donated.iter()).enumerate().map(|(i, (at, d))| (at, i, *d)).collect();
        sorted.sort_unstable();
        for pair in sorted.windows(2) {
            let [(address, i, first), (other_address, j, second)] = pair else { continue };
            if address == other_address && (*first || *second) {
                let (given, other) = if *first { (i, j) } else { (j, i) };
                return Err(Error::argument(format!(
                    "the buffer of argument {given} is donated and also argument {other}; pass a copy, or name \
                     {given} in non_donatable_input_indices"
                )));
            }
        }
        self.donated = donated;
        Ok(())
    }

    #[inline]
    pub(crate) fn handles(&self) -> &'a [&'a BufferHandle<B>] {
        &self.handles[..self.held]
    }

    #[inline]
    pub(crate) fn is_donated(&self, index: usize) -> bool {
        self.donated.get(index) == Some(&true)
    }

    /// The value of an argument; none when it was taken.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&B::Buffer> {
        // SAFETY: this is a use of each of these handles.
        unsafe { self.handles().get(index)?.value() }.get()
    }

    /// Takes the value of a donated argument, which deletes its buffer.
    pub(crate) fn take(&mut self, index: usize) -> Option<B::Buffer> {
        let handle = self.handles().get(index).filter(|_| self.is_donated(index))?;
        // SAFETY: a donated buffer is one argument only, so this has one use of it, and `&mut self` says that no
        // reference to its value is out.
        unsafe { handle.take() }
    }

    /// Deletes what was given up.
    #[inline]
    pub(crate) fn delete_donated(&self) {
        for (handle, donated) in self.handles().iter().zip(self.donated.iter()) {
            if *donated {
                handle.delete();
            }
        }
    }
}

impl<B: Backend> Drop for Uses<'_, B> {
    #[inline]
    fn drop(&mut self) {
        for handle in self.handles() {
            // SAFETY: made with the uses that end here.
            unsafe { handle.release() };
        }
    }
}
