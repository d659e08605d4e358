//! Delays the return of a call until its work has ended or a time limit has passed.

use std::io::{self, Write};
use std::time::Duration;

use pjrt_sys::slot;

use crate::core::Call;
use crate::function::Kind;
use crate::groups::starts_work;

/// Maximum time to wait for each event or buffer of a call. Without a limit, a run that depends on a later call would
/// deadlock. Examples of such later calls are runs on other devices and calls that provide the run's arguments.
const LIMIT: Duration = Duration::from_secs(10);

/// Waits until the work of a successful call has ended or [`LIMIT`] has passed. The work has ended when the returned
/// events and buffers are ready. The outputs of a run are only checked if the run returned no events.
pub(super) fn wait(call: &Call) {
    if !starts_work(call.function()) {
        return;
    }
    let mut buffers = Vec::new();
    // A call that only queries the size does not start a copy or write its event field, which keeps an old value.
    let is_question = call.args::<slot::PJRT_Buffer_ToHostBuffer>().is_some_and(|args| args.dst.is_null());
    if is_question {
        return;
    }
    let events = call.events();
    if let Some(run) = call.execution().filter(|_| events.is_empty()) {
        buffers = run.outputs(call.plugin().output_count(run.executable()).unwrap_or(0));
    }
    for field in call.function().fields.iter().filter(|field| field.output) {
        if matches!(field.kind, Kind::Handle("PJRT_Buffer")) {
            buffers.push(call.address(field));
        }
    }
    let plugin = call.plugin();
    let is_late = |is_ready: bool| !is_ready;
    let late = events.into_iter().any(|event| is_late(plugin.wait_for_event(event, LIMIT)))
        || buffers.into_iter().filter(|buffer| *buffer != 0).any(|one| is_late(plugin.wait_for_buffer(one, LIMIT)));
    if late {
        // The call cannot return a warning, so write it to the standard error.
        let _ = writeln!(
            io::stderr(),
            "pjrt-layers: override: the work of {} did not end within {} s, so the call returns before its end",
            call.function().name,
            LIMIT.as_secs()
        );
    }
}
