//! The list of a client's deferred launches.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::Error;

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A lock is never poisoned, because no code here panics while it holds one.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A deferred launch, without its backend.
pub(super) trait Cancel: Send + Sync {
    /// Fails the launch, together with the launches of the same call on other devices. Returns `false` if another
    /// thread has already started or failed the launch.
    fn cancel(&self, error: &Error) -> bool;
}

/// The deferred launches of a client.
#[derive(Default)]
pub(crate) struct DeferredLaunches(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    next: u64,
    /// The waiting calls, in ascending order of `number`.
    waiting: Vec<Entry>,
}

struct Entry {
    number: u64,
    devices: Vec<usize>,
    launch_id: i32,
    deferred: Weak<dyn Cancel>,
}

impl DeferredLaunches {
    /// Adds the launches of a call, which `create` creates with their number.
    pub(super) fn add<L: Cancel + 'static>(
        &self,
        devices: Vec<usize>,
        launch_id: i32,
        create: impl FnOnce(u64) -> L,
    ) -> Arc<L> {
        let mut entries = lock(&self.0);
        let number = entries.next;
        entries.next += 1;
        let launch = Arc::new(create(number));
        let deferred: Weak<L> = Arc::downgrade(&launch);
        entries.waiting.push(Entry { number, devices, launch_id, deferred });
        launch
    }

    /// Removes the launches with a number from the list.
    pub(super) fn remove(&self, number: u64) {
        let mut entries = lock(&self.0);
        let at = entries.waiting.partition_point(|entry| entry.number < number);
        let entry = entries.waiting.get(at).is_some_and(|entry| entry.number == number);
        let entry = entry.then(|| entries.waiting.remove(at));
        drop(entries);
        drop(entry);
    }

    /// Fails the earliest deferred launch with this id on the device, together with the launches of the same call on
    /// other devices. Returns `false` if no deferred launch on the device has this id.
    pub(crate) fn poison(&self, device: usize, launch_id: i32, error: &Error) -> bool {
        let found = {
            let entries = lock(&self.0);
            let is_it = |entry: &&Entry| entry.launch_id == launch_id && entry.devices.contains(&device);
            entries.waiting.iter().find(is_it).and_then(|entry| entry.deferred.upgrade())
        };
        found.is_some_and(|deferred| deferred.cancel(error))
    }
}
