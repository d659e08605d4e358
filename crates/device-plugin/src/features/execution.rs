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
    /// Runs a program on several devices at once, with one launch for each device of the device assignment, in its
    /// order. Returns one event for each.
    ///
    /// Calls from several threads of the framework overlap. If a backend's programs communicate with each other, it
    /// holds a lock for the whole call, so that the queues of all devices receive launches in the same order. Deferred
    /// launches never overlap with other launches.
    ///
    /// # Errors
    ///
    /// In the cases of [`Backend::execute`].
    fn execute_all(&self, executable: &Arc<Self::Executable>, launches: &mut [Launch<'_, Self>]) -> Result<Vec<Event>>;
}

/// A backend whose executions a framework can end with an error.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lists a feature that it does not implement: `Poisoning`",
    label = "`Poisoning` is not implemented",
    note = "write `impl Poisoning for {Self} {{ … }}`, or remove `.poisoning()` from `Backend::FEATURES`"
)]
pub trait Poisoning: Backend {
    /// Fails the earliest unfinished execution on a device with this launch id. Its event completes with the error.
    /// Returns false if no such execution is pending. The SDK itself fails the launches that it has deferred.
    ///
    /// A framework, or Ctrl-C in `pjrt run`, uses this to end an execution that would otherwise never end, such as an
    /// infinite loop or a collective whose other members have failed. An execution that has begun must therefore stop
    /// as well. For a separate device, reset it or abort its queue. Code on the host checks a flag in each iteration of
    /// a loop. The event completes once the execution no longer uses its arguments and outputs. An execution that has
    /// not begun fails at once.
    fn poison_execution(&self, device: usize, launch_id: i32, error: Error) -> Result<bool>;
}

/// A backend that tracks work of the framework for which a device waits, for diagnostics.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lists a feature that it does not implement: `Tracking`",
    label = "`Tracking` is not implemented",
    note = "write `impl Tracking for {Self} {{ … }}`, or remove `.tracking()` from `Backend::FEATURES`"
)]
pub trait Tracking: Backend {
    /// Begins to track work of the framework. The work ends when the returned value is dropped.
    fn track(&self, device: usize, description: &str) -> Box<dyn Send + Sync>;
}
