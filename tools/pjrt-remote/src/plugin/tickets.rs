//! Requests that have not been answered.

use std::collections::VecDeque;
use std::sync::mpsc::SyncSender;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use device_plugin::{Completer, Error, HostDestination, Result};

use crate::wire::frame::Payload;
use crate::wire::messages::{Answer, Compiled};

/// An answer for which a thread waits.
pub(crate) enum Answered {
    Compiled(Box<Compiled>, Payload),
    Answer(Answer),
    Bytes(Payload),
}

/// What the answer to a request ends.
pub(crate) enum Waiting {
    /// An operation without a result.
    Event(Completer),
    /// A read of the contents of a buffer.
    Read(HostDestination, Completer),
    /// A call.
    Call(SyncSender<Result<Answered>>),
}

impl Waiting {
    pub(crate) fn fail(self, error: Error) {
        match self {
            Self::Event(completer) => completer.complete(Err(error)),
            Self::Read(to, completer) => {
                drop(to);
                completer.complete(Err(error));
            }
            // The caller waits for the answer.
            Self::Call(caller) => drop(caller.send(Err(error))),
        }
    }
}

struct State {
    /// The requests, by their ticket.
    waiting: VecDeque<Option<Waiting>>,
    /// The ticket of the first one.
    first: u64,
    /// Number of requests that have not been answered.
    count: usize,
    /// Number of threads that wait for the answer to another request.
    waiters: usize,
    /// Why the connection failed.
    broken: Option<Error>,
}

/// The requests of a connection that have not been answered.
pub(crate) struct Tickets {
    state: Mutex<State>,
    answered: Condvar,
    max: usize,
}

impl Tickets {
    pub(crate) fn new(max: usize) -> Self {
        let state = State { waiting: VecDeque::new(), first: 0, count: 0, waiters: 0, broken: None };
        Self { state: Mutex::new(state), answered: Condvar::new(), max }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the first of the consecutive tickets for some requests. Waits while too many requests have not been
    /// answered.
    ///
    /// # Errors
    ///
    /// Returns `UNAVAILABLE` if the connection failed, and `RESOURCE_EXHAUSTED` for more requests than may be pending.
    pub(crate) fn add<W>(&self, waiting: W) -> Result<u64>
    where
        W: IntoIterator<Item = Waiting, IntoIter: ExactSizeIterator>,
    {
        let waiting = waiting.into_iter();
        if waiting.len() > self.max {
            return Err(Error::resource_exhausted(format!(
                "{} launches at once; the server accepts {} requests that it has not answered",
                waiting.len(),
                self.max
            )));
        }
        let mut state = self.lock();
        loop {
            if let Some(broken) = &state.broken {
                return Err(broken.clone());
            }
            if state.count + waiting.len() <= self.max {
                break;
            }
            state.waiters += 1;
            state = self.answered.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiters -= 1;
        }
        let first = state.first + state.waiting.len() as u64;
        state.count += waiting.len();
        state.waiting.extend(waiting.map(Some));
        Ok(first)
    }

    /// Removes an answered request. Returns `None` for a ticket that is not in use.
    pub(crate) fn take(&self, ticket: u64) -> Option<Waiting> {
        let mut state = self.lock();
        let index = usize::try_from(ticket.checked_sub(state.first)?).ok()?;
        let waiting = state.waiting.get_mut(index)?.take()?;
        while let Some(None) = state.waiting.front() {
            state.waiting.pop_front();
            state.first += 1;
        }
        state.count -= 1;
        let is_awaited = state.waiters > 0;
        drop(state);
        if is_awaited {
            self.answered.notify_all();
        }
        Some(waiting)
    }

    /// Fails all requests, and all further ones.
    pub(crate) fn fail_all(&self, error: &Error) {
        self.break_off(error).into_iter().flatten().for_each(|waiting| waiting.fail(error.clone()));
    }

    /// Fails the calls that wait, and all further requests. The events of the other requests never become ready,
    /// because the process ends.
    pub(crate) fn end(&self, error: &Error) {
        for waiting in self.break_off(error).into_iter().flatten() {
            match waiting {
                Waiting::Call(_) => waiting.fail(error.clone()),
                // Dropping a completer would complete its event.
                Waiting::Event(_) | Waiting::Read(..) => std::mem::forget(waiting),
            }
        }
    }

    /// Removes all requests. Further ones fail with `error`, or with an earlier error of the connection.
    fn break_off(&self, error: &Error) -> VecDeque<Option<Waiting>> {
        let mut state = self.lock();
        state.broken.get_or_insert_with(|| error.clone());
        state.count = 0;
        state.first += state.waiting.len() as u64;
        self.answered.notify_all();
        std::mem::take(&mut state.waiting)
    }
}
