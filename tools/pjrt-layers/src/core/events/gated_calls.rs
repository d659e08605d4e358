//! Calls whose argument is an event behind a gate.

use std::collections::HashMap;
use std::ptr::null_mut;
use std::sync::PoisonError;

use pjrt_sys::{PJRT_Error, slot};

use super::callbacks::Registration;
use super::gates::Gate;
use crate::core::calls::Call;
use crate::core::forwarding::Stack;
use crate::function::{Field, Kind};

/// Returns the input field for an event in the arguments of a call, or `None` if the function takes no event.
fn event_field(call: &Call) -> Option<&'static Field> {
    call.function().fields.iter().find(|field| !field.output && matches!(field.kind, Kind::Handle("PJRT_Event")))
}

/// If an argument of the call is a gated event, returns the result of the call or forwards the call with the closure
/// `plugin`. Returns `None` for other calls.
#[cold]
pub(in crate::core) fn answer_gated(
    stack: &'static Stack,
    call: &mut Call,
    plugin: &dyn Fn(*mut u8) -> *mut PJRT_Error,
) -> Option<*mut PJRT_Error> {
    let gates = &stack.plugin.gates;
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
        gate.callbacks.push(Registration::new(stack, event, args.callback, args.user_arg).into_callback());
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
