//! Completion of asynchronous work.

use std::cell::Cell;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::contain::contain;
use crate::threads::{COMPLETIONS, LAUNCHES};
use crate::{Error, ErrorCode, HomeProcess, Result};

/// The completion of an asynchronous operation. An event becomes ready once, with or without an error.
///
/// Cheap to clone. An event that is ready without an error needs no allocation, so synchronous backends return
/// [`Event::ready`] at no cost. An asynchronous backend creates an event and its [`Completer`] with [`Event::pending`],
/// returns the event, and completes it on any thread:
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

/// Completes a pending [`Event`]. If the completer is dropped without a result, the event completes with an error.
///
/// # Threads
///
/// An event may be completed on any thread, even in a callback of a driver that forbids calls into the driver
/// (`clSetEventCallback`, `cuLaunchHostFunc`). The work that waits for the event then runs as follows:
///
/// | waiting work | [`complete`](Self::complete), [`run`](Self::run), drop | [`complete_inline`](Self::complete_inline), [`run_inline`](Self::run_inline) |
/// |---|---|---|
/// | threads in [`Event::wait`] and `PJRT_Event_Await` | are woken up | are woken up |
/// | callbacks of [`Event::on_ready`], which belong to the vendor | on this thread | on this thread |
/// | calls of the backend that waited for a buffer: `read`, `begin_read`, `copy`, `bitcast`, `ready` and the functions of raw buffers; destructors of the buffers that these calls held | on a completion thread of the SDK | on this thread |
/// | callbacks of the framework, which may call any PJRT function and therefore the backend | on a completion thread of the SDK | on this thread |
/// | launches that waited for an argument | on a launch thread of the SDK | on a launch thread of the SDK |
///
/// So `complete` takes a short and bounded time and never calls the backend. Use `complete_inline` on your own threads
/// if backend calls and framework callbacks may run there. It saves a thread switch, which takes some microseconds.
///
/// The SDK has a few completion threads for the whole process. A callback or a `read` that blocks therefore delays
/// other waiting work, but never the thread that completes an event. If the system cannot create the first completion
/// thread, the work runs on the completing thread instead.
#[derive(Debug)]
pub struct Completer(Option<Arc<Pending>>);

type Callback = Box<dyn FnOnce(&Result<()>) + Send>;

/// Work that waits for an event.
pub(crate) enum Waiting {
    /// A callback of the vendor, or work of the SDK that calls neither a backend nor a framework. Runs on the thread
    /// that completes the event.
    Inline(Callback),
    /// Work that calls a backend or a framework. Runs on a completion thread if the thread that completes the event may
    /// belong to a driver.
    OffThread(Callback),
}

/// Shared state of an event that was created pending.
pub(crate) struct Pending {
    result: OnceLock<Result<()>>,
    /// Work that waits for the event. Empty once the result is set.
    waiting: Mutex<Vec<Waiting>>,
    ready: Condvar,
    /// The process whose threads complete the event.
    home: HomeProcess,
}

thread_local! {
    /// Whether this thread is inside [`Completer::complete`] or the destructor of a [`Completer`]. The thread may then
    /// belong to a driver, so no backend or framework is called on it.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
    /// Number of nested completions on this thread. Completions nest when a callback of one event completes another
    /// event.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Maximum number of nested completions on one thread. A longer chain continues on another thread, because each nested
/// completion uses more of the thread's stack.
const DEEPEST: usize = 32;

/// A guard that sets a thread-local value. Dropping the guard restores the previous value.
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

/// Runs a function on a thread that may belong to a driver. Work that calls a backend or a framework, because the
/// function completes an event or drops lent memory, runs on another thread.
pub fn on_driver_thread<R>(function: impl FnOnce() -> R) -> R {
    let _guarded = Scope::enter(&GUARDED, true);
    function()
}

fn call(callback: Callback, result: &Result<()>) {
    // A panic in one callback must not keep the other callbacks from being called.
    let _ = contain(|| {
        callback(result);
        Ok(())
    });
}

/// Runs the work that waited for an event, and passes it the event's result.
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
    let mut off_thread = Vec::new();
    for waiting in waiting {
        match waiting {
            Waiting::OffThread(callback) if GUARDED.get() => off_thread.push(callback),
            Waiting::Inline(callback) | Waiting::OffThread(callback) => call(callback, result),
        }
    }
    if !off_thread.is_empty() {
        let result = result.clone();
        let all = move || off_thread.into_iter().for_each(|callback| call(callback, &result));
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
        let home = HomeProcess::current();
        Arc::new(Self { result: OnceLock::new(), waiting: Mutex::new(Vec::new()), ready: Condvar::new(), home })
    }

    /// Returns an error if the event is pending and this process is a fork of the process that would complete it. In a
    /// fork, the lock of the event may stay locked forever.
    fn check_process(&self) -> Result<()> {
        if self.home.is_current() || self.result.get().is_some() {
            return Ok(());
        }
        Err(Error::new(
            ErrorCode::FAILED_PRECONDITION,
            "this process was forked while the operation was in progress, and has none of the threads that would end it; wait \
             for the operation before the fork, or start the process without a fork (Python's multiprocessing: \"spawn\")",
        ))
    }

    /// Locks the list of waiting work. Ignores poisoning, because callbacks run without this lock and therefore cannot
    /// leave the list inconsistent.
    fn lock(&self) -> MutexGuard<'_, Vec<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the result and runs the waiting work. If the event already has a result, returns `result` as the error.
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
        self.check_process()?;
        let mut waiting = self.lock();
        loop {
            if let Some(result) = self.result.get() {
                return result.clone();
            }
            waiting = self.ready.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn when_ready(&self, new: Waiting) {
        if let Err(error) = self.check_process() {
            return Self::call_now(new, &Err(error));
        }
        if self.result.get().is_none() {
            let mut waiting = self.lock();
            // The result is set under the lock, so the work pushed here will run.
            if self.result.get().is_none() {
                waiting.push(new);
                return;
            }
        }
        if let Some(result) = self.result.get() {
            Self::call_now(new, result);
        }
    }

    fn call_now(new: Waiting, result: &Result<()>) {
        match new {
            // Here, a panic of the callback propagates to the caller of `on_ready`.
            Waiting::Inline(callback) => callback(result),
            Waiting::OffThread(callback) if !GUARDED.get() => callback(result),
            off_thread => run(vec![off_thread], result),
        }
    }
}

impl Event {
    /// Returns an event that is ready without an error.
    pub const fn ready() -> Self {
        Self(None)
    }

    /// Returns an event that is ready with an error.
    pub fn failed(error: Error) -> Self {
        let (event, completer) = Self::pending();
        completer.complete_internally(Err(error));
        event
    }

    /// Returns an event and the completer that makes it ready.
    pub fn pending() -> (Self, Completer) {
        let state = Pending::new();
        (Self(Some(Arc::clone(&state))), Completer(Some(state)))
    }

    /// Returns an event that becomes ready when `wait` returns, with its result. A panic in `wait` becomes an
    /// `INTERNAL` error. `wait` runs on a thread of the SDK and may block, for example in a function that waits for an
    /// object of the driver. The driver needs no callback.
    ///
    /// Each pending event needs a thread. If a device completes its work in order, use one thread of your own that
    /// waits for the objects in turn. If the system cannot create another thread, waits run one after the other, the
    /// first one on the thread that calls this function. The end of a process waits up to five seconds for pending
    /// waits.
    ///
    /// ```
    /// # use device_plugin::{Error, Event};
    /// # struct Fence;
    /// # impl Fence { fn wait(&self) -> Result<(), i32> { Err(-5) } }
    /// # let fence = Fence;
    /// let event = Event::from_wait(move || fence.wait().map_err(|code| Error::internal(format!("driver error {code}"))));
    /// assert_eq!(event.wait().unwrap_err().message(), "driver error -5");
    /// ```
    pub fn from_wait(wait: impl FnOnce() -> Result<()> + Send + 'static) -> Self {
        let (event, completer) = Self::pending();
        LAUNCHES.submit_or_run(Box::new(move || completer.run_inline(wait)));
        event
    }

    /// Returns an event that becomes ready when all given events are ready. If several events fail, the returned event
    /// fails with the error of the first failed event in `events`.
    pub fn all(events: impl IntoIterator<Item = Self>) -> Self {
        let mut events = events.into_iter().filter(|event| event.0.is_some());
        let Some(first) = events.next() else { return Self::ready() };
        let Some(second) = events.next() else { return first };
        let events: Vec<Self> = [first, second].into_iter().chain(events).collect();
        let (all, completer) = Self::pending();
        // Dropping the last reference to `Join` completes the event. Each callback holds a reference until it has run.
        struct Join(Vec<Event>, Option<Completer>);
        impl Drop for Join {
            fn drop(&mut self) {
                let error = self.0.iter().find_map(|event| event.result()?.err());
                if let Some(completer) = self.1.take() {
                    completer.complete_internally(error.map_or(Ok(()), Err));
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

    /// Returns the result of the event, or `None` while it is pending.
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
    /// Returns an error if the operation failed. Returns `FAILED_PRECONDITION` if the event is pending and this process
    /// was forked after the event was created, because the threads that would complete the event do not exist in this
    /// process.
    pub fn wait(&self) -> Result<()> {
        self.0.as_ref().map_or(Ok(()), |state| state.wait())
    }

    /// Runs `callback` when the event is ready. If the event is ready already, the callback runs before this function
    /// returns. Otherwise it runs on the thread that completes the event. This may be any thread, including a driver's,
    /// so a long-running callback must move its work to another thread. The SDK holds no lock while the callback runs.
    /// If the event is pending and this process was forked after the event was created, the callback runs at once with
    /// an error.
    pub fn on_ready(&self, callback: impl FnOnce(&Result<()>) + Send + 'static) {
        match &self.0 {
            None => callback(&Ok(())),
            Some(state) => state.when_ready(Waiting::Inline(Box::new(callback))),
        }
    }

    /// Runs `callback`, which calls a backend or a framework, when the event is ready. The callback runs on the current
    /// thread if the event is ready already, and otherwise on the thread that completes the event. If that thread may
    /// belong to a driver, the callback runs on a completion thread instead.
    pub(crate) fn on_ready_off_thread(&self, callback: impl FnOnce(&Result<()>) + Send + 'static) {
        match &self.0 {
            None => callback(&Ok(())),
            Some(state) => state.when_ready(Waiting::OffThread(Box::new(callback))),
        }
    }

    /// Returns the shared state, or `None` for an event that was created ready.
    #[inline]
    pub(crate) fn into_state(self) -> Option<Arc<Pending>> {
        self.0
    }

    #[inline]
    pub(crate) fn is_born_ready(&self) -> bool {
        self.0.is_none()
    }

    /// Whether `self` and `other` are clones of the same event.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// Returns a pending event without a completer. Its result is set through its state.
    pub(crate) fn settable() -> Self {
        Self(Some(Pending::new()))
    }
}

impl Completer {
    /// Completes the event. Calls neither the backend nor the framework on this thread, which may belong to a driver.
    /// See [Threads](Self#threads).
    pub fn complete(self, result: Result<()>) {
        on_driver_thread(|| self.complete_internally(result));
    }

    /// Completes the event, and runs the work that waits for it on this thread, including calls of the backend and the
    /// framework. See [Threads](Self#threads). Use it on threads that may call the backend without restriction, and
    /// that hold no lock that a method of the backend acquires.
    pub fn complete_inline(self, result: Result<()>) {
        let _open = Scope::enter(&GUARDED, false);
        self.complete_internally(result);
    }

    /// Completes the event with the result of `work`. A panic in `work` becomes an `INTERNAL` error. The closure's
    /// captures are dropped before the event is ready. Waiting work runs as with [`Completer::complete`].
    pub fn run(self, work: impl FnOnce() -> Result<()>) {
        let result = contain(work);
        self.complete(result);
    }

    /// Does the same as [`Completer::run`], but waiting work runs as with [`Completer::complete_inline`]. Use it on
    /// threads that may call the backend without restriction.
    pub fn run_inline(self, work: impl FnOnce() -> Result<()>) {
        let result = contain(work);
        self.complete_inline(result);
    }

    /// Completes the event from code of the SDK. Keeps the current value of `GUARDED`, because code of the SDK runs on
    /// a driver's thread only inside a call of a [`Completer`] that the vendor made on that thread.
    pub(crate) fn complete_internally(mut self, result: Result<()>) {
        if let Some(state) = self.0.take() {
            // `set` cannot fail here, because only the completer sets the result of its event.
            let _ = state.set(result);
        }
    }
}

impl Drop for Completer {
    fn drop(&mut self) {
        if let Some(state) = self.0.take() {
            let why = match std::thread::panicking() {
                true => {
                    "the plugin panicked on the thread of an asynchronous operation; run the work in Completer::run to \
                     report the panic's message"
                }
                false => "the plugin dropped the completer of an asynchronous operation without a result",
            };
            let _guarded = Scope::enter(&GUARDED, true);
            let _ = state.set(Err(Error::new(ErrorCode::CANCELLED, why)));
        }
    }
}

#[cfg(test)]
mod tests;
