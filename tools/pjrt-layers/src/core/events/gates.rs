//! Gates. A gate makes an event ready for the framework later than in the plugin, or never.
//!
//! The framework receives a handle of this crate in place of the plugin's handle, because a plugin may return the same
//! handle for several events. The module `gated_calls` answers calls with the new handle, or forwards them with the
//! plugin's handle.

use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::with_exposed_provenance_mut;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use pjrt_sys::{AbiStruct, PJRT_Error, PJRT_Event_OnReady_Args, Slot, slot};

use crate::core::plugin::{ask, errors, send};
use crate::core::tables::Copies;

/// A callback of an event.
pub(in crate::core) type Callback = unsafe extern "C" fn(*mut PJRT_Error, *mut c_void);

/// The gates of the events of a stack of layers.
#[derive(Default)]
pub(in crate::core) struct Gates {
    /// The gates, by the handles that the framework received.
    gates: Mutex<HashMap<usize, Gate>>,
    /// The number of gates. If it is 0, a call does not lock `gates`.
    count: AtomicUsize,
    pub(super) opened: Condvar,
}

pub(super) struct Gate {
    /// The plugin's handle.
    pub(super) event: usize,
    pub(super) is_open: bool,
    /// The callbacks that were registered while the gate was closed, each with its argument.
    pub(super) callbacks: Vec<(Callback, usize)>,
    pub(super) is_destroyed: bool,
}

impl Gates {
    /// Creates a closed gate in front of an event. Returns the handle for the framework. This handle is never reused.
    pub(in crate::core) fn close(&self, event: usize) -> usize {
        let handle = std::ptr::from_ref(Box::leak(Box::new(0_u64))).expose_provenance();
        let gate = Gate { event, is_open: false, callbacks: Vec::new(), is_destroyed: false };
        self.lock().insert(handle, gate);
        self.count.fetch_add(1, Ordering::Release);
        handle
    }

    /// Opens the gate whose event has the handle `handle` in the framework. Queries of this event then return the
    /// event's state in the plugin.
    pub(in crate::core) fn open(&self, plugin: &Copies, handle: usize) {
        let mut gates = self.lock();
        let Some(gate) = gates.get_mut(&handle) else { return };
        gate.is_open = true;
        let (event, callbacks) = (gate.event, std::mem::take(&mut gate.callbacks));
        let is_destroyed = gate.is_destroyed;
        if is_destroyed {
            self.remove(&mut gates, handle);
        }
        drop(gates);
        self.opened.notify_all();
        for (callback, argument) in callbacks {
            // SAFETY: L5 (callbacks): the gate kept this callback, which has not been called yet. The event is
            // destroyed below or by the framework later.
            unsafe { register_late(plugin, event, callback, with_exposed_provenance_mut(argument)) };
        }
        if is_destroyed {
            // An error cannot be handled, because the framework has already destroyed its handle of the event.
            let _ = ask!(plugin, PJRT_Event_Destroy { event: with_exposed_provenance_mut(event) });
        }
    }

    /// Returns whether gates exist.
    #[inline]
    pub(in crate::core) fn exist(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<usize, Gate>> {
        self.gates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn remove(&self, gates: &mut HashMap<usize, Gate>, handle: usize) {
        if gates.remove(&handle).is_some() {
            self.count.fetch_sub(1, Ordering::Release);
        }
    }
}

/// Registers a callback with the plugin after the framework's call has returned. If the registration fails, the
/// callback receives the error.
///
/// # Safety
///
/// Contract L5 must hold for the callback and its argument. The event must be live.
unsafe fn register_late(plugin: &Copies, event: usize, callback: Callback, argument: *mut c_void) {
    let event = with_exposed_provenance_mut(event);
    let mut args = PJRT_Event_OnReady_Args { event, ..PJRT_Event_OnReady_Args::new() };
    (args.callback, args.user_arg) = (Some(callback), argument);
    // SAFETY: L10 (queries): the event is live by this function's contract.
    let error = unsafe { send::<slot::PJRT_Event_OnReady>(plugin, &mut args) };
    let error =
        error.unwrap_or_else(|| errors::into_raw(errors::missing(plugin.version().1, slot::PJRT_Event_OnReady::NAME)));
    if !error.is_null() {
        // SAFETY: L5 (callbacks): a failed registration never calls back, so this is the callback's only call.
        unsafe { callback(error, argument) };
    }
}
