//! Launches of programs, in two phases: [`plan`] may fail, [`PlannedLaunch::start`] does not.

use std::sync::Arc;

use device_plugin::{Backend, Completer, ErrorCode, Event, Launch, Result};

use crate::buffer::Buffer;
use crate::copies::size_of;
use crate::device::Device;
use crate::driver::{Driver, LaunchRequest};
use crate::operation::Operation;
use crate::pool::Block;
use crate::queue::Submission;

/// A prepared launch with the memory that it uses.
pub(crate) struct PlannedLaunch<'a, D: Driver> {
    device: &'a Device<D>,
    executable: Arc<D::Executable>,
    prepared: D::Prepared,
    inputs: Vec<Input<D>>,
    outputs: Vec<Buffer<D>>,
    scratch: Option<Block<D>>,
    event: Event,
    completer: Completer,
}

/// An argument of a launch.
enum Input<D: Driver> {
    /// The launch reads the buffer.
    Read(Buffer<D>),
    /// An output uses the memory of the argument. Contains the event of the argument.
    Overwritten(Event),
}

impl<D: Driver> Input<D> {
    fn ready(&self) -> &Event {
        match self {
            Self::Read(buffer) => &buffer.contents().ready,
            Self::Overwritten(ready) => ready,
        }
    }

    /// Returns the block that the launch reads. The outputs contain the block of an overwritten argument.
    fn block(&self) -> Option<&Block<D>> {
        match self {
            Self::Read(buffer) => Some(&buffer.contents().block),
            Self::Overwritten(_) => None,
        }
    }
}

/// Returns the donated argument whose memory an output of `bytes` bytes may use. `taken` contains for each argument
/// whether another output uses its memory.
fn alias<D: Driver, B: Backend<Buffer = Buffer<D>>>(
    driver: &D,
    executable: &D::Executable,
    launch: &Launch<'_, B>,
    (output, bytes): (usize, usize),
    taken: &mut [bool],
) -> Option<usize> {
    let argument = driver.output_alias(executable, output)?;
    let taken = taken.get_mut(argument).filter(|taken| !**taken)?;
    *taken = launch.inputs.is_donated(argument) && launch.inputs[argument].contents().block.size() >= bytes;
    taken.then_some(argument)
}

/// Allocates the memory of a launch, prepares the launch, and pushes its outputs. If the driver has no memory for the
/// preparation, frees memory and tries once more.
///
/// # Errors
///
/// Returns an error if the memory does not suffice, if the driver rejects the launch, or if the device is lost. The
/// donated arguments whose memory outputs use may then be deleted, if the driver has rejected the launch, or if
/// something else still uses such an argument and there is no memory for its output.
pub(crate) fn plan<'a, D: Driver, B: Backend<Buffer = Buffer<D>>>(
    driver: &D,
    device: &'a Device<D>,
    executable: &Arc<D::Executable>,
    launch: &mut Launch<'_, B>,
) -> Result<PlannedLaunch<'a, D>> {
    device.health.check()?;
    let timeline = device.compute.timeline();
    let (event, completer) = Event::pending();
    let count = launch.inputs.len();
    // Taking a donated argument deletes it, so first allocate what certainly needs memory.
    let (mut aliased, mut blocks) = (vec![false; count], Vec::with_capacity(launch.outputs.len()));
    for (index, shape) in launch.outputs.shapes().iter().enumerate() {
        let bytes = size_of(shape)?;
        let argument = alias(driver, executable, launch, (index, bytes), &mut aliased);
        let block = match argument {
            Some(_) => None,
            None => Some(device.pool.allocate(bytes, timeline)?),
        };
        blocks.push((argument, bytes, block));
    }
    let scratch = match driver.scratch_bytes(executable) {
        0 => None,
        bytes => Some(device.pool.allocate(bytes, timeline)?),
    };
    let mut taken: Vec<Option<Input<D>>> = (0..count).map(|_| None).collect();
    let mut input_memory: Vec<Option<Arc<D::Memory>>> = vec![None; count];
    let mut outputs = Vec::with_capacity(blocks.len());
    for (argument, bytes, mut block) in blocks {
        if let Some((argument, buffer)) = argument.and_then(|index| Some((index, launch.inputs.take(index)?))) {
            match buffer.into_contents() {
                Ok(contents) => {
                    taken[argument] = Some(Input::Overwritten(contents.ready));
                    input_memory[argument] = Some(Arc::clone(contents.block.memory()));
                    block = Some(contents.block);
                }
                // Something else still uses the argument.
                Err(shared) => taken[argument] = Some(Input::Read(shared)),
            }
        }
        let block = block.map_or_else(|| device.pool.allocate(bytes, timeline), Ok)?;
        outputs.push(device.buffer(block, bytes, event.clone()));
    }
    let read =
        |(index, taken): (usize, Option<Input<D>>)| taken.unwrap_or_else(|| Input::Read(launch.inputs[index].clone()));
    let inputs: Vec<Input<D>> = taken.into_iter().enumerate().map(read).collect();
    let memory_of = |(input, memory): (&Input<D>, Option<Arc<D::Memory>>)| match input {
        Input::Read(buffer) => Some(Arc::clone(buffer.contents().block.memory())),
        Input::Overwritten(_) => memory,
    };
    let input_memory: Vec<_> = inputs.iter().zip(input_memory).filter_map(memory_of).collect();
    let output_memory: Vec<_> = outputs.iter().map(|output| Arc::clone(output.contents().block.memory())).collect();
    let request = LaunchRequest {
        device: device.index,
        inputs: &input_memory,
        outputs: &output_memory,
        scratch: scratch.as_ref().map(Block::memory),
        options: &launch.options,
        channels: &launch.channels,
    };
    let mut prepared = driver.prepare(executable, &request);
    if prepared.as_ref().is_err_and(|error| error.code() == ErrorCode::RESOURCE_EXHAUSTED) {
        device.pool.reclaim();
        prepared = driver.prepare(executable, &request);
    }
    let prepared = device.health.observe(Operation::Launch, prepared)?;
    for output in &outputs {
        launch.outputs.push(output.clone())?;
    }
    let executable = Arc::clone(executable);
    Ok(PlannedLaunch { device, executable, prepared, inputs, outputs, scratch, event, completer })
}

/// Whether a launch begins if an argument has failed before.
#[derive(Clone, Copy)]
pub(crate) enum OnFailure {
    /// The launch fails.
    Skip,
    /// The launch begins, because launches on other devices may wait for it.
    Begin,
}

/// Returns the error of the first argument that has failed.
fn check<D: Driver>(inputs: &[Input<D>]) -> Result<()> {
    for (index, input) in inputs.iter().enumerate() {
        if let Some(Err(error)) = input.ready().result() {
            return Err(error.context(format_args!("argument {index} failed")));
        }
    }
    Ok(())
}

impl<D: Driver> PlannedLaunch<'_, D> {
    /// Returns an error if an argument has failed or the device is lost.
    pub(crate) fn check(&self) -> Result<()> {
        self.device.health.check()?;
        check(&self.inputs)
    }

    /// Submits the launch. Returns the event of the outputs. Does not begin the launch if the device is lost. The event
    /// then fails.
    pub(crate) fn start(self, driver: &D, on_failure: OnFailure) -> Event {
        let Self { device, executable, prepared, inputs, outputs, scratch, event, completer } = self;
        let reads = inputs.iter().filter_map(Input::block).collect();
        let writes = outputs.iter().map(|output| &output.contents().block).chain(&scratch).collect();
        let check = || match on_failure {
            OnFailure::Skip => check(&inputs),
            OnFailure::Begin => Ok(()),
        };
        let (operation, executable, source, target) = (Operation::Launch, Some(executable), None, None);
        let submission = Submission { operation, check: &check, reads, writes, executable, source, target, completer };
        let begin = |after: &[Arc<D::Completion>]| Ok(driver.launch(device.compute.id(), prepared, after));
        // The event reports the error. The SDK adds the errors of arguments that fail later.
        let _ = device.compute.submit(submission, begin);
        event
    }
}
