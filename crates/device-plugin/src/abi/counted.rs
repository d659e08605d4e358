//! A shared object whose references are counted, but for those that its [`Ledger`] keeps account of.

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::abi::ledger::{Ledger, Owner};
use crate::abi::lists::drop_contained;

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
    /// V7: the ledger has noted that the output is made, by [`Pin::make`](crate::abi::ledger::Pin::make).
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

#[cfg(test)]
mod tests {
    use super::*;

    struct Thing {
        _alive: Arc<()>,
        ledger: Arc<Ledger>,
    }

    impl Accounted for Thing {
        fn ledger(&self) -> &Arc<Ledger> {
            &self.ledger
        }
    }

    fn thing() -> (Arc<()>, Ref<Thing>) {
        let alive = Arc::new(());
        (Arc::clone(&alive), Ref::new(Thing { _alive: alive, ledger: Ledger::new() }))
    }

    #[test]
    fn the_last_reference_drops_the_value() {
        let (alive, first) = thing();
        let second = first.share();
        let third = Link::from(first.share());
        drop(first);
        assert!(third.is(&second));
        let raw = second.into_raw();
        drop(third);
        assert_eq!(Arc::strong_count(&alive), 2);
        // SAFETY: `raw` came from `into_raw` above.
        drop(unsafe { Ref::from_raw(NonNull::new(raw).unwrap()) });
        assert_eq!(Arc::strong_count(&alive), 1);
    }

    #[test]
    fn outputs_keep_the_value_whatever_thread_drops_them() {
        let (alive, first) = thing();
        let pin = first.ledger().pin(0);
        pin.make(4);
        // SAFETY: four outputs were noted.
        let mut outputs: Vec<_> = (0..3).map(|_| unsafe { first.link_output() }).collect();
        pin.unmade(1);
        drop(pin);
        // A reference made through an output.
        let again = outputs[0].share();
        drop(first);
        drop(outputs.pop());
        std::thread::spawn(move || drop(outputs)).join().unwrap();
        assert_eq!(Arc::strong_count(&alive), 2);
        drop(again);
        assert_eq!(Arc::strong_count(&alive), 1);
    }

    #[test]
    fn outputs_end_on_many_threads_while_the_last_reference_goes() {
        for _ in 0..200 {
            let (alive, first) = thing();
            let pin = first.ledger().pin(0);
            pin.make(8);
            // SAFETY: eight outputs were noted.
            let outputs: Vec<_> = (0..8).map(|_| unsafe { first.link_output() }).collect();
            drop(pin);
            std::thread::scope(|scope| {
                for output in outputs {
                    scope.spawn(move || drop(output));
                }
                scope.spawn(move || drop(first));
            });
            crate::abi::ledger::settle();
            assert_eq!(Arc::strong_count(&alive), 1);
        }
    }

    #[test]
    fn uses_are_seen_while_they_last() {
        let (_, first) = thing();
        let ledger = first.ledger();
        let outer = ledger.pin(0b011);
        let inner = ledger.pin(0b110);
        for (bit, all, without_inner) in
            [(0b001, true, true), (0b010, true, true), (0b100, true, false), (0b1000, false, false)]
        {
            assert_eq!(ledger.is_used(bit, None), all);
            assert_eq!(ledger.is_used(bit, Some(&inner)), without_inner);
            // The inner one may use what the outer one does.
            assert_eq!(ledger.is_used(bit, Some(&outer)), all);
        }
        drop(inner);
        assert!(!ledger.is_used(0b010, Some(&outer)));
        assert!(ledger.is_used(0b010, None) && !ledger.is_used(0b100, None));
        drop(outer);
        assert!(!ledger.is_used(0b011, None));
    }

    #[test]
    fn threads_that_end_leave_their_pages_to_others() {
        let (alive, first) = thing();
        let mut outputs = Vec::new();
        for _ in 0..4 {
            outputs.extend(std::thread::scope(|scope| {
                let first = &first;
                let make = move || {
                    let pin = first.ledger().pin(0);
                    pin.make(2);
                    // SAFETY: two outputs were noted.
                    let outputs: [_; 2] = std::array::from_fn(|_| unsafe { first.link_output() });
                    drop(pin);
                    outputs
                };
                scope.spawn(make).join().unwrap()
            }));
        }
        drop(first);
        drop(outputs.split_off(1));
        assert_eq!(Arc::strong_count(&alive), 2);
        drop(outputs);
        assert_eq!(Arc::strong_count(&alive), 1);
    }
}
