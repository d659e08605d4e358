//! The driver: OpenCL devices, their queues and memory, and copies.

use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use device_plugin::features::Features;
use device_plugin::{ClientOptions, CompileOptions, Compiled, DeviceInfo, Error, ErrorCode, Program, Result, Value};
use device_runtime::{
    Driver, DriverDevice, HostSource, HostTarget, HostThread, LaunchRequest, QueueId, QueueKind, Runtime, features,
};
use opencl3::command_queue::{CL_QUEUE_PROFILING_ENABLE, CommandQueue, enqueue_read_buffer};
use opencl3::context::Context;
use opencl3::device::{CL_DEVICE_TYPE_ALL, CL_DEVICE_TYPE_CPU, CL_DEVICE_TYPE_GPU, Device, get_all_devices};
use opencl3::error_codes::{self as codes, ClError};
use opencl3::event::Event;
use opencl3::memory::{Buffer, CL_MEM_COPY_HOST_PTR, CL_MEM_READ_ONLY, CL_MEM_READ_WRITE, ClMem};
use opencl3::types::{CL_FALSE, cl_event, cl_mem};

use crate::compile::{Executable, compile};
use crate::launch::{Prepared, Trace, launch, times};

/// A variable of the plugin's tests: the number of launches after which the devices count as lost.
const LOSE_AFTER: &str = "OPENCL_PLUGIN_LOSE_AFTER";

/// Device memory.
pub struct Memory(Buffer<u8>);

impl Memory {
    pub(crate) fn get(&self) -> cl_mem {
        self.0.get()
    }

    /// Returns the memory for calls that write to it. The driver orders its accesses.
    pub(crate) fn lent(&self) -> ManuallyDrop<Buffer<u8>> {
        ManuallyDrop::new(Buffer::new(self.get()))
    }
}

/// The end of an operation.
pub struct Done {
    /// `None` if the operation did not begin.
    pub(crate) event: Option<Arc<Event>>,
    /// The error of an operation that did not run. Set before the event is complete.
    pub(crate) error: Arc<OnceLock<Error>>,
    pub(crate) trace: Option<Arc<Trace>>,
}

/// The queues of a device.
pub(crate) struct Queues {
    pub(crate) device: Device,
    pub(crate) compute: CommandQueue,
    pub(crate) transfer: CommandQueue,
    /// For launches that need the host, which run on the thread.
    pub(crate) hosted: Arc<CommandQueue>,
    pub(crate) thread: HostThread,
    /// The completion of the last launch, and whether the launch needs the host.
    pub(crate) last: Mutex<Option<(Arc<Event>, bool)>>,
}

/// Devices of one OpenCL platform.
pub struct OpenCl {
    pub(crate) platform: &'static Platform,
    pub(crate) queues: Vec<Queues>,
    memory_limit: usize,
    pub(crate) build_options: String,
    /// Number of launches until the devices count as lost.
    launches_left: AtomicI64,
}

/// The OpenCL objects of the process. Not all drivers can be opened twice in one process.
pub(crate) struct Platform {
    pub(crate) context: Context,
    devices: Vec<Device>,
}

fn platform() -> Result<&'static Platform> {
    static PLATFORM: OnceLock<Result<Platform>> = OnceLock::new();
    PLATFORM.get_or_init(open).as_ref().map_err(Clone::clone)
}

fn open() -> Result<Platform> {
    let of = |kind| get_all_devices(kind).unwrap_or_default();
    let ids = Some(of(CL_DEVICE_TYPE_GPU)).filter(|ids| !ids.is_empty()).unwrap_or_else(|| of(CL_DEVICE_TYPE_ALL));
    if ids.is_empty() {
        return Err(Error::failed_precondition(
            "there is no OpenCL device; install libOpenCL.so.1 and a driver, on Debian for example the packages \
             ocl-icd-libopencl1 and pocl-opencl-icd",
        ));
    }
    // A context contains devices of one platform.
    let mut devices: Vec<Device> = ids.into_iter().map(Device::new).collect();
    let first = devices[0].platform().ok();
    devices.retain(|device| device.platform().ok() == first);
    let ids: Vec<_> = devices.iter().map(Device::id).collect();
    let context = Context::from_devices(&ids, &[], None, ptr::null_mut()).map_err(failed("clCreateContext"))?;
    // The driver pocl runs its compiler late, with the first kernel that is not in its cache. What the compiler creates
    // after the SDK has registered its exit function is destroyed before that function can wait for the compiler. So
    // create it now: pocl preprocesses programs with this word before it looks into its cache.
    let _ = opencl3::program::Program::create_and_build_from_source(&context, "// #include\n", "");
    Ok(Platform { context, devices })
}

/// Returns a function that converts the error of a call of OpenCL.
pub(crate) fn failed(call: &str) -> impl Fn(ClError) -> Error {
    move |ClError(code)| {
        let kind = match code {
            codes::CL_MEM_OBJECT_ALLOCATION_FAILURE
            | codes::CL_OUT_OF_RESOURCES
            | codes::CL_OUT_OF_HOST_MEMORY
            | codes::CL_INVALID_BUFFER_SIZE => ErrorCode::RESOURCE_EXHAUSTED,
            codes::CL_DEVICE_NOT_AVAILABLE
            | codes::CL_INVALID_COMMAND_QUEUE
            | codes::CL_INVALID_CONTEXT
            | codes::CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST => ErrorCode::UNAVAILABLE,
            _ => ErrorCode::INTERNAL,
        };
        Error::new(kind, format!("{call}: {}", codes::error_text(code)))
    }
}

pub(crate) fn handles(after: &[Arc<Done>]) -> Vec<cl_event> {
    after.iter().filter_map(|done| Some(done.event.as_ref()?.get())).collect()
}

impl OpenCl {
    pub(crate) fn is_cpu(&self) -> bool {
        self.platform.devices.iter().all(|device| device.dev_type().is_ok_and(|kind| kind & CL_DEVICE_TYPE_CPU != 0))
    }

    /// Whether the devices have the type `double`.
    pub(crate) fn has_doubles(&self) -> bool {
        self.platform.devices.iter().all(|device| device.double_fp_config().is_ok_and(|config| config != 0))
    }

    /// Creates memory, or constant memory with a copy of its contents.
    pub(crate) fn buffer(bytes: usize, contents: Option<&[u8]>) -> Result<Memory> {
        let (flags, host) = match contents {
            Some(contents) => (CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, contents.as_ptr().cast_mut().cast()),
            None => (CL_MEM_READ_WRITE, ptr::null_mut()),
        };
        // SAFETY: R1 (the driver is trusted): `host` is null, or the address of `bytes` bytes.
        let buffer = unsafe { Buffer::create(&platform()?.context, flags, bytes, host) };
        buffer.map(Memory).map_err(failed("clCreateBuffer"))
    }

    fn queue(&self, queue: QueueId) -> &CommandQueue {
        let queues = &self.queues[queue.device];
        match queue.kind {
            QueueKind::Compute => &queues.compute,
            QueueKind::Transfer => &queues.transfer,
        }
    }

    /// Makes sure that the driver begins what was submitted, and returns its completion.
    fn begun(&self, queue: QueueId, call: &str, event: Result<Event, ClError>) -> Result<Done> {
        let event = Some(Arc::new(event.map_err(failed(call))?));
        self.queue(queue).flush().map_err(failed("clFlush"))?;
        Ok(Done { event, error: Arc::default(), trace: None })
    }
}

impl features::Platform for OpenCl {
    fn platform_version(&self) -> String {
        self.platform.devices[0].version().unwrap_or_else(|_| "OpenCL".to_owned())
    }
}

impl Driver for OpenCl {
    type Memory = Memory;
    type Executable = Executable;
    type Prepared = Prepared;
    type Completion = Done;

    const FEATURES: Features<Runtime<Self>> = Features::none().platform().queued_transfers();

    fn open(options: &ClientOptions) -> Result<Self> {
        options.expect_only(&["devices", "memory_limit", "build_options"])?;
        let platform = platform()?;
        let positive = |name: &str| match options.int(name)? {
            Some(value @ ..1) => {
                Err(Error::invalid_argument(format!("option {name} is {value}, but must be positive")))
            }
            value => Ok(value.map(|value| usize::try_from(value).unwrap_or(usize::MAX))),
        };
        let count = positive("devices")?.unwrap_or(platform.devices.len());
        let per_device = count.div_ceil(platform.devices.len());
        let available = platform.devices[0].global_mem_size().unwrap_or(1 << 30);
        let memory_limit = usize::try_from(available).unwrap_or(usize::MAX) / per_device;
        let memory_limit = positive("memory_limit")?.unwrap_or(memory_limit);
        let build_options = match options.get("build_options") {
            Some(Value::String(text)) => text.clone(),
            _ => String::new(),
        };
        let mut queues = Vec::new();
        for index in 0..count {
            let device = platform.devices[index % platform.devices.len()];
            let queue = || {
                // SAFETY: R1 (the driver is trusted): the device belongs to the context.
                let queue = unsafe { CommandQueue::create(&platform.context, device.id(), CL_QUEUE_PROFILING_ENABLE) };
                queue.map_err(failed("clCreateCommandQueue"))
            };
            let (compute, transfer, hosted) = (queue()?, queue()?, Arc::new(queue()?));
            let thread = HostThread::start("opencl-host")?;
            queues.push(Queues { device, compute, transfer, hosted, thread, last: Mutex::default() });
        }
        let lose_after = std::env::var(LOSE_AFTER).ok().and_then(|count| count.parse().ok());
        let launches_left = AtomicI64::new(lose_after.unwrap_or(i64::MAX));
        Ok(Self { platform, queues, memory_limit, build_options, launches_left })
    }

    fn devices(&self) -> Vec<DriverDevice> {
        let info = |(id, queues): (i32, &Queues)| {
            let kind = queues.device.name().unwrap_or_else(|_| "OpenCL".to_owned());
            DriverDevice::new(DeviceInfo::new(id, kind), self.memory_limit)
        };
        (0..).zip(&self.queues).map(info).collect()
    }

    fn allocate(&self, _: usize, bytes: usize) -> Result<Memory> {
        Self::buffer(bytes, None)
    }

    fn copy_from_host(&self, queue: QueueId, from: &HostSource, to: &Arc<Memory>, after: &[Arc<Done>]) -> Result<Done> {
        let (mut to, after) = (to.lent(), handles(after));
        // SAFETY: R1 (the driver is trusted): the runtime keeps both memories alive until the copy has ended.
        let event = unsafe { self.queue(queue).enqueue_write_buffer(&mut to, CL_FALSE, 0, from, &after) };
        self.begun(queue, "clEnqueueWriteBuffer", event)
    }

    fn copy_to_host(&self, queue: QueueId, from: &Arc<Memory>, to: &HostTarget, after: &[Arc<Done>]) -> Result<Done> {
        let (after, on) = (handles(after), self.queue(queue).get());
        let events = if after.is_empty() { ptr::null() } else { after.as_ptr() };
        let count = u32::try_from(after.len()).unwrap_or(u32::MAX);
        let (bytes, address) = (to.len(), to.as_mut_ptr().cast());
        // SAFETY: R1 (the driver is trusted): the runtime keeps both memories alive until the copy has ended.
        let event = unsafe { enqueue_read_buffer(on, from.get(), CL_FALSE, 0, bytes, address, count, events) };
        self.begun(queue, "clEnqueueReadBuffer", event.map(Event::new).map_err(ClError))
    }

    fn copy(
        &self,
        queue: QueueId,
        (_, from): (usize, &Arc<Memory>),
        to: &Arc<Memory>,
        bytes: usize,
        after: &[Arc<Done>],
    ) -> Result<Done> {
        let (from, mut to, after) = (from.lent(), to.lent(), handles(after));
        // SAFETY: R1 (the driver is trusted): both memories belong to the context and are alive until the copy ends.
        let event = unsafe { self.queue(queue).enqueue_copy_buffer(&from, &mut to, 0, 0, bytes, &after) };
        self.begun(queue, "clEnqueueCopyBuffer", event)
    }

    fn compile(&self, program: &Program, options: &CompileOptions) -> Result<Compiled<Executable>> {
        compile(self, program, options)
    }

    fn scratch_bytes(&self, executable: &Executable) -> usize {
        executable.plan.scratch_bytes
    }

    fn output_alias(&self, executable: &Executable, output: usize) -> Option<usize> {
        executable.plan.output_aliases.get(output).copied().flatten()
    }

    fn prepare(&self, executable: &Arc<Executable>, request: &LaunchRequest<'_, Self>) -> Result<Prepared> {
        Ok(Prepared(Arc::clone(executable), request.memory()))
    }

    fn launch(&self, queue: QueueId, prepared: Prepared, after: &[Arc<Done>]) -> Done {
        if self.launches_left.fetch_sub(1, Ordering::Relaxed) <= 0 {
            let error = Error::new(ErrorCode::UNAVAILABLE, "the device was lost on purpose");
            return Done { event: None, error: Arc::new(error.into()), trace: None };
        }
        launch(&self.platform.context, &self.queues[queue.device], prepared, after)
    }

    fn wait(&self, done: &Done) -> Result<()> {
        if let Some(event) = &done.event {
            event.wait().map_err(failed("clWaitForEvents"))?;
        }
        if let Some(trace) = &done.trace {
            trace.record(times);
        }
        done.error.get().cloned().map_or(Ok(()), Err)
    }
}
