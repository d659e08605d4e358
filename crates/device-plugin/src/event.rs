//! Completion of asynchronous work.

use std::cell::Cell;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::contain::contain;
use crate::threads::COMPLETIONS;
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
///
/// # Threads
///
/// An event may be completed on any thread, including one on which a driver calls back and forbids calls into the
/// driver (`clSetEventCallback`, `cuLaunchHostFunc`). What then waits for the event runs as follows:
///
/// | what waits | [`complete`](Self::complete), [`run`](Self::run), drop | [`complete_here`](Self::complete_here), [`run_here`](Self::run_here) |
/// |---|---|---|
/// | threads in [`Event::wait`] and `PJRT_Event_Await` | are woken up | are woken up |
/// | callbacks of [`Event::on_ready`], which are the vendor's own | on this thread | on this thread |
/// | calls of the backend: `read`, `begin_read`, `copy`, `bitcast`, `ready` and the functions of raw buffers, of a buffer that had to become ready; destructors of the buffers that they held | on a completion thread of the SDK | on this thread |
/// | callbacks of the framework, which may call any function of the table and so the backend | on a completion thread of the SDK | on this thread |
/// | launches that waited for an argument | on a launch thread of the SDK | on a launch thread of the SDK |
///
/// So `complete` takes a short and bounded time and never calls the backend. Use `complete_here` on threads of your own
/// that may do all of that: it saves the change of threads, some microseconds.
///
/// The SDK has a few completion threads for the whole process, so a callback or a `read` that blocks delays others, but
/// never the thread that completes an event. If the system has no thread left for the first of them, the work runs on
/// the completing thread after all.
#[derive(Debug)]
pub struct Completer(Option<Arc<Pending>>);

type Callback = Box<dyn FnOnce(&Result<()>) + Send>;

/// Something to do when an event is ready.
pub(crate) enum Waiting {
    /// Work of the SDK that calls nobody, or a callback of the vendor's own: on the thread that completes the event.
    Here(Callback),
    /// Calls a backend or a framework: not on a thread that may be a driver's.
    Away(Callback),
}

/// The state behind an event that was not born ready.
pub(crate) struct Pending {
    result: OnceLock<Result<()>>,
    /// What to do; emptied when the result is set.
    waiting: Mutex<Vec<Waiting>>,
    ready: Condvar,
}

thread_local! {
    /// Whether this thread completes an event for a vendor and may be a driver's, so that nobody is called on it.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
    /// How many events this thread completes, each because of the one before.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Events that a thread completes one within the other; a longer chain goes on elsewhere, with a new stack.
const DEEPEST: usize = 32;

/// Sets a thread-local value until the result is dropped.
struct Scope<T: Copy + 'static>(&'static std::thread::LocalKey<Cell<T>>, T);

impl<T: Copy + 'static> Scope<T> {
    fn enter(key: &'static std::thread::LocalKey<Cell<T>>, value: T) -> Self {
        Self(key, key.replace(value))
    }
}

impl<T: Copy + 'static> Drop for Scope<T> {
    fn drop(&mut self) {
        self.0.set(self.1);
    }
}

fn call(callback: Callback, result: &Result<()>) {
    // A panic in one callback must not keep the others from being called.
    let _ = contain(|| {
        callback(result);
        Ok(())
    });
}

/// Does what waited for an event.
fn run(waiting: Vec<Waiting>, result: &Result<()>) {
    if waiting.is_empty() {
        return;
    }
    let depth = DEPTH.get();
    if depth >= DEEPEST {
        let result = result.clone();
        return COMPLETIONS.submit_or_run(Box::new(move || run(waiting, &result)));
    }
    let _deeper = Scope::enter(&DEPTH, depth + 1);
    let mut away = Vec::new();
    for waiting in waiting {
        match waiting {
            Waiting::Away(callback) if GUARDED.get() => away.push(callback),
            Waiting::Here(callback) | Waiting::Away(callback) => call(callback, result),
        }
    }
    if !away.is_empty() {
        let result = result.clone();
        let all = move || away.into_iter().for_each(|callback| call(callback, &result));
        COMPLETIONS.submit_or_run(Box::new(all));
    }
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
    fn lock(&self) -> MutexGuard<'_, Vec<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the result and does what waited for it; gives the result back if there was one already.
    pub(crate) fn set(&self, result: Result<()>) -> Result<(), Result<()>> {
        let waiting = {
            let mut waiting = self.lock();
            self.result.set(result)?;
            self.ready.notify_all();
            std::mem::take(&mut *waiting)
        };
        if let Some(result) = self.result.get() {
            run(waiting, result);
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

    pub(crate) fn when_ready(&self, new: Waiting) {
        if self.result.get().is_none() {
            let mut waiting = self.lock();
            // The result is set under the lock, so what is pushed here will be run.
            if self.result.get().is_none() {
                waiting.push(new);
                return;
            }
        }
        let Some(result) = self.result.get() else { return };
        match new {
            // A panic is the caller's here.
            Waiting::Here(callback) => callback(result),
            Waiting::Away(callback) if !GUARDED.get() => callback(result),
            away => run(vec![away], result),
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
        completer.settle(Err(error));
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
                    completer.settle(error.map_or(Ok(()), Err));
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

    /// Runs `callback` once the event is ready: now, or on the thread that completes the event. That may be any thread,
    /// also one of a driver, so a callback with much to do hands it to another thread. No lock of the SDK is held
    /// meanwhile.
    pub fn on_ready(&self, callback: impl FnOnce(&Result<()>) + Send + 'static) {
        match &self.0 {
            None => callback(&Ok(())),
            Some(state) => state.when_ready(Waiting::Here(Box::new(callback))),
        }
    }

    /// Runs `callback`, which calls a backend or a framework, once the event is ready: now, on the thread that completes
    /// the event, or on a completion thread if that one may be a driver's.
    pub(crate) fn on_ready_away(&self, callback: impl FnOnce(&Result<()>) + Send + 'static) {
        match &self.0 {
            None => callback(&Ok(())),
            Some(state) => state.when_ready(Waiting::Away(Box::new(callback))),
        }
    }

    /// The shared state; none for an event born ready.
    pub(crate) fn into_state(self) -> Option<Arc<Pending>> {
        self.0
    }

    #[inline]
    pub(crate) fn is_born_ready(&self) -> bool {
        self.0.is_none()
    }

    /// Whether both are clones of one event.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// An event without a completer, to be set through its state.
    pub(crate) fn settable() -> Self {
        Self(Some(Pending::new()))
    }
}

impl Completer {
    /// Makes the event ready. Calls neither the backend nor the framework on this thread, which may be a driver's: see
    /// [Threads](Self#threads).
    pub fn complete(self, result: Result<()>) {
        let _guarded = Scope::enter(&GUARDED, true);
        self.settle(result);
    }

    /// Makes the event ready, and runs on this thread what waits for it, including calls of the backend and of the
    /// framework: see [Threads](Self#threads). For threads on which the backend may do anything, and which hold no lock
    /// that one of its methods takes.
    pub fn complete_here(self, result: Result<()>) {
        let _open = Scope::enter(&GUARDED, false);
        self.settle(result);
    }

    /// Completes the event with the result of `work`; a panic in it becomes an `INTERNAL` error. What the closure holds
    /// is dropped before the event is ready. What waits for the event runs as with [`Completer::complete`].
    pub fn run(self, work: impl FnOnce() -> Result<()>) {
        let result = contain(work);
        self.complete(result);
    }

    /// [`Completer::run`] for threads on which the backend may do anything: what waits for the event runs as with
    /// [`Completer::complete_here`].
    pub fn run_here(self, work: impl FnOnce() -> Result<()>) {
        let result = contain(work);
        self.complete_here(result);
    }

    /// Makes the event ready in code of the SDK, which is on a driver's thread only if a vendor called it there.
    pub(crate) fn settle(mut self, result: Result<()>) {
        if let Some(state) = self.0.take() {
            // A completer is the only one to set its event.
            let _ = state.set(result);
        }
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
            let _guarded = Scope::enter(&GUARDED, true);
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

    #[test]
    fn what_calls_others_moves_to_another_thread_unless_told_otherwise() {
        let ran_on = |complete: fn(Completer)| {
            let (event, completer) = Event::pending();
            let (sender, receiver) = std::sync::mpsc::channel();
            let (here, away) = (sender.clone(), sender);
            event.on_ready(move |_| here.send(("here", std::thread::current().id())).unwrap());
            event.on_ready_away(move |_| away.send(("away", std::thread::current().id())).unwrap());
            complete(completer);
            let mut ran: Vec<_> = receiver.iter().take(2).collect();
            ran.sort_by_key(|(what, _)| *what);
            let this = std::thread::current().id();
            assert_eq!(ran[1], ("here", this));
            ran[0].1 == this
        };
        assert!(!ran_on(|completer| completer.complete(Ok(()))));
        assert!(!ran_on(drop));
        assert!(!ran_on(|completer| completer.run(|| Ok(()))));
        assert!(ran_on(|completer| completer.complete_here(Ok(()))));
        assert!(ran_on(|completer| completer.run_here(|| Ok(()))));
        assert!(ran_on(|completer| completer.settle(Ok(()))));
        // An event that becomes ready because of another is completed for the same vendor.
        assert!(!ran_on(|completer| {
            let (first, first_completer) = Event::pending();
            first.on_ready(move |result| completer.settle(result.clone()));
            first_completer.complete(Ok(()));
        }));
        assert!(ran_on(|completer| {
            let (first, first_completer) = Event::pending();
            first.on_ready(move |result| completer.complete_here(result.clone()));
            first_completer.complete(Ok(()));
        }));
    }

    #[test]
    fn a_long_chain_does_not_overflow_the_stack() {
        const LENGTH: usize = 100_000;
        let (first, completer) = Event::pending();
        let mut last = first;
        for _ in 0..LENGTH {
            let (next, completer) = Event::pending();
            last.on_ready(move |result| completer.settle(result.clone()));
            last = next;
        }
        completer.complete(Err(Error::internal("no")));
        assert_eq!(last.wait().unwrap_err().message(), "no");
    }
}
