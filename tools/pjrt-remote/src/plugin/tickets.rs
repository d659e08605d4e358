//! Requests that have not been answered.

use std::collections::VecDeque;
use std::sync::mpsc::SyncSender;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use device_plugin::{Completer, Error, HostDestination, Result};

use crate::wire::messages::{Answer, Compiled};

/// An answer for which a thread waits.
pub(crate) enum Answered {
    Compiled(Box<Compiled>, Vec<u8>),
    Answer(Answer),
    Bytes(Vec<u8>),
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
        let state = State { waiting: VecDeque::new(), first: 0, count: 0, broken: None };
        Self { state: Mutex::new(state), answered: Condvar::new(), max }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the ticket for a request. Waits while too many requests have not been answered.
    ///
    /// # Errors
    ///
    /// Returns `UNAVAILABLE` if the connection failed.
    pub(crate) fn add(&self, waiting: Waiting) -> Result<u64> {
        let mut state = self.lock();
        loop {
            if let Some(broken) = &state.broken {
                return Err(broken.clone());
            }
            if state.count < self.max {
                break;
            }
            state = self.answered.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.count += 1;
        state.waiting.push_back(Some(waiting));
        Ok(state.first + state.waiting.len() as u64 - 1)
    }

    /// Returns the error of the connection, if it failed.
    pub(crate) fn broken(&self) -> Option<Error> {
        self.lock().broken.clone()
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
        let was_full = state.count + 1 >= self.max;
        drop(state);
        if was_full {
            self.answered.notify_all();
        }
        Some(waiting)
    }

    /// Fails all requests, and all further ones.
    pub(crate) fn fail_all(&self, error: &Error) {
        let waiting = {
            let mut state = self.lock();
            state.broken.get_or_insert_with(|| error.clone());
            state.count = 0;
            state.first += state.waiting.len() as u64;
            std::mem::take(&mut state.waiting)
        };
        self.answered.notify_all();
        waiting.into_iter().flatten().for_each(|waiting| waiting.fail(error.clone()));
    }
}
