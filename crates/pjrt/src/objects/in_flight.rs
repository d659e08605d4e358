//! Counts the pending operations of a client, so that callers can wait until all of them have ended.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{
    AtomicBool, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The pending operations of one client.
#[derive(Default)]
pub(crate) struct InFlight {
    count: AtomicUsize,
    /// Number of threads in [`InFlight::wait`]. While no thread waits, an operation ends without taking the lock,
    /// because there is no thread to notify.
    waiters: AtomicUsize,
    lock: Mutex<()>,
    ended: Condvar,
    /// Whether `exit::guard` was called after the client's first compilation.
    pub(crate) compiled: AtomicBool,
    /// Number of tracked runs that have ended.
    runs: AtomicUsize,
    /// Number of pending tracked runs for each launch id except 0.
    launches: Mutex<BTreeMap<i32, usize>>,
}

/// A guard that counts one operation as pending until the guard is dropped.
pub(crate) struct Ticket(Arc<InFlight>);

impl InFlight {
    /// Counts an operation as pending until the ticket is dropped. Unlike [`InFlight::ticket`], this function does not
    /// make a call of `exit` on this thread wait for pending operations.
    pub(crate) fn uncounted_at_exit(self: &Arc<Self>) -> Ticket {
        self.count.fetch_add(1, SeqCst);
        Ticket(self.clone())
    }

    /// Records the start of a tracked run.
    pub(crate) fn began_run(&self, launch_id: i32) {
        if launch_id != 0 {
            *self.launches.lock().unwrap_or_else(PoisonError::into_inner).entry(launch_id).or_default() += 1;
        }
    }

    /// Returns the launch ids of the pending tracked runs, except 0.
    pub(crate) fn launch_ids(&self) -> Vec<i32> {
        self.launches.lock().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
    }

    /// Records the end of a tracked run. Returns `true` if the number of ended runs is a power of two. The caller then
    /// calls `exit::guard` again, because plugins create static objects at the first run of a program. Powers of two
    /// limit the number of exit handlers that are registered.
    pub(crate) fn ended_run(&self, launch_id: i32) -> bool {
        if launch_id != 0 {
            let mut launches = self.launches.lock().unwrap_or_else(PoisonError::into_inner);
            if let Entry::Occupied(mut pending) = launches.entry(launch_id) {
                *pending.get_mut() -= 1;
                if *pending.get() == 0 {
                    pending.remove();
                }
            }
        }
        (self.runs.fetch_add(1, Relaxed) + 1).is_power_of_two()
    }

    /// Waits until no operation is pending, or until the deadline. Returns the number of operations that are still
    /// pending.
    pub(crate) fn wait(&self, until: Instant) -> usize {
        // Increment `waiters` before reading `count`. A ticket's destructor decrements `count` before it reads
        // `waiters`. So either the destructor sees this waiter and notifies it, or this waiter sees the new count.
        self.waiters.fetch_add(1, SeqCst);
        let mut guard = self.lock();
        let left = loop {
            let count = self.count.load(SeqCst);
            let rest = until.saturating_duration_since(Instant::now());
            if count == 0 || rest.is_zero() {
                break count;
            }
            guard = self.ended.wait_timeout(guard, rest).unwrap_or_else(PoisonError::into_inner).0;
        };
        drop(guard);
        self.waiters.fetch_sub(1, SeqCst);
        left
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, SeqCst) == 1 && self.0.waiters.load(SeqCst) > 0 {
            // Take the lock before notifying. A waiter that holds the lock may have read the old count without waiting
            // yet, and would miss a notification.
            let guard = self.0.lock();
            self.0.ended.notify_all();
            drop(guard);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn far() -> Instant {
        Instant::now() + Duration::from_secs(600)
    }

    #[test]
    fn idle_wait_returns_at_once() {
        assert_eq!(Arc::new(InFlight::default()).wait(Instant::now()), 0);
    }

    #[test]
    fn launch_ids_of_pending_runs() {
        let in_flight = InFlight::default();
        [0, 7, 7, -1].into_iter().for_each(|id| in_flight.began_run(id));
        in_flight.ended_run(7);
        assert_eq!(in_flight.launch_ids(), [-1, 7]);
        [0, 7, -1].into_iter().for_each(|id| _ = in_flight.ended_run(id));
        assert_eq!(in_flight.launch_ids(), []);
    }

    #[test]
    fn deadline_ends_wait() {
        let in_flight = Arc::new(InFlight::default());
        let (_one, _two) = (in_flight.ticket(), in_flight.ticket());
        assert_eq!(in_flight.wait(Instant::now()), 2);
    }

    #[test]
    fn last_ticket_ends_wait() {
        for _ in 0..1000 {
            let in_flight = Arc::new(InFlight::default());
            let tickets = [in_flight.ticket(), in_flight.ticket()];
            let threads = tickets.map(|ticket| std::thread::spawn(move || drop(ticket)));
            assert_eq!(in_flight.wait(far()), 0);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        }
    }
}
