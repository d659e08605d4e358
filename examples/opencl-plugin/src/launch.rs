//! Launches: the steps of a plan in the queues of a device.

use std::ptr;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

use device_plugin::{Error, ErrorCode, Result};
use device_runtime::collectives::Member;
use device_runtime::{KernelTimes, LaunchMemory, process_exits};
use opencl3::command_queue::CommandQueue;
use opencl3::context::Context;
use opencl3::event::{CL_COMPLETE, Event, create_user_event, set_user_event_status};
use opencl3::types::{CL_TRUE, cl_event};
use stablehlo_passes::plan::{self, Memory as Kind, Place};

use crate::compile::{Executable, Work};
use crate::driver::{Done, Memory, OpenCl, Queues, failed, handles};

/// The memory and the program of a launch.
pub struct Prepared(pub(crate) Arc<Executable>, pub(crate) LaunchMemory<OpenCl>);

impl Prepared {
    pub(crate) fn memory(&self, place: Place) -> Result<&Arc<Memory>> {
        let memory = match place.memory {
            Kind::Input(input) => self.1.inputs.get(input),
            Kind::Output(output) => self.1.outputs.get(output),
            Kind::Constants => self.0.constants.as_ref(),
            Kind::Scratch => self.1.scratch.as_ref(),
        };
        memory.ok_or_else(|| Error::internal(format!("the launch has no memory {:?}", place.memory)))
    }

    /// Runs the steps, and waits for them if they need the host.
    fn run(&self, queue: &CommandQueue, trace: Option<&Trace>) -> Result<()> {
        let result = plan::run(&self.0.plan.steps, &mut Run { queue, prepared: self, trace });
        match (&self.1.member, &result) {
            (Some(member), Ok(())) => member.finish(),
            (Some(member), Err(error)) => member.fail(error.message()),
            (None, _) => {}
        }
        result
    }
}

/// The kernels of a launch during a profile.
pub(crate) type Trace = KernelTimes<Event>;

/// Returns the times from the submission of a kernel to its start and its end.
pub(crate) fn times(event: &Event) -> Option<[Duration; 2]> {
    let [queued, start, end] = [
        event.profiling_command_queued().ok()?,
        event.profiling_command_start().ok()?,
        event.profiling_command_end().ok()?,
    ];
    Some([start, end].map(|time| Duration::from_nanos(time.saturating_sub(queued))))
}

/// Begins a launch, and returns its completion. A launch that needs the host runs on the host thread of the device, in
/// a queue of its own. A user event tells later launches and copies when it has ended.
pub(crate) fn launch(context: &Context, queues: &Queues, prepared: Prepared, after: &[Arc<Done>]) -> Done {
    let (error, trace) = (Arc::new(OnceLock::new()), Trace::start(prepared.1.device));
    // The last launch of the device, and whether it needs the host.
    let mut last = queues.last.lock().unwrap_or_else(PoisonError::into_inner);
    let begin = || -> Result<Arc<Event>> {
        if !prepared.0.needs_host {
            let queue = &queues.compute;
            let hosted = last.as_ref().filter(|(_, needs_host)| *needs_host).map(|(event, _)| event.get());
            let result = wait_for(queue, &handles(after).into_iter().chain(hosted).collect::<Vec<_>>());
            if let Err(failed) = result.and_then(|()| prepared.run(queue, trace.as_deref())) {
                let _ = error.set(failed);
            }
            // Without an event, the memory of the launch is free at once, so its kernels must have ended.
            let event = marker(queue).inspect_err(|_| _ = queue.finish())?;
            *last = Some((Arc::clone(&event), false));
            return Ok(event);
        }
        let event = create_user_event(context.get()).map_err(|code| failed("clCreateUserEvent")(code.into()))?;
        let event = Arc::new(Event::new(event));
        let before = last.replace((Arc::clone(&event), true)).map(|(event, _)| event);
        let before: Vec<_> = after.iter().filter_map(|done| done.event.clone()).chain(before).collect();
        let (queue, trace) = (Arc::clone(&queues.hosted), trace.clone());
        let end = End { queue, event: Arc::clone(&event), error: Arc::clone(&error) };
        queues.thread.run(move || {
            // The launch runs even if these have failed.
            before.iter().for_each(|event| _ = event.wait());
            let _ = prepared.run(&end.queue, trace.as_deref()).map_err(|failed| end.error.set(failed));
        });
        Ok(event)
    };
    let event = begin().map_err(|failed| error.set(failed)).ok();
    Done { event, error, trace }
}

/// The end of a launch that needs the host.
struct End {
    queue: Arc<CommandQueue>,
    event: Arc<Event>,
    error: Arc<OnceLock<Error>>,
}

impl Drop for End {
    /// Completes the event, also if the launch has panicked, because other operations wait for it.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.error.set(Error::internal("the launch panicked"));
        }
        // Also after an error or a panic, because commands may still use the memory.
        let _ = self.queue.finish().map_err(|code| self.error.set(failed("clFinish")(code)));
        let _ = set_user_event_status(self.event.get(), CL_COMPLETE);
    }
}

/// Returns the event of all commands before, and makes sure that they begin.
pub(crate) fn marker(queue: &CommandQueue) -> Result<Arc<Event>> {
    // SAFETY: R1 (the driver is trusted): an empty list stands for all commands before.
    let event = unsafe { queue.enqueue_marker_with_wait_list(&[]) };
    let event = event.map_err(failed("clEnqueueMarkerWithWaitList"))?;
    queue.flush().map(|()| Arc::new(event)).map_err(failed("clFlush"))
}

/// Delays later commands of a queue until the events are complete.
pub(crate) fn wait_for(queue: &CommandQueue, events: &[cl_event]) -> Result<()> {
    if events.is_empty() {
        return Ok(());
    }
    // SAFETY: R1 (the driver is trusted): the events belong to the context.
    let event = unsafe { queue.enqueue_barrier_with_wait_list(events) };
    event.map(drop).map_err(failed("clEnqueueBarrierWithWaitList"))
}

fn enqueue_copy(queue: &CommandQueue, from: (&Memory, usize), to: (&Memory, usize), bytes: usize) -> Result<()> {
    let (source, mut target) = (from.0.lent(), to.0.lent());
    // SAFETY: R1 (the driver is trusted): the ranges are within the memories, and do not overlap.
    let event = unsafe { queue.enqueue_copy_buffer(&source, &mut target, from.1, to.1, bytes, &[]) };
    event.map(drop).map_err(failed("clEnqueueCopyBuffer"))
}

/// Enqueues steps.
pub(crate) struct Run<'a> {
    pub(crate) queue: &'a CommandQueue,
    pub(crate) prepared: &'a Prepared,
    trace: Option<&'a Trace>,
}

impl Run<'_> {
    /// Enqueues a kernel. If `local` is 0, the driver chooses the size of work-groups.
    fn kernel(&mut self, index: usize, ranges: [&[usize; 3]; 2], places: &[(&Memory, usize)]) -> Result<()> {
        let executable = &self.prepared.0;
        let kernel = executable.kernels[index].lock().unwrap_or_else(PoisonError::into_inner);
        for (at, (memory, offset)) in (0..).step_by(2).zip(places) {
            // SAFETY: R1 (the driver is trusted): the parameters of kernels are pairs of a memory and an offset.
            unsafe { kernel.set_arg(at, &memory.get()) }.map_err(failed("clSetKernelArg"))?;
            // SAFETY: as above. An offset has 64 bits.
            unsafe { kernel.set_arg(at + 1, &(*offset as u64)) }.map_err(failed("clSetKernelArg"))?;
        }
        let [global, local] = ranges.map(|range| if range[0] == 0 { ptr::null() } else { range.as_ptr() });
        let kernel = kernel.get();
        // SAFETY: R1 (the driver is trusted): the ranges have three dimensions, and all arguments are set.
        let event = unsafe { self.queue.enqueue_nd_range_kernel(kernel, 3, ptr::null(), global, local, &[]) };
        let event = event.map_err(failed("clEnqueueNDRangeKernel"))?;
        if let Some(trace) = self.trace {
            trace.add(&executable.names[index], event);
        }
        Ok(())
    }

    /// Combines the arrays of a group of devices. A device reads the memory of others, because they share a context. It
    /// reads copies, because two devices must not use one `cl_mem` at the same time if one of them writes to it.
    fn all_reduce(
        &mut self,
        member: &Member,
        work: (u64, &[usize], usize, usize),
        from: Place,
        to: Place,
    ) -> Result<()> {
        let (number, group, kernel, elements) = work;
        let (queue, target) = (self.queue, Arc::clone(self.prepared.memory(to)?));
        let copy = Arc::new(OpenCl::buffer(from.bytes, None)?);
        enqueue_copy(queue, (self.prepared.memory(from)?, from.offset), (&copy, 0), from.bytes)?;
        // OpenCL frees a copy after the last command that reads it.
        for (rank, (source, ready)) in member.exchange(number, group, (copy, marker(queue)?))?.iter().enumerate() {
            wait_for(queue, &[ready.get()])?;
            if rank > 0 {
                self.kernel(kernel, [&[elements, 1, 1], &[0; 3]], &[(source, 0), (&target, to.offset)])?;
                continue;
            }
            enqueue_copy(queue, (source, 0), (&target, to.offset), to.bytes)?;
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
                let place = |place: &Place| Ok((&**self.prepared.memory(*place)?, place.offset));
                let places: Vec<_> = reads.iter().chain(writes).map(place).collect::<Result<_>>()?;
                self.kernel(*index, [global, local], &places)
            }
            Work::AllReduce(number, groups, kernel, elements) => {
                let member = self.prepared.1.member.as_deref();
                let group = member.and_then(|member| groups.iter().find(|group| group.contains(&member.id())));
                let Some((member, group)) = member.zip(group) else { return self.copy(reads[0], writes[0]) };
                self.all_reduce(member, (*number, group, *kernel, *elements), reads[0], writes[0])
            }
            Work::Id(divisor, modulus) => {
                let id = self.prepared.1.member.as_ref().map_or(0, |member| member.id());
                let id = u32::try_from(id / divisor % modulus).unwrap_or(u32::MAX).to_le_bytes();
                let mut to = self.prepared.memory(writes[0])?.lent();
                // SAFETY: R1 (the driver is trusted): the range is within the memory. The call copies the pattern.
                let event = unsafe { self.queue.enqueue_fill_buffer(&mut to, &id, writes[0].offset, 4, &[]) };
                event.map(drop).map_err(failed("clEnqueueFillBuffer"))
            }
            // OpenCL does not copy zero bytes.
            Work::Host(function) => self.prepared.0.functions[*function]
                .run_with(
                    |at, to| if to.is_empty() { Ok(()) } else { self.read_into(reads[at], to).map_err(HostError) },
                    |at, from| if from.is_empty() { Ok(()) } else { self.write(writes[at], from).map_err(HostError) },
                )
                .map_err(|HostError(error)| error),
        }
    }

    fn copy(&mut self, from: Place, to: Place) -> Result<()> {
        let (source, target) = (self.prepared.memory(from)?, self.prepared.memory(to)?);
        // An output may use the memory of a donated argument.
        if source.get() == target.get() && from.offset == to.offset {
            return Ok(());
        }
        enqueue_copy(self.queue, (source, from.offset), (target, to.offset), from.bytes)
    }

    fn read(&mut self, from: Place, to: &mut [u8]) -> Result<()> {
        self.read_into(from, to)
    }
}
