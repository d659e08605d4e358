//! Completion of asynchronous work.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::abi::entry::contain;
use crate::{Error, ErrorCode, Result};

/// Something that becomes ready once, with or without an error.
///
/// Cheap to clone. An event that is ready and free of error owns nothing, so synchronous backends return
/// [`Event::ready`] at no cost. An asynchronous backend makes a pair with [`Event::pending`], returns the event and
/// completes the [`Completer`] from any thread:
///
/// ```
/// use device_plugin::Event;
///
/// let (event, completer) = Event::pending();
/// assert!(!event.is_ready());
/// std::thread::spawn(move || completer.complete(Ok(())));
/// assert!(event.wait().is_ok());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Event(Option<Arc<Pending>>);

/// The other end of a pending [`Event`]. Dropped without a result, it completes its event with an error.
#[derive(Debug)]
pub struct Completer(Option<Arc<Pending>>);

type Callback = Box<dyn FnOnce(&Result<()>) + Send>;

/// The state behind an event that was not born ready.
pub(crate) struct Pending {
    result: OnceLock<Result<()>>,
    /// Callbacks to run; emptied when the result is set.
    waiting: Mutex<Vec<Callback>>,
    ready: Condvar,
}

impl std::fmt::Debug for Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Pending").field(&self.result.get()).finish()
    }
}

impl Pending {
    fn new() -> Arc<Self> {
        Arc::new(Self { result: OnceLock::new(), waiting: Mutex::new(Vec::new()), ready: Condvar::new() })
    }

    /// Callbacks run without this lock, so a panic of theirs cannot leave the list half changed.
    fn lock(&self) -> MutexGuard<'_, Vec<Callback>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the result and runs the callbacks; gives the result back if there was one already.
    pub(crate) fn set(&self, result: Result<()>) -> Result<(), Result<()>> {
        let callbacks = {
            let mut waiting = self.lock();
            self.result.set(result)?;
            self.ready.notify_all();
            std::mem::take(&mut *waiting)
        };
        if let Some(result) = self.result.get() {
            for callback in callbacks {
                // A panic in one may not keep the others from being called.
                drop(contain(|| {
                    callback(result);
                    Ok(())
                }));
            }
        }
        Ok(())
    }

    pub(crate) fn result(&self) -> Option<&Result<()>> {
        self.result.get()
    }

    pub(crate) fn wait(&self) -> Result<()> {
        if let Some(result) = self.result.get() {
            return result.clone();
        }
        let mut waiting = self.lock();
        loop {
            if let Some(result) = self.result.get() {
                return result.clone();
            }
            waiting = self.ready.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn on_ready(&self, callback: Callback) {
        if self.result.get().is_none() {
            let mut waiting = self.lock();
            // The result is set under the lock, so what is pushed here will be run.
            if self.result.get().is_none() {
                waiting.push(callback);
                return;
            }
        }
        if let Some(result) = self.result.get() {
            callback(result);
        }
    }
}

impl Event {
    /// An event that is ready, without an error.
    pub const fn ready() -> Self {
        Self(None)
    }

    /// An event that is ready, with an error.
    pub fn failed(error: Error) -> Self {
        let (event, completer) = Self::pending();
        completer.complete(Err(error));
        event
    }

    /// An event that becomes ready when its completer says so.
    pub fn pending() -> (Self, Completer) {
        let state = Pending::new();
        (Self(Some(Arc::clone(&state))), Completer(Some(state)))
    }

    /// An event that is ready when all of them are, with the first error in their order.
    pub fn all(events: impl IntoIterator<Item = Self>) -> Self {
        let mut events: Vec<Self> = events.into_iter().filter(|event| event.0.is_some()).collect();
        if events.len() <= 1 {
            return events.pop().unwrap_or_default();
        }
        let (all, completer) = Self::pending();
        // The last callback to go drops the last reference, and with it completes the event.
        struct Join(Vec<Event>, Option<Completer>);
        impl Drop for Join {
            fn drop(&mut self) {
                let error = self.0.iter().find_map(|event| event.result()?.err());
                if let Some(completer) = self.1.take() {
                    completer.complete(error.map_or(Ok(()), Err));
                }
            }
        }
        let join = Arc::new(Join(events.clone(), Some(completer)));
        for event in &events {
            let join = Arc::clone(&join);
            event.on_ready(move |_| drop(join));
        }
        all
    }

    /// Whether the event is ready, with or without an error.
    pub fn is_ready(&self) -> bool {
        self.0.as_ref().is_none_or(|state| state.result.get().is_some())
    }

    /// How it went; none while the event is pending.
    pub fn result(&self) -> Option<Result<()>> {
        match &self.0 {
            None => Some(Ok(())),
            Some(state) => state.result.get().cloned(),
        }
    }

    /// Blocks until the event is ready.
    ///
    /// # Errors
    ///
    /// The error the event was completed with.
    pub fn wait(&self) -> Result<()> {
        self.0.as_ref().map_or(Ok(()), |state| state.wait())
    }

    /// Runs `callback` once the event is ready: now, or on the thread that completes the event. No lock of the SDK is
    /// held meanwhile.
    pub fn on_ready(&self, callback: impl FnOnce(&Result<()>) + Send + 'static) {
        match &self.0 {
            None => callback(&Ok(())),
            Some(state) => state.on_ready(Box::new(callback)),
        }
    }

    /// The shared state; none for an event born ready.
    pub(crate) fn into_state(self) -> Option<Arc<Pending>> {
        self.0
    }

    pub(crate) fn is_born_ready(&self) -> bool {
        self.0.is_none()
    }

    /// An event without a completer, to be set through its state.
    pub(crate) fn settable() -> Self {
        Self(Some(Pending::new()))
    }
}

impl Completer {
    /// Makes the event ready and runs what waits for it on this thread.
    pub fn complete(mut self, result: Result<()>) {
        if let Some(state) = self.0.take() {
            // A completer is the only one to set its event.
            let _ = state.set(result);
        }
    }
}

impl Completer {
    /// Completes the event with the result of `work`; a panic in it becomes an `INTERNAL` error. What the closure holds
    /// is dropped before the event is ready.
    pub fn run(self, work: impl FnOnce() -> Result<()>) {
        let result = contain(work);
        self.complete(result);
    }
}

impl Drop for Completer {
    fn drop(&mut self) {
        if let Some(state) = self.0.take() {
            let why = match std::thread::panicking() {
                true => {
                    "a panic of the plugin ended the thread of an asynchronous operation; Completer::run contains it"
                }
                false => "the plugin dropped the completer of an asynchronous operation without a result",
            };
            let _ = state.set(Err(Error::new(ErrorCode::CANCELLED, why)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn callbacks_run_once_whenever_they_are_registered() {
        static CALLS: AtomicUsize = AtomicUsize::new(0);
        let count = |result: &Result<()>| {
            assert_eq!(result.as_ref().unwrap_err().message(), "no");
            CALLS.fetch_add(1, Ordering::Relaxed);
        };
        let (event, completer) = Event::pending();
        event.on_ready(count);
        event.on_ready(count);
        assert_eq!((event.result(), CALLS.load(Ordering::Relaxed)), (None, 0));
        completer.complete(Err(Error::internal("no")));
        assert_eq!(CALLS.load(Ordering::Relaxed), 2);
        event.on_ready(count);
        assert_eq!(CALLS.load(Ordering::Relaxed), 3);
        assert!(event.is_ready() && event.wait().is_err());
    }

    #[test]
    fn a_callback_may_register_another_and_drop_the_event() {
        let (event, completer) = Event::pending();
        let (done, ran) = Event::pending();
        let inner = event.clone();
        event.on_ready(move |_| inner.on_ready(move |_| ran.complete(Ok(()))));
        drop(event);
        completer.complete(Ok(()));
        assert_eq!(done.result(), Some(Ok(())));
    }

    #[test]
    fn a_panic_in_a_callback_keeps_no_other_from_running() {
        let (event, completer) = Event::pending();
        let (done, ran) = Event::pending();
        event.on_ready(|_| panic!("a callback panics"));
        event.on_ready(move |_| ran.complete(Ok(())));
        completer.complete(Ok(()));
        assert_eq!(done.result(), Some(Ok(())));
    }

    #[test]
    fn a_dropped_completer_fails_its_event() {
        let (event, completer) = Event::pending();
        drop(completer);
        assert_eq!(event.wait().unwrap_err().code(), ErrorCode::CANCELLED);
    }

    #[test]
    fn a_completer_lost_to_a_panic_says_so() {
        let (event, completer) = Event::pending();
        let worker = std::thread::spawn(move || {
            let _lost = completer;
            panic!("the driver's thread panics");
        });
        assert!(worker.join().is_err());
        let error = event.wait().unwrap_err();
        assert_eq!(error.code(), ErrorCode::CANCELLED);
        assert!(error.message().contains("Completer::run"), "{error}");
    }

    #[test]
    fn a_completer_runs_work_and_contains_its_panics() {
        let (event, completer) = Event::pending();
        let (alive, held) = (Arc::new(()), Arc::new(()));
        let (probe, in_work) = (Arc::downgrade(&held), Arc::clone(&alive));
        event.on_ready(move |_| assert!(probe.upgrade().is_none(), "dropped before the event is ready"));
        completer.run(move || {
            drop((held, in_work));
            panic!("a kernel panics")
        });
        let error = event.wait().unwrap_err();
        assert_eq!(error.code(), ErrorCode::INTERNAL);
        assert!(error.message().contains("a kernel panics"), "{error}");
        assert_eq!(Arc::strong_count(&alive), 1);
    }

    #[test]
    fn all_waits_for_the_last_and_reports_the_first_error() {
        assert!(Event::all([]).is_born_ready());
        let (a, set_a) = Event::pending();
        let (b, set_b) = Event::pending();
        let all = Event::all([Event::ready(), a, b]);
        set_b.complete(Err(Error::internal("b")));
        assert!(!all.is_ready());
        set_a.complete(Ok(()));
        assert_eq!(all.wait().unwrap_err().message(), "b");
    }
}
