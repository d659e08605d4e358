//! Runs programs. A program runs on the caller's thread if that is faster than handing it to another thread. Other
//! programs run on the client's threads when their inputs are ready. Some programs start on the caller's thread and
//! continue on another thread.

use std::sync::Arc;
use std::time::Duration;

use device_plugin::ffi::ExecuteContext;
use device_plugin::{Backend, Error, ErrorCode, Event, Launch, Result};

use super::buffer::{CpuBuffer, Promise};
use super::compile::CpuExecutable;
use super::custom_calls;
use super::first_part::{FirstPart, Paused};
use super::job::Turn;
use super::memory::run_error;
use super::running::{Target, Ticket};
use super::state::{State, on_host, promises, ready_inputs, take};
use super::workers::Job;
use stablehlo_cpu::{Communicator, Member, Stop, Tensor, alone};

/// An execution that was started.
struct Started {
    event: Event,
    /// Whether the call that started the execution waits for its end.
    is_awaited: bool,
}

impl Started {
    /// Waits for the execution if its caller waits for it, and returns the error of the execution. The caller must
    /// receive the error here, because a framework may ignore the event of an execution without outputs.
    fn wait_if_awaited(&self) -> Result<()> {
        if self.is_awaited { self.event.wait() } else { Ok(()) }
    }
}

/// How long a destroyed client waits for executions with side effects before it stops them.
const GRACE: Duration = Duration::from_secs(30);

/// How long an ending process waits for the current step of each execution.
const LAST_STEP: Duration = Duration::from_secs(5);

/// One execution on one device. It owns its inputs.
struct Execution {
    state: Arc<State>,
    executable: Arc<CpuExecutable>,
    device: usize,
    work: Work,
    /// Membership in a launch on several devices. It ends with the execution, whether the run succeeds or not.
    member: Option<Member>,
    /// The context that the framework passes to custom calls.
    context: Option<ExecuteContext>,
    /// For each output, whether it is placed in host memory.
    on_host: Vec<bool>,
    outputs: Vec<Arc<Promise>>,
}

/// The work of an execution.
enum Work {
    /// The whole program, with these inputs.
    Whole(Vec<CpuBuffer>),
    /// The rest of a run that has paused.
    Rest(Paused),
}

impl State {
    /// Runs a program on the device of a launch. Returns the event of the execution.
    pub(crate) fn execute<B: Backend<Buffer = CpuBuffer>>(
        self: &Arc<Self>,
        executable: &Arc<CpuExecutable>,
        launch: &mut Launch<'_, B>,
    ) -> Result<Event> {
        // Other processes also run such a program, even if this process has only one of its devices. Only `execute_all`
        // connects the members in several processes.
        if !executable.is_quick() && executable.span().is_some() {
            let events = self.execute_all(executable, std::slice::from_mut(launch))?;
            return events.into_iter().next().ok_or_else(|| Error::internal("a launch without an event"));
        }
        let started = self.start(executable, launch, None)?;
        started.wait_if_awaited()?;
        Ok(started.event)
    }

    /// Starts a program on one device. Other members of the launch must not wait for this member.
    fn start<B: Backend<Buffer = CpuBuffer>>(
        self: &Arc<Self>,
        executable: &Arc<CpuExecutable>,
        launch: &mut Launch<'_, B>,
        member: Option<Member>,
    ) -> Result<Started> {
        self.workers.check_process()?;
        if self.deterministic {
            for index in 0..launch.inputs.len() {
                launch.inputs[index].tensor()?;
            }
        }
        // XLA's CPU client runs a program with host callbacks on the caller's thread if there is only one device. On
        // this thread, the callbacks see JAX's context managers. Programs with other handlers run on the client's
        // threads, except for programs whose latest runs were short and called no handler. If a handler runs such a
        // program itself, the handler is already on a thread of the client, and waits for the program on this thread.
        let is_within_handler = || self.workers.is_own_thread();
        let is_quick = executable.is_quick() && (!executable.calls_handlers() || is_within_handler());
        let is_here = is_quick || self.deterministic || (member.is_none() && executable.has_side_effects());
        if is_here && is_ready(launch) {
            let outputs = match is_quick {
                true => self.compute_here(executable, launch, member.as_ref(), None)?,
                // A program that may never end must be stoppable, even though the caller waits for it here.
                false => self.compute_stoppable(executable, launch, member.as_ref())?,
            };
            for output in outputs {
                launch.outputs.push(output.into())?;
            }
            return Ok(Started { event: Event::ready(), is_awaited: false });
        }
        if executable.is_expected_quick() && !executable.has_first_part() && member.is_none() && is_ready(launch) {
            let outputs = self.compute_stoppable(executable, launch, None);
            return Self::finish_on_caller(executable, launch, outputs);
        }
        let is_awaited = self.is_awaited(executable) && is_ready(launch);
        let mut paused = None;
        if executable.has_first_part() && member.is_none() && is_ready(launch) {
            match self.first_part(executable, launch) {
                Ok(FirstPart::Paused(run)) => paused = Some(run),
                Ok(FirstPart::Ended(outputs)) => return Self::finish_on_caller(executable, launch, Ok(outputs)),
                Err(error) => return Self::finish_on_caller(executable, launch, Err(error)),
            }
        }
        if !is_awaited {
            self.wait_for_room(&[launch.device]);
        }
        let target = Target { is_awaited, ..target(executable, launch, member.as_ref()) };
        let (event, ticket) = self.running.add(target)?;
        let work = paused.map_or_else(|| Work::whole(launch), Work::Rest);
        let execution = Execution::new(self, executable, launch, (work, member), &event)?;
        let inputs = execution.pending();
        let (workers, job) = (Arc::clone(&self.workers), execution.job(ticket));
        when_ready(inputs, move || workers.submit(job));
        Ok(Started { event, is_awaited })
    }

    /// Sets the outputs of a launch whose program ran on the caller's thread. If the run failed, the outputs and the
    /// event report its error.
    fn finish_on_caller<B: Backend<Buffer = CpuBuffer>>(
        executable: &CpuExecutable,
        launch: &mut Launch<'_, B>,
        outputs: Result<Vec<Tensor>>,
    ) -> Result<Started> {
        let event = match outputs {
            Ok(outputs) => {
                for output in outputs {
                    launch.outputs.push(output.into())?;
                }
                Event::ready()
            }
            Err(error) => {
                let event = Event::failed(error);
                promises(executable, launch, &event)?;
                event
            }
        };
        Ok(Started { event, is_awaited: false })
    }

    /// Runs a program on several devices at once. `launches` follow the device assignment, with the replica as the
    /// major index.
    pub(crate) fn execute_all<B: Backend<Buffer = CpuBuffer>>(
        self: &Arc<Self>,
        executable: &Arc<CpuExecutable>,
        launches: &mut [Launch<'_, B>],
    ) -> Result<Vec<Event>> {
        let (members, turn) = self.members(executable, launches)?;
        if !executable.program().has_collectives() {
            let each = launches.iter_mut().zip(members);
            let started = each.map(|(launch, member)| self.start(executable, launch, Some(member)));
            let started = started.collect::<Result<Vec<_>>>()?;
            started.iter().map(Started::wait_if_awaited).fold(Ok(()), Result::and)?;
            return Ok(started.into_iter().map(|started| started.event).collect());
        }
        self.workers.check_process()?;
        let is_awaited = self.is_awaited(executable) && launches.iter().all(is_ready);
        if !is_awaited {
            self.wait_for_room(&launches.iter().map(|launch| launch.device).collect::<Vec<_>>());
        }
        let mut events = Vec::with_capacity(launches.len());
        let mut inputs = Vec::new();
        let mut jobs = Vec::with_capacity(launches.len());
        for (launch, member) in launches.iter_mut().zip(members) {
            let target = Target { is_awaited, ..target(executable, launch, Some(&member)) };
            let (event, ticket) = self.running.add(target)?;
            let work = Work::whole(launch);
            let execution = Execution::new(self, executable, launch, (work, Some(member)), &event)?;
            inputs.extend(execution.pending());
            jobs.push((launch.device, execution.job(ticket)));
            events.push(event);
        }
        if let Some(turn) = turn {
            let (workers, previous) = (Arc::clone(&self.workers), turn.previous.clone());
            inputs.push(previous);
            when_ready(inputs, move || {
                // If the threads cannot be started, the jobs are dropped, and their events fail.
                drop(workers.launch(jobs));
                turn.end();
            });
        } else if inputs.is_empty() {
            let failed = |error| Error::resource_exhausted(format!("threads for {} devices: {error}", events.len()));
            self.workers.launch(jobs).map_err(failed)?;
        } else {
            let workers = Arc::clone(&self.workers);
            // If the threads cannot be started, the jobs are dropped, and their events fail.
            when_ready(inputs, move || drop(workers.launch(jobs)));
        }
        if is_awaited {
            events.iter().map(Event::wait).fold(Ok(()), Result::and)?;
        }
        Ok(events)
    }

    /// Returns the members of a launch that this process runs, in the order of `launches`. If they communicate with
    /// other processes, also returns the [`Turn`] of the launch.
    fn members<B: Backend<Buffer = CpuBuffer>>(
        &self,
        executable: &CpuExecutable,
        launches: &[Launch<'_, B>],
    ) -> Result<(Vec<Member>, Option<Turn>)> {
        let settings = executable.program().settings();
        let (replicas, partitions) = (settings.replicas, settings.partitions);
        let expect = |wanted: usize| match launches.len() {
            found if found == wanted => Ok(()),
            found => Err(Error::invalid_argument(format!("{found} devices to run a program on that is for {wanted}"))),
        };
        let (Some(span), Some(job)) = (executable.span(), &self.job) else {
            expect(replicas.saturating_mul(partitions))?;
            return Ok((Communicator::new(replicas, partitions).members(), None));
        };
        let ids: Vec<_> = span.local_members(job.rank()).collect();
        // The other processes learn of a launch when it begins, so a rejected launch must not begin.
        expect(ids.len())?;
        let (communicator, turn) = if executable.program().has_collectives() {
            let (launch, turn) = job.begin(span)?;
            (Communicator::across(replicas, partitions, Arc::new(launch)), Some(turn))
        } else {
            (Communicator::new(replicas, partitions), None)
        };
        let members = ids.iter().map(|id| communicator.member(id / partitions, id % partitions)).collect();
        Ok((members, turn))
    }

    /// Returns whether a caller waits for the program if its inputs are ready.
    ///
    /// A thread of the client never waits, because the program may need this thread.
    fn is_awaited(&self, executable: &CpuExecutable) -> bool {
        executable.has_side_effects() && !self.workers.is_own_thread()
    }

    /// Waits until the devices may have another execution in flight.
    ///
    /// This wait always ends. The inputs of the executions in flight exist or are the results of other executions, so
    /// these executions end without the caller. A thread of the client does not wait here. A handler runs on such a
    /// thread, so it may launch programs beyond the limit.
    fn wait_for_room(&self, devices: &[usize]) {
        self.running.wait_for_room(devices, || self.workers.is_own_thread());
    }

    /// Makes a buffer from another buffer, now or as soon as the other buffer is ready.
    pub(crate) fn derive(
        self: &Arc<Self>,
        buffer: &CpuBuffer,
        make: impl FnOnce(&Tensor) -> Result<Tensor> + Send + 'static,
    ) -> Result<CpuBuffer> {
        let Some(pending) = buffer.pending() else {
            return Ok(make(buffer.tensor()?)?.into());
        };
        let (event, completer) = Event::pending();
        let (promise, from) = (Promise::new(event, buffer.is_dynamic()), buffer.clone());
        let kept = Arc::clone(&promise);
        pending.on_ready(move |_| {
            completer.run_inline(move || {
                kept.keep(make(from.tensor()?)?);
                Ok(())
            });
        });
        Ok(promise.into())
    }

    /// Ends the executions and the threads of a destroyed client.
    ///
    /// The buffers, the executables and the client have all been freed, so the outputs of the executions cannot be
    /// read. An execution without side effects is therefore stopped at once, because its loop might never end. An
    /// execution with side effects may continue for [`GRACE`]. After this time, it is also stopped, at the end of its
    /// current step.
    pub(crate) fn close(&self) {
        // In a forked process, the threads do not exist. At the end of a process, the threads are parked.
        if self.workers.check_process().is_err() || self.running.is_frozen() {
            return self.workers.abandon();
        }
        let gone = |what: &str| Error::new(ErrorCode::CANCELLED, format!("the client was destroyed {what}"));
        self.running.stop_all(false, &gone("while the program ran"));
        self.transfers.stop_receiving();
        // A thread of the client cannot wait for the execution that it runs.
        if !self.workers.is_own_thread() && !self.running.wait_until_none(GRACE) {
            let patience = GRACE.as_secs();
            self.running.stop_all(true, &gone(&format!("{patience} s ago, and the program still ran")));
        }
        self.transfers.join();
        self.workers.close();
    }

    /// Parks the threads if the process ends before the client is destroyed, so that they call no more callbacks.
    pub(crate) fn end_with_process(&self) {
        // In a forked process there are no threads to wait for.
        if self.workers.check_process().is_ok() {
            self.running.freeze();
            if !self.workers.is_own_thread() {
                self.running.wait_until_none(LAST_STEP);
            }
        }
    }

    /// Runs a program to completion on the caller's thread.
    #[inline]
    fn compute_here<B: Backend<Buffer = CpuBuffer>>(
        &self,
        executable: &CpuExecutable,
        launch: &mut Launch<'_, B>,
        member: Option<&Member>,
        stop: Option<&Stop>,
    ) -> Result<Vec<Tensor>> {
        let inputs = ready_inputs(launch)?;
        let on_host = |index| on_host(launch, index);
        let compute = || self.compute(executable, launch.device, inputs, (member, stop), on_host);
        custom_calls::within(launch.options.context(), compute)
    }

    /// Runs a program to completion on the caller's thread. Other threads can stop it.
    fn compute_stoppable<B: Backend<Buffer = CpuBuffer>>(
        &self,
        executable: &CpuExecutable,
        launch: &mut Launch<'_, B>,
        member: Option<&Member>,
    ) -> Result<Vec<Tensor>> {
        let target = Target { is_awaited: true, ..target(executable, launch, member) };
        let (event, ticket) = self.running.add(target)?;
        let mut outputs = Vec::new();
        ticket.run(|stop| {
            let run = || self.compute_here(executable, launch, member, Some(stop));
            outputs = executable.recent_runs().measure(run)?;
            Ok(())
        });
        event.wait()?;
        Ok(outputs)
    }

    /// Runs a program to completion.
    #[inline]
    fn compute(
        &self,
        executable: &CpuExecutable,
        device: usize,
        inputs: Vec<Tensor>,
        (member, stop): (Option<&Member>, Option<&Stop>),
        on_host: impl Fn(usize) -> bool,
    ) -> Result<Vec<Tensor>> {
        let (kept, pool) = (self.kept(&inputs), self.memories.device(device));
        let run = || executable.program().run_in(inputs, pool, member, stop);
        let outputs = if self.deterministic { alone(run) } else { run() };
        let outputs = outputs.map_err(|error| run_error(error, device))?;
        drop(kept);
        self.owned(outputs, device, member.is_some(), on_host)
    }
}

impl Work {
    /// Takes the inputs of a launch.
    fn whole<B: Backend<Buffer = CpuBuffer>>(launch: &mut Launch<'_, B>) -> Self {
        let count = launch.inputs.len();
        Work::Whole((0..count).map(|index| take(launch, index)).collect())
    }
}

impl Execution {
    /// Creates an execution, and sets promises as the outputs of the launch.
    fn new<B: Backend<Buffer = CpuBuffer>>(
        state: &Arc<State>,
        executable: &Arc<CpuExecutable>,
        launch: &mut Launch<'_, B>,
        (work, member): (Work, Option<Member>),
        ready: &Event,
    ) -> Result<Self> {
        let on_host = (0..launch.outputs.len()).map(|index| on_host(launch, index)).collect();
        let outputs = promises(executable, launch, ready)?;
        let (state, executable) = (Arc::clone(state), Arc::clone(executable));
        let context = launch.options.context().cloned();
        Ok(Self { state, executable, device: launch.device, work, member, context, on_host, outputs })
    }

    /// Returns the events of the inputs that are not ready.
    fn pending(&self) -> Vec<Event> {
        match &self.work {
            Work::Whole(inputs) => inputs.iter().filter_map(|input| input.pending().cloned()).collect(),
            Work::Rest(_) => Vec::new(),
        }
    }

    fn job(self, ticket: Ticket) -> Job {
        Box::new(move || ticket.run(move |stop| self.run(stop)))
    }

    fn run(self, stop: &Stop) -> Result<()> {
        let Self { state, executable, device, work, member, context, on_host, outputs } = self;
        let on_host = |index: usize| on_host[index];
        let made = match work {
            Work::Rest(paused) => state.resume(&executable, device, paused, stop, on_host)?,
            Work::Whole(inputs) => {
                let inputs = inputs.into_iter().map(CpuBuffer::into_tensor).collect::<Result<Vec<_>>>();
                let inputs = inputs.inspect_err(|error| {
                    if let Some(member) = &member {
                        member.fail(&format!("its input failed: {}", error.message()));
                    }
                })?;
                let compute = || state.compute(&executable, device, inputs, (member.as_ref(), Some(stop)), on_host);
                executable.recent_runs().measure(|| custom_calls::within(context.as_ref(), compute))?
            }
        };
        for (promise, output) in outputs.into_iter().zip(made) {
            promise.keep(output);
        }
        Ok(())
    }
}

/// Returns whether the inputs of a launch are ready.
fn is_ready<B: Backend<Buffer = CpuBuffer>>(launch: &Launch<'_, B>) -> bool {
    (0..launch.inputs.len()).all(|index| launch.inputs[index].pending().is_none())
}

/// Describes an execution for [`Running`].
fn target<B: Backend<Buffer = CpuBuffer>>(
    executable: &CpuExecutable,
    launch: &Launch<'_, B>,
    member: Option<&Member>,
) -> Target {
    Target {
        device: launch.device,
        launch_id: Some(launch.options.launch_id),
        is_awaited: false,
        has_side_effects: executable.has_side_effects(),
        communicator: member.map(|member| Arc::clone(member.communicator())),
    }
}

/// Runs `then` when all events are ready, with or without errors. `then` runs on this thread if all events are ready
/// now, and otherwise on the thread that completes the last event.
fn when_ready(events: Vec<Event>, then: impl FnOnce() + Send + 'static) {
    Event::all(events).on_ready(move |_| then());
}
