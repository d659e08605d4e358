//! Waits until the work of a call has ended, before the call returns.

use std::io::{self, Write};
use std::time::Duration;

use pjrt_sys::slot;

use crate::core::Call;
use crate::function::Kind;
use crate::groups::starts_work;

/// Maximum time for the work of a call. A run may depend on later calls, such as those on other devices, or those that
/// provide its arguments.
const LIMIT: Duration = Duration::from_secs(10);

/// Waits for the events and buffers that a successful call returned.
pub(super) fn wait(call: &Call) {
    if !starts_work(call.function()) {
        return;
    }
    let mut buffers = Vec::new();
    // An output that the plugin did not write has its old value: a call that only asks for a size starts no copy.
    let is_question = call.args::<slot::PJRT_Buffer_ToHostBuffer>().is_some_and(|args| args.dst.is_null());
    if is_question {
        return;
    }
    let events = call.events();
    if let Some(run) = call.execution().filter(|_| events.is_empty()) {
        buffers = run.outputs(call.state().output_count(run.executable()).unwrap_or(0));
    }
    for field in call.function().fields.iter().filter(|field| field.output) {
        if matches!(field.kind, Kind::Handle("PJRT_Buffer")) {
            buffers.push(call.address(field));
        }
    }
    let state = call.state();
    let is_late = |is_ready: bool| !is_ready;
    let late = events.into_iter().any(|event| is_late(state.wait_for_event(event, LIMIT)))
        || buffers.into_iter().filter(|buffer| *buffer != 0).any(|one| is_late(state.wait_for_buffer(one, LIMIT)));
    if late {
        // The call has no place for a warning.
        let _ = writeln!(
            io::stderr(),
            "pjrt-layers: override: the work of {} did not end within {} s, so the call returns before its end",
            call.function().name,
            LIMIT.as_secs()
        );
    }
}
