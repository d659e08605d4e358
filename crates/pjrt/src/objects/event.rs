//! `PJRT_Event_*`: events that report the end of asynchronous operations.

use std::ffi::c_void;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pjrt_sys::*;

use crate::error::Error;
use crate::objects::exit;
use crate::objects::in_flight::Ticket;
use crate::objects::owners::ClientInner;
use crate::table::callback::contain;
use crate::table::handle::{Handle, Owned, Owner};

/// A handle to an asynchronous operation, such as a transfer, a run, or the computation of a buffer.
///
/// To wait for the operation, use [`Event::wait`] or `.await`, which return the operation's error if it fails. Dropping
/// an event does not stop the operation.
///
/// ```
/// # use pjrt::ClientOptions;
/// # let client = plugin_registry::open("cpu")?.client(&ClientOptions::new())?;
/// let x = client.buffer_from_host(&[1.0f32; 1000], &[1000])?;
/// let ready = x.ready_event()?;
/// ready.wait()?; // or `ready.await?` in an async function
/// assert!(ready.is_ready()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "only the event reports a failure of the operation"]
pub struct Event {
    raw: Owned<PJRT_Event, Arc<ClientInner>>,
    /// The outcome for which the future waits. `None` unless the future was polled before the event was ready.
    completion: Option<Arc<Completion>>,
}

/// A function that receives the outcome of an operation when its event is ready.
pub(crate) type Callback = Box<dyn FnOnce(Result<(), Error>) + Send>;

/// The argument of a callback that the plugin has not called yet.
struct Pending {
    /// Keeps the client alive, because some plugins crash if a client is destroyed while an operation is pending.
    client: Arc<ClientInner>,
    callback: Callback,
    /// Dropped last, so that the callback and its data are dropped before a wait for the client's operations returns.
    ticket: Ticket,
}

/// Selects the client's counter that counts a pending callback.
#[derive(Clone, Copy)]
enum Count {
    /// The counter of operations. `Client::synchronize` waits until it is zero.
    Operation,
    /// The counter of uploads whose host memory the plugin may use as long as a buffer lives.
    /// `Client::wait_for_lent_memory` waits until it is zero.
    Loan,
}

impl Event {
    /// # Safety
    ///
    /// `raw` is a live event of `client`, and the caller owns the event.
    #[inline]
    pub(crate) unsafe fn new(raw: NonNull<PJRT_Event>, client: Arc<ClientInner>) -> Self {
        // SAFETY: this function's contract: the event is live, and the caller owned it.
        Self { raw: unsafe { Owned::new(raw, client) }, completion: None }
    }

    pub(crate) fn handle(&self) -> &Handle<PJRT_Event, Arc<ClientInner>> {
        &self.raw
    }

    /// Returns whether the operation has ended, with or without an error.
    ///
    /// # Errors
    ///
    /// Returns an error if the query fails, not if the operation failed.
    #[doc(alias = "PJRT_Event_IsReady")]
    #[inline]
    pub fn is_ready(&self) -> Result<bool, Error> {
        self.raw.query::<slot::PJRT_Event_IsReady>()
    }

    /// Blocks until the operation has ended.
    ///
    /// # Errors
    ///
    /// Returns the error of the operation, even if the operation ended before this call. Returns an error of kind
    /// [`Unsupported`](crate::ErrorKind::Unsupported) if the plugin cannot wait, poll or register a callback.
    #[doc(alias = "PJRT_Event_Await")]
    #[doc(alias = "PJRT_Event_Error")]
    pub fn wait(&self) -> Result<(), Error> {
        self.outcome()?.map_err(|error| self.raw.owner().describe_memory(error))
    }

    /// Runs `callback` with the outcome of the operation when the operation has ended. The callback runs on a thread of
    /// the plugin, or on the calling thread before `on_ready` returns. It must not block. If it panics, the panic is
    /// caught.
    ///
    /// The callback must own its data, because it may run after the caller has returned. This example therefore does
    /// not compile:
    ///
    /// ```compile_fail,E0373
    /// # fn example(event: &pjrt::Event) -> Result<(), pjrt::Error> {
    /// let text = String::from("gone before the callback runs");
    /// event.on_ready(|_| println!("{text}"))
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the plugin cannot register the callback. The callback is then dropped without running.
    #[doc(alias = "PJRT_Event_OnReady")]
    pub fn on_ready(&self, callback: impl FnOnce(Result<(), Error>) + Send + 'static) -> Result<(), Error> {
        self.register(Box::new(callback), Count::Operation).map_err(|(error, _)| error)
    }

    /// Registers `callback`, and counts it until it has run. `count` selects the counter. If the registration fails,
    /// returns the error and the callback.
    fn register(&self, callback: Callback, count: Count) -> Result<(), (Error, Callback)> {
        let client = self.raw.owner().clone();
        let ticket = match count {
            Count::Operation => client.in_flight().ticket(),
            Count::Loan => client.lent().uncounted_at_exit(),
        };
        let pending = Box::into_raw(Box::new(Pending { client, callback, ticket }));
        let mut args = PJRT_Event_OnReady_Args::new();
        args.event = self.raw.as_ptr();
        args.callback = Some(on_ready);
        args.user_arg = pending.cast::<c_void>();
        // SAFETY: C6 (events): the event is live. If the plugin calls the callback, the callback owns its argument.
        let registered = unsafe { self.raw.api().call::<slot::PJRT_Event_OnReady>(&mut args) };
        registered.map_err(|error| {
            // SAFETY: C6 (events): the plugin never calls the callback of a failed registration, so this function still
            // owns the argument.
            let pending = unsafe { Box::from_raw(pending) };
            (error, pending.callback)
        })
    }

    /// Keeps `held` alive until the operation has ended, and then calls `then` with `held` and the outcome of the
    /// operation. If the plugin cannot register a callback, waits on this thread instead. If this wait fails, leaks
    /// `held` and does not call `then`.
    pub(crate) fn hold<T: Send + 'static>(&self, held: T, then: impl FnOnce(T, Result<(), Error>) + Send + 'static) {
        self.keep(held, then, Count::Operation);
    }

    /// Like [`Event::hold`], for data that the plugin may use as long as a buffer lives. `Client::synchronize` does not
    /// wait for the end of this use.
    pub(crate) fn lend<T: Send + 'static>(&self, held: T, then: impl FnOnce(T, Result<(), Error>) + Send + 'static) {
        self.keep(held, then, Count::Loan);
    }

    /// Counts the run of this event as a pending operation until the run has ended. `launch_id` is the run's launch id.
    /// If the plugin cannot register a callback, the run is not counted.
    pub(crate) fn track(&self, launch_id: i32) {
        let in_flight = self.raw.owner().in_flight().clone();
        in_flight.began_run(launch_id);
        let ended = move |_| {
            if in_flight.ended_run(launch_id) {
                exit::guard();
            }
        };
        if let Err((error, _)) = self.register(Box::new(ended), Count::Operation) {
            self.raw.owner().in_flight().ended_run(launch_id);
            tracing::debug!(%error, "a run is not tracked");
        }
    }

    fn keep<T: Send + 'static>(&self, held: T, then: impl FnOnce(T, Result<(), Error>) + Send + 'static, count: Count) {
        let callback: Callback = Box::new(move |result| then(held, result));
        if let Err((_, callback)) = self.register(callback, count) {
            // The plugin cannot register callbacks, so wait on this thread.
            match self.outcome() {
                Ok(result) => contain(move || callback(result)),
                // It is unknown when the operation ends, so leak the data.
                Err(_) => std::mem::forget(callback),
            }
        }
    }

    /// Waits for the operation. The outer result is an error if the wait failed. The inner result is the outcome of the
    /// operation.
    pub(crate) fn outcome(&self) -> Result<Result<(), Error>, Error> {
        let Err(error) = self.raw.query::<slot::PJRT_Event_Await>() else {
            return Ok(Ok(()));
        };
        if self.raw.api().supports::<slot::PJRT_Event_Await>() && matches!(self.is_ready(), Ok(true)) {
            return Ok(Err(error));
        }
        self.outcome_without_await().unwrap_or(Err(error))
    }

    /// Waits without `PJRT_Event_Await`. Returns `None` if the plugin supports no other method.
    #[cold]
    fn outcome_without_await(&self) -> Option<Result<Result<(), Error>, Error>> {
        let completion = Arc::new(Completion::default());
        let theirs = completion.clone();
        if self.on_ready(move |result| theirs.complete(result)).is_ok() {
            return Some(Ok(completion.wait()));
        }
        let mut pause = Duration::from_micros(10);
        while !self.is_ready().ok()? {
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(5));
        }
        // The operation has ended. If the plugin lacks `PJRT_Event_Error`, the outcome of the operation is unknown, and
        // this returns an error.
        Some(Ok(self.raw.query::<slot::PJRT_Event_Error>()))
    }
}

/// Calls the callback of a [`Pending`] with the outcome of the operation. This is a `PJRT_Event_OnReadyCallback`.
unsafe extern "C" fn on_ready(error: *mut PJRT_Error, user_arg: *mut c_void) {
    // SAFETY: C6 (events): the argument is the box that `Event::register` created, and at most one call receives it.
    let Pending { client, callback, ticket } = *unsafe { Box::from_raw(user_arg.cast::<Pending>()) };
    let held = client.clone();
    contain(move || {
        let result = if error.is_null() {
            Ok(())
        } else {
            // SAFETY: C6 (events): an error passed to the callback is live, and the callback owns it.
            Err(unsafe { client.api().take_error(slot::PJRT_Event_OnReady::NAME, error) })
        };
        callback(result);
    });
    contain(move || drop(held));
    drop(ticket);
}

/// The future returns the outcome of the operation.
impl Future for Event {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(completion) = &self.completion {
            return completion.poll(cx);
        }
        match self.is_ready() {
            Ok(true) => return Poll::Ready(self.wait()),
            Ok(false) => {}
            // The plugin does not support polling. The callback below also reports the end of the operation.
            Err(_) if !self.raw.api().supports::<slot::PJRT_Event_IsReady>() => {}
            Err(error) => return Poll::Ready(Err(error)),
        }
        let completion = Arc::new(Completion::default());
        let poll = completion.poll(cx);
        debug_assert!(poll.is_pending());
        let theirs = completion.clone();
        self.on_ready(move |result| theirs.complete(result))?;
        // Check again, because the callback may have already run.
        self.completion.insert(completion).poll(cx)
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Event").field(&self.raw).finish()
    }
}

/// A cell for the outcome of an operation. One thread sets the outcome, and other threads wait for it.
#[derive(Default)]
pub(crate) struct Completion {
    state: Mutex<State>,
    ready: Condvar,
}

#[derive(Default)]
struct State {
    result: Option<Result<(), Error>>,
    waker: Option<Waker>,
}

impl Completion {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn complete(&self, result: Result<(), Error>) {
        let mut state = self.lock();
        state.result = Some(result);
        let waker = state.waker.take();
        drop(state);
        self.ready.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let mut state = self.lock();
        if let Some(result) = &state.result {
            return Poll::Ready(result.clone());
        }
        if !state.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            state.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    pub(crate) fn wait(&self) -> Result<(), Error> {
        let mut state = self.lock();
        loop {
            if let Some(result) = &state.result {
                return result.clone();
            }
            state = self.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.lock().result.is_some()
    }
}
