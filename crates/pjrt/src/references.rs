//! Counts the external references of a buffer.

use std::sync::atomic::{AtomicUsize, Ordering};

/// A counter of the external references to a buffer. While a buffer has external references, it cannot be deleted.
#[derive(Default)]
pub(crate) struct References(AtomicUsize);

/// The purpose of an external reference.
#[derive(Clone, Copy)]
pub(crate) enum Holder {
    /// A caller of this crate holds the reference. Until the reference is released, [`Buffer::delete`] returns an
    /// error.
    Caller,
    /// This crate holds the reference while it copies the buffer's contents. [`Buffer::delete`] waits until the copy
    /// has ended.
    Copy,
}

impl Holder {
    /// Returns the amount to add to the counter for one reference. The lower half of the counter's bits counts the
    /// references of callers, and the upper half counts the references of copies.
    const fn unit(self) -> usize {
        match self {
            Self::Caller => 1,
            Self::Copy => 1 << (usize::BITS / 2),
        }
    }
}

impl References {
    pub(crate) fn add(&self, holder: Holder) {
        self.0.fetch_add(holder.unit(), Ordering::SeqCst);
    }

    pub(crate) fn remove(&self, holder: Holder) {
        self.0.fetch_sub(holder.unit(), Ordering::SeqCst);
    }

    /// Waits until copies no longer hold references, and returns `true`. Returns `false` at once if a caller holds a
    /// reference.
    pub(crate) fn wait_for_copies(&self) -> bool {
        loop {
            let count = self.0.load(Ordering::SeqCst);
            if !count.is_multiple_of(Holder::Copy.unit()) {
                return false;
            }
            if count == 0 {
                return true;
            }
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_of_callers_prevent_deletion() {
        let references = References::default();
        assert!(references.wait_for_copies());
        references.add(Holder::Copy);
        references.add(Holder::Caller);
        assert!(!references.wait_for_copies());
        references.remove(Holder::Caller);
        references.remove(Holder::Copy);
        assert!(references.wait_for_copies());
    }

    #[test]
    fn deletion_waits_for_copies() {
        let (references, ended) = (References::default(), AtomicUsize::new(0));
        references.add(Holder::Copy);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                assert!(references.wait_for_copies());
                ended.load(Ordering::SeqCst)
            });
            ended.store(1, Ordering::SeqCst);
            references.remove(Holder::Copy);
            assert_eq!(waiter.join().unwrap(), 1);
        });
    }
}
