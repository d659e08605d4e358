//! Runs the first part of a program with loops on the caller's thread.
//!
//! The duration of a loop is not known in advance. Most loops of small programs end sooner than another thread could
//! start, so the caller runs up to [`FIRST_PART`] operations of the loops. A run that has not ended by then continues
//! on a thread of the client, where it can be stopped.

use device_plugin::{Backend, Launch, Result};

use super::buffer::CpuBuffer;
use super::compile::{CpuExecutable, FIRST_PART};
use super::memory::run_error;
use super::state::{State, on_host, ready_inputs};
use stablehlo_cpu::{PausedRun, Progress, Stop, Tensor};

/// The outcome of the first part.
pub(crate) enum FirstPart {
    /// The run has ended with these outputs.
    Ended(Vec<Tensor>),
    Paused(Paused),
}

/// A run that has paused in a loop.
pub(crate) struct Paused {
    run: PausedRun,
    /// The inputs in host memory, kept alive so that the run does not reuse their memory for outputs on the device.
    kept: Vec<Tensor>,
}

impl State {
    /// Runs the first part of a program for which [`CpuExecutable::has_first_part`] is true.
    pub(crate) fn first_part<B: Backend<Buffer = CpuBuffer>>(
        &self,
        executable: &CpuExecutable,
        launch: &mut Launch<'_, B>,
    ) -> Result<FirstPart> {
        let (device, inputs) = (launch.device, ready_inputs(launch)?);
        let (kept, pool) = (self.kept(&inputs), self.memories.device(device));
        let progress = executable.program().start(inputs, pool, FIRST_PART);
        Ok(match progress.map_err(|error| run_error(error, device))? {
            Progress::Ended(outputs) => {
                drop(kept);
                FirstPart::Ended(self.owned(outputs, device, false, |index| on_host(launch, index))?)
            }
            Progress::Paused(run) => FirstPart::Paused(Paused { run, kept }),
        })
    }

    /// Runs the rest of a program.
    pub(crate) fn resume(
        &self,
        executable: &CpuExecutable,
        device: usize,
        paused: Paused,
        stop: &Stop,
        on_host: impl Fn(usize) -> bool,
    ) -> Result<Vec<Tensor>> {
        let pool = self.memories.device(device);
        let outputs = executable.program().resume(paused.run, pool, Some(stop));
        drop(paused.kept);
        self.owned(outputs.map_err(|error| run_error(error, device))?, device, false, on_host)
    }
}
