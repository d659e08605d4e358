//! Callbacks of events. This module informs layers before the framework's callback runs.

use std::cell::Cell;
use std::ffi::c_void;

use pjrt_sys::{AbiStruct, PJRT_Error, PJRT_Event_OnReady_Args, PJRT_Event_OnReadyCallback, Slot, slot};

use super::call::Call;
use super::contain::contain;
use super::errors;
use super::object_tables::ObjectKind;
use super::quiet::Quiet;
use super::send::send;
use super::state::State;

thread_local! {
    /// Number of nested callbacks of events that run on this thread.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Returns whether this thread is in a callback of an event.
pub(super) fn is_inside() -> bool {
    // While a thread ends, the counter may already be destroyed, and the thread does not run a callback.
    DEPTH.try_with(|depth| depth.get() > 0).unwrap_or(false)
}

/// While this value lives, a callback of an event runs on this thread.
struct Inside;

impl Inside {
    fn new() -> Self {
        let _ = DEPTH.try_with(|depth| depth.set(depth.get() + 1));
        Self
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let _ = DEPTH.try_with(|depth| depth.set(depth.get().saturating_sub(1)));
    }
}

/// A callback that the framework registered.
struct Registration {
    callback: PJRT_Event_OnReadyCallback,
    argument: *mut c_void,
    event: usize,
    state: &'static State,
}

/// Registers a callback of this crate in place of the framework's callback, if a layer watches events or selects a
/// function in the tables of errors.
pub(super) fn register(call: &mut Call, plugin: &dyn Fn(*mut u8) -> *mut PJRT_Error) -> *mut PJRT_Error {
    let function = call.function;
    let args = call.args::<slot::PJRT_Event_OnReady>();
    let is_watched = |state: &&State| state.watchers().next().is_some() || state.objects.is_active(ObjectKind::Error);
    let watched = Some(call.state).filter(is_watched);
    let (Some(state), Some(args)) = (watched, args.filter(|args| args.callback.is_some())) else {
        return plugin(call.args);
    };
    let (Some(callback), Some(argument)) = (function.field("callback"), function.field("user_arg")) else {
        return plugin(call.args);
    };
    let event = args.event.addr();
    let registration = Registration { callback: args.callback, argument: args.user_arg, event, state };
    let registration = Box::into_raw(Box::new(registration));
    let ours: unsafe extern "C" fn(*mut PJRT_Error, *mut c_void) = run;
    let depth = call.depth();
    call.replace(callback, (ours as *mut c_void).expose_provenance());
    call.replace(argument, registration.expose_provenance());
    let error = plugin(call.args);
    call.restore(depth);
    if !error.is_null() {
        // SAFETY: L5 (callbacks): a failed registration never calls back, so this function still owns the registration.
        drop(unsafe { Box::from_raw(registration) });
    }
    error
}

/// Registers a callback with the plugin after the framework's call has returned. If the registration fails, the
/// callback receives the error.
///
/// # Safety
///
/// Contract L5 must hold for the callback and its argument. The event must be live.
pub(super) unsafe fn register_late(
    state: &'static State,
    event: usize,
    callback: PJRT_Event_OnReadyCallback,
    argument: *mut c_void,
) {
    let registration = Box::into_raw(Box::new(Registration { callback, argument, event, state }));
    let ours: unsafe extern "C" fn(*mut PJRT_Error, *mut c_void) = run;
    let event = std::ptr::with_exposed_provenance_mut(event);
    let mut args = PJRT_Event_OnReady_Args { event, ..PJRT_Event_OnReady_Args::new() };
    (args.callback, args.user_arg) = (Some(ours), registration.cast());
    // SAFETY: L10 (queries): the event is live by this function's contract.
    let error = unsafe { send::<slot::PJRT_Event_OnReady>(&state.plugin, &mut args) };
    let error = error
        .unwrap_or_else(|| errors::into_raw(errors::missing(state.plugin_version().1, slot::PJRT_Event_OnReady::NAME)));
    if !error.is_null() {
        // SAFETY: L5 (callbacks): a failed registration never calls back, so this is the callback's only call.
        unsafe { run(error, registration.cast()) };
    }
}

/// # Safety
///
/// Contract L5: `argument` must be the registration, and this must be the only call with this argument.
unsafe extern "C" fn run(error: *mut PJRT_Error, argument: *mut c_void) {
    // SAFETY: L5 (callbacks): the plugin calls once, with the registered argument.
    let registration = unsafe { Box::from_raw(argument.cast::<Registration>()) };
    for layer in registration.state.watchers() {
        contain(|| layer.ready(registration.event, !error.is_null()));
    }
    registration.state.show_object(ObjectKind::Error, error.expose_provenance());
    if let Some(callback) = registration.callback {
        let (_inside, _seen) = (Inside::new(), Quiet::suspended());
        // SAFETY: L5 (callbacks): this is the only call of the framework's callback, with the registered argument.
        unsafe { callback(error, registration.argument) };
    }
}
