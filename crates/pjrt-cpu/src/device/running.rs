//! Executions that have not ended, so that a framework can fail them: when a peer they belong together with is gone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use device_plugin::{Completer, Error, Event, Result};

/// Executions that have not ended, in the order they were launched in.
#[derive(Default)]
pub(crate) struct Running(Mutex<Executions>);

#[derive(Default)]
struct Executions {
    next: u64,
    all: BTreeMap<u64, Entry>,
}

struct Entry {
    device: usize,
    launch_id: i32,
    phase: Phase,
}

enum Phase {
    /// Its inputs are not there, or no thread is free. It can end at once.
    Waiting(Completer),
    /// It uses what the framework gave it until it ends, with this error if there is one.
    Started(Option<Error>),
}

impl Running {
    fn lock(&self) -> MutexGuard<'_, Executions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes an execution, whose event is ready when it has run, was poisoned, or is dropped.
    pub(crate) fn add(self: &Arc<Self>, device: usize, launch_id: i32) -> (Event, Ticket) {
        let (event, completer) = Event::pending();
        let mut executions = self.lock();
        let number = executions.next;
        executions.next += 1;
        executions.all.insert(number, Entry { device, launch_id, phase: Phase::Waiting(completer) });
        (event, Ticket { running: Arc::clone(self), number })
    }

    /// Fails the earliest execution with that id on that device that has not ended and was not failed before; false
    /// when there is none.
    pub(crate) fn poison(&self, device: usize, launch_id: i32, error: Error) -> bool {
        let mut executions = self.lock();
        let is_it = |entry: &&mut Entry| {
            (entry.device, entry.launch_id) == (device, launch_id) && !matches!(entry.phase, Phase::Started(Some(_)))
        };
        let Some(entry) = executions.all.values_mut().find(is_it) else { return false };
        match std::mem::replace(&mut entry.phase, Phase::Started(Some(error.clone()))) {
            Phase::Started(_) => {}
            Phase::Waiting(completer) => {
                // Callbacks run without the lock.
                drop(executions);
                completer.complete(Err(error));
            }
        }
        true
    }
}

/// One of the executions.
pub(crate) struct Ticket {
    running: Arc<Running>,
    number: u64,
}

impl Ticket {
    /// Runs the execution and makes its event ready, unless it was poisoned before.
    pub(crate) fn run(self, work: impl FnOnce() -> Result<()>) {
        let begun = {
            let mut executions = self.running.lock();
            let phase = executions.all.get_mut(&self.number).map(|entry| &mut entry.phase);
            phase.map(|phase| match phase {
                Phase::Waiting(_) => std::mem::replace(phase, Phase::Started(None)),
                Phase::Started(_) => Phase::Started(None),
            })
        };
        let Some(Phase::Waiting(completer)) = begun else { return };
        completer.run(move || {
            let result = work();
            match self.running.lock().all.get_mut(&self.number).map(|entry| &mut entry.phase) {
                Some(Phase::Started(Some(error))) => Err(error.clone()),
                _ => result,
            }
        });
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let entry = self.running.lock().all.remove(&self.number);
        // What has not begun will not: its completer says so, without the lock.
        drop(entry);
    }
}

#[cfg(test)]
mod tests {
    use device_plugin::ErrorCode;

    use super::*;

    fn error() -> Error {
        Error::new(ErrorCode::ABORTED, "a peer is gone")
    }

    #[test]
    fn the_earliest_of_that_id_on_that_device_fails() {
        let running = Arc::new(Running::default());
        let (first, one) = running.add(0, 7);
        let (second, two) = running.add(0, 7);
        let (other, three) = running.add(1, 7);
        assert!(!running.poison(0, 8, error()) && !running.poison(2, 7, error()));
        assert!(running.poison(0, 7, error()));
        assert_eq!(first.result(), Some(Err(error())));
        assert!(second.result().is_none() && other.result().is_none());
        one.run(|| panic!("it does not run any more"));
        three.run(|| Ok(()));
        assert_eq!(other.result(), Some(Ok(())));
        assert!(running.poison(0, 7, error()));
        assert!(!running.poison(0, 7, error()), "once each");
        two.run(|| panic!("it does not run any more"));
        assert!(running.lock().all.is_empty());
    }

    #[test]
    fn what_runs_ends_before_it_fails() {
        let running = Arc::new(Running::default());
        let (event, ticket) = running.add(0, 1);
        let within = (Arc::clone(&running), event.clone());
        ticket.run(move || {
            assert!(within.0.poison(0, 1, error()));
            assert!(!within.0.poison(0, 1, error()), "once each");
            assert!(!within.1.is_ready(), "it uses what it was given");
            Ok(())
        });
        assert_eq!(event.result(), Some(Err(error())));
        let (event, ticket) = running.add(0, 1);
        ticket.run(|| panic!("on purpose"));
        assert_eq!(event.result().unwrap().unwrap_err().code(), ErrorCode::INTERNAL);
        let (event, ticket) = running.add(0, 1);
        drop(ticket);
        assert_eq!(event.result().unwrap().unwrap_err().code(), ErrorCode::CANCELLED);
        assert!(!running.poison(0, 1, error()));
        assert!(running.lock().all.is_empty());
    }
}
