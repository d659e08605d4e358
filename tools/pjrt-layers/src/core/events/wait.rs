//! Waits for events and buffers of the plugin.

use std::ffi::c_void;
use std::ptr::with_exposed_provenance_mut;
use std::sync::mpsc::channel;
use std::time::Duration;

use pjrt_sys::{AbiStruct, PJRT_Error};

use crate::core::plugin::ask;
use crate::core::plugin::destroy_error;
use crate::core::process::contain;
use crate::core::tables::Copies;

/// A closure that runs when an event becomes ready.
struct Action {
    run: Box<dyn FnOnce() + Send>,
    plugin: &'static Copies,
}

/// Runs a closure when an event becomes ready or fails. The closure may run on any thread, and before this function
/// returns. Returns whether the plugin accepted the callback. If the plugin rejects it, the closure never runs.
///
/// # Safety
///
/// `event` must be live until this function returns.
pub(in crate::core) unsafe fn when_ready(plugin: &'static Copies, event: usize, run: Box<dyn FnOnce() + Send>) -> bool {
    let action = Box::into_raw(Box::new(Action { run, plugin }));
    let callback: unsafe extern "C" fn(*mut PJRT_Error, *mut c_void) = act;
    let event = with_exposed_provenance_mut(event);
    let registered =
        ask!(plugin, PJRT_Event_OnReady { event: event, callback: Some(callback), user_arg: action.cast() });
    if registered.is_err() {
        // SAFETY: L5 (callbacks): a failed registration never calls back, so this function still owns the action.
        drop(unsafe { Box::from_raw(action) });
    }
    registered.is_ok()
}

/// # Safety
///
/// Contract L5: `argument` must be the action, and this must be the only call with this argument.
unsafe extern "C" fn act(error: *mut PJRT_Error, argument: *mut c_void) {
    // SAFETY: L5 (callbacks): the plugin calls once, with the registered argument.
    let action = unsafe { Box::from_raw(argument.cast::<Action>()) };
    // SAFETY: L4 (errors): the callback owns the error.
    unsafe { destroy_error(action.plugin, error) };
    contain(action.run);
}

/// Waits until an event is ready or has failed. Returns whether this happened within the limit. Returns `false` if the
/// plugin rejects the callback.
///
/// # Safety
///
/// `event` must be live until this function returns.
pub(in crate::core) unsafe fn event(plugin: &'static Copies, event: usize, limit: Duration) -> bool {
    let (sender, receiver) = channel();
    let ready = Box::new(move || {
        // `send` fails if the limit has passed, because the receiver is then dropped.
        let _ = sender.send(());
    });
    // SAFETY: this function's contract.
    let accepted = unsafe { when_ready(plugin, event, ready) };
    accepted && receiver.recv_timeout(limit).is_ok()
}

/// Waits until a buffer is ready or has failed. Returns whether this happened within the limit. Returns `false` if the
/// plugin does not report the state of the buffer.
///
/// # Safety
///
/// `buffer` must be live until this function returns.
pub(in crate::core) unsafe fn buffer(plugin: &'static Copies, buffer: usize, limit: Duration) -> bool {
    let buffer = with_exposed_provenance_mut(buffer);
    let Ok(args) = ask!(plugin, PJRT_Buffer_ReadyEvent { buffer: buffer }) else { return false };
    // SAFETY: L1 (plugin): the event belongs to this function, which destroys it below.
    let is_ready = unsafe { event(plugin, args.event.expose_provenance(), limit) };
    // Ignore an error of the destroy function, because no caller can handle it.
    let _ = ask!(plugin, PJRT_Event_Destroy { event: args.event });
    is_ready
}
