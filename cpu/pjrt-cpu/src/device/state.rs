//! The part of a client that its executions share, and how executions take inputs and place outputs.

use std::sync::Arc;

use device_plugin::{Backend, Event, Launch, Result};

use super::buffer::{CpuBuffer, Promise};
use super::compile::CpuExecutable;
use super::job::Job as Processes;
use super::memory::{Memories, is_host, run_error};
use super::running::Running;
use super::transfers::Transfers;
use super::workers::Workers;
use stablehlo_cpu::Tensor;

/// The part of a client that executions use. Every execution holds a reference to it.
pub(crate) struct State {
    pub(crate) memories: Memories,
    pub(crate) workers: Arc<Workers>,
    pub(crate) deterministic: bool,
    /// Executions that may take long. These are the executions that run on another thread or contain a loop.
    pub(crate) running: Arc<Running>,
    /// The job of several processes to which this process belongs.
    pub(crate) job: Option<Arc<Processes>>,
    /// Exchanges arrays with the other processes of the job.
    pub(crate) transfers: Arc<Transfers>,
}

impl State {
    /// Returns references to inputs in host memory, so that a run does not reuse their memory for outputs on the
    /// device.
    #[inline]
    pub(crate) fn kept(&self, inputs: &[Tensor]) -> Vec<Tensor> {
        let host = self.memories.host();
        inputs.iter().filter(|input| input.is_of(host)).cloned().collect()
    }

    /// Copies outputs of a run if necessary, so that each output owns its memory and is in the memory that `on_host`
    /// selects.
    #[inline]
    pub(crate) fn owned(
        &self,
        mut outputs: Vec<Tensor>,
        device: usize,
        is_member: bool,
        on_host: impl Fn(usize) -> bool,
    ) -> Result<Vec<Tensor>> {
        let (pool, host) = (self.memories.device(device), self.memories.host());
        // Each output must own its memory. Frameworks rely on this, and the importer of a DLPack capsule may write to
        // the memory. Outputs that share memory with arguments that are not donated, with constants or with other
        // outputs are therefore copied. If a donated argument is returned twice, the first output takes its memory and
        // the second output is a copy.
        for (index, output) in outputs.iter_mut().enumerate().rev() {
            let on_host = on_host(index);
            // Members of a launch exchange buffers. An output must count toward the limit of its own device.
            let must_copy = output.is_shared()
                || output.is_of(host) != on_host
                || (is_member && !on_host && self.memories.is_of_another(output, device));
            if must_copy {
                let to = if on_host { host } else { pool };
                *output = output.copy_to(to).map_err(|error| run_error(error, device))?;
            }
        }
        Ok(outputs)
    }
}

/// Returns whether an output of a launch is placed in host memory.
#[inline]
pub(crate) fn on_host<B: Backend<Buffer = CpuBuffer>>(launch: &Launch<'_, B>, index: usize) -> bool {
    launch.outputs.placement(index).is_some_and(|placement| is_host(placement.memory))
}

/// Takes the tensors of a launch's inputs. The inputs must be ready.
#[inline]
pub(crate) fn ready_inputs<B: Backend<Buffer = CpuBuffer>>(launch: &mut Launch<'_, B>) -> Result<Vec<Tensor>> {
    (0..launch.inputs.len()).map(|index| take(launch, index).into_tensor()).collect()
}

/// Creates a promise for each output of a launch, and adds buffers of these promises to the launch's outputs. The
/// outputs become ready with the event `ready`. Returns the promises.
pub(crate) fn promises<B: Backend<Buffer = CpuBuffer>>(
    executable: &CpuExecutable,
    launch: &mut Launch<'_, B>,
    ready: &Event,
) -> Result<Vec<Arc<Promise>>> {
    let promise = |index| Promise::new(ready.clone(), executable.program().is_bounded_output(index));
    let outputs: Vec<_> = (0..launch.outputs.len()).map(promise).collect();
    for output in &outputs {
        launch.outputs.push(Arc::clone(output).into())?;
    }
    Ok(outputs)
}

/// Returns an input of a launch. Takes the framework's buffer if it is donated, and clones the buffer otherwise.
#[inline]
pub(crate) fn take<B: Backend<Buffer = CpuBuffer>>(launch: &mut Launch<'_, B>, index: usize) -> CpuBuffer {
    match launch.inputs.take(index) {
        Some(donated) => donated,
        None => launch.inputs[index].clone(),
    }
}
