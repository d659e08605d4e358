//! Counts the external references of a buffer.

use std::sync::atomic::{AtomicUsize, Ordering};

/// External references of a buffer, which keep it from being deleted.
#[derive(Default)]
pub(crate) struct References(AtomicUsize);

/// The purpose of an external reference.
#[derive(Clone, Copy)]
pub(crate) enum Holder {
    /// The caller. [`Buffer::delete`] is refused meanwhile.
    Caller,
    /// A copy that runs now. [`Buffer::delete`] waits for its end.
    Copy,
}

impl Holder {
    /// References of callers are counted in the lower half of the number, and copies in the upper half.
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

    /// Waits for copies that run now. Returns whether callers have no reference.
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
