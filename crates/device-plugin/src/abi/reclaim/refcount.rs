//! A shared object whose references are counted, but for those that its [`Ledger`] keeps account of.

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::abi::objects::owned_arrays::drop_contained;
use crate::abi::reclaim::hazard::{Ledger, Owner};
use crate::abi::reclaim::sync::{AtomicUsize, Ordering};

/// A value and the number of [`Ref`]s to it.
pub(crate) struct Counted<T> {
    count: AtomicUsize,
    /// The allocation this lies in, as it was made: a pointer made from a shared reference may not free it.
    own: NonNull<Self>,
    value: T,
}

/// A value with a ledger.
pub(crate) trait Accounted {
    fn ledger(&self) -> &Arc<Ledger>;
}

/// A reference that keeps its value alive, as `Arc` does.
pub(crate) struct Ref<T: Accounted>(NonNull<Counted<T>>);

/// What a buffer knows its client by: a reference, or for the output of an execution only a note in the client's
/// ledger, which costs no atomic operation.
pub(crate) struct Link<T: Accounted> {
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

impl<T: Accounted> Counted<T> {
    /// Another reference.
    #[inline]
    pub(crate) fn share(&self) -> Ref<T> {
        let before = self.count.fetch_add(1, Ordering::Relaxed);
        // References outnumber what memory could hold only if they were leaked on purpose.
        if isize::try_from(before).is_err() {
            std::process::abort();
        }
        Ref(self.own)
    }

    /// A link of an output.
    ///
    /// # Safety
    ///
    /// V7: the ledger has noted that the output is made, by [`Pin::make`](crate::abi::reclaim::hazard::Pin::make).
    #[inline]
    pub(crate) unsafe fn link_output(&self) -> Link<T> {
        Link { to: self.own, is_counted: false }
    }

    /// # Safety
    ///
    /// The caller gives up a reference, and no longer uses it.
    #[inline]
    unsafe fn release(this: NonNull<Self>) {
        // SAFETY: the reference given up keeps the value alive until here.
        let counter = unsafe { &(*this.as_ptr()).count };
        let mut now = counter.load(Ordering::Relaxed);
        while now > 1 {
            match counter.compare_exchange_weak(now, now - 1, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) => now = other,
            }
        }
        // SAFETY: the caller's contract.
        unsafe { Self::release_last(this) };
    }

    /// # Safety
    ///
    /// The caller gives up a reference, and no longer uses it.
    #[cold]
    unsafe fn release_last(this: NonNull<Self>) {
        // SAFETY: the reference given up keeps the value alive until it is subtracted below.
        let counted = unsafe { this.as_ref() };
        let ledger = Arc::clone(counted.value.ledger());
        if counted.count.fetch_sub(1, Ordering::SeqCst) == 1 {
            // Whoever destroys the last output may free the value from here on.
            ledger.close(Owner { object: this.cast(), is_unused: Self::is_unused, free: Self::free });
        }
    }

    /// # Safety
    ///
    /// The object is a value of this type.
    unsafe fn is_unused(object: NonNull<()>) -> bool {
        // SAFETY: the caller's contract.
        unsafe { object.cast::<Self>().as_ref() }.count.load(Ordering::SeqCst) == 0
    }

    /// # Safety
    ///
    /// The object is a value of this type, which nothing refers to.
    unsafe fn free(object: NonNull<()>) {
        // SAFETY: V7, the ledger found it unused, and `Ref::new` made the value as a box.
        drop_contained(unsafe { Box::from_raw(object.cast::<Self>().as_ptr()) });
    }
}

impl<T: Accounted> Ref<T> {
    pub(crate) fn new(value: T) -> Self {
        let new = Box::new(Counted { count: AtomicUsize::new(1), own: NonNull::dangling(), value });
        let raw = NonNull::from(Box::leak(new));
        // SAFETY: nobody else knows the allocation yet.
        unsafe { (*raw.as_ptr()).own = raw };
        Self(raw)
    }

    /// Gives the reference up to a handle.
    pub(crate) fn into_raw(self) -> *mut Counted<T> {
        let raw = self.0.as_ptr();
        std::mem::forget(self);
        raw
    }

    /// Takes the reference of a handle back.
    ///
    /// # Safety
    ///
    /// The pointer came from [`Ref::into_raw`] and is given up.
    pub(crate) unsafe fn from_raw(raw: NonNull<Counted<T>>) -> Self {
        Self(raw)
    }

    /// Whether both refer to one object.
    #[inline]
    pub(crate) fn is(&self, other: &Counted<T>) -> bool {
        self.0 == other.own
    }
}

impl<T: Accounted> Deref for Ref<T> {
    type Target = Counted<T>;

    #[inline]
    fn deref(&self) -> &Counted<T> {
        // SAFETY: V7, this reference keeps the value alive.
        unsafe { self.0.as_ref() }
    }
}

impl<T: Accounted> Drop for Ref<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this gives up one reference, its own.
        unsafe { Counted::release(self.0) };
    }
}

impl<T: Accounted> From<Ref<T>> for Link<T> {
    fn from(counted: Ref<T>) -> Self {
        let to = counted.0;
        std::mem::forget(counted);
        Self { to, is_counted: true }
    }
}

impl<T: Accounted> Link<T> {
    /// Whether it leads to that object.
    #[inline]
    pub(crate) fn is(&self, other: &Counted<T>) -> bool {
        self.to == other.own
    }
}

impl<T: Accounted> Deref for Link<T> {
    type Target = Counted<T>;

    #[inline]
    fn deref(&self) -> &Counted<T> {
        // SAFETY: V7, this reference, or the note in the ledger, keeps the value alive.
        unsafe { self.to.as_ref() }
    }
}

impl<T: Accounted> Drop for Link<T> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.is_counted {
            // SAFETY: this gives up the reference it was made of.
            return unsafe { Counted::release(self.to) };
        }
        // SAFETY: the note in the ledger keeps the value alive until the next line.
        let account = unsafe { self.to.as_ref() }.value.ledger().account();
        account.forget_output();
    }
}

// SAFETY: `own` is only ever used to count and free.
unsafe impl<T: Send> Send for Counted<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Counted<T> {}
// SAFETY: as for `Arc`: a reference shares the value and may be the one that drops it.
unsafe impl<T: Accounted + Send + Sync> Send for Ref<T> {}
// SAFETY: as above.
unsafe impl<T: Accounted + Send + Sync> Sync for Ref<T> {}
// SAFETY: as above.
unsafe impl<T: Accounted + Send + Sync> Send for Link<T> {}
// SAFETY: as above.
unsafe impl<T: Accounted + Send + Sync> Sync for Link<T> {}
