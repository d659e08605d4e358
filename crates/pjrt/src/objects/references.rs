//! Counts the external references of a buffer, and holds one reference of the plugin for all of them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::error::Error;

/// A counter of the external references to a buffer, which also knows whether the buffer was deleted. While a buffer
/// has external references, it cannot be deleted.
///
/// The plugin counts one reference for all of them, which the first one takes and the last one releases. The thread
/// that does this sets the bit [`CHANGING`] meanwhile, and other threads wait. The plugin's functions therefore never
/// run at the same time for one buffer, as C4 requires.
#[derive(Default)]
pub(crate) struct References {
    count: AtomicUsize,
    /// Number of calls that wait until the copies have ended. No copy begins meanwhile, because steady readers would
    /// delay the calls without end. The plugin then makes the copies instead.
    waiting: AtomicUsize,
}

/// The bit of the counter that is set while a thread takes or releases the plugin's reference.
const CHANGING: usize = 1 << (usize::BITS - 1);

/// The bit of the counter that is set while [`References::without_references`] runs a call.
const TAKING: usize = 1 << (usize::BITS - 2);

/// The bit of the counter that is set from the beginning of the buffer's deletion, unless the deletion fails. When it
/// is set, the buffer has no references that prevent the deletion.
const DELETED: usize = 1 << (usize::BITS - 3);

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
    /// references of callers. The upper half, except the three highest bits, counts the references of copies.
    const fn unit(self) -> usize {
        match self {
            Self::Caller => 1,
            Self::Copy => 1 << (usize::BITS / 2),
        }
    }

    /// Returns whether the counter has no room for another reference of this holder.
    const fn is_full(self, count: usize) -> bool {
        let all = match self {
            Self::Caller => Self::Copy.unit() - 1,
            Self::Copy => (DELETED - 1) & !(Self::Copy.unit() - 1),
        };
        count & all == all
    }
}

impl References {
    /// Adds a reference. Calls `take` to take the plugin's reference, if this is the first reference.
    ///
    /// # Errors
    ///
    /// Returns the error of `take`, or an error if the buffer was deleted or [`Self::without_references`] runs. Also
    /// returns an error if a copy would begin while a call waits for copies. The reference then does not exist.
    pub(crate) fn add(&self, holder: Holder, take: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        let mut pause = Pause::default();
        // Most references are the only one. The first exchange returns the count if they are not.
        let mut count = 0;
        loop {
            if count & CHANGING != 0 {
                pause.pause();
                count = self.count.load(Ordering::Relaxed);
                continue;
            }
            if count & DELETED != 0 {
                return Err(deleted());
            }
            let may_begin = matches!(holder, Holder::Caller) || self.waiting.load(Ordering::Relaxed) == 0;
            if count & TAKING != 0 || !may_begin {
                return Err(moving());
            }
            if holder.is_full(count) {
                return Err(Error::invalid("the buffer has too many external references; drop some of them"));
            }
            let is_first = count == 0;
            let next = if is_first { holder.unit() | CHANGING } else { count + holder.unit() };
            match self.count.compare_exchange_weak(count, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) if is_first => break,
                Ok(_) => return Ok(()),
                Err(current) => count = current,
            }
        }
        let taken = take();
        self.count.store(if taken.is_ok() { holder.unit() } else { 0 }, Ordering::Release);
        taken
    }

    /// Removes a reference. If this is the last reference, calls `release` to release the plugin's reference, and
    /// returns its result.
    pub(crate) fn remove<R>(&self, holder: Holder, release: impl FnOnce() -> R) -> Option<R> {
        let mut count = holder.unit();
        loop {
            // The bit `CHANGING` is not set, because a reference exists that is neither being taken nor released.
            let is_last = count == holder.unit();
            let next = if is_last { CHANGING } else { count - holder.unit() };
            match self.count.compare_exchange_weak(count, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) if is_last => break,
                Ok(_) => return None,
                Err(current) => count = current,
            }
        }
        let released = release();
        self.count.store(0, Ordering::Release);
        Some(released)
    }

    /// Returns whether [`Self::delete`] has deleted the buffer or is about to do so.
    #[inline]
    pub(crate) fn is_deleted(&self) -> bool {
        self.count.load(Ordering::Acquire) & DELETED != 0
    }

    /// Runs a call that moves the buffer's memory to another buffer, such as a bitcast. Waits for copies, and admits no
    /// reference meanwhile: the plugin would not connect the reference with the other buffer, so a run that donates
    /// that buffer could write to memory that the holder of the reference reads.
    ///
    /// # Errors
    ///
    /// Returns an error without a call if a caller holds a reference, if another such call is running, or if the buffer
    /// was deleted.
    pub(crate) fn without_references<R>(&self, call: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
        self.claim(TAKING).map_err(refused)?;
        let result = call();
        self.count.store(0, Ordering::Release);
        result
    }

    /// Runs a call that deletes the buffer, and admits no reference from then on. Waits for copies. Does nothing if the
    /// buffer was deleted, or if another thread deletes it.
    ///
    /// # Errors
    ///
    /// Returns an error without a call if a caller holds a reference, or if [`Self::without_references`] runs. If the
    /// call fails, the buffer is not deleted.
    pub(crate) fn delete(&self, call: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        match self.claim(DELETED) {
            Ok(()) => call().inspect_err(|_| self.count.store(0, Ordering::Release)),
            Err(count) if count & DELETED != 0 => Ok(()),
            Err(count) => Err(refused(count)),
        }
    }

    /// Waits until copies have ended, and sets `bit`. Returns the counter if a caller holds a reference, or if another
    /// thread has set `TAKING` or `DELETED`.
    fn claim(&self, bit: usize) -> Result<(), usize> {
        let mut pause = Pause::default();
        let mut is_waiting = false;
        let claimed = loop {
            match self.count.compare_exchange_weak(0, bit, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => break Ok(()),
                Err(count) if count & (TAKING | DELETED) != 0 => break Err(count),
                Err(count) if count & CHANGING == 0 && count & (Holder::Copy.unit() - 1) != 0 => break Err(count),
                Err(_) => {}
            }
            if !is_waiting {
                self.waiting.fetch_add(1, Ordering::Relaxed);
                is_waiting = true;
            }
            pause.pause();
        };
        if is_waiting {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        claimed
    }
}

pub(crate) fn deleted() -> Error {
    Error::invalid("the buffer has been deleted")
}

fn moving() -> Error {
    Error::invalid("the buffer is being passed to another buffer; use the other buffer instead")
}

/// Returns the error of a call that needs a buffer without references, if this count prevents it.
fn refused(count: usize) -> Error {
    if count & DELETED != 0 {
        return deleted();
    }
    if count & TAKING != 0 {
        return moving();
    }
    Error::invalid("the buffer's memory has external references; drop them first")
}

/// Pauses between attempts, which become longer. The plugin takes and releases references of ready buffers only, so
/// most waits take much less than a microsecond. A wait for copies takes as long as the copies that have begun.
#[derive(Default)]
struct Pause(u32);

impl Pause {
    #[cold]
    fn pause(&mut self) {
        self.0 = self.0.saturating_add(1);
        match self.0 {
            0..64 => std::hint::spin_loop(),
            64..256 => std::thread::yield_now(),
            // Yielding does not let a thread of lower priority run.
            _ => std::thread::sleep(Duration::from_micros(50)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::error::ErrorKind;

    fn add(references: &References, holder: Holder) -> bool {
        let mut was_first = false;
        let take = || {
            was_first = true;
            Ok(())
        };
        references.add(holder, take).unwrap();
        was_first
    }

    fn is_free(references: &References) -> bool {
        references.without_references(|| Ok(())).is_ok()
    }

    fn remove(references: &References, holder: Holder) -> bool {
        references.remove(holder, || ()).is_some()
    }

    #[test]
    fn references_of_callers_prevent_deletion() {
        let references = References::default();
        assert!(is_free(&references));
        assert!(add(&references, Holder::Copy), "the first reference is the plugin's");
        assert!(!add(&references, Holder::Caller));
        assert!(!is_free(&references));
        assert!(!remove(&references, Holder::Caller));
        assert!(remove(&references, Holder::Copy), "the last reference is the plugin's");
        assert!(is_free(&references));
    }

    #[test]
    fn deletion_waits_for_copies() {
        let (references, ended) = (References::default(), AtomicUsize::new(0));
        add(&references, Holder::Copy);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| references.without_references(|| Ok(ended.load(Ordering::SeqCst))));
            ended.store(1, Ordering::SeqCst);
            remove(&references, Holder::Copy);
            assert_eq!(waiter.join().unwrap().unwrap(), 1);
        });
    }

    #[test]
    fn no_copy_begins_while_a_call_waits() {
        let references = References::default();
        add(&references, Holder::Copy);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| references.without_references(|| Ok(())));
            while references.waiting.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            references.add(Holder::Copy, || Ok(())).unwrap_err();
            remove(&references, Holder::Copy);
            waiter.join().unwrap().unwrap();
        });
        assert!(add(&references, Holder::Copy), "a copy may begin afterwards");
    }

    #[test]
    fn only_successful_deletion_deletes() {
        let references = References::default();
        add(&references, Holder::Caller);
        references.delete(|| panic!("a caller holds a reference")).unwrap_err();
        assert!(!references.is_deleted());
        remove(&references, Holder::Caller);
        references.delete(|| Err(Error::invalid("the plugin failed"))).unwrap_err();
        assert!(!references.is_deleted() && is_free(&references));
        let nested = || references.delete(|| panic!("another call deletes the buffer"));
        references.delete(nested).unwrap();
        assert!(references.is_deleted() && !is_free(&references));
        references.add(Holder::Caller, || panic!("the buffer is deleted")).unwrap_err();
    }

    #[test]
    fn failed_first_reference_does_not_exist() {
        let references = References::default();
        let error = references.add(Holder::Caller, || Err(Error::invalid("deleted"))).unwrap_err();
        assert_eq!(error.message(), "deleted");
        assert!(is_free(&references));
        assert!(add(&references, Holder::Caller), "the next reference is the first");
    }

    /// A counter with wrapped halves would take callers for copies.
    #[test]
    fn full_counter_is_an_error() {
        for holder in [Holder::Caller, Holder::Copy] {
            let most = match holder {
                Holder::Caller => Holder::Copy.unit() - 1,
                Holder::Copy => DELETED - Holder::Copy.unit(),
            };
            let references = References { count: AtomicUsize::new(most - holder.unit()), ..Default::default() };
            assert!(!add(&references, holder));
            let error = references.add(holder, || Ok(())).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert_eq!(references.count.into_inner(), most);
        }
    }

    #[test]
    fn deletion_admits_no_references() {
        let references = References::default();
        let call = || {
            assert!(references.add(Holder::Copy, || Ok(())).is_err());
            assert!(references.add(Holder::Caller, || Ok(())).is_err());
            assert!(!is_free(&references));
            Ok(())
        };
        assert!(references.without_references(call).is_ok());
        assert!(add(&references, Holder::Caller));
    }

    /// Threads take and release the plugin's reference one after the other, and only one reference exists.
    #[test]
    fn plugin_holds_one_reference_at_a_time() {
        let (references, plugin, busy) = (References::default(), AtomicUsize::new(0), AtomicBool::new(false));
        let call = |change: &dyn Fn() -> usize, before: usize| {
            assert!(!busy.swap(true, Ordering::SeqCst), "two calls at the same time");
            std::thread::yield_now();
            assert_eq!(change(), before);
            assert!(busy.swap(false, Ordering::SeqCst));
        };
        let thread = |holder| {
            for _ in 0..2000 {
                let take = || {
                    call(&|| plugin.fetch_add(1, Ordering::Relaxed), 0);
                    Ok(())
                };
                references.add(holder, take).unwrap();
                assert_eq!(plugin.load(Ordering::Relaxed), 1, "a reference exists");
                references.remove(holder, || call(&|| plugin.fetch_sub(1, Ordering::Relaxed), 1));
            }
        };
        std::thread::scope(|scope| {
            for holder in [Holder::Caller, Holder::Copy, Holder::Caller, Holder::Copy] {
                scope.spawn(move || thread(holder));
            }
        });
        assert_eq!((plugin.into_inner(), references.count.into_inner()), (0, 0));
    }
}
