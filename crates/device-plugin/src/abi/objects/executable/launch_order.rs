//! The order in which a backend receives launches on several devices.

use std::cell::Cell;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Prevents deferred launches on several devices from overlapping with other launches on several devices, so that all
/// devices receive them in the same order.
///
/// A device with a queue runs launches in the order in which it receives them. If the devices of a launch wait for each
/// other, all devices must receive such launches in the same order. Otherwise two launches could each block a device
/// that the other launch needs. If a framework calls `Execute` on one thread only, all devices receive the launches in
/// the order of the calls. But the SDK starts deferred launches on its own threads. A deferred launch therefore never
/// overlaps with another call of the backend's `execute_all`. Launches on the framework's own threads may overlap with
/// each other, because the framework chose to overlap them.
#[derive(Default)]
pub(crate) struct Order(RwLock<()>);

/// The lock of a launch on several devices. It is held while the backend receives the launch.
pub(crate) struct Turn<'a> {
    _guard: Option<OrderLock<'a>>,
    outer: bool,
}

#[expect(dead_code, reason = "held for their destructors")]
enum OrderLock<'a> {
    Shared(RwLockReadGuard<'a, ()>),
    Alone(RwLockWriteGuard<'a, ()>),
}

thread_local! {
    /// Whether a backend is receiving launches on this thread. If the backend calls the framework and the framework
    /// executes another program, this nested call must not take the lock again.
    static WITHIN: Cell<bool> = const { Cell::new(false) };
}

impl Order {
    pub(super) fn enter(&self, alone: bool) -> Turn<'_> {
        let outer = WITHIN.replace(true);
        let guard = || match alone {
            true => OrderLock::Alone(self.0.write().unwrap_or_else(PoisonError::into_inner)),
            false => OrderLock::Shared(self.0.read().unwrap_or_else(PoisonError::into_inner)),
        };
        Turn { _guard: (!outer).then(guard), outer }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        WITHIN.set(self.outer);
    }
}
