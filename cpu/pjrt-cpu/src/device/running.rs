//! Tracks the executions that have not ended. The framework stops them after the failure of a peer, and the client
//! stops them when it is destroyed.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use device_plugin::{Completer, Error, ErrorCode, Event, Result};

use stablehlo_cpu::{Communicator, Stop};

/// The executions that have not ended, in launch order.
pub(crate) struct Running {
    executions: Mutex<Executions>,
    /// Notified when an execution ends while a thread waits for it.
    ended: Condvar,
    /// Number of executions of a device that may be in flight before [`Running::wait_for_room`] waits.
    max_per_device: usize,
}

#[derive(Default)]
struct Executions {
    next: u64,
    all: BTreeMap<u64, Entry>,
    /// Number of executions of each device for which no caller waits.
    per_device: BTreeMap<usize, usize>,
    /// Number of threads in [`Running::wait_until_none`].
    waiting: usize,
    /// Number of threads in [`Running::wait_for_room`].
    waiting_for_room: usize,
    /// Whether the process is ending. If so, no execution starts any more, and events of ended executions stay pending.
    frozen: bool,
}

/// Identifies an execution, and holds the [`Communicator`] that is needed to stop it.
#[derive(Default)]
pub(crate) struct Target {
    pub(crate) device: usize,
    /// The framework's launch ID. `None` for transfers.
    pub(crate) launch_id: Option<i32>,
    /// Whether the execution has effects other than its outputs.
    pub(crate) has_side_effects: bool,
    /// Whether the call that starts the execution waits for its end. Such an execution does not count toward the limit.
    /// Transfers do not count either, because their end may depend on later launches.
    pub(crate) is_awaited: bool,
    /// The communicator in which the execution may wait for other members.
    pub(crate) communicator: Option<Arc<Communicator>>,
}

struct Entry {
    target: Target,
    stop: Stop,
    phase: Phase,
}

enum Phase {
    /// The inputs of the execution are not ready, or no thread is free. The execution can be ended immediately.
    Waiting(Completer),
    /// The execution has begun and uses the framework's memory until it ends. If an error is set, the execution ends
    /// with this error.
    Started(Option<Error>),
    /// The execution has ended. Its waiting threads and callbacks are being notified.
    Ended,
}

/// A stopped execution. Its waiters are notified after the lock is released.
struct Stopped {
    completer: Option<Completer>,
    communicator: Option<Arc<Communicator>>,
    error: Error,
}

impl Entry {
    /// Returns whether the execution can still fail. An execution that has already ended or failed cannot fail.
    fn can_fail(&self) -> bool {
        matches!(self.phase, Phase::Waiting(_) | Phase::Started(None))
    }

    /// Records the error and requests that the execution stop.
    fn stop(&mut self, error: &Error) -> Stopped {
        self.stop.request();
        let completer = match std::mem::replace(&mut self.phase, Phase::Started(Some(error.clone()))) {
            Phase::Started(_) | Phase::Ended => None,
            Phase::Waiting(completer) => Some(completer),
        };
        Stopped { completer, communicator: self.target.communicator.clone(), error: error.clone() }
    }
}

impl Stopped {
    /// Notifies the waiters of the execution. Their callbacks run on this thread.
    fn tell(self) {
        if let Some(communicator) = self.communicator {
            communicator.stop(self.error.message());
        }
        if let Some(completer) = self.completer {
            completer.complete_inline(Err(self.error));
        }
    }
}

impl Executions {
    fn insert(&mut self, entry: Entry) -> u64 {
        let number = self.next;
        self.next += 1;
        if !entry.target.is_awaited {
            *self.per_device.entry(entry.target.device).or_default() += 1;
        }
        self.all.insert(number, entry);
        number
    }

    fn remove(&mut self, number: u64) -> Option<Entry> {
        let entry = self.all.remove(&number)?;
        if !entry.target.is_awaited
            && let Some(count) = self.per_device.get_mut(&entry.target.device)
        {
            *count -= 1;
        }
        Some(entry)
    }
}

impl Running {
    /// Creates an empty set. [`Running::wait_for_room`] waits while a device has `max_per_device` or more executions in
    /// flight.
    pub(crate) fn new(max_per_device: usize) -> Self {
        Self { executions: Mutex::default(), ended: Condvar::new(), max_per_device }
    }

    fn lock(&self) -> MutexGuard<'_, Executions> {
        self.executions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an execution. The event becomes ready when the execution ends, when it is stopped before it has begun, or
    /// when its ticket is dropped.
    ///
    /// # Errors
    ///
    /// Returns `CANCELLED` if the process is ending.
    pub(crate) fn add(self: &Arc<Self>, target: Target) -> Result<(Event, Ticket)> {
        let (event, completer) = Event::pending();
        let stop = Stop::new();
        let mut executions = self.lock();
        if executions.frozen {
            return Err(Error::new(
                ErrorCode::CANCELLED,
                "the process ends: no program that takes long is run any more",
            ));
        }
        let number = executions.insert(Entry { target, stop: stop.clone(), phase: Phase::Waiting(completer) });
        Ok((event, Ticket { running: Arc::clone(self), number, stop }))
    }

    /// Waits until each of the devices has fewer executions in flight than the limit, or the process is ending. A
    /// framework that launches programs faster than they run therefore holds a bounded number of inputs and outputs.
    ///
    /// Does not wait on a thread of the client (`is_own_thread`), because the execution on this thread may be the one
    /// that must end.
    pub(crate) fn wait_for_room(&self, devices: &[usize], is_own_thread: impl FnOnce() -> bool) {
        let mut executions = self.lock();
        let count = |executions: &Executions, device| executions.per_device.get(device).copied().unwrap_or(0);
        let is_full = |executions: &Executions| {
            !executions.frozen && devices.iter().any(|device| count(executions, device) >= self.max_per_device)
        };
        if !is_full(&executions) {
            return;
        }
        drop(executions);
        if is_own_thread() {
            return;
        }
        executions = self.lock();
        executions.waiting_for_room += 1;
        while is_full(&executions) {
            executions = self.ended.wait(executions).unwrap_or_else(PoisonError::into_inner);
        }
        executions.waiting_for_room -= 1;
    }

    /// Fails the earliest execution with this launch ID on this device that has neither ended nor failed. Returns
    /// `false` if there is no such execution. If the execution has begun, it ends after the current step.
    pub(crate) fn poison(&self, device: usize, launch_id: i32, error: &Error) -> bool {
        let stopped = {
            let mut executions = self.lock();
            let is_it = |entry: &&mut Entry| {
                (entry.target.device, entry.target.launch_id) == (device, Some(launch_id)) && entry.can_fail()
            };
            executions.all.values_mut().find(is_it).map(|entry| entry.stop(error))
        };
        let found = stopped.is_some();
        stopped.into_iter().for_each(Stopped::tell);
        found
    }

    /// Fails all executions that have neither ended nor failed. Unless `with_side_effects` is set, omits the executions
    /// with side effects.
    pub(crate) fn stop_all(&self, with_side_effects: bool, error: &Error) {
        let stopped: Vec<_> = {
            let mut executions = self.lock();
            let is_meant =
                |entry: &&mut Entry| entry.can_fail() && (with_side_effects || !entry.target.has_side_effects);
            executions.all.values_mut().filter(is_meant).map(|entry| entry.stop(error)).collect()
        };
        stopped.into_iter().for_each(Stopped::tell);
    }

    /// Stops all executions permanently. Their events never become ready, because the framework may be partly
    /// destroyed. If a Python thread stopped waiting for an event at this point, the interpreter would end the thread,
    /// and thereby the process.
    pub(crate) fn freeze(&self) {
        let mut executions = self.lock();
        executions.frozen = true;
        let mut worlds = Vec::new();
        // No execution starts after this point, so the counts are not used again.
        executions.per_device.clear();
        executions.all.retain(|_, entry| {
            entry.stop.request();
            worlds.extend(entry.target.communicator.clone());
            // A waiting execution never begins, so remove it. Its event stays pending.
            match std::mem::replace(&mut entry.phase, Phase::Ended) {
                Phase::Waiting(completer) => {
                    std::mem::forget(completer);
                    false
                }
                phase => {
                    entry.phase = phase;
                    true
                }
            }
        });
        drop(executions);
        self.ended.notify_all();
        // Release members that wait for other members, so that their executions end.
        worlds.iter().for_each(|communicator| communicator.stop("the process ends"));
    }

    /// Returns whether [`Running::freeze`] was called.
    pub(crate) fn is_frozen(&self) -> bool {
        self.lock().frozen
    }

    /// If the process is ending, removes execution `number` and parks this thread, so that the thread does not report
    /// the end of the execution.
    fn park_if_frozen(&self, number: u64) {
        let mut executions = self.lock();
        if !executions.frozen {
            return;
        }
        executions.remove(number);
        drop(executions);
        self.ended.notify_all();
        loop {
            std::thread::park();
        }
    }

    /// Waits until all executions have ended and their callbacks have run. Returns `false` on a timeout.
    pub(crate) fn wait_until_none(&self, longest: Duration) -> bool {
        let start = Instant::now();
        let mut executions = self.lock();
        executions.waiting += 1;
        while !executions.all.is_empty() {
            let Some(left) = longest.checked_sub(start.elapsed()) else { break };
            executions = self.ended.wait_timeout(executions, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        executions.waiting -= 1;
        executions.all.is_empty()
    }
}

/// The right to run one of the executions.
pub(crate) struct Ticket {
    running: Arc<Running>,
    number: u64,
    stop: Stop,
}

impl Ticket {
    /// Runs the execution and makes its event ready, unless the execution was poisoned before. The work ends early
    /// after a stop request.
    pub(crate) fn run(self, work: impl FnOnce(&Stop) -> Result<()>) {
        let begun = {
            let mut executions = self.running.lock();
            let phase = executions.all.get_mut(&self.number).map(|entry| &mut entry.phase);
            phase.map(|phase| match phase {
                Phase::Waiting(_) => std::mem::replace(phase, Phase::Started(None)),
                Phase::Started(_) | Phase::Ended => Phase::Ended,
            })
        };
        let Some(Phase::Waiting(completer)) = begun else { return };
        completer.run_inline(|| {
            let result = work(&self.stop);
            self.running.park_if_frozen(self.number);
            let mut executions = self.running.lock();
            let phase = executions.all.get_mut(&self.number).map(|entry| &mut entry.phase);
            match phase.map(|phase| std::mem::replace(phase, Phase::Ended)) {
                Some(Phase::Started(Some(error))) => Err(error),
                _ => result,
            }
        });
        // The ticket is dropped after the callbacks have run, so that an ending process can also wait for the
        // callbacks.
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let (entry, is_awaited) = {
            let mut executions = self.running.lock();
            let entry = executions.remove(self.number);
            let is_last = executions.waiting > 0 && executions.all.is_empty();
            (entry, is_last || executions.waiting_for_room > 0)
        };
        if is_awaited {
            self.running.ended.notify_all();
        }
        // Drop the entry after releasing the lock.
        drop(entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error() -> Error {
        Error::new(ErrorCode::ABORTED, "a peer is lost")
    }

    fn on(device: usize, launch_id: i32) -> Target {
        Target { device, launch_id: Some(launch_id), ..Target::default() }
    }

    #[test]
    fn poison_fails_earliest_matching_execution() {
        let running = Arc::new(Running::new(32));
        let (first, one) = running.add(on(0, 7)).unwrap();
        let (second, two) = running.add(on(0, 7)).unwrap();
        let (other, three) = running.add(on(1, 7)).unwrap();
        assert!(!running.poison(0, 8, &error()) && !running.poison(2, 7, &error()));
        assert!(running.poison(0, 7, &error()));
        assert_eq!(first.result(), Some(Err(error())));
        assert!(second.result().is_none() && other.result().is_none());
        one.run(|_| panic!("it does not run any more"));
        three.run(|stop| {
            assert!(!stop.is_requested());
            Ok(())
        });
        assert_eq!(other.result(), Some(Ok(())));
        assert!(running.poison(0, 7, &error()));
        assert!(!running.poison(0, 7, &error()), "once each");
        two.run(|_| panic!("it does not run any more"));
        assert!(running.lock().all.is_empty());
    }

    #[test]
    fn stop_request_fails_execution_at_its_end() {
        let running = Arc::new(Running::new(32));
        let (event, ticket) = running.add(on(0, 1)).unwrap();
        let within = (Arc::clone(&running), event.clone());
        ticket.run(move |stop| {
            assert!(!stop.is_requested());
            assert!(within.0.poison(0, 1, &error()));
            assert!(stop.is_requested());
            assert!(!within.0.poison(0, 1, &error()), "once each");
            assert!(!within.1.is_ready(), "it uses what it was given");
            Ok(())
        });
        assert!(!running.poison(0, 1, &error()), "it has ended");
        assert_eq!(event.result(), Some(Err(error())));
        let (event, ticket) = running.add(on(0, 1)).unwrap();
        ticket.run(|_| panic!("on purpose"));
        assert_eq!(event.result().unwrap().unwrap_err().code(), ErrorCode::INTERNAL);
        let (event, ticket) = running.add(on(0, 1)).unwrap();
        drop(ticket);
        assert_eq!(event.result().unwrap().unwrap_err().code(), ErrorCode::CANCELLED);
        assert!(!running.poison(0, 1, &error()));
        assert!(running.lock().all.is_empty());
    }

    #[test]
    fn stops_side_effects_last() {
        let running = Arc::new(Running::new(32));
        let (pure, one) = running.add(on(0, 1)).unwrap();
        let (effectful, two) = running.add(Target { has_side_effects: true, ..on(0, 2) }).unwrap();
        running.stop_all(false, &error());
        assert_eq!((pure.result(), effectful.result()), (Some(Err(error())), None));
        assert!(!running.wait_until_none(Duration::ZERO));
        running.stop_all(true, &error());
        assert_eq!(effectful.result(), Some(Err(error())));
        drop((one, two));
        assert!(running.wait_until_none(Duration::ZERO));
    }

    #[test]
    fn process_exit_notifies_nobody() {
        let running = Arc::new(Running::new(32));
        let (waiting, kept) = running.add(on(0, 1)).unwrap();
        let (started, ticket) = running.add(on(0, 2)).unwrap();
        let (begin, begun) = std::sync::mpsc::channel();
        // The thread never ends, like the threads of an ending process.
        std::thread::spawn(move || {
            ticket.run(|stop| {
                begin.send(()).unwrap();
                while !stop.is_requested() {
                    std::thread::yield_now();
                }
                Err(error())
            });
        });
        begun.recv().unwrap();
        running.freeze();
        assert!(running.wait_until_none(Duration::from_secs(600)));
        kept.run(|_| panic!("it does not run any more"));
        assert_eq!((waiting.result(), started.result()), (None, None));
        assert_eq!(running.add(on(0, 3)).map(drop).unwrap_err().code(), ErrorCode::CANCELLED);
    }

    #[test]
    fn callers_wait_for_room_on_their_devices() {
        let running = Arc::new(Running::new(2));
        running.wait_for_room(&[0], || false);
        let mut tickets = [0, 0, 1].map(|device| running.add(on(device, 1)).unwrap().1).into_iter();
        // The other devices have room, and the client's threads never wait.
        running.wait_for_room(&[0], || true);
        running.wait_for_room(&[1, 2], || false);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| running.wait_for_room(&[1, 0], || false));
            while running.lock().waiting_for_room == 0 {
                std::thread::yield_now();
            }
            assert!(!waiting.is_finished());
            tickets.next().unwrap().run(|_| Ok(()));
            waiting.join().unwrap();
        });
        // An execution of a failed launch also makes room when it is dropped.
        let (_, ticket) = running.add(on(0, 1)).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| running.wait_for_room(&[0], || false));
            drop(ticket);
            waiting.join().unwrap();
        });
        drop(tickets);
        assert!(running.lock().per_device.values().all(|count| *count == 0));
    }

    #[test]
    fn ending_process_releases_callers_that_wait_for_room() {
        let running = Arc::new(Running::new(1));
        let (_, ticket) = running.add(on(0, 1)).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| running.wait_for_room(&[0], || false));
            while running.lock().waiting_for_room == 0 {
                std::thread::yield_now();
            }
            running.freeze();
            waiting.join().unwrap();
        });
        drop(ticket);
    }

    #[test]
    fn waiting_ends_with_the_last_execution() {
        let running = Arc::new(Running::new(32));
        let (_, ticket) = running.add(on(0, 1)).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| running.wait_until_none(Duration::from_secs(600)));
            while running.lock().waiting == 0 {
                std::thread::yield_now();
            }
            drop(ticket);
            assert!(waiting.join().unwrap());
        });
    }
}
