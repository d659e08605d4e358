//! Gates. A gate makes an event ready for the framework later than in the plugin, or never.
//!
//! The framework receives a handle of this crate in place of the plugin's handle, because a plugin may return the same
//! handle for several events. This module answers calls with the new handle, or forwards them with the plugin's handle.

use std::collections::HashMap;
use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use pjrt_sys::{AbiStruct, PJRT_Error, PJRT_Event_OnReadyCallback, slot};

use super::ask::ask;
use super::call::Call;
use super::ready;
use super::state::State;
use crate::function::{Field, Kind};

/// The gates of the events of a stack of layers.
#[derive(Default)]
pub(super) struct Gates {
    /// The gates, by the handles that the framework received.
    gates: Mutex<HashMap<usize, Gate>>,
    /// The number of gates. If it is 0, a call does not lock `gates`.
    count: AtomicUsize,
    opened: Condvar,
}

struct Gate {
    /// The plugin's handle.
    event: usize,
    is_open: bool,
    /// The callbacks that were registered while the gate was closed, each with its argument.
    callbacks: Vec<(PJRT_Event_OnReadyCallback, usize)>,
    is_destroyed: bool,
}

impl Gates {
    /// Creates a closed gate in front of an event. Returns the handle for the framework. This handle is never reused.
    pub(super) fn close(&self, event: usize) -> usize {
        let handle = std::ptr::from_ref(Box::leak(Box::new(0_u64))).expose_provenance();
        let gate = Gate { event, is_open: false, callbacks: Vec::new(), is_destroyed: false };
        self.lock().insert(handle, gate);
        self.count.fetch_add(1, Ordering::Release);
        handle
    }

    /// Opens the gate whose event has the handle `handle` in the framework. Queries of this event then return the
    /// event's state in the plugin.
    pub(super) fn open(&self, state: &'static State, handle: usize) {
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
            // SAFETY: L5 (callbacks): the framework registered this callback, which has not been called yet. The event
            // is destroyed below or by the framework later.
            unsafe { ready::register_late(state, event, callback, with_exposed_provenance_mut(argument)) };
        }
        if is_destroyed {
            // An error cannot be handled, because the framework has already destroyed its handle of the event.
            let _ = ask!(&state.plugin, PJRT_Event_Destroy { event: with_exposed_provenance_mut(event) });
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<usize, Gate>> {
        self.gates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove(&self, gates: &mut HashMap<usize, Gate>, handle: usize) {
        if gates.remove(&handle).is_some() {
            self.count.fetch_sub(1, Ordering::Release);
        }
    }
}

/// Returns the input field for an event in the arguments of a call, or `None` if the function takes no event.
fn event_field(call: &Call) -> Option<&'static Field> {
    call.function().fields.iter().find(|field| !field.output && matches!(field.kind, Kind::Handle("PJRT_Event")))
}

/// If an argument of the call is a gated event, returns the result of the call or forwards the call with the closure
/// `plugin`. Returns `None` for other calls.
#[inline]
pub(super) fn answer(call: &mut Call, plugin: &dyn Fn(*mut u8) -> *mut PJRT_Error) -> Option<*mut PJRT_Error> {
    let has_gates = call.state().gates.count.load(Ordering::Acquire) > 0;
    if has_gates { answer_gated(call, plugin) } else { None }
}

/// Implements [`answer`] for the case that gates exist.
#[cold]
fn answer_gated(call: &mut Call, plugin: &dyn Fn(*mut u8) -> *mut PJRT_Error) -> Option<*mut PJRT_Error> {
    let gates = &call.state().gates;
    let field = event_field(call)?;
    let handle = call.address(field);
    let mut all = gates.lock();
    let gate = all.get_mut(&handle)?;
    let event = gate.event;
    let is_closed = !gate.is_open;
    if call.is::<slot::PJRT_Event_Destroy>() {
        if is_closed && !gate.callbacks.is_empty() {
            // The callbacks still need the event, so the event is destroyed when the gate opens.
            gate.is_destroyed = true;
            return Some(null_mut());
        }
        gates.remove(&mut all, handle);
    } else if is_closed && call.is::<slot::PJRT_Event_Await>() {
        let closed = |all: &mut HashMap<usize, Gate>| all.get(&handle).is_some_and(|gate| !gate.is_open);
        all = gates.opened.wait_while(all, closed).unwrap_or_else(PoisonError::into_inner);
    } else if is_closed && let Some(args) = call.args::<slot::PJRT_Event_OnReady>() {
        gate.callbacks.push((args.callback, args.user_arg.expose_provenance()));
        return Some(null_mut());
    }
    drop(all);
    let depth = call.depth();
    call.replace(field, event);
    let error = plugin(call.args);
    call.restore(depth);
    if is_closed
        && call.is::<slot::PJRT_Event_IsReady>()
        && let Some(is_ready) = call.function().field("is_ready")
    {
        call.set(is_ready, 0);
    }
    Some(error)
}
