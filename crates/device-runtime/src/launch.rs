//! Launches of programs, in two phases: [`plan`] may fail, [`PlannedLaunch::start`] does not.

use std::sync::Arc;

use device_plugin::__private::host_size;
use device_plugin::{Backend, Completer, Error, ErrorCode, Event, Launch, Placement, Result};

use crate::buffer::Buffer;
use crate::collectives::Member;
use crate::device::Device;
use crate::driver::{Driver, LaunchRequest};
use crate::operation::Operation;
use crate::pool::{Block, Pool};
use crate::queue::{Object, Submission};

/// A prepared launch with the memory that it uses.
pub(crate) struct PlannedLaunch<'a, D: Driver> {
    device: &'a Device<D>,
    executable: Arc<D::Executable>,
    prepared: D::Prepared,
    member: Option<Arc<Member>>,
    /// The arguments whose memory no output uses.
    inputs: Vec<Buffer<D>>,
    outputs: Vec<Buffer<D>>,
    scratch: Option<Block<D>>,
    /// All memory of the launch.
    memory: Vec<Arc<D::Memory>>,
    event: Event,
    completer: Completer,
}

/// Returns the donated argument whose memory an output of `bytes` bytes in the memory of `pool` may use. `taken`
/// contains for each argument whether another output uses its memory.
///
/// # Errors
///
/// Returns `INTERNAL` if the driver returns an argument that the program does not have.
fn alias<D: Driver, B: Backend<Buffer = Buffer<D>>>(
    driver: &D,
    executable: &D::Executable,
    launch: &Launch<'_, B>,
    (output, bytes, pool): (usize, usize, &Arc<Pool<D>>),
    taken: &mut [bool],
) -> Result<Option<usize>> {
    let Some(argument) = driver.output_alias(executable, output) else { return Ok(None) };
    let count = taken.len();
    let taken = taken.get_mut(argument).ok_or_else(|| {
        Error::internal(format!(
            "Driver::output_alias returns argument {argument} for output {output}, but the program has {count} arguments"
        ))
    })?;
    if *taken {
        return Ok(None);
    }
    let block = launch.inputs[argument].block();
    *taken = launch.inputs.is_donated(argument) && block.size() >= bytes && block.is_of(pool);
    Ok(taken.then_some(argument))
}

/// Allocates the memory of a launch, prepares the launch, and pushes its outputs. If the driver has no memory for the
/// preparation, frees memory and tries once more. `memory_of` returns the index of an output's memory among those of
/// the device.
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
    memory_of: impl Fn(Option<Placement>) -> usize,
    member: Option<Member>,
) -> Result<PlannedLaunch<'a, D>> {
    device.health.check()?;
    let timeline = device.compute.timeline();
    let (event, completer) = Event::pending();
    let count = launch.inputs.len();
    // Taking a donated argument deletes it, so first allocate what certainly needs memory.
    let (mut aliased, mut blocks) = (vec![false; count], Vec::with_capacity(launch.outputs.len()));
    for (index, shape) in launch.outputs.shapes().iter().enumerate() {
        let bytes = host_size(shape)?;
        let pool = &device.pools[memory_of(launch.outputs.placement(index))];
        let argument = alias(driver, executable, launch, (index, bytes, pool), &mut aliased)?;
        let block = match argument {
            Some(_) => None,
            None => Some(device.allocate(pool, bytes, timeline)?),
        };
        blocks.push((argument, bytes, pool, block));
    }
    let scratch = match driver.scratch_bytes(executable) {
        0 => None,
        bytes => {
            let block = device.allocate(device.pool(), bytes, timeline);
            Some(block.map_err(|error| error.context("temporary memory of a launch"))?)
        }
    };
    let mut memory: Vec<_> = (0..count).map(|index| Arc::clone(launch.inputs[index].block().memory())).collect();
    let mut inputs: Vec<_> =
        (0..count).filter(|index| !aliased[*index]).map(|index| launch.inputs[index].clone()).collect();
    let mut outputs = Vec::with_capacity(blocks.len());
    for (argument, bytes, pool, mut block) in blocks {
        if let Some(index) = argument {
            match launch.inputs.take(index).map(Buffer::into_block) {
                Some(Ok(taken)) => block = Some(taken),
                // Something else still uses the argument.
                Some(Err(shared)) => inputs.push(shared),
                None => inputs.push(launch.inputs[index].clone()),
            }
        }
        let block = block.map_or_else(|| device.allocate(pool, bytes, timeline), Ok)?;
        outputs.push(Buffer::new(block, bytes, event.clone()));
    }
    memory.extend(outputs.iter().map(Buffer::block).chain(&scratch).map(|block| Arc::clone(block.memory())));
    let (input_memory, others) = memory.split_at(count);
    let (output_memory, scratch_memory) = others.split_at(outputs.len());
    let member = member.map(Arc::new);
    let request = LaunchRequest {
        device: device.pool().device,
        inputs: input_memory,
        outputs: output_memory,
        scratch: scratch_memory.first(),
        member: member.as_ref(),
        options: &launch.options,
        channels: &launch.channels,
    };
    let mut prepared = driver.prepare(executable, &request);
    if prepared.as_ref().is_err_and(|error| error.code() == ErrorCode::RESOURCE_EXHAUSTED) {
        device.reclaim();
        prepared = driver.prepare(executable, &request);
    }
    let prepared = device.health.observe(Operation::Launch, prepared)?;
    for output in &outputs {
        launch.outputs.push(output.clone())?;
    }
    let executable = Arc::clone(executable);
    Ok(PlannedLaunch { device, executable, prepared, member, inputs, outputs, scratch, memory, event, completer })
}

impl<D: Driver> PlannedLaunch<'_, D> {
    /// Returns an error if the device is lost.
    pub(crate) fn check(&self) -> Result<()> {
        self.device.health.check()
    }

    /// Submits the launch. Returns the event of the outputs. Does not begin the launch if the device is lost. The event
    /// then fails.
    pub(crate) fn start(self) -> Event {
        let Self { device, executable, prepared, member, inputs, outputs, scratch, memory, event, completer } = self;
        let reads: Vec<_> = inputs.iter().map(Buffer::block).collect();
        let writes: Vec<_> = outputs.iter().map(Buffer::block).chain(&scratch).collect();
        let (operation, object) = (Operation::Launch, Object::Executable(executable));
        let submission = Submission { operation, reads: &reads, writes: &writes, memory, object, completer };
        // The event reports the error. The SDK adds the errors of arguments that fail later.
        let begun = device.compute.submit(submission, |driver, queue, after| Ok(driver.launch(queue, prepared, after)));
        if let (Err(error), Some(member)) = (begun, member) {
            member.fail(error.message());
        }
        event
    }
}
