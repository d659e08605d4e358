//! Threads of the SDK, for work that must not run on the thread that triggers it.
//!
//! An event may be completed on a driver's thread, where a backend must not call the driver again. It may also be
//! completed on a framework's thread, which a launch of another program should not delay. Work that waited for such an
//! event therefore runs on the SDK's threads. These threads start on demand, and the SDK keeps a few of them while they
//! are idle.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
#[cfg(unix)]
use std::time::Instant;

use crate::contain::contain;

/// A unit of work that a thread of a group runs. The job reports its own errors. A panic ends the job but not the
/// thread.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// A group of threads with a common job queue.
pub(crate) struct Threads {
    name: &'static str,
    /// Maximum number of threads.
    most: usize,
    state: Mutex<State>,
    wake: Condvar,
}

struct State {
    /// Id of the process that owns the threads, or 0 before the first job. The threads do not exist in a fork of this
    /// process.
    process: u32,
    jobs: VecDeque<Job>,
    /// Number of threads that wait for a job, including those that were woken for a job and have not taken it yet.
    idle: usize,
    /// Number of threads in the group.
    count: usize,
}

/// Threads that run deferred launches and waits for drivers. Each simultaneous job needs its own thread, because
/// launches may wait for each other, as the participants of a collective operation do.
pub(crate) static LAUNCHES: Threads = Threads::new("pjrt launch", usize::MAX);

/// Threads for work that waited for an event and calls a backend or a framework: reads, copies and callbacks. No such
/// job may wait for another one, so a few threads are enough.
pub(crate) static COMPLETIONS: Threads = Threads::new("pjrt completion", 4);

/// Maximum number of idle threads that a group keeps for later jobs. Other threads end when no job is left.
const KEPT: usize = 4;

/// Stack size of a thread in bytes. Backends may compute on these threads, so the stack is as large as the usual stack
/// of a main thread.
const STACK: usize = 8 << 20;

/// The number of calls of [`changed`] since a thread first called [`rest`], and a condition variable that signals each
/// of these calls.
static CHANGES: (Mutex<u64>, Condvar) = (Mutex::new(0), Condvar::new());
/// Whether a thread has called [`rest`].
static AWAITED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether this thread belongs to a group of the SDK.
    static OWN: Cell<bool> = const { Cell::new(false) };
}

/// Waits until [`LAUNCHES`] and [`COMPLETIONS`] are idle and `others` returns `false`. `others` returns whether work
/// outside the groups is in progress. Returns `false` if the deadline `until` passes first. On a thread of a group,
/// returns `false` immediately, because the thread would wait for itself. Called only at the end of a process on Unix.
#[cfg(unix)]
pub(crate) fn rest(until: Instant, others: impl Fn() -> bool) -> bool {
    if OWN.get() {
        return false;
    }
    AWAITED.store(true, Ordering::SeqCst);
    let mut changes = CHANGES.0.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let seen = *changes;
        drop(changes);
        // Check `COMPLETIONS` last, because a launch may submit work to it.
        if !others() && LAUNCHES.lock().is_at_rest() && COMPLETIONS.lock().is_at_rest() {
            return true;
        }
        changes = CHANGES.0.lock().unwrap_or_else(PoisonError::into_inner);
        while *changes == seen {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            changes = CHANGES.1.wait_timeout(changes, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Makes a thread that waits in [`rest`] check its conditions again.
pub(crate) fn changed() {
    if AWAITED.load(Ordering::SeqCst) {
        *CHANGES.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        CHANGES.1.notify_all();
    }
}

#[cfg(unix)]
impl State {
    fn is_at_rest(&self) -> bool {
        self.jobs.is_empty() && self.idle == self.count
    }
}

impl Threads {
    const fn new(name: &'static str, most: usize) -> Self {
        let state = State { process: 0, jobs: VecDeque::new(), idle: 0, count: 0 };
        Self { name, most, state: Mutex::new(state), wake: Condvar::new() }
    }

    /// Locks the state. Ignores poisoning, because jobs run without this lock and therefore cannot leave the state
    /// inconsistent.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job to the queue of the group's threads. Creates a thread if no idle thread can take the job and the
    /// group has fewer than `most` threads.
    ///
    /// # Errors
    ///
    /// Returns the job if the system cannot create a thread, and the group has no other thread that could run it later.
    pub(crate) fn submit(&'static self, job: Job) -> Result<(), Job> {
        let mut state = self.lock();
        let process = std::process::id();
        if state.process != process {
            // In a forked process, the jobs in the queue belong to the parent. Leak them, because they own objects that
            // the parent uses.
            std::mem::forget(std::mem::take(&mut state.jobs));
            (state.process, state.idle, state.count) = (process, 0, 0);
        }
        state.jobs.push_back(job);
        if state.idle >= state.jobs.len() {
            drop(state);
            self.wake.notify_one();
        } else if state.count < self.most {
            let thread = Builder::new().name(self.name.to_owned()).stack_size(STACK);
            match thread.spawn(|| self.work()) {
                Ok(_) => state.count += 1,
                Err(_) if state.count == 0 => return state.jobs.pop_back().map_or(Ok(()), Err),
                // An existing thread runs the job later.
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Adds a job to the queue of the group's threads. If the group has no thread and the system cannot create one,
    /// runs the job on this thread.
    pub(crate) fn submit_or_run(&'static self, job: Job) {
        if let Err(job) = self.submit(job) {
            run(job);
        }
    }

    /// Runs jobs on this thread. Returns when no job is left and the group already has [`KEPT`] idle threads.
    fn work(&self) {
        OWN.set(true);
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                run(job);
                state = self.lock();
            } else if state.idle >= KEPT {
                state.count -= 1;
                drop(state);
                return changed();
            } else {
                state.idle += 1;
                changed();
                state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
    }
}

fn run(job: Job) {
    // The job reports its own errors. A panic is discarded, because no caller waits for the job on this thread.
    let _ = contain(|| {
        job();
        Ok(())
    });
}

/// Whether a thread has called [`rest`].
#[cfg(all(test, unix))]
pub(crate) fn is_awaited() -> bool {
    AWAITED.load(Ordering::SeqCst)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::sync::{Arc, Barrier};

    use super::*;

    #[test]
    fn runs_jobs_that_wait_for_each_other() {
        static THREADS: Threads = Threads::new("test", usize::MAX);
        const JOBS: usize = 20;
        let (barrier, (sender, receiver)) = (Arc::new(Barrier::new(JOBS)), channel());
        for _ in 0..3 {
            for job in 0..JOBS {
                let (barrier, sender) = (Arc::clone(&barrier), sender.clone());
                let job = move || {
                    barrier.wait();
                    sender.send(job).unwrap();
                };
                assert!(THREADS.submit(Box::new(job)).is_ok());
            }
            let mut ran: Vec<_> = receiver.iter().take(JOBS).collect();
            ran.sort_unstable();
            assert_eq!(ran, (0..JOBS).collect::<Vec<_>>());
        }
    }

    #[test]
    fn thread_survives_panic() {
        static THREADS: Threads = Threads::new("test", 1);
        let (sender, receiver) = channel();
        THREADS.submit_or_run(Box::new(|| panic!("on purpose")));
        for job in 0..100 {
            let sender = sender.clone();
            THREADS.submit_or_run(Box::new(move || sender.send((job, std::thread::current().id())).unwrap()));
        }
        let ran: Vec<_> = receiver.iter().take(100).collect();
        assert!(ran.iter().map(|(job, _)| *job).eq(0..100), "in order");
        assert!(ran.iter().all(|(_, thread)| *thread == ran[0].1 && *thread != std::thread::current().id()));
    }
}
