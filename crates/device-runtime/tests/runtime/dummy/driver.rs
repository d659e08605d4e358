//! The driver, whose queues are threads.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::thread::JoinHandle;

use device_plugin::features::{Features, Stream};
use device_plugin::ffi::Registry;
use device_plugin::{
    ClientOptions, CompileOptions, Compiled, DeviceInfo, DevicePlugin, ElementType, Error, ErrorCode, ExecutableInfo,
    Program, Result, Shape, device_plugin,
};
use device_runtime::collectives::{Arrays, Place, Transport};
use device_runtime::{
    Driver, DriverDevice, DriverMemory, HostSource, HostTarget, LaunchRequest, QueueId, QueueKind, Runtime,
};

use crate::dummy::control::{Control, QueueKey, key};
use crate::dummy::program::Kernel;

/// The message of a panic that a test wants.
pub(crate) const PANIC: &str = "a panic on purpose";

/// The plugin over the dummy driver.
pub(crate) struct Plugin;

#[device_plugin]
impl DevicePlugin for Plugin {
    const NAME: &'static str = "dummy";
    type Backend = Runtime<Dummy>;
}

/// Passes works to the thread of a queue.
type Queue = (Sender<Job>, JoinHandle<()>);

/// The features of a dummy driver.
pub(crate) trait FeatureSet: Sized + Send + Sync + 'static {
    const FEATURES: Features<Runtime<Dummy<Self>>> = Features::none();
}

/// No features.
pub(crate) struct Plain;

impl FeatureSet for Plain {}

pub(crate) struct Dummy<S = Plain> {
    pub(crate) control: Arc<Control>,
    /// The threads of the queues, which start at the first work.
    queues: Mutex<HashMap<QueueKey, Queue>>,
    /// The launches that have begun.
    pub(crate) launches: Mutex<Vec<Launched>>,
    features: PhantomData<S>,
}

/// A launch that can be poisoned.
pub(crate) struct Launched {
    pub(crate) device: usize,
    pub(crate) id: i32,
    /// Whether the work runs or has ended, or is poisoned.
    pub(crate) claimed: Arc<AtomicBool>,
    pub(crate) result: Arc<OnceLock<Result<()>>>,
}

/// Device memory. New memory contains garbage.
pub(crate) struct Memory {
    pub(crate) bytes: Arc<Mutex<Vec<u8>>>,
    kind: &'static str,
    control: Arc<Control>,
}

impl Memory {
    pub(crate) fn address(&self) -> usize {
        self.bytes.lock().unwrap().as_ptr().addr()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let size = self.bytes.lock().unwrap().len();
        self.control.change(|state| state.allocated -= size);
    }
}

/// The end of a work.
pub(crate) struct Done {
    control: Arc<Control>,
    queue: QueueId,
    /// Whether the work also uses another device.
    uses_other_device: bool,
    claimed: Arc<AtomicBool>,
    result: Arc<OnceLock<Result<()>>>,
    waits: Mutex<u32>,
    /// A driver may keep the host memory of a copy longer than the copy.
    _target: Option<HostTarget>,
    _counted: Counted,
}

/// Counts the completions that exist.
struct Counted(Arc<Control>);

impl Counted {
    fn new(control: &Arc<Control>) -> Self {
        control.state().completions += 1;
        Self(Arc::clone(control))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.state().completions -= 1;
    }
}

/// A prepared launch.
pub(crate) struct Prepared {
    name: String,
    launch_id: i32,
    fails: bool,
    panics: bool,
    run: Box<dyn FnOnce() -> Result<()> + Send>,
}

/// A work of a queue.
struct Job {
    number: u64,
    queue: QueueId,
    after: Vec<Arc<OnceLock<Result<()>>>>,
    run: Box<dyn FnOnce() -> Result<()> + Send>,
    claimed: Arc<AtomicBool>,
    result: Arc<OnceLock<Result<()>>>,
}

/// Copies and reductions that end before the call returns.
struct Peers<'a>(&'a Control);

impl Transport for Peers<'_> {
    type Memory = Used;
    type Completion = ();

    fn copy(&mut self, from: Place<'_, Used>, to: Place<'_, Used>, bytes: usize, _: &[()]) -> Result<()> {
        self.0.check(from.memory.1)?;
        let source = from.memory.with(self.0, |memory| memory[from.offset..from.offset + bytes].to_vec())?;
        to.memory.with(self.0, |memory| memory[to.offset..to.offset + bytes].copy_from_slice(&source))
    }

    fn reduce(&mut self, from: Place<'_, Used>, into: Place<'_, Used>, bytes: usize, _: &[()]) -> Result<()> {
        let source = from.memory.with(self.0, |memory| memory[from.offset..from.offset + bytes].to_vec())?;
        into.memory.with(self.0, |memory| {
            memory[into.offset..].iter_mut().zip(source).for_each(|(sum, byte)| *sum = sum.wrapping_add(byte));
        })
    }
}

/// Returns the driver's handle of a queue.
pub(crate) fn stream(device: usize, kind: QueueKind) -> Stream {
    Stream(isize::try_from(device).unwrap() * 10 + if kind == QueueKind::Compute { 1 } else { 2 })
}

/// Memory that a work uses. The runtime must keep it alive.
#[derive(Clone)]
struct Used(Weak<Memory>, usize);

impl Used {
    fn new(memory: &Arc<Memory>, device: usize) -> Self {
        Self(Arc::downgrade(memory), device)
    }

    /// The address of the memory, or 0 if it was freed.
    fn address(&self) -> usize {
        self.0.upgrade().map_or(0, |memory| memory.address())
    }

    fn with<T>(&self, control: &Control, use_bytes: impl FnOnce(&mut [u8]) -> T) -> Result<T> {
        match self.0.upgrade() {
            Some(memory) => Ok(use_bytes(&mut memory.bytes.lock().unwrap())),
            None => {
                control.check(self.1)?;
                control.violated("device memory was freed before the work that uses it had ended");
                Err(Error::internal("freed memory"))
            }
        }
    }
}

fn work_queue(control: &Control, jobs: &Receiver<Job>) {
    for Job { number, queue, after, run, claimed, result } in jobs {
        control
            .wait_until(|state| state.check(queue.device).is_err() || after.iter().all(|after| after.get().is_some()));
        control.await_turn(queue);
        control.delay(number);
        let injected = control.change(|state| {
            if state.losing_works.contains(&number) {
                return Err(true);
            }
            if state.failing_works.contains(&number) { Err(false) } else { Ok(()) }
        });
        if injected == Err(true) {
            control.lose(queue.device);
        }
        if claimed.swap(true, Ordering::AcqRel) {
            // The launch is poisoned.
            control.change(|state| state.end_work(queue));
            continue;
        }
        let ended = control.check(queue.device).and_then(|()| run()).and_then(|()| match injected {
            Err(_) => Err(Error::new(ErrorCode::DATA_LOSS, format!("work {number} failed"))),
            Ok(()) => control.check(queue.device),
        });
        let _ = result.set(ended);
        control.change(|state| state.end_work(queue));
    }
}

/// Returns a kernel with its signature.
pub(crate) fn compiled(kernel: Kernel) -> Compiled<Kernel> {
    let shape = |size: usize| Shape::new(ElementType::U8, [i64::try_from(size).unwrap()]);
    let inputs = vec![shape(kernel.size); kernel.inputs];
    let outputs = vec![shape(kernel.size * kernel.repeat); kernel.output_count()];
    let mut info = ExecutableInfo::new(&kernel.name, inputs, outputs).donating(kernel.donated.iter().copied());
    info.output_memory_kinds = kernel.memories.clone();
    Compiled::new(kernel, info)
}

impl<S: FeatureSet> Dummy<S> {
    fn allocate_in(&self, kind: &'static str, device: usize, bytes: usize) -> Result<Memory> {
        let mut state = self.control.state();
        state.check(device)?;
        state.allocations += 1;
        let is_exhausted = state.allocated + bytes > self.control.settings.physical;
        if is_exhausted || state.failing_allocations.contains(&state.allocations) {
            return Err(Error::resource_exhausted("the dummy has no memory"));
        }
        state.allocated += bytes;
        let bytes = Arc::new(Mutex::new(vec![0xee; bytes]));
        state.add_memory(&bytes);
        Ok(Memory { bytes, kind, control: Arc::clone(&self.control) })
    }

    /// Submits a copy to device memory, from the byte `offset` on.
    pub(crate) fn copy_in(
        &self,
        queue: QueueId,
        from: &HostSource,
        (to, offset): (&Arc<Memory>, usize),
        after: &[Arc<Done>],
    ) -> Result<Done> {
        self.control.check(queue.device)?;
        self.control.state().count_pinned(from.as_ptr().addr());
        let (from, to, control) = (from.clone(), Used::new(to, queue.device), Arc::clone(&self.control));
        let run = move || {
            // The clone is dropped before the copy ends.
            let from = from;
            to.with(&control, |to| to[offset..offset + from.len()].copy_from_slice(&from))
        };
        Ok(self.submit(queue, after, run))
    }

    /// Submits a copy of device memory to the host, from the byte `offset` on.
    pub(crate) fn copy_out(
        &self,
        queue: QueueId,
        (from, offset): (&Arc<Memory>, usize),
        to: &HostTarget,
        after: &[Arc<Done>],
    ) -> Result<Done> {
        self.control.check(queue.device)?;
        let (from, target, control) = (Used::new(from, queue.device), to.clone(), Arc::clone(&self.control));
        let to = target.clone();
        let run = move || {
            let bytes = from.with(&control, |from| from[offset..offset + to.len()].to_vec())?;
            if to.as_mut_ptr().is_null() && control.check(queue.device).is_ok() {
                control.violated("host memory was returned before the copy had ended");
            }
            to.write(0, &bytes);
            Ok(())
        };
        Ok(Done { _target: Some(target), ..self.submit(queue, after, run) })
    }

    fn submit(&self, queue: QueueId, after: &[Arc<Done>], run: impl FnOnce() -> Result<()> + Send + 'static) -> Done {
        // The runtime promises that the calls for one queue do not overlap. The order of numbers is that of the works.
        let (result, claimed) = (Arc::new(OnceLock::new()), Arc::new(AtomicBool::new(false)));
        let mut queues = self.queues.lock().unwrap();
        let number = self.control.change(|state| state.begin_work(queue, after.len()));
        let after = after.iter().map(|done| Arc::clone(&done.result)).collect();
        let job = Job {
            number,
            queue,
            after,
            run: Box::new(run),
            claimed: Arc::clone(&claimed),
            result: Arc::clone(&result),
        };
        let (sender, _) = queues.entry(key(queue)).or_insert_with(|| {
            let ((sender, receiver), control) = (channel(), Arc::clone(&self.control));
            (sender, std::thread::spawn(move || work_queue(&control, &receiver)))
        });
        sender.send(job).unwrap();
        let (control, _counted) = (Arc::clone(&self.control), Counted::new(&self.control));
        let (waits, uses_other_device) = (Mutex::new(0), false);
        Done { control, queue, uses_other_device, claimed, result, waits, _target: None, _counted }
    }
}

impl<S> Drop for Dummy<S> {
    fn drop(&mut self) {
        // A forked process has no threads to join, but must see this first.
        self.control.change(|state| state.closed = true);
        let queues = std::mem::take(&mut *self.queues.lock().unwrap());
        for (sender, thread) in queues.into_values() {
            drop(sender);
            thread.join().unwrap();
        }
        let (allocated, leaks) = self.control.change(|state| (state.allocated, state.may_leak));
        if allocated != 0 && !leaks {
            self.control.violated(format!("{allocated} bytes of device memory were not freed"));
        }
    }
}

impl<S: FeatureSet> Driver for Dummy<S> {
    type Memory = Memory;
    type Executable = Kernel;
    type Prepared = Prepared;
    type Completion = Done;

    const MAX_IN_FLIGHT: usize = 4;
    const FEATURES: Features<Runtime<Self>> = S::FEATURES;

    fn open(options: &ClientOptions) -> Result<Self> {
        let id = options.int("control")?.unwrap_or_default();
        let control = Control::take(id).ok_or_else(|| Error::invalid_argument("there is no control with this id"))?;
        Ok(Self { control, queues: Mutex::default(), launches: Mutex::default(), features: PhantomData })
    }

    fn devices(&self) -> Vec<DriverDevice> {
        let settings = self.control.settings;
        let ids = (settings.first_id..).take(settings.devices);
        let device = |id| {
            let mut device = DriverDevice::new(DeviceInfo::new(id, "dummy"), settings.limit);
            let pinned = settings.pinned_limit.map(|limit| DriverMemory::new("pinned_host", limit));
            device.other_memories.extend(pinned);
            device
        };
        ids.map(device).collect()
    }

    fn allocate(&self, device: usize, bytes: usize) -> Result<Memory> {
        self.allocate_in("device", device, bytes)
    }

    fn allocate_other(&self, device: usize, memory: usize, bytes: usize) -> Result<Memory> {
        assert_eq!(memory, 0);
        self.allocate_in("pinned_host", device, bytes)
    }

    fn copy_from_host(&self, queue: QueueId, from: &HostSource, to: &Arc<Memory>, after: &[Arc<Done>]) -> Result<Done> {
        self.copy_in(queue, from, (to, 0), after)
    }

    fn copy_to_host(&self, queue: QueueId, from: &Arc<Memory>, to: &HostTarget, after: &[Arc<Done>]) -> Result<Done> {
        self.copy_out(queue, (from, 0), to, after)
    }

    fn copy(
        &self,
        queue: QueueId,
        (device, from): (usize, &Arc<Memory>),
        to: &Arc<Memory>,
        bytes: usize,
        after: &[Arc<Done>],
    ) -> Result<Done> {
        self.control.check(queue.device)?;
        if device != queue.device && !self.control.settings.peers {
            return Err(Error::unimplemented("no copies between devices"));
        }
        self.control.check(device)?;
        let (from, to) = (Used::new(from, device), Used::new(to, queue.device));
        let control = Arc::clone(&self.control);
        let run = move || {
            control.check(device)?;
            let data = from.with(&control, |from| from[..bytes].to_vec())?;
            to.with(&control, |to| to[..bytes].copy_from_slice(&data))
        };
        Ok(Done { uses_other_device: device != queue.device, ..self.submit(queue, after, run) })
    }

    fn compile(&self, program: &Program, _: &CompileOptions) -> Result<Compiled<Kernel>> {
        Ok(compiled(Kernel::parse(program)?))
    }

    fn scratch_bytes(&self, kernel: &Kernel) -> usize {
        kernel.scratch
    }

    fn output_alias(&self, kernel: &Kernel, output: usize) -> Option<usize> {
        kernel.aliases.iter().find(|(aliased, _)| *aliased == output).map(|(_, input)| *input)
    }

    fn prepare(&self, kernel: &Arc<Kernel>, request: &LaunchRequest<'_, Self>) -> Result<Self::Prepared> {
        let device = request.device;
        let in_place =
            request.outputs.iter().any(|output| request.inputs.iter().any(|input| Arc::ptr_eq(input, output)));
        {
            let mut state = self.control.state();
            state.check(device)?;
            state.prepares += 1;
            if state.failing_prepares.contains(&state.prepares) {
                return Err(Error::resource_exhausted("the dummy has no room for arguments"));
            }
            state.in_place.push(in_place);
            state.kinds.push([request.inputs, request.outputs].map(|all| all.iter().map(|of| of.kind).collect()));
        }
        self.control.change(|_| ());
        if kernel.fails_to_prepare {
            return Err(Error::failed_precondition(format!("kernel {} cannot be prepared", kernel.name)));
        }
        let used = |memory: &[Arc<Memory>]| memory.iter().map(|memory| Used::new(memory, device)).collect::<Vec<_>>();
        let (inputs, outputs) = (used(request.inputs), used(request.outputs));
        let scratch = request.scratch.map(|scratch| Used::new(scratch, device));
        let (kernel, control) = (Arc::clone(kernel), Arc::clone(&self.control));
        let (name, fails, panics) = (kernel.name.clone(), kernel.fails_to_launch, kernel.panics_in_launch);
        let (launch_id, context) = (request.options.launch_id, request.options.context().cloned().unwrap_or_default());
        let handler = match &kernel.custom_call {
            None => None,
            Some(target) => Some(
                Registry::of::<Runtime<Self>>()
                    .handler(target, "dummy")
                    .ok_or_else(|| Error::unimplemented(format!("no handler of {target}")))?,
            ),
        };
        if let Some(schedule) = kernel.all_reduce.clone() {
            let ([input], [output]) = (&inputs[..], &outputs[..]) else {
                return Err(Error::invalid_argument("an all-reduce has one input and one output"));
            };
            let arrays = Arrays { input: input.clone(), output: output.clone(), scratch, ready: Vec::new() };
            let member =
                request.member.ok_or_else(|| Error::invalid_argument("an all-reduce needs several devices"))?;
            let member = Arc::clone(member);
            let run = move || {
                let group: Vec<usize> = (0..schedule.members()).collect();
                member.run(0, &group, &schedule, arrays, &mut Peers(&control))?;
                control.check(device).inspect_err(|error| member.fail(error.message()))?;
                member.finish();
                Ok(())
            };
            return Ok(Prepared { name, launch_id, fails, panics, run: Box::new(run) });
        }
        let run = move || {
            let fill = |value: u8| match &scratch {
                None => Ok(Vec::new()),
                Some(scratch) => scratch.with(&control, |bytes| {
                    let before = bytes.to_vec();
                    bytes.fill(value);
                    before
                }),
            };
            fill(0xab)?;
            let read = |input: &Used| input.with(&control, |bytes| bytes[..kernel.size].to_vec());
            let input_memory = inputs;
            let inputs: Vec<_> = input_memory.iter().map(read).collect::<Result<_>>()?;
            std::thread::yield_now();
            if let Some(handler) = &handler {
                let addresses = [&input_memory, &outputs].map(|all| all.iter().map(Used::address).collect::<Vec<_>>());
                let place = (device, stream(device, QueueKind::Compute));
                return kernel.call(handler, [&addresses[0], &addresses[1]], &context, place);
            }
            let computed = kernel.compute(&inputs);
            for (to, bytes) in outputs.iter().zip(computed) {
                to.with(&control, |to| match kernel.fails_to_run {
                    true => to.fill(0xdd),
                    false => to[..bytes.len()].copy_from_slice(&bytes),
                })?;
            }
            if fill(0)?.iter().any(|byte| *byte != 0xab) {
                control.violated("two works used the same temporary memory at the same time");
            }
            match kernel.fails_to_run {
                true => Err(Error::new(ErrorCode::DATA_LOSS, format!("kernel {} failed", kernel.name))),
                false if kernel.panics_in_wait => Err(Error::internal(PANIC)),
                false => Ok(()),
            }
        };
        Ok(Prepared { name, launch_id, fails, panics, run: Box::new(run) })
    }

    fn launch(&self, queue: QueueId, prepared: Prepared, after: &[Arc<Done>]) -> Done {
        if prepared.fails {
            self.control.change(|state| state.waited_for.push(after.len()));
            let failed = Error::new(ErrorCode::DATA_LOSS, format!("kernel {} failed", prepared.name));
            let (control, result) = (Arc::clone(&self.control), Arc::new(OnceLock::from(Err(failed))));
            let _counted = Counted::new(&control);
            return Done {
                control,
                queue,
                uses_other_device: false,
                claimed: Arc::default(),
                result,
                waits: Mutex::new(0),
                _target: None,
                _counted,
            };
        }
        self.control.state().launched.push((queue.device, prepared.name));
        let done = self.submit(queue, after, prepared.run);
        let (claimed, result) = (Arc::clone(&done.claimed), Arc::clone(&done.result));
        let launched = Launched { device: queue.device, id: prepared.launch_id, claimed, result };
        self.launches.lock().unwrap().push(launched);
        assert!(!prepared.panics, "{PANIC}");
        done
    }

    fn wait(&self, done: &Done) -> Result<()> {
        let mut waits = done.waits.lock().unwrap();
        *waits += 1;
        if *waits > 1 {
            self.control.violated("the runtime waited twice for a work");
        }
        let result = done.control.wait(|state| {
            if state.reported_lost.contains(&key(done.queue)) {
                state.violations.push("the runtime waited for a device that it knows to be lost".to_owned());
            }
            match (done.result.get(), state.check(done.queue.device)) {
                (None, Ok(())) => None,
                (Some(Ok(())), _) => Some(Ok(())),
                (Some(Err(error)), own) if error.code() != ErrorCode::UNAVAILABLE || own.is_ok() => {
                    Some(Err(error.clone()))
                }
                // This error does not tell the runtime which device is lost.
                (_, result) if done.uses_other_device => Some(result),
                (_, result) => {
                    state.reported_lost.insert(key(done.queue));
                    Some(result)
                }
            }
        });
        drop(waits);
        assert!(!result.as_ref().is_err_and(|error| error.message() == PANIC), "{PANIC}");
        result
    }
}
