//! A shared object with a reference count. Outputs of executions also refer to the object, but without a counted
//! reference. Its [`HazardDomain`] counts these outputs.

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::abi::reclaim::hazard::{HazardDomain, Owner};
use crate::abi::reclaim::sync::{AtomicUsize, Ordering};
use crate::contain::drop_contained;

/// A value and the number of counted references to it. Each [`Ref`] and some [`OwnerRef`]s are counted references.
#[repr(C)]
pub(crate) struct Counted<T> {
    /// The first word of the object. A framework reads this word through the object's handle. This module does not use
    /// it.
    first_word: *const (),
    count: AtomicUsize,
    /// Pointer to the allocation of this object, derived from its `Box`. It is used to free the object, because a
    /// pointer derived from a shared reference must not be used for this.
    own: NonNull<Self>,
    value: T,
}

/// A value that belongs to a hazard domain.
pub(crate) trait Reclaimed {
    fn domain(&self) -> &Arc<HazardDomain>;
}

/// A counted reference that keeps its value alive, like `Arc`.
pub(crate) struct Ref<T: Reclaimed>(NonNull<Counted<T>>);

/// A buffer's reference to its client. The reference of an execution's output is not counted. The client's hazard
/// domain counts the output instead, which needs no atomic addition.
pub(crate) struct OwnerRef<T: Reclaimed> {
    to: NonNull<Counted<T>>,
    is_counted: bool,
}

impl<T> Deref for Counted<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Reclaimed> Counted<T> {
    /// Returns another counted reference.
    #[inline]
    pub(crate) fn share(&self) -> Ref<T> {
        let before = self.count.fetch_add(1, Ordering::Relaxed);
        // The count can only become so large if references are leaked in a loop. Abort before it overflows, like `Arc`.
        if isize::try_from(before).is_err() {
            std::process::abort();
        }
        Ref(self.own)
    }

    /// Returns the uncounted reference of an output.
    ///
    /// # Safety
    ///
    /// V7 (counting): [`Guard::add_outputs`](crate::abi::reclaim::hazard::Guard::add_outputs) counted the output.
    #[inline]
    pub(crate) unsafe fn output_ref(&self) -> OwnerRef<T> {
        OwnerRef { to: self.own, is_counted: false }
    }

    /// # Safety
    ///
    /// The caller owns a counted reference, which this call releases.
    unsafe fn release(this: NonNull<Self>) {
        // SAFETY: the caller's reference keeps the value alive until it is subtracted.
        let counter = unsafe { &(*this.as_ptr()).count };
        let mut now = counter.load(Ordering::Relaxed);
        while now > 1 {
            match counter.compare_exchange_weak(now, now - 1, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) => now = other,
            }
        }
        // SAFETY: the caller's reference has not been subtracted, so the object exists.
        unsafe { Self::release_last(this) };
    }

    /// # Safety
    ///
    /// The caller owns a counted reference, which this call releases.
    #[cold]
    unsafe fn release_last(this: NonNull<Self>) {
        // SAFETY: the caller's reference keeps the value alive until it is subtracted below.
        let counted = unsafe { this.as_ref() };
        let domain = Arc::clone(counted.value.domain());
        if counted.count.fetch_sub(1, Ordering::SeqCst) == 1 {
            // From here on, the thread that destroys the last output may free the value.
            domain.close(Owner { object: this.cast(), is_unused: Self::is_unused, free: Self::free });
        }
    }

    /// # Safety
    ///
    /// `object` points to a live `Counted<T>`.
    unsafe fn is_unused(object: NonNull<()>) -> bool {
        // SAFETY: the caller promises that `object` has this type.
        unsafe { object.cast::<Self>().as_ref() }.count.load(Ordering::SeqCst) == 0
    }

    /// # Safety
    ///
    /// `object` points to a `Counted<T>` to which no reference exists.
    unsafe fn free(object: NonNull<()>) {
        // SAFETY: V7 (counting): the domain found the object unused, and `Ref::new` boxed it.
        drop_contained(unsafe { Box::from_raw(object.cast::<Self>().as_ptr()) });
    }
}

impl<T: Reclaimed> Ref<T> {
    /// Creates an object whose first word is `first_word`. Returns the first reference to it.
    pub(crate) fn new(first_word: *const (), value: T) -> Self {
        let new = Box::new(Counted { first_word, count: AtomicUsize::new(1), own: NonNull::dangling(), value });
        let raw = NonNull::from(Box::leak(new));
        // SAFETY: V7 (counting): no other code has a pointer to the allocation yet.
        unsafe { (*raw.as_ptr()).own = raw };
        Self(raw)
    }

    /// Converts the reference to a handle.
    pub(crate) fn into_raw(self) -> *mut Counted<T> {
        let raw = self.0.as_ptr();
        std::mem::forget(self);
        raw
    }

    /// Converts a handle back to its reference.
    ///
    /// # Safety
    ///
    /// `raw` came from [`Ref::into_raw`], and the caller does not use it again.
    pub(crate) unsafe fn from_raw(raw: NonNull<Counted<T>>) -> Self {
        Self(raw)
    }

    /// Returns whether this reference refers to `other`.
    #[inline]
    pub(crate) fn is(&self, other: &Counted<T>) -> bool {
        self.0 == other.own
    }
}

impl<T: Reclaimed> Deref for Ref<T> {
    type Target = Counted<T>;

    #[inline]
    fn deref(&self) -> &Counted<T> {
        // SAFETY: V7 (counting): this reference keeps the value alive.
        unsafe { self.0.as_ref() }
    }
}

impl<T: Reclaimed> Drop for Ref<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this `Ref` owns one counted reference and is not used again.
        unsafe { Counted::release(self.0) };
    }
}

impl<T: Reclaimed> From<Ref<T>> for OwnerRef<T> {
    fn from(counted: Ref<T>) -> Self {
        let to = counted.0;
        std::mem::forget(counted);
        Self { to, is_counted: true }
    }
}

impl<T: Reclaimed> OwnerRef<T> {
    /// Returns whether this reference refers to `other`.
    #[inline]
    pub(crate) fn is(&self, other: &Counted<T>) -> bool {
        self.to == other.own
    }
}

impl<T: Reclaimed> Deref for OwnerRef<T> {
    type Target = Counted<T>;

    #[inline]
    fn deref(&self) -> &Counted<T> {
        // SAFETY: V7 (counting): this reference, or the domain's count of outputs, keeps the value alive.
        unsafe { self.to.as_ref() }
    }
}

impl<T: Reclaimed> Drop for OwnerRef<T> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.is_counted {
            // SAFETY: this value owns the counted reference from which it was created.
            return unsafe { Counted::release(self.to) };
        }
        // SAFETY: the domain's count of outputs keeps the value alive until `count_destroyed` below.
        let counter = unsafe { self.to.as_ref() }.value.domain().output_counter();
        counter.count_destroyed();
    }
}

// SAFETY: `own` is used only to count references and to free the object, and `first_word` is not used here.
unsafe impl<T: Send> Send for Counted<T> {}
// SAFETY: the reason for `Send` of this type also applies here.
unsafe impl<T: Sync> Sync for Counted<T> {}
// SAFETY: as for `Arc`: a reference shares the value, and dropping the last reference drops the value on that thread.
unsafe impl<T: Reclaimed + Send + Sync> Send for Ref<T> {}
// SAFETY: the reason for `Send` of this type also applies here.
unsafe impl<T: Reclaimed + Send + Sync> Sync for Ref<T> {}
// SAFETY: the reason for `Send` of `Ref` also applies here.
unsafe impl<T: Reclaimed + Send + Sync> Send for OwnerRef<T> {}
// SAFETY: the reason for `Send` of this type also applies here.
unsafe impl<T: Reclaimed + Send + Sync> Sync for OwnerRef<T> {}
