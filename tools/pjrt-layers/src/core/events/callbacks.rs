//! Callbacks of events. This module informs layers before the framework's callback runs.

use std::ffi::c_void;

use pjrt_sys::{PJRT_Error, PJRT_Event_OnReadyCallback, slot};

use super::gates::Callback;
use super::inside_callback::InsideCallback;
use crate::core::calls::Call;
use crate::core::forwarding::Stack;
use crate::core::objects::ObjectKind;
use crate::core::plugin::InsidePlugin;
use crate::core::process::contain;

/// A callback that the framework registered.
pub(in crate::core) struct Registration {
    callback: PJRT_Event_OnReadyCallback,
    argument: *mut c_void,
    event: usize,
    stack: &'static Stack,
}

impl Registration {
    pub(in crate::core) fn new(
        stack: &'static Stack,
        event: usize,
        callback: PJRT_Event_OnReadyCallback,
        argument: *mut c_void,
    ) -> Self {
        Self { callback, argument, event, stack }
    }

    /// Returns a callback of this crate and the address of its argument. The callback informs the layers, and then
    /// calls the framework's callback. Its only call frees the argument.
    pub(in crate::core) fn into_callback(self) -> (Callback, usize) {
        (run, Box::into_raw(Box::new(self)).expose_provenance())
    }
}

/// Registers a callback of this crate in place of the framework's callback, if a layer watches events or selects a
/// function in the tables of errors.
pub(in crate::core) fn register(
    stack: &'static Stack,
    call: &mut Call,
    plugin: &dyn Fn(*mut u8) -> *mut PJRT_Error,
) -> *mut PJRT_Error {
    let function = call.function;
    let args = call.args::<slot::PJRT_Event_OnReady>();
    let is_watched = stack.watchers().next().is_some() || stack.objects.is_active(ObjectKind::Error);
    let Some(args) = args.filter(|args| is_watched && args.callback.is_some()) else {
        return plugin(call.args);
    };
    let (Some(callback), Some(argument)) = (function.field("callback"), function.field("user_arg")) else {
        return plugin(call.args);
    };
    let registration = Registration::new(stack, args.event.addr(), args.callback, args.user_arg);
    let (ours, registration) = registration.into_callback();
    let depth = call.depth();
    call.replace(callback, (ours as *mut c_void).expose_provenance());
    call.replace(argument, registration);
    let error = plugin(call.args);
    call.restore(depth);
    if !error.is_null() {
        let registration = std::ptr::with_exposed_provenance_mut::<Registration>(registration);
        // SAFETY: L5 (callbacks): a failed registration never calls back, so this function still owns the registration.
        drop(unsafe { Box::from_raw(registration) });
    }
    error
}

/// # Safety
///
/// Contract L5: `argument` must be the registration, and this must be the only call with this argument.
unsafe extern "C" fn run(error: *mut PJRT_Error, argument: *mut c_void) {
    // SAFETY: L5 (callbacks): the plugin calls once, with the registered argument.
    let registration = unsafe { Box::from_raw(argument.cast::<Registration>()) };
    for layer in registration.stack.watchers() {
        contain(|| layer.ready(registration.event, !error.is_null()));
    }
    registration.stack.show_object(ObjectKind::Error, error.expose_provenance());
    if let Some(callback) = registration.callback {
        let (_inside, _seen) = (InsideCallback::new(), InsidePlugin::suspended());
        // SAFETY: L5 (callbacks): this is the only call of the framework's callback, with the registered argument.
        unsafe { callback(error, registration.argument) };
    }
}
