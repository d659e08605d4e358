//! Launches: the steps of a plan in the queues of a device.

use std::ptr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use device_plugin::profiler::{self, Activity, Place as Line};
use device_plugin::{Error, ErrorCode, Result};
use device_runtime::{LaunchRequest, process_exits};
use opencl3::command_queue::CommandQueue;
use opencl3::context::Context;
use opencl3::event::{CL_COMPLETE, Event, create_user_event, set_user_event_status};
use opencl3::memory::ClMem;
use opencl3::types::{CL_TRUE, cl_event};
use stablehlo_passes::plan::{self, Memory as Kind, Place};

use crate::compile::{Executable, Work};
use crate::driver::{Done, Memory, OpenCl, Queues, failed, handles};

/// The memory and the program of a launch.
pub struct Prepared {
    executable: Arc<Executable>,
    inputs: Vec<Arc<Memory>>,
    outputs: Vec<Arc<Memory>>,
    scratch: Option<Arc<Memory>>,
    device: usize,
}

impl Prepared {
    pub(crate) fn new(executable: &Arc<Executable>, request: &LaunchRequest<'_, OpenCl>) -> Self {
        let (inputs, outputs) = (request.inputs.to_vec(), request.outputs.to_vec());
        let (executable, scratch) = (Arc::clone(executable), request.scratch.cloned());
        Self { executable, inputs, outputs, scratch, device: request.device }
    }

    fn memory(&self, place: Place) -> Result<&Memory> {
        let memory = match place.memory {
            Kind::Input(input) => self.inputs.get(input).map(|memory| &**memory),
            Kind::Output(output) => self.outputs.get(output).map(|memory| &**memory),
            Kind::Constants => self.executable.constants.as_ref(),
            Kind::Scratch => self.scratch.as_deref(),
        };
        memory.ok_or_else(|| Error::internal(format!("the launch has no memory {:?}", place.memory)))
    }

    /// Runs the steps, and waits for them if they need the host.
    fn run(&self, queue: &CommandQueue, trace: Option<&Trace>) -> Result<()> {
        plan::run(&self.executable.plan.steps, &mut Run { queue, prepared: self, trace })
    }
}

/// The kernels of a launch during a profile: their names, when they were enqueued, and their events.
pub(crate) struct Trace {
    device: usize,
    kernels: Mutex<Vec<(String, Instant, Event)>>,
}

impl Trace {
    /// Adds the times of the kernels, which have ended, to the profile.
    pub(crate) fn record(&self) {
        let kernels = std::mem::take(&mut *self.kernels.lock().unwrap_or_else(PoisonError::into_inner));
        for (name, enqueued, event) in kernels {
            let Ok(queued) = event.profiling_command_queued() else { continue };
            let times = [event.profiling_command_start(), event.profiling_command_end()];
            let [start, end] = times.map(|time| time.unwrap_or(queued).saturating_sub(queued));
            let [start, end] = [start, end].map(|time| enqueued + Duration::from_nanos(time));
            profiler::record(Activity::new(name, Line::device(self.device, "kernels"), start, end));
        }
    }
}

/// Begins a launch, and returns its completion. A launch that needs the host runs on the host thread of the device, in
/// a queue of its own. A user event tells later launches and copies when it has ended.
pub(crate) fn launch(context: &Context, queues: &Queues, prepared: Prepared, after: &[Arc<Done>]) -> Done {
    let (error, device) = (Arc::new(OnceLock::new()), prepared.device);
    let trace = profiler::is_recording().then(|| Arc::new(Trace { device, kernels: Mutex::default() }));
    // The last launch of the device, and whether it needs the host.
    let mut last = queues.last.lock().unwrap_or_else(PoisonError::into_inner);
    let begin = || -> Result<Arc<Event>> {
        if !prepared.executable.needs_host {
            let queue = &queues.compute;
            let hosted = last.as_ref().filter(|(_, needs_host)| *needs_host).map(|(event, _)| event.get());
            let result = wait_for(queue, &handles(after).into_iter().chain(hosted).collect::<Vec<_>>());
            if let Err(failed) = result.and_then(|()| prepared.run(queue, trace.as_deref())) {
                let _ = error.set(failed);
            }
            // SAFETY: R1 (the driver is trusted): an empty list stands for all commands before.
            let event = unsafe { queue.enqueue_marker_with_wait_list(&[]) };
            let event = event.map_err(failed("clEnqueueMarkerWithWaitList"));
            let event = event.and_then(|event| queue.flush().map(|()| event).map_err(failed("clFlush")));
            // Without an event, the memory of the launch is free at once, so its kernels must have ended.
            let event = Arc::new(event.inspect_err(|_| _ = queue.finish())?);
            *last = Some((Arc::clone(&event), false));
            return Ok(event);
        }
        let event = create_user_event(context.get()).map_err(|code| failed("clCreateUserEvent")(code.into()))?;
        let event = Arc::new(Event::new(event));
        let before = last.replace((Arc::clone(&event), true)).map(|(event, _)| event);
        let before: Vec<_> = after.iter().filter_map(|done| done.event.clone()).chain(before).collect();
        let end = End { event: Arc::clone(&event), error: Arc::clone(&error) };
        let (queue, trace) = (Arc::clone(&queues.hosted), trace.clone());
        queues.thread.run(move || {
            // The launch runs even if these have failed.
            before.iter().for_each(|event| _ = event.wait());
            let result = prepared.run(&queue, trace.as_deref());
            // Also after an error, because commands may still use the memory.
            let finished = queue.finish().map_err(failed("clFinish"));
            if let Err(failed) = result.and(finished) {
                let _ = end.error.set(failed);
            }
        });
        Ok(event)
    };
    let event = begin().map_err(|failed| error.set(failed)).ok();
    Done { event, error, trace }
}

/// The end of a launch that needs the host.
struct End {
    event: Arc<Event>,
    error: Arc<OnceLock<Error>>,
}

impl Drop for End {
    /// Completes the event, also if the launch has panicked, because other operations wait for it.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.error.set(Error::internal("the launch panicked"));
        }
        let _ = set_user_event_status(self.event.get(), CL_COMPLETE);
    }
}

/// Delays later commands of a queue until the events are complete.
fn wait_for(queue: &CommandQueue, events: &[cl_event]) -> Result<()> {
    if events.is_empty() {
        return Ok(());
    }
    // SAFETY: R1 (the driver is trusted): the events belong to the context.
    let event = unsafe { queue.enqueue_barrier_with_wait_list(events) };
    event.map(drop).map_err(failed("clEnqueueBarrierWithWaitList"))
}

/// Enqueues steps.
struct Run<'a> {
    queue: &'a CommandQueue,
    prepared: &'a Prepared,
    trace: Option<&'a Trace>,
}

impl Run<'_> {
    fn kernel(&mut self, index: usize, [global, local]: [&[usize; 3]; 2], places: &[&Place]) -> Result<()> {
        let executable = &self.prepared.executable;
        let kernel = executable.kernels[index].lock().unwrap_or_else(PoisonError::into_inner);
        for (at, &&place) in (0..).step_by(2).zip(places) {
            let memory = self.prepared.memory(place)?.get();
            // SAFETY: R1 (the driver is trusted): the parameters of kernels are pairs of a memory and an offset.
            unsafe { kernel.set_arg(at, &memory) }.map_err(failed("clSetKernelArg"))?;
            // SAFETY: as above. An offset has 64 bits.
            unsafe { kernel.set_arg(at + 1, &(place.offset as u64)) }.map_err(failed("clSetKernelArg"))?;
        }
        let (kernel, global, local) = (kernel.get(), global.as_ptr(), local.as_ptr());
        // SAFETY: R1 (the driver is trusted): the ranges have three dimensions, and all arguments are set.
        let event = unsafe { self.queue.enqueue_nd_range_kernel(kernel, 3, ptr::null(), global, local, &[]) };
        let event = event.map_err(failed("clEnqueueNDRangeKernel"))?;
        if let Some(trace) = self.trace {
            let mut kernels = trace.kernels.lock().unwrap_or_else(PoisonError::into_inner);
            kernels.push((executable.names[index].clone(), Instant::now(), event));
        }
        Ok(())
    }

    fn read_into(&self, from: Place, to: &mut [u8]) -> Result<()> {
        let memory = self.prepared.memory(from)?.lent();
        // SAFETY: R1 (the driver is trusted): the call returns when the bytes are in `to`.
        let event = unsafe { self.queue.enqueue_read_buffer(&memory, CL_TRUE, from.offset, to, &[]) };
        event.map(drop).map_err(failed("clEnqueueReadBuffer"))
    }

    fn write(&self, to: Place, from: &[u8]) -> Result<()> {
        let mut memory = self.prepared.memory(to)?.lent();
        // SAFETY: R1 (the driver is trusted): the call returns when `from` was read.
        let event = unsafe { self.queue.enqueue_write_buffer(&mut memory, CL_TRUE, to.offset, from, &[]) };
        event.map(drop).map_err(failed("clEnqueueWriteBuffer"))
    }
}

/// An error of a function on the host.
struct HostError(Error);

impl From<host_fallback::Error> for HostError {
    fn from(error: host_fallback::Error) -> Self {
        Self(Error::internal(error.to_string()))
    }
}

impl plan::Device for Run<'_> {
    type Kernel = Work;
    type Error = Error;

    fn run(&mut self, work: &Work, reads: &[Place], writes: &[Place]) -> Result<()> {
        if process_exits() {
            return Err(Error::new(ErrorCode::CANCELLED, "the process is about to end"));
        }
        match work {
            Work::Kernel(index, global, local) => {
                self.kernel(*index, [global, local], &reads.iter().chain(writes).collect::<Vec<_>>())
            }
            // OpenCL does not copy zero bytes.
            Work::Host(function) => self.prepared.executable.functions[*function]
                .run_with(
                    |at, to| if to.is_empty() { Ok(()) } else { self.read_into(reads[at], to).map_err(HostError) },
                    |at, from| if from.is_empty() { Ok(()) } else { self.write(writes[at], from).map_err(HostError) },
                )
                .map_err(|HostError(error)| error),
        }
    }

    fn copy(&mut self, from: Place, to: Place) -> Result<()> {
        let (source, mut target) = (self.prepared.memory(from)?.lent(), self.prepared.memory(to)?.lent());
        // An output may use the memory of a donated argument.
        if source.get() == target.get() && from.offset == to.offset {
            return Ok(());
        }
        let (queue, bytes) = (self.queue, from.bytes);
        // SAFETY: R1 (the driver is trusted): the places are within the memories, and do not overlap.
        let event = unsafe { queue.enqueue_copy_buffer(&source, &mut target, from.offset, to.offset, bytes, &[]) };
        event.map(drop).map_err(failed("clEnqueueCopyBuffer"))
    }

    fn read(&mut self, from: Place, to: &mut [u8]) -> Result<()> {
        self.read_into(from, to)
    }
}
