//! The time during which an execution may use what the framework lent it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Completer, Event, Result};

/// Whether an execution is in progress. The program may use callbacks and user data of the framework only then.
#[derive(Default)]
pub(crate) struct Gate(Mutex<Option<Arc<Open>>>);

/// State that the execution and all uses in progress share. The framework's event is completed when the last of them
/// has ended.
pub(crate) struct Open {
    result: Mutex<Result<()>>,
    completer: Option<Completer>,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Open {
    fn drop(&mut self) {
        let result = lock(&self.result).clone();
        if let Some(completer) = self.completer.take() {
            completer.complete(result);
        }
    }
}

/// The open gate of a call of `PJRT_LoadedExecutable_Execute`, or of one of its launches. This value exists until the
/// backend has received all launches of the gate.
pub(crate) struct Opened {
    gate: Arc<Gate>,
    event: Option<Event>,
}

impl Gate {
    /// Begins the execution.
    pub(crate) fn open(self: &Arc<Self>) -> Opened {
        let (event, completer) = Event::pending();
        *lock(&self.0) = Some(Arc::new(Open { result: Mutex::new(Ok(())), completer: Some(completer) }));
        Opened { gate: Arc::clone(self), event: Some(event) }
    }

    /// Begins a use. The framework's event waits until the returned value is dropped. Returns `None` before the
    /// execution starts and after it has ended.
    pub(crate) fn enter(&self) -> Option<Arc<Open>> {
        lock(&self.0).clone()
    }

    fn close(&self, result: Result<()>) {
        let open = lock(&self.0).take();
        if let Some(open) = open {
            *lock(&open.result) = result;
        }
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.enter().is_some() { "Gate(open)" } else { "Gate(closed)" })
    }
}

impl Opened {
    /// Passes the gate to the launches, whose events are `done`. Returns an event that is ready when all launches and
    /// uses have ended.
    pub(crate) fn hand_over(mut self, done: &[Event]) -> Event {
        let gate = Arc::clone(&self.gate);
        Event::all(done.iter().cloned()).on_ready(move |result| gate.close(result.clone()));
        self.event.take().unwrap_or_default()
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // The launches were not passed to the backend, so the framework's call fails. The framework may free what it
        // lent, such as callbacks, when the call returns. Therefore wait for uses that are still in progress.
        if let Some(event) = self.event.take() {
            self.gate.close(Ok(()));
            let _ = event.wait();
        }
    }
}
