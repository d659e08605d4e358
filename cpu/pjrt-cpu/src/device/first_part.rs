//! Runs the first part of a program with loops on the caller's thread.
//!
//! The duration of a loop is not known in advance. Most loops of small programs end sooner than another thread could
//! start, so the caller runs a limited number of operations of the loops. The number is larger if the latest runs were
//! short. A run that has not ended by then continues on a thread of the client, where it can be stopped.

use std::time::{Duration, Instant};

use device_plugin::{Backend, Launch, Result};

use super::buffer::CpuBuffer;
use super::compile::CpuExecutable;
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
    /// How long the first part took.
    duration: Duration,
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
        let start = Instant::now();
        let progress = executable.program().start(inputs, pool, executable.recent_runs().first_part());
        let duration = start.elapsed();
        Ok(match progress.map_err(|error| run_error(error, device))? {
            Progress::Ended(outputs) => {
                executable.recent_runs().record(duration);
                drop(kept);
                FirstPart::Ended(self.owned(outputs, device, false, |index| on_host(launch, index))?)
            }
            Progress::Paused(run) => FirstPart::Paused(Paused { run, duration, kept }),
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
        let start = Instant::now();
        let outputs = executable.program().resume(paused.run, pool, Some(stop));
        let duration = paused.duration + start.elapsed();
        drop(paused.kept);
        let outputs = outputs.map_err(|error| run_error(error, device))?;
        executable.recent_runs().record(duration);
        self.owned(outputs, device, false, on_host)
    }
}
