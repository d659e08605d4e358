//! Launches: the steps of a plan in the queues of a device.

use std::ffi::c_void;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cl3::command_queue as queues;
use cl3::event::{CL_COMPLETE, create_user_event, set_user_event_status};
use cl3::kernel::set_kernel_arg;
use cl3::types::{CL_TRUE, cl_event, cl_kernel, cl_mem};
use device_plugin::profiler::{self, Activity, Place as Line};
use device_plugin::{Error, Result};
use device_runtime::LaunchRequest;
use opencl3::command_queue::CommandQueue;
use opencl3::context::Context;
use opencl3::event::Event;
use stablehlo_passes::plan::{self, Memory as Kind, Place};

use crate::compile::{Executable, Work};
use crate::driver::{Done, Memory, OpenCl, Queues, cl_error, handles, list};

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
        Self {
            executable: Arc::clone(executable),
            inputs: request.inputs.to_vec(),
            outputs: request.outputs.to_vec(),
            scratch: request.scratch.cloned(),
            device: request.device,
        }
    }

    fn memory(&self, place: Place) -> Result<cl_mem> {
        let memory = match place.memory {
            Kind::Input(input) => self.inputs.get(input).map(|memory| memory.get()),
            Kind::Output(output) => self.outputs.get(output).map(|memory| memory.get()),
            Kind::Constants => self.executable.constants.as_ref().map(Memory::get),
            Kind::Scratch => self.scratch.as_ref().map(|memory| memory.get()),
        };
        memory.ok_or_else(|| Error::internal(format!("the launch has no memory {:?}", place.memory)))
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
            let (start, end) = (event.profiling_command_start(), event.profiling_command_end());
            let at = |time: Result<u64, _>| {
                enqueued + Duration::from_nanos(time.unwrap_or(queued).saturating_sub(queued))
            };
            let line = Line::device(self.device, "kernels");
            profiler::record(Activity::new(name, line, at(start.map_err(drop)), at(end.map_err(drop))));
        }
    }
}

/// Begins a launch, and returns its completion. The queue of a device runs launches in the order of the calls. Launches
/// that need the host run on the worker of the device. They have a queue of their own and a user event, which later
/// launches wait for.
pub(crate) fn launch(
    context: &Context,
    queues: &Queues,
    last: &mut Option<(Arc<Event>, bool)>,
    prepared: Prepared,
    after: &[Arc<Done>],
) -> Done {
    let (error, device) = (Arc::new(OnceLock::new()), prepared.device);
    let trace = profiler::is_recording().then(|| Arc::new(Trace { device, kernels: Mutex::default() }));
    let begin = || -> Result<Arc<Event>> {
        if !prepared.executable.needs_host {
            let mut events = handles(after);
            events.extend(last.as_ref().filter(|(_, is_hosted)| *is_hosted).map(|(event, _)| event.get()));
            let mut run = Run { queue: &queues.compute, prepared: &prepared, trace: trace.as_deref() };
            let result = run.wait_for(&events).and_then(|()| plan::run(&prepared.executable.plan.steps, &mut run));
            result.unwrap_or_else(|failed| _ = error.set(failed));
            let event = run.marker()?;
            queues.compute.flush().map_err(|error| cl_error("clFlush", error.0))?;
            *last = Some((Arc::clone(&event), false));
            return Ok(event);
        }
        let event = create_user_event(context.get()).map_err(|code| cl_error("clCreateUserEvent", code))?;
        let event = Arc::new(Event::new(event));
        let before = last.replace((Arc::clone(&event), true));
        let after = after.iter().filter_map(|done| done.event.clone()).chain(before.map(|(event, _)| event)).collect();
        let job = Job { prepared, after, event: Arc::clone(&event), error: Arc::clone(&error), trace: trace.clone() };
        queues.worker.submit(job);
        Ok(event)
    };
    let event = begin().map_err(|failed| error.set(failed)).ok();
    Done { event, error, trace }
}

/// A launch that needs the host.
struct Job {
    prepared: Prepared,
    after: Vec<Arc<Event>>,
    event: Arc<Event>,
    error: Arc<OnceLock<Error>>,
    trace: Option<Arc<Trace>>,
}

impl Drop for Job {
    /// Completes the event, also if the launch panicked, because other operations wait for it.
    fn drop(&mut self) {
        let _ = set_user_event_status(self.event.get(), CL_COMPLETE);
    }
}

/// A thread for the launches of a device that need the host. Dropping it waits for them.
pub(crate) struct Worker {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    pub(crate) fn start(queue: CommandQueue) -> Result<Self> {
        let (jobs, receiver) = channel();
        let thread = std::thread::Builder::new().name("opencl-host".to_owned()).spawn(move || work(&queue, &receiver));
        let thread = thread.map_err(|error| Error::resource_exhausted(format!("no thread for launches: {error}")))?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    fn submit(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            // If the thread is gone, dropping the job completes its event.
            let _ = jobs.send(job);
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.jobs = None;
        self.thread.take().map(JoinHandle::join);
    }
}

fn work(queue: &CommandQueue, jobs: &Receiver<Job>) {
    for job in jobs {
        let contained = std::panic::AssertUnwindSafe(|| -> Result<()> {
            // The operation runs even if these have failed.
            job.after.iter().for_each(|event| _ = event.wait());
            let mut run = Run { queue, prepared: &job.prepared, trace: job.trace.as_deref() };
            plan::run(&job.prepared.executable.plan.steps, &mut run)?;
            queue.finish().map_err(|error| cl_error("clFinish", error.0))
        });
        let result = contained();
        if let Err(error) = result {
            // Commands of the launch may still use its memory.
            let _ = queue.finish();
            let _ = job.error.set(error);
        }
    }
}

/// An error of a function on the host.
struct HostError(Error);

impl From<host_fallback::Error> for HostError {
    fn from(error: host_fallback::Error) -> Self {
        Self(Error::internal(error.to_string()))
    }
}

/// Enqueues steps.
struct Run<'a> {
    queue: &'a CommandQueue,
    prepared: &'a Prepared,
    trace: Option<&'a Trace>,
}

impl Run<'_> {
    /// Delays later commands of the queue until the events are complete.
    fn wait_for(&self, events: &[cl_event]) -> Result<()> {
        if events.is_empty() {
            return Ok(());
        }
        let (count, events) = list(events);
        // SAFETY: R1 (the driver is trusted): the events belong to the context.
        let event = unsafe { queues::enqueue_barrier_with_wait_list(self.queue.get(), count, events) };
        event.map(|event| drop(Event::new(event))).map_err(|code| cl_error("clEnqueueBarrierWithWaitList", code))
    }

    /// Returns the completion of all commands before.
    fn marker(&self) -> Result<Arc<Event>> {
        let (count, events) = list(&[]);
        // SAFETY: R1 (the driver is trusted): the list is empty, which stands for all commands before.
        let event = unsafe { queues::enqueue_marker_with_wait_list(self.queue.get(), count, events) };
        event.map(|event| Arc::new(Event::new(event))).map_err(|code| cl_error("clEnqueueMarkerWithWaitList", code))
    }

    fn kernel(&mut self, index: usize, ranges: [&[usize; 3]; 2], places: &[&Place]) -> Result<()> {
        let kernel = self.prepared.executable.kernels[index].lock().unwrap_or_else(PoisonError::into_inner);
        for (at, place) in (0..).step_by(2).zip(places) {
            argument(kernel.get(), at, &self.prepared.memory(**place)?)?;
            argument(kernel.get(), at + 1, &(place.offset as u64))?;
        }
        let ((count, events), [global, local]) = (list(&[]), ranges.map(|range| range.as_ptr()));
        let (queue, offset) = (self.queue.get(), std::ptr::null());
        // SAFETY: R1 (the driver is trusted): the ranges have three dimensions, and all arguments are set.
        let event = unsafe {
            queues::enqueue_nd_range_kernel(queue, kernel.get(), 3, offset, global, local, count, events)
        };
        let event = event.map_err(|code| cl_error("clEnqueueNDRangeKernel", code))?;
        let event = Event::new(event);
        if let Some(trace) = self.trace {
            let name = self.prepared.executable.names[index].clone();
            trace.kernels.lock().unwrap_or_else(PoisonError::into_inner).push((name, Instant::now(), event));
        }
        Ok(())
    }

    fn read_into(&self, from: Place, to: &mut [u8]) -> Result<()> {
        if to.is_empty() {
            return Ok(());
        }
        let ((count, events), memory) = (list(&[]), self.prepared.memory(from)?);
        let (queue, address) = (self.queue.get(), to.as_mut_ptr().cast::<c_void>());
        // SAFETY: R1 (the driver is trusted): `address` is that of `to`, and the call returns when the bytes are there.
        let event = unsafe {
            queues::enqueue_read_buffer(queue, memory, CL_TRUE, from.offset, to.len(), address, count, events)
        };
        event.map(|event| drop(Event::new(event))).map_err(|code| cl_error("clEnqueueReadBuffer", code))
    }

    fn write(&self, to: Place, from: &[u8]) -> Result<()> {
        if from.is_empty() {
            return Ok(());
        }
        let ((count, events), memory) = (list(&[]), self.prepared.memory(to)?);
        let (queue, address) = (self.queue.get(), from.as_ptr().cast::<c_void>());
        // SAFETY: R1 (the driver is trusted): `address` is that of `from`, and the call returns when it was read.
        let event = unsafe {
            queues::enqueue_write_buffer(queue, memory, CL_TRUE, to.offset, from.len(), address, count, events)
        };
        event.map(|event| drop(Event::new(event))).map_err(|code| cl_error("clEnqueueWriteBuffer", code))
    }
}

/// Sets an argument of a kernel.
fn argument<T: Copy>(kernel: cl_kernel, index: u32, value: &T) -> Result<()> {
    // SAFETY: R1 (the driver is trusted): the kernels' parameters are pairs of a memory and an offset of 64 bits.
    let result = unsafe { set_kernel_arg(kernel, index, size_of::<T>(), std::ptr::from_ref(value).cast()) };
    result.map_err(|code| cl_error("clSetKernelArg", code))
}

impl plan::Device for Run<'_> {
    type Kernel = Work;
    type Error = Error;

    fn run(&mut self, work: &Work, reads: &[Place], writes: &[Place]) -> Result<()> {
        match work {
            Work::Kernel(index, global, local) => {
                let places: Vec<_> = reads.iter().chain(writes).collect();
                self.kernel(*index, [global, local], &places)
            }
            Work::Host(function) => {
                let read = |index: usize, to: &mut [u8]| self.read_into(reads[index], to).map_err(HostError);
                let write = |index: usize, from: &[u8]| self.write(writes[index], from).map_err(HostError);
                let function = &self.prepared.executable.functions[*function];
                function.run_with(read, write).map_err(|HostError(error)| error)
            }
        }
    }

    fn copy(&mut self, from: Place, to: Place) -> Result<()> {
        let (source, target) = (self.prepared.memory(from)?, self.prepared.memory(to)?);
        // An output may use the memory of a donated argument.
        if source == target && from.offset == to.offset {
            return Ok(());
        }
        let (count, events) = list(&[]);
        let (queue, offsets) = (self.queue.get(), (from.offset, to.offset));
        // SAFETY: R1 (the driver is trusted): the places are within the memories, and do not overlap.
        let event = unsafe {
            queues::enqueue_copy_buffer(queue, source, target, offsets.0, offsets.1, from.bytes, count, events)
        };
        event.map(|event| drop(Event::new(event))).map_err(|code| cl_error("clEnqueueCopyBuffer", code))
    }

    fn read(&mut self, from: Place, to: &mut [u8]) -> Result<()> {
        self.read_into(from, to)
    }
}
