//! Features of executions.

use std::sync::Arc;

use crate::{Backend, Error, Event, Launch, Result};

/// A backend that runs programs on several devices at once.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lists a feature that it does not implement: `MultiDevice`",
    label = "`MultiDevice` is not implemented",
    note = "write `impl MultiDevice for {Self} {{ … }}`, or remove `.multi_device()` from `Backend::FEATURES`"
)]
pub trait MultiDevice: Backend {
    /// Runs a program on several devices at once. There is one launch for each addressable device of the device
    /// assignment, in the same order. Returns one event for each launch.
    ///
    /// Calls from several threads of the framework may overlap. If the launches of a call communicate with each other,
    /// the backend must hold a lock for the whole call, so that the queues of all devices receive launches in the same
    /// order. A call with deferred launches never overlaps with another call.
    ///
    /// # Errors
    ///
    /// Returns an error in the same cases as [`Backend::execute`].
    fn execute_all(&self, executable: &Arc<Self::Executable>, launches: &mut [Launch<'_, Self>]) -> Result<Vec<Event>>;
}

/// A backend whose executions a framework can end with an error.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lists a feature that it does not implement: `Poisoning`",
    label = "`Poisoning` is not implemented",
    note = "write `impl Poisoning for {Self} {{ … }}`, or remove `.poisoning()` from `Backend::FEATURES`"
)]
pub trait Poisoning: Backend {
    /// Fails the earliest unfinished execution with this launch id on a device. The event of this execution completes
    /// with `error`. Returns `false` if no such execution is pending. The SDK fails the launches that it has deferred
    /// without calling this function.
    ///
    /// A framework uses this function to end an execution that would otherwise never end, such as an infinite loop or a
    /// collective whose other members have failed. `pjrt run` uses it when the user presses Ctrl-C. An execution that
    /// is already running must therefore stop, too. To stop a separate device, reset it or abort its queue. Code that
    /// runs on the host can check a flag in each iteration of a loop. Complete the event when the execution no longer
    /// uses its arguments and outputs. An execution that has not begun fails at once.
    fn poison_execution(&self, device: usize, launch_id: i32, error: Error) -> Result<bool>;
}

/// A backend that tracks, for diagnostics, the framework's work that a device waits for.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lists a feature that it does not implement: `Tracking`",
    label = "`Tracking` is not implemented",
    note = "write `impl Tracking for {Self} {{ … }}`, or remove `.tracking()` from `Backend::FEATURES`"
)]
pub trait Tracking: Backend {
    /// Begins to track work of the framework that `device` waits for. `description` describes the work. The tracking
    /// ends when the returned value is dropped.
    fn track(&self, device: usize, description: &str) -> Box<dyn Send + Sync>;
}
