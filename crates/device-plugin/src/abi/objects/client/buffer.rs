//! The object behind a `PJRT_Buffer*`: a value that can be deleted while other threads use it.
//!
//! A buffer keeps its client alive, and a client has the list of the deleted buffers that executions may still use. A
//! buffer knows its client only as a [`BufferOwner`], so that launches and the backend can refer to buffers without
//! importing the client, which contains the backend.

use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pjrt_sys::PJRT_Buffer;

use crate::abi::objects::client::extents::KnownExtents;
use crate::abi::objects::client::pending_value::PendingValue;
use crate::abi::objects::client::value::Value;
use crate::abi::reclaim::buffer_pool;
use crate::abi::reclaim::hazard::Guard;
use crate::abi::reclaim::refcount::{Counted, OwnerRef, Reclaimed};
use crate::array_layout::ArrayLayout;
use crate::contain::drop_contained;
use crate::{Error, Event, Placement, Result, Shape};

/// The client of a buffer, as the buffer sees it.
pub(crate) trait BufferOwner: Reclaimed + Sized + 'static {
    /// The backend's own buffer.
    type Value: Clone + Send + Sync + 'static;

    /// Whether the backend has the feature `DynamicShapes`.
    const HAS_DYNAMIC_SHAPES: bool;

    /// Returns whether the array of a value may have dynamic dimensions.
    fn is_dynamic(&self, value: &Self::Value) -> bool;

    /// Returns the known extents of the client's dynamic buffers.
    fn extents(&self) -> &KnownExtents;

    /// Returns the deleted buffers that executions may still use.
    fn retired(&self) -> &RetiredBuffers<Self>;
}

/// Names the type of a backend's clients, so that a launch can refer to its buffers without importing the client.
pub(crate) trait HasClient {
    type Client: BufferOwner;
}

/// The object behind a `PJRT_Buffer*`.
///
/// `state` holds flags and counts the uses of the value. The framework itself counts as one use until it deletes the
/// buffer. The thread that ends the last use drops the value. Executions do not count as uses. Instead, they publish
/// their arguments in the client's hazard domain. A thread checks this domain before it drops a value.
pub(crate) struct Buffer<C: BufferOwner> {
    state: AtomicUsize,
    value: UnsafeCell<Value<C::Value>>,
    /// Number of external references, by which other libraries use the memory. Each external reference is also a use.
    external: AtomicU32,
    /// Whether the array may have dynamic dimensions. Always `false` for backends without the feature `DynamicShapes`.
    pub(crate) is_dynamic: bool,
    pub(crate) ready: Event,
    /// Declared after the value, so that the value is dropped first.
    pub(crate) client: OwnerRef<C>,
    pub(crate) placement: Placement,
    pub(crate) layout: ArrayLayout,
}

/// The framework deleted the buffer or donated it to an execution. New uses are rejected.
const DELETED: usize = 1 << (usize::BITS - 1);
/// The framework destroyed the handle. The end of the last use frees it.
const DESTROYED: usize = 1 << (usize::BITS - 2);
/// The buffer is in [`RetiredBuffers`], because an execution may still use its value. The value is dropped when no
/// execution uses it any more, or together with the handle.
const RETIRED: usize = 1 << (usize::BITS - 3);
const USES: usize = RETIRED - 1;

/// Returns whether the array of a value may have dynamic dimensions. For a value that does not exist yet, returns
/// whether the backend has the feature `DynamicShapes`.
#[inline]
fn may_be_dynamic<C: BufferOwner>(value: &Value<C::Value>, client: &C) -> bool {
    match value {
        Value::Now(value) => client.is_dynamic(value),
        Value::Later(_) => C::HAS_DYNAMIC_SHAPES,
        Value::Gone => false,
    }
}

// SAFETY: threads share the value while the count of uses is not zero, and only its sole user changes it.
unsafe impl<C: BufferOwner> Send for Buffer<C> {}
// SAFETY: the reason for `Send` of this type also applies here.
unsafe impl<C: BufferOwner> Sync for Buffer<C> {}

impl<C: BufferOwner> Drop for Buffer<C> {
    #[inline(always)]
    fn drop(&mut self) {
        if C::HAS_DYNAMIC_SHAPES && self.is_dynamic {
            self.client.extents().forget(std::ptr::from_ref(self).addr());
        }
    }
}

impl<C: BufferOwner> Buffer<C> {
    /// Creates a buffer that the framework owns and destroys.
    #[inline]
    pub(crate) fn give(
        client: impl Into<OwnerRef<C>>,
        value: Value<C::Value>,
        layout: &ArrayLayout,
        placement: Placement,
        ready: Event,
    ) -> *mut PJRT_Buffer {
        let client = client.into();
        let is_dynamic = may_be_dynamic(&value, &**client);
        Self::new(client, value, layout, placement, ready, is_dynamic).as_ptr().cast()
    }

    /// Creates a buffer with one use, which [`Buffer::destroy`] ends. `is_dynamic` specifies whether the array
    /// may have dynamic dimensions.
    #[inline]
    pub(crate) fn new(
        client: impl Into<OwnerRef<C>>,
        value: Value<C::Value>,
        layout: &ArrayLayout,
        placement: Placement,
        ready: Event,
        is_dynamic: bool,
    ) -> NonNull<Self> {
        buffer_pool::new(|| Self {
            state: AtomicUsize::new(1),
            value: UnsafeCell::new(value),
            external: AtomicU32::new(0),
            is_dynamic,
            ready,
            client: client.into(),
            placement,
            layout: layout.clone(),
        })
    }

    /// Creates a buffer for the framework, and the producer that sets the buffer's value. `is_dynamic` specifies
    /// whether the array may have dynamic dimensions.
    pub(crate) fn pending(
        client: &Counted<C>,
        layout: &ArrayLayout,
        to: Placement,
        is_dynamic: bool,
    ) -> (*mut PJRT_Buffer, PendingValue<C::Value>) {
        let (value, ready, producer) = PendingValue::new();
        (Self::new(client.share(), value, layout, to, ready, is_dynamic).as_ptr().cast(), producer)
    }

    /// Frees a buffer that the framework has not seen yet.
    ///
    /// # Safety
    ///
    /// V7 (counting): the buffer came from [`Buffer::new`], no other code has a reference to it, and the caller
    /// does not use it again.
    #[inline]
    pub(crate) unsafe fn take_back(buffer: *mut PJRT_Buffer) {
        if let Some(handle) = NonNull::new(buffer.cast::<Self>()) {
            // SAFETY: V7 (counting), which the caller promises.
            unsafe { buffer_pool::free(handle) };
        }
    }

    /// Frees the handle of a buffer that a launch has just created, and returns its value. Returns `None` if `buffer`
    /// is null or has no value.
    ///
    /// # Safety
    ///
    /// The requirements of [`Buffer::take_back`] apply.
    pub(crate) unsafe fn into_value(buffer: *mut PJRT_Buffer) -> Option<C::Value> {
        let handle = NonNull::new(buffer.cast::<Self>())?;
        // SAFETY: the caller promises that the handle exists.
        let this = unsafe { handle.as_ref() };
        // SAFETY: the caller promises that no other thread uses the value.
        let value = unsafe { this.take_value() };
        // SAFETY: the caller promises that no other thread uses the handle.
        unsafe { buffer_pool::free(handle) };
        value.into_buffer()
    }

    /// Returns the array's shape, with the dimensions in the order in which the device stores them.
    pub(crate) fn stored_shape(&self) -> Shape {
        self.layout.stored_shape()
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.state.load(Ordering::Acquire) & DELETED != 0
    }

    /// Returns whether an execution may use the buffer. The execution's guard must already have published the buffer.
    #[inline]
    pub(crate) fn is_usable(&self) -> bool {
        self.state.load(Ordering::SeqCst) & DELETED == 0
    }

    /// Adds a use, which ends when the returned value is dropped. Returns an error if the buffer is deleted.
    #[inline]
    pub(crate) fn hold(&self) -> Result<BufferUse<'_, C>> {
        if self.acquire() { Ok(BufferUse { buffer: self }) } else { Err(deleted()) }
    }

    /// Adds a use, which [`Buffer::release`] ends. Returns `false` if the buffer is deleted.
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

    /// Ends a use.
    ///
    /// # Safety
    ///
    /// The caller owns a use that [`Buffer::acquire`] added, and no longer accesses the value through it. If the
    /// framework has destroyed the buffer, this call may free `self`.
    #[inline]
    unsafe fn release(&self) {
        let mut state = self.state.load(Ordering::Acquire);
        // The last use of a deleted buffer stays counted until the value is dropped, so that no other thread frees the
        // handle in the meantime.
        while state & DELETED == 0 || state & USES != 1 {
            match self.state.compare_exchange_weak(state, state - 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(now) => state = now,
            }
        }
        // SAFETY: the caller owns the last use, and `DELETED` prevents new uses.
        unsafe { self.end() };
    }

    /// Drops the value, or retires the buffer if an execution may still use the value. Then ends the last use, and
    /// frees the handle if the framework has destroyed it.
    ///
    /// # Safety
    ///
    /// V7 (counting): the caller owns the last use, which this call ends.
    #[cold]
    unsafe fn end(&self) {
        let this = NonNull::from(self);
        // No execution uses a buffer that the framework has destroyed.
        if self.state.load(Ordering::SeqCst) & DESTROYED == 0 && self.client.domain().is_protected(self.bit(), None) {
            self.client.retired().add(this);
        } else {
            // SAFETY: V7 (counting), which the caller promises.
            drop_contained(unsafe { self.take_value() });
        }
        if self.state.fetch_sub(1, Ordering::AcqRel) & DESTROYED != 0 {
            self.client.retired().remove(this);
            // SAFETY: V7 (counting), which the caller promises. No other reference is left.
            drop_contained(unsafe { self.take_value() });
            // SAFETY: V7 (counting), which the caller promises.
            unsafe { buffer_pool::free(this) };
        }
    }

    /// Returns the bit of this buffer in the Bloom filters of the hazard domain.
    #[inline]
    pub(crate) fn bit(&self) -> u64 {
        Self::bit_of(std::ptr::from_ref(self))
    }

    /// Returns the bit of the buffer at this address. Does not access the buffer.
    #[inline]
    pub(crate) fn bit_of(buffer: *const Self) -> u64 {
        1 << ((buffer.addr() >> 6) & 63)
    }

    /// Drops the value of a deleted buffer without uses, or retires the buffer if an execution other than that of `own`
    /// may use it. In the second case, also drops the values of other retired buffers that no execution uses any more.
    ///
    /// # Safety
    ///
    /// V7 (counting): the caller reduced the count of uses to zero and has no reference to the value.
    unsafe fn retire(&self, own: Option<&Guard>) {
        if self.client.domain().is_protected(self.bit(), own) {
            self.client.retired().add(NonNull::from(self));
            self.client.retired().drop_unused(&**self.client);
        } else {
            // SAFETY: V7 (counting): the caller ended the last use, and `DELETED` prevents new uses.
            drop_contained(unsafe { self.take_value() });
        }
    }

    /// Returns the value, which may still be pending.
    ///
    /// # Safety
    ///
    /// The reference must not outlive a use that [`Buffer::acquire`] added, or a guard that published the buffer
    /// before the buffer was deleted.
    #[inline]
    pub(crate) unsafe fn value(&self) -> &Value<C::Value> {
        // SAFETY: the use or the guard prevents other threads from taking or dropping the value.
        unsafe { &*self.value.get() }
    }

    /// Takes the value of an argument and deletes the buffer. Returns `None` if the buffer was deleted before or has no
    /// value.
    ///
    /// # Safety
    ///
    /// The buffer occurs exactly once among the arguments of the execution that holds `own`, and the caller has no
    /// reference to its value.
    pub(crate) unsafe fn take(&self, own: &Guard) -> Option<C::Value> {
        // If the framework's use is the only one and no other execution uses the buffer, this execution is the last
        // user. `DELETED` prevents new uses.
        if self.state.compare_exchange(1, DELETED, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
            if !self.client.domain().is_protected(self.bit(), Some(own)) {
                // SAFETY: V7 (counting): the framework's use was the only use, and it has ended.
                return unsafe { self.take_value() }.into_buffer();
            }
            // Retires the buffer even if the clone panics.
            let _leaving = RetireOnDrop(self);
            // SAFETY: no other thread can drop the value before `_leaving` retires the buffer.
            return unsafe { self.value() }.get().cloned();
        }
        // SAFETY: the guard of the execution prevents other threads from dropping the value.
        let value = unsafe { self.value() }.get().cloned();
        // If another execution has deleted the buffer in the meantime, the value belongs to that execution.
        if self.delete(Some(own)) { value } else { None }
    }

    /// Deletes the buffer, which ends the framework's use. Returns `false` if the buffer was already deleted. An
    /// execution passes its guard as `own`, so that it does not count as a user of the buffer.
    pub(crate) fn delete(&self, own: Option<&Guard>) -> bool {
        match self.mark_deleted() {
            None => return false,
            // SAFETY: V7 (counting): the last use has ended, and `DELETED` prevents new uses.
            Some(0) => unsafe { self.retire(own) },
            Some(_) => {}
        }
        true
    }

    /// Marks the buffer as deleted, which ends the framework's use. Returns the number of remaining uses, or `None` if
    /// the buffer was already deleted.
    fn mark_deleted(&self) -> Option<usize> {
        let mut state = self.state.load(Ordering::Relaxed);
        while state & DELETED == 0 {
            // Set the flag and end the framework's use in one step.
            let next = (state | DELETED) - 1;
            match self.state.compare_exchange_weak(state, next, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return Some(next & USES),
                Err(now) => state = now,
            }
        }
        None
    }

    /// Takes the value out of the buffer, without running vendor code.
    ///
    /// # Safety
    ///
    /// No other thread uses the value, neither now nor later.
    #[inline]
    unsafe fn take_value(&self) -> Value<C::Value> {
        // SAFETY: the caller promises that no other thread uses the value.
        let value = unsafe { &mut *self.value.get() };
        std::mem::replace(value, Value::Gone)
    }

    /// Destroys the framework's handle. Frees the handle at once, or when the last use ends.
    ///
    /// # Safety
    ///
    /// V2 (handles): the handle came from [`Buffer::new`], and the caller does not use it again.
    #[inline(always)]
    pub(crate) unsafe fn destroy(this: NonNull<Self>) {
        // SAFETY: V2 (handles): the handle is live until this function frees it.
        let buffer = unsafe { this.as_ref() };
        // In the usual cases, only the framework uses the buffer, or the buffer is deleted and unused. These cases need
        // no further atomic operation.
        if matches!(buffer.state.load(Ordering::Acquire), 1 | DELETED) {
            // SAFETY: V2 (handles) and V7 (counting): `Buffer::new` allocated the handle, and no other use
            // exists.
            return unsafe { buffer_pool::free(this) };
        }
        // SAFETY: V2 (handles), which the caller promises.
        unsafe { Self::destroy_used(this) };
    }

    /// Destroys the framework's handle of a buffer that has other uses or is retired.
    ///
    /// # Safety
    ///
    /// The requirements of [`Buffer::destroy`] apply.
    #[cold]
    #[inline(never)]
    unsafe fn destroy_used(this: NonNull<Self>) {
        // SAFETY: V2 (handles): the handle is live until this function frees it.
        let buffer = unsafe { this.as_ref() };
        // The framework destroys a buffer only after all executions that use it (V2), so the buffer need not stay
        // retired.
        buffer.client.retired().remove(this);
        if buffer.mark_deleted() == Some(0) {
            // SAFETY: V7 (counting): the last use has ended, and `DELETED` prevents new uses.
            drop_contained(unsafe { buffer.take_value() });
        }
        let before = buffer.state.fetch_or(DESTROYED, Ordering::SeqCst);
        if before & USES == 0 {
            // SAFETY: V7 (counting): the last use has ended, so this thread alone frees the buffer.
            unsafe { buffer_pool::free(this) };
        }
    }

    /// Adds a use for another library, so that the memory stays valid.
    pub(crate) fn add_external(&self) -> Result<()> {
        let held = self.hold()?;
        self.external.fetch_add(1, Ordering::Relaxed);
        // `remove_external` ends this use.
        std::mem::forget(held);
        Ok(())
    }

    pub(crate) fn remove_external(&self) -> Result<()> {
        let removed = self.external.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        removed.map_err(|_| {
            Error::failed_precondition("the buffer has no external reference; increase the count first").unnamed()
        })?;
        // SAFETY: `add_external` added the use, and the counter ensures that each use is removed only once.
        unsafe { self.release() };
        Ok(())
    }
}

pub(crate) fn deleted() -> Error {
    Error::invalid_argument("the buffer was deleted or donated to an execution").unnamed()
}

/// A use of a buffer. While it exists, the buffer's value is not dropped.
pub(crate) struct BufferUse<'a, C: BufferOwner> {
    buffer: &'a Buffer<C>,
}

impl<C: BufferOwner> BufferUse<'_, C> {
    /// Returns the value, which may still be pending.
    pub(crate) fn value(&self) -> &Value<C::Value> {
        // SAFETY: this `BufferUse` owns a use of the buffer.
        unsafe { self.buffer.value() }
    }
}

impl<C: BufferOwner> Drop for BufferUse<'_, C> {
    fn drop(&mut self) {
        // SAFETY: `hold` added the use that ends here.
        unsafe { self.buffer.release() };
    }
}

/// A guard whose destructor calls [`Buffer::retire`] for a deleted buffer.
struct RetireOnDrop<'a, C: BufferOwner>(&'a Buffer<C>);

impl<C: BufferOwner> Drop for RetireOnDrop<'_, C> {
    fn drop(&mut self) {
        self.0.client.retired().add(NonNull::from(self.0));
    }
}

/// Deleted buffers whose values executions may still use.
pub(crate) struct RetiredBuffers<C: BufferOwner> {
    count: AtomicUsize,
    buffers: Mutex<Vec<NonNull<Buffer<C>>>>,
}

// SAFETY: the list holds buffers, which any thread may use, and a buffer is removed from the list before it is freed.
unsafe impl<C: BufferOwner> Send for RetiredBuffers<C> {}
// SAFETY: the reason for `Send` of this type also applies here.
unsafe impl<C: BufferOwner> Sync for RetiredBuffers<C> {}

impl<C: BufferOwner> RetiredBuffers<C> {
    pub(crate) fn new() -> Self {
        Self { count: AtomicUsize::new(0), buffers: Mutex::new(Vec::new()) }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<NonNull<Buffer<C>>>> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    #[cold]
    fn add(&self, buffer: NonNull<Buffer<C>>) {
        let mut buffers = self.lock();
        buffers.push(buffer);
        self.count.store(buffers.len(), Ordering::SeqCst);
        // SAFETY: the caller passes a buffer that has not been freed.
        unsafe { buffer.as_ref() }.state.fetch_or(RETIRED, Ordering::SeqCst);
    }

    /// Removes a buffer that is about to be freed together with its value.
    fn remove(&self, buffer: NonNull<Buffer<C>>) {
        let mut buffers = self.lock();
        buffers.retain(|left| *left != buffer);
        self.count.store(buffers.len(), Ordering::SeqCst);
        // SAFETY: the caller frees the buffer only after this call.
        unsafe { buffer.as_ref() }.state.fetch_and(!RETIRED, Ordering::SeqCst);
    }

    /// Drops the values that executions no longer use. Catches panics of the values' destructors.
    #[cold]
    pub(crate) fn drop_unused(&self, client: &C) {
        let mut values: Vec<Value<C::Value>> = Vec::new();
        {
            let mut buffers = self.lock();
            buffers.retain(|buffer| {
                // SAFETY: a buffer is removed from the list, under the lock, before it is freed.
                let buffer = unsafe { buffer.as_ref() };
                let used = client.domain().is_protected(buffer.bit(), None);
                if !used {
                    // SAFETY: V7 (counting): no use is counted, no execution uses the value, and `DELETED` prevents new
                    // uses.
                    values.push(unsafe { buffer.take_value() });
                    buffer.state.fetch_and(!RETIRED, Ordering::SeqCst);
                }
                used
            });
            self.count.store(buffers.len(), Ordering::SeqCst);
        }
        // Run vendor code after the lock is released. If a destructor panics, the remaining values are still dropped.
        values.into_iter().for_each(drop_contained);
    }
}
