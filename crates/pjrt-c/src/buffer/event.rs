//! `dp_event`: tells when an operation has ended.

use std::ffi::c_void;
use std::future::Future;
use std::mem::take;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use pjrt::{Error, ErrorCode, Event, SettableEvent};
use pjrt_c_macros::c_function;

use crate::border::error::{DP_OK, dp_code, dp_error, error_code};
use crate::border::failure::{Failure, Outcome};
use crate::border::foreign::Foreign;
use crate::border::handle;
use crate::border::handle::Owned;
use crate::border::memory;

/// Tells when an operation has ended, such as a transfer or a run, and with which error.
pub struct dp_event {
    inner: Inner,
}

enum Inner {
    Plugin(Event),
    /// The end of a future, which this library computes from events of the plugin.
    Signal(Arc<Signal>),
}

impl dp_event {
    pub(crate) fn new(event: Event) -> Self {
        Self { inner: Inner::Plugin(event) }
    }

    /// Creates an event that is ready when a future is.
    pub(crate) fn of_future(future: impl Future<Output = Result<(), Error>> + Send + 'static) -> Self {
        let signal = Arc::new(Signal::default());
        signal.state().future = Some(Box::pin(future));
        signal.clone().wake();
        Self { inner: Inner::Signal(signal) }
    }

    fn is_ready(&self) -> Result<bool, Error> {
        match &self.inner {
            Inner::Plugin(event) => event.is_ready(),
            Inner::Signal(signal) => Ok(signal.state().outcome.is_some()),
        }
    }

    fn on_ready(&self, run: impl FnOnce(Result<(), Error>) + Send + 'static) -> Result<(), Error> {
        match &self.inner {
            Inner::Plugin(event) => event.on_ready(run),
            Inner::Signal(signal) => {
                let mut state = signal.state();
                match state.outcome.clone() {
                    None => state.waiting.push(Box::new(run)),
                    Some(outcome) => {
                        drop(state);
                        run(outcome);
                    }
                }
                Ok(())
            }
        }
    }
}

/// The end of an operation that this library waits for.
#[derive(Default)]
struct Signal {
    state: Mutex<State>,
    ended: Condvar,
}

type Pending = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

type Continuation = Box<dyn FnOnce(Result<(), Error>) + Send>;

#[derive(Default)]
struct State {
    /// `None` while the future is polled, and after it has ended.
    future: Option<Pending>,
    /// Whether the future was woken while it was polled.
    woken: bool,
    outcome: Option<Result<(), Error>>,
    waiting: Vec<Continuation>,
}

impl Signal {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn complete(&self, outcome: Result<(), Error>) {
        let mut state = self.state();
        state.outcome = Some(outcome.clone());
        let waiting = take(&mut state.waiting);
        drop(state);
        self.ended.notify_all();
        waiting.into_iter().for_each(|run| run(outcome.clone()));
    }

    /// Waits for the end, or returns `None` if it did not come before the deadline.
    fn wait(&self, deadline: Option<Instant>) -> Option<Result<(), Error>> {
        let mut state = self.state();
        loop {
            if let Some(outcome) = &state.outcome {
                return Some(outcome.clone());
            }
            state = match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
                None => self.ended.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => return None,
                Some(left) => self.ended.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        let waker = Waker::from(self.clone());
        let mut state = self.state();
        let Some(mut future) = state.future.take() else {
            state.woken = true;
            return;
        };
        loop {
            state.woken = false;
            drop(state);
            match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(outcome) => return self.complete(outcome),
                Poll::Pending => state = self.state(),
            }
            if !state.woken {
                state.future = Some(future);
                return;
            }
        }
    }
}

/// Returns whether the operation has ended, with or without an error.
#[c_function]
pub fn dp_event_is_ready(event: &dp_event) -> Outcome<bool> {
    Ok(event.is_ready()?)
}

/// Waits until the operation has ended, and returns its error if it failed.
#[c_function]
pub fn dp_event_await(event: &dp_event) -> Outcome<()> {
    match &event.inner {
        Inner::Plugin(event) => Ok(event.wait()?),
        Inner::Signal(signal) => Ok(signal.wait(None).unwrap_or(Ok(()))?),
    }
}

/// Waits up to `timeout_ms` milliseconds until the operation has ended, and returns its error if it failed. Returns
/// `DP_DEADLINE_EXCEEDED` if it has not ended.
#[c_function]
pub fn dp_event_await_for(event: &dp_event, timeout_ms: u64) -> Outcome<()> {
    let deadline = Instant::now().checked_add(Duration::from_millis(timeout_ms));
    let signal = match &event.inner {
        Inner::Signal(signal) => signal.clone(),
        Inner::Plugin(event) => {
            let signal = Arc::new(Signal::default());
            let theirs = signal.clone();
            event.on_ready(move |outcome| theirs.complete(outcome))?;
            signal
        }
    };
    match signal.wait(deadline) {
        Some(outcome) => Ok(outcome?),
        None => Err(Failure::new(
            ErrorCode::DEADLINE_EXCEEDED,
            format!("the operation has not ended within {timeout_ms} ms"),
        )),
    }
}

/// A function that is called once with the outcome of an operation. `context` is the pointer that was passed with it.
/// `error` is NULL if the operation succeeded, and otherwise belongs to the function, which releases it with
/// `dp_release`. The function may run on any thread, and must not wait for other operations.
pub type dp_event_callback = Option<unsafe extern "C" fn(context: *mut c_void, error: *mut dp_error)>;

/// Calls `callback` when the operation has ended: on a thread of the plugin, or on this thread before the function
/// returns. If the function returns an error, `callback` is not called.
#[c_function]
pub fn dp_event_on_ready(event: &dp_event, callback: dp_event_callback, context: *mut c_void) -> Outcome<()> {
    let callback = memory::function(callback, "callback")?;
    let context = Foreign(context);
    event.on_ready(move |outcome| {
        let error = match outcome {
            Ok(()) => std::ptr::null_mut(),
            Err(error) => handle::give(dp_error::new("dp_event_on_ready", error.into())),
        };
        // SAFETY: K5 (functions of the caller): it was passed together with the context.
        unsafe { callback(context.get(), error) };
    })?;
    Ok(())
}

/// An event that the program sets. If it is released before it was set, its event ends with an error.
pub struct dp_settable_event {
    inner: SettableEvent,
    /// An event that other functions can wait for.
    event: Arc<Signal>,
}

impl dp_settable_event {
    pub(crate) fn new(inner: SettableEvent) -> Outcome<Self> {
        let event = Arc::new(Signal::default());
        let theirs = event.clone();
        inner.event().on_ready(move |outcome| theirs.complete(outcome))?;
        Ok(Self { inner, event })
    }
}

/// Returns the event that becomes ready when the program sets it.
#[c_function]
pub fn dp_settable_event_event(settable: &dp_settable_event) -> Outcome<Owned<dp_event>> {
    Ok(Owned(dp_event { inner: Inner::Signal(settable.event.clone()) }))
}

/// Makes the event ready. `code` is `DP_OK`, or the code of the error with which the operation ended; `message`
/// describes that error and may be NULL for `DP_OK`. Releases `settable`, also if the function fails.
#[c_function]
pub fn dp_settable_event_set(settable: Owned<dp_settable_event>, code: dp_code, message: Option<&str>) -> Outcome<()> {
    let Owned(settable) = settable;
    let set = if code == DP_OK {
        settable.inner.set()
    } else {
        settable.inner.set_error(error_code(code)?, message.unwrap_or_default())
    };
    // The event itself is that of `dp_settable_event_event`.
    set.map(drop).map_err(Failure::from)
}
