//! Storage of executables in memory, and the running compilations that other threads may wait for.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::key::Key;
use crate::error::Error;
use crate::objects::loaded_executable::LoadedExecutable;

/// The address of a client and the key of a compilation.
type SlotKey = (usize, Key);
type Outcome = Result<Arc<LoadedExecutable>, Error>;

pub(super) struct Slots {
    max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ready: HashMap<SlotKey, Ready>,
    running: HashMap<SlotKey, Arc<Running>>,
    /// Number of insertions and lookups so far. It orders the executables by their last use.
    clock: u64,
}

struct Ready {
    executable: Arc<LoadedExecutable>,
    last_use: u64,
}

/// A running compilation. One thread performs the compilation, and other threads wait for it. It ends without an
/// outcome if the first thread panics.
#[derive(Default)]
struct Running {
    /// `None` while the compilation runs, and `Some(None)` if its thread panicked.
    ended: Mutex<Option<Option<Outcome>>>,
    wake: Condvar,
}

impl Running {
    fn wait(&self) -> Option<Outcome> {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match &*ended {
                Some(outcome) => return outcome.clone(),
                None => ended = self.wake.wait(ended).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// A guard that ends a compilation when it is dropped, even if the compilation panics.
struct End<'a> {
    slots: &'a Slots,
    key: SlotKey,
    running: Arc<Running>,
    outcome: Option<Outcome>,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        let outcome = self.outcome.take();
        // Drop the evicted executables only after the lock is released, because dropping an executable calls the
        // plugin.
        let evicted = {
            let mut state = self.slots.lock();
            state.running.remove(&self.key);
            match &outcome {
                Some(Ok(executable)) => state.insert(self.key, executable.clone(), self.slots.max),
                _ => Vec::new(),
            }
        };
        *self.running.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        self.running.wake.notify_all();
        drop(evicted);
    }
}

impl State {
    fn insert(&mut self, key: SlotKey, executable: Arc<LoadedExecutable>, max: usize) -> Vec<Ready> {
        self.clock += 1;
        let replaced = self.ready.insert(key, Ready { executable, last_use: self.clock });
        let mut evicted = Vec::from_iter(replaced);
        while self.ready.len() > max {
            let oldest = self.ready.iter().min_by_key(|(_, ready)| ready.last_use).map(|(key, _)| *key);
            evicted.extend(oldest.and_then(|oldest| self.ready.remove(&oldest)));
        }
        evicted
    }

    fn find(&mut self, key: &SlotKey) -> Option<Arc<LoadedExecutable>> {
        self.clock += 1;
        let ready = self.ready.get_mut(key)?;
        ready.last_use = self.clock;
        Some(ready.executable.clone())
    }
}

impl Slots {
    pub(super) fn new(max: usize) -> Self {
        Self { max, state: Mutex::default() }
    }

    /// Returns the executable of `key`. Calls `create` if memory contains no executable of `key`. The flag is `true` if
    /// the executable was in memory or if another thread called `create` for it. For each key, `create` runs on one
    /// thread at a time.
    pub(super) fn get_or_create(
        &self,
        key: SlotKey,
        create: impl FnOnce() -> Result<LoadedExecutable, Error>,
    ) -> (Outcome, bool) {
        let running = loop {
            let found = self.lock().find(&key);
            if let Some(executable) = found {
                return (Ok(executable), true);
            }
            let other = {
                let mut state = self.lock();
                if state.ready.contains_key(&key) {
                    continue;
                }
                match state.running.get(&key) {
                    Some(running) => running.clone(),
                    None => {
                        let running = Arc::<Running>::default();
                        state.running.insert(key, running.clone());
                        break running;
                    }
                }
            };
            if let Some(outcome) = other.wait() {
                return (outcome, true);
            }
            // The other thread panicked, so try again.
        };
        let mut end = End { slots: self, key, running, outcome: None };
        let outcome = create().map(Arc::new);
        end.outcome = Some(outcome.clone());
        drop(end);
        (outcome, false)
    }

    pub(super) fn clear(&self) {
        let ready = std::mem::take(&mut self.lock().ready);
        drop(ready);
    }

    pub(super) fn len(&self) -> usize {
        self.lock().ready.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
