//! The settings, the injected failures and the records of a dummy driver.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use device_plugin::{Error, ErrorCode, Result};
use device_runtime::{QueueId, QueueKind};

/// What a test and its driver share.
pub(crate) struct Control {
    pub(crate) id: i64,
    pub(crate) settings: Settings,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) devices: usize,
    /// Limit of the memory of each device in bytes.
    pub(crate) limit: usize,
    /// Seed of the random delays. Without a seed, works are not delayed.
    pub(crate) seed: Option<u64>,
    /// Whether the devices can copy memory of each other.
    pub(crate) peers: bool,
    /// Id of the first device.
    pub(crate) first_id: i32,
    /// Limit of the memory `pinned_host` of each device. Without a limit, there is no such memory.
    pub(crate) pinned_limit: Option<usize>,
    /// Bytes that all memories of all devices share.
    pub(crate) physical: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            devices: 2,
            limit: 1 << 20,
            seed: None,
            peers: true,
            first_id: 0,
            pinned_limit: None,
            physical: usize::MAX,
        }
    }
}

#[derive(Default)]
pub(crate) struct State {
    /// Queues that do not begin works.
    held: HashSet<QueueKey>,
    lost: HashSet<usize>,
    /// Numbers of calls so far, counted from 1.
    pub(crate) allocations: u64,
    pub(crate) prepares: u64,
    pub(crate) works: u64,
    /// Numbers of the calls that fail with `RESOURCE_EXHAUSTED`.
    pub(crate) failing_allocations: Vec<u64>,
    pub(crate) failing_prepares: Vec<u64>,
    /// Numbers of the works that fail with `DATA_LOSS`.
    pub(crate) failing_works: Vec<u64>,
    /// Numbers of the works at which the device is lost.
    pub(crate) losing_works: Vec<u64>,
    /// Bytes of device memory that exist.
    pub(crate) allocated: usize,
    /// Whether the runtime may leak device memory.
    pub(crate) may_leak: bool,
    /// Number of completions that exist.
    pub(crate) completions: usize,
    /// The number of unfinished works of each queue, now and at most.
    in_flight: HashMap<QueueKey, (usize, usize)>,
    /// For each work, the number of completions that it waited for.
    pub(crate) waited_for: Vec<usize>,
    /// Whether each launch used the memory of an input for an output.
    pub(crate) in_place: Vec<bool>,
    /// The memory kinds of the inputs and of the outputs of each prepared launch.
    pub(crate) kinds: Vec<[Vec<&'static str>; 2]>,
    /// The device and the program of each launch, in the order of the launches.
    pub(crate) launched: Vec<(usize, String)>,
    /// Queues for which the driver has reported that the device is lost.
    pub(crate) reported_lost: HashSet<QueueKey>,
    /// Number of programs that the driver loaded without compiling them.
    pub(crate) loaded: usize,
    /// Address and size of each allocation of pinned memory.
    pub(crate) pinned: Vec<(usize, usize)>,
    /// Number of copies to the device from pinned memory.
    pub(crate) pinned_copies: usize,
    /// The stream, and the number of operations that it waits for, of each wait.
    pub(crate) stream_waits: Vec<(isize, usize)>,
    /// The bytes of device memory by address.
    memories: HashMap<usize, Weak<Mutex<Vec<u8>>>>,
    /// Whether the driver has been dropped.
    pub(crate) closed: bool,
    /// Promises that the runtime did not keep.
    pub(crate) violations: Vec<String>,
}

/// The device of a queue, and the kind of its works.
pub(crate) type QueueKey = (usize, QueueKind);

pub(crate) fn key(queue: QueueId) -> QueueKey {
    (queue.device, queue.kind)
}

static CONTROLS: Mutex<Vec<Arc<Control>>> = Mutex::new(Vec::new());
static NEXT: AtomicI64 = AtomicI64::new(1);

impl Control {
    pub(crate) fn new(settings: Settings) -> Arc<Self> {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let control = Arc::new(Self { id, settings, state: Mutex::default(), changed: Condvar::new() });
        CONTROLS.lock().unwrap().push(Arc::clone(&control));
        control
    }

    /// Takes the control with this id. Each control has one driver.
    pub(crate) fn take(id: i64) -> Option<Arc<Self>> {
        let mut controls = CONTROLS.lock().unwrap();
        let at = controls.iter().position(|control| control.id == id)?;
        Some(controls.remove(at))
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // A failed test must not hide its message behind another panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify(&self) {
        self.changed.notify_all();
    }

    /// Blocks until `done` returns a value.
    pub(crate) fn wait<T>(&self, mut done: impl FnMut(&mut State) -> Option<T>) -> T {
        let mut state = self.state();
        loop {
            if let Some(value) = done(&mut state) {
                return value;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Blocks until `done` returns `true`.
    pub(crate) fn wait_until(&self, mut done: impl FnMut(&State) -> bool) {
        self.wait(|state| done(state).then_some(()));
    }

    /// Changes the state and wakes up all threads.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let value = change(&mut self.state());
        self.notify();
        value
    }

    /// Stops a queue.
    pub(crate) fn hold(&self, device: usize, kind: QueueKind) {
        self.change(|state| state.held.insert((device, kind)));
    }

    /// Continues a queue.
    pub(crate) fn release(&self, device: usize, kind: QueueKind) {
        self.change(|state| state.held.remove(&(device, kind)));
    }

    pub(crate) fn release_all(&self) {
        self.change(|state| state.held.clear());
    }

    pub(crate) fn lose(&self, device: usize) {
        self.change(|state| state.lost.insert(device));
    }

    pub(crate) fn check(&self, device: usize) -> Result<()> {
        self.state().check(device)
    }

    /// Blocks while the queue is held. Returns early if the device is lost.
    pub(crate) fn await_turn(&self, queue: QueueId) {
        self.wait_until(|state| !state.held.contains(&key(queue)) || state.lost.contains(&queue.device));
    }

    /// Sleeps for a random time that depends on the seed and the work.
    pub(crate) fn delay(&self, work: u64) {
        if let Some(seed) = self.settings.seed {
            let mixed = (seed ^ work.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33;
            match mixed % 4 {
                0 => {}
                1 => std::thread::yield_now(),
                _ => std::thread::sleep(Duration::from_micros(mixed % 97)),
            }
        }
    }

    pub(crate) fn violated(&self, what: impl Into<String>) {
        self.state().violations.push(what.into());
    }

    /// Fails the test if the runtime did not keep a promise.
    pub(crate) fn assert_no_violations(&self) {
        assert_eq!(self.state().violations, [""; 0]);
    }

    /// The largest number of unfinished works that a queue had.
    pub(crate) fn most_in_flight(&self, device: usize, kind: QueueKind) -> usize {
        self.state().in_flight.get(&(device, kind)).map_or(0, |(_, most)| *most)
    }
}

impl State {
    pub(crate) fn check(&self, device: usize) -> Result<()> {
        match self.lost.contains(&device) {
            true => Err(Error::new(ErrorCode::UNAVAILABLE, "the dummy fell off the bus")),
            false => Ok(()),
        }
    }

    pub(crate) fn add_memory(&mut self, bytes: &Arc<Mutex<Vec<u8>>>) {
        self.memories.retain(|_, bytes| bytes.strong_count() > 0);
        let address = bytes.lock().unwrap().as_ptr().addr();
        self.memories.insert(address, Arc::downgrade(bytes));
    }

    /// Returns the device memory at an address.
    pub(crate) fn memory(&self, address: usize) -> Option<Arc<Mutex<Vec<u8>>>> {
        self.memories.get(&address)?.upgrade()
    }

    /// Counts a copy from this address if it is in pinned memory.
    pub(crate) fn count_pinned(&mut self, address: usize) {
        let is_pinned = |(start, size): &(usize, usize)| (*start..start + size).contains(&address);
        self.pinned_copies += usize::from(self.pinned.iter().any(is_pinned));
    }

    /// Counts a new work and returns its number.
    pub(crate) fn begin_work(&mut self, queue: QueueId, after: usize) -> u64 {
        let (now, most) = self.in_flight.entry(key(queue)).or_default();
        *now += 1;
        *most = (*most).max(*now);
        self.waited_for.push(after);
        self.works += 1;
        self.works
    }

    pub(crate) fn end_work(&mut self, queue: QueueId) {
        self.in_flight.entry(key(queue)).or_default().0 -= 1;
    }
}
