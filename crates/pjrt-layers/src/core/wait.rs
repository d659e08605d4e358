//! Waits for events and buffers of the plugin.

use std::ffi::c_void;
use std::ptr::with_exposed_provenance_mut;
use std::sync::mpsc::channel;
use std::time::Duration;

use pjrt_sys::{
    AbiStruct, PJRT_Buffer_ReadyEvent_Args, PJRT_Error, PJRT_Event_Destroy_Args, PJRT_Event_OnReady_Args, slot,
};

use super::contain::contain;
use super::objects::checked;
use super::table::Copies;

/// Runs when an event becomes ready.
struct Action {
    run: Box<dyn FnOnce() + Send>,
    plugin: &'static Copies,
}

/// Runs a closure when an event becomes ready or fails, on any thread, also within this function. Returns whether the
/// plugin accepted that. Otherwise, the closure never runs.
///
/// # Safety
///
/// `event` is a live event until this function returns.
pub(super) unsafe fn when_ready(plugin: &'static Copies, event: usize, run: Box<dyn FnOnce() + Send>) -> bool {
    let Some(on_ready) = plugin.function::<slot::PJRT_Event_OnReady>() else { return false };
    let event = with_exposed_provenance_mut(event);
    let action = Box::into_raw(Box::new(Action { run, plugin }));
    let callback: unsafe extern "C" fn(*mut PJRT_Error, *mut c_void) = act;
    let mut args = PJRT_Event_OnReady_Args { event, ..PJRT_Event_OnReady_Args::new() };
    args.struct_size = PJRT_Event_OnReady_Args::size_at(plugin.version().1);
    (args.callback, args.user_arg) = (Some(callback), action.cast());
    // SAFETY: L1 (plugin), and the event is live by this function's contract.
    let error = unsafe { on_ready(&raw mut args) };
    // SAFETY: L1 (plugin): the error is ours.
    if unsafe { checked(plugin, error) }.is_none() {
        // SAFETY: L5 (callbacks): a failed registration never calls back, so the action is still ours.
        drop(unsafe { Box::from_raw(action) });
        return false;
    }
    true
}

/// # Safety
///
/// L5: `argument` is the action, and this is its only call.
unsafe extern "C" fn act(error: *mut PJRT_Error, argument: *mut c_void) {
    // SAFETY: L5 (callbacks): the plugin calls once, with the registered argument.
    let action = unsafe { Box::from_raw(argument.cast::<Action>()) };
    // SAFETY: L1 (plugin): the callback owns the error.
    let _ = unsafe { checked(action.plugin, error) };
    contain(action.run);
}

/// Waits until an event is ready or failed. Returns whether that happened within the limit.
///
/// # Safety
///
/// `event` is a live event until this function returns.
pub(super) unsafe fn event(plugin: &'static Copies, event: usize, limit: Duration) -> bool {
    let (sender, receiver) = channel();
    let ready = Box::new(move || {
        // The receiver is dropped if the time ran out.
        let _ = sender.send(());
    });
    // SAFETY: this function's contract.
    let accepted = unsafe { when_ready(plugin, event, ready) };
    accepted && receiver.recv_timeout(limit).is_ok()
}

/// Waits until a buffer is ready or failed. Returns whether that happened within the limit.
///
/// # Safety
///
/// `buffer` is a live buffer until this function returns.
pub(super) unsafe fn buffer(plugin: &'static Copies, buffer: usize, limit: Duration) -> bool {
    let Some(ready_event) = plugin.function::<slot::PJRT_Buffer_ReadyEvent>() else { return false };
    let buffer = with_exposed_provenance_mut(buffer);
    let mut args = PJRT_Buffer_ReadyEvent_Args { buffer, ..PJRT_Buffer_ReadyEvent_Args::new() };
    // SAFETY: L1 (plugin), and the buffer is live by this function's contract.
    let error = unsafe { ready_event(&raw mut args) };
    // SAFETY: L1 (plugin): the error is ours.
    if unsafe { checked(plugin, error) }.is_none() {
        return false;
    }
    // SAFETY: L1 (plugin): the event is ours until it is destroyed below.
    let is_ready = unsafe { event(plugin, args.event.expose_provenance(), limit) };
    if let Some(destroy) = plugin.function::<slot::PJRT_Event_Destroy>() {
        let mut args = PJRT_Event_Destroy_Args { event: args.event, ..PJRT_Event_Destroy_Args::new() };
        // SAFETY: L1 (plugin), and the event is ours and is given up.
        let error = unsafe { destroy(&raw mut args) };
        // SAFETY: L1 (plugin): the error is ours.
        let _ = unsafe { checked(plugin, error) };
    }
    is_ready
}
