//! A shared object whose count can be raised by many at once.

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

/// A value and the number of [`Ref`]s to it.
pub(crate) struct Counted<T> {
    count: AtomicUsize,
    /// The allocation this lies in, as it was made: a pointer made from a shared reference may not free it.
    own: NonNull<Self>,
    value: T,
}

/// A reference that keeps its value alive, as `Arc` does. An execution with many outputs pays for one addition to the
/// count of its client, which is why this is no `Arc`.
pub(crate) struct Ref<T>(NonNull<Counted<T>>);

/// References paid for and not yet handed out.
pub(crate) struct Batch<'a, T> {
    of: &'a Counted<T>,
    left: usize,
}

impl<T> Deref for Counted<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Counted<T> {
    /// Another reference.
    #[inline]
    pub(crate) fn share(&self) -> Ref<T> {
        self.add(1);
        Ref(self.own)
    }

    /// That many further references.
    #[inline]
    pub(crate) fn batch(&self, count: usize) -> Batch<'_, T> {
        if count > 0 {
            self.add(count);
        }
        Batch { of: self, left: count }
    }

    #[inline]
    fn add(&self, count: usize) {
        let before = self.count.fetch_add(count, Ordering::Relaxed);
        // References outnumber what memory could hold only if they were leaked on purpose.
        if before.checked_add(count).is_none_or(|sum| isize::try_from(sum).is_err()) {
            std::process::abort();
        }
    }

    /// # Safety
    ///
    /// The caller gives up that many references, and no longer uses any of them.
    #[inline]
    unsafe fn release(this: NonNull<Self>, count: usize) {
        // SAFETY: the references given up keep the value alive until here.
        let counter = unsafe { &(*this.as_ptr()).count };
        if counter.fetch_sub(count, Ordering::Release) == count {
            fence(Ordering::Acquire);
            // SAFETY: V7, the count went to zero here, and `Ref::new` made the value as a box.
            drop(unsafe { Box::from_raw(this.as_ptr()) });
        }
    }
}

impl<T> Ref<T> {
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

impl<T> Deref for Ref<T> {
    type Target = Counted<T>;

    #[inline]
    fn deref(&self) -> &Counted<T> {
        // SAFETY: V7, this reference keeps the value alive.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Drop for Ref<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this gives up one reference, its own.
        unsafe { Counted::release(self.0, 1) };
    }
}

impl<T> Batch<'_, T> {
    /// The next reference, at no cost; none when all are handed out.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Ref<T>> {
        self.left = self.left.checked_sub(1)?;
        Some(Ref(self.of.own))
    }
}

impl<T> Drop for Batch<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.left > 0 {
            // SAFETY: these references were added by `Counted::batch` and not handed out.
            unsafe { Counted::release(self.of.own, self.left) };
        }
    }
}

// SAFETY: `own` is only ever used to count and free.
unsafe impl<T: Send> Send for Counted<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Counted<T> {}
// SAFETY: as for `Arc`: a reference shares the value and may be the one that drops it.
unsafe impl<T: Send + Sync> Send for Ref<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Ref<T> {}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn the_last_reference_drops_the_value() {
        let value = Arc::new(());
        let first = Ref::new(Arc::clone(&value));
        let second = first.share();
        let mut batch = first.batch(3);
        let third = batch.next().unwrap();
        drop(batch);
        drop(first);
        assert!(third.is(&second));
        let raw = second.into_raw();
        drop(third);
        assert_eq!(Arc::strong_count(&value), 2);
        // SAFETY: `raw` came from `into_raw` above.
        drop(unsafe { Ref::from_raw(NonNull::new(raw).unwrap()) });
        assert_eq!(Arc::strong_count(&value), 1);
    }
}
