//! The backend that implements PJRT's operations for the devices.

use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;
use std::thread::available_parallelism;

use device_plugin::features::{
    AheadOfTime, AtExit, BufferAddresses, CostAnalysis, CrossHostTransfer, CrossHostTransfers, DeviceCopies,
    Distributed, DmaMappings, DynamicShapes, Features, ForeignViews, MemoryStatistics, MultiDevice, NamedOptions,
    Platform, Poisoning, Profiler,
};
use device_plugin::{
    Backend, ClientOptions, CompileOptionSchema, CompileOptions, Compiled, CompiledMemoryStats, DeviceInfo, Error,
    Event, ExecutableInfo, ForeignMemory, HostArray, Launch, MemoryInfo, MemoryStats, NamedValue, Placement,
    ProcessInfo, ProcessState, Program, Rendezvous, Result, Shape, TopologyInfo,
};

use super::buffer::{CpuBuffer, Lent};
use super::compile::{CpuExecutable, compile};
use super::config::Config;
use super::job::Job;
use super::memory::{self, Memories, run_error};
use super::running::Running;
use super::state::State;
use super::transfers::Transfers;
use super::types;
use super::workers::Workers;
use stablehlo_cpu::Tensor;

/// The devices of a client. In a job of several processes, they include the devices of the other processes.
pub struct CpuBackend {
    devices: Vec<DeviceInfo>,
    platform_name: &'static str,
    state: Arc<State>,
}

/// The device kind in `Device::kind` and in descriptions.
const KIND: &str = "cpu";

fn platform_version() -> String {
    format!("pjrt-cpu {}", env!("CARGO_PKG_VERSION"))
}

fn device_infos(count: usize) -> Vec<DeviceInfo> {
    (0..).take(count).map(|id| DeviceInfo::new(id, KIND)).collect()
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

impl CpuBackend {
    fn new(config: &Config, options: &ClientOptions) -> Result<Self> {
        let threads = available_parallelism().map_or(1, usize::from);
        let mut devices = device_infos(config.devices);
        let mut job = None;
        if let Some(rendezvous) = Rendezvous::from_options(options, config.platform_name)? {
            let joined;
            (joined, devices) = Job::join(rendezvous, config, &platform_version(), devices)?;
            job = Some(Arc::new(joined));
        }
        let (workers, running) = (Workers::new(threads, devices.len()), Arc::new(Running::new(config.in_flight)));
        let state = State {
            memories: Memories::new(config, devices.len()),
            deterministic: config.deterministic,
            transfers: Transfers::new(job.clone(), &running, &workers),
            workers,
            running,
            job,
        };
        Ok(Self { devices, platform_name: config.platform_name, state: Arc::new(state) })
    }
}

impl fmt::Debug for CpuBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CpuBackend").field("devices", &self.devices.len()).finish_non_exhaustive()
    }
}

impl Drop for CpuBackend {
    fn drop(&mut self) {
        self.state.close();
    }
}

/// The SDK records calls, executions and transfers. The backend adds no events.
impl Profiler for CpuBackend {}

impl Backend for CpuBackend {
    type Buffer = CpuBuffer;
    type Executable = CpuExecutable;

    /// With the feature `queued`, executions accept inputs that are not ready, and wait for the events of these inputs.
    const FEATURES: Features<Self> = Features::none()
        .at_exit()
        .platform()
        .memory_statistics()
        .buffer_addresses()
        .dynamic_shapes()
        .device_copies()
        .foreign_views()
        .dma_mappings()
        .named_options()
        .ahead_of_time()
        .multi_device()
        .poisoning()
        .cost_analysis()
        .distributed()
        .cross_host_transfers()
        .profiler()
        .ffi()
        .queued();

    fn create(options: &ClientOptions) -> Result<Self> {
        Self::new(&Config::new(options, variable)?, options)
    }

    fn devices(&self) -> Vec<DeviceInfo> {
        self.devices.clone()
    }

    fn memories(&self) -> Vec<MemoryInfo> {
        memory::infos(self.devices.iter().filter(|device| device.addressable).map(|device| device.id))
    }

    fn buffer_from_host(&self, host: HostArray<'_>, to: Placement) -> Result<CpuBuffer> {
        self.state.workers.check_process()?;
        let shape = host.shape();
        let (dtype, dims) = (types::dtype(shape.element_type)?, types::dims(shape)?);
        let failed = |error| run_error(error, to.device);
        // If the memory is aligned and the framework lends it, use it without a copy. The framework does not change
        // lent memory while the buffer uses it.
        if Tensor::is_aligned(host.bytes())
            && let Some(alias) = host.alias()
            && let Some(tensor) = Tensor::foreign(dtype, &dims, Lent(alias)).map_err(failed)?
        {
            return Ok(tensor.into());
        }
        let pool = self.state.memories.of(to);
        Ok(Tensor::from_bytes(pool, dtype, &dims, host.bytes()).map_err(failed)?.into())
    }

    fn read(&self, buffer: &CpuBuffer, to: &mut [u8]) -> Result<()> {
        self.state.workers.check_process()?;
        let tensor = buffer.tensor()?;
        let bytes = tensor.bytes();
        // A tensor with dynamic dimensions begins with its elements. The rest of its bytes have no meaning.
        let bytes = if tensor.is_dynamic() { bytes.get(..to.len()).unwrap_or(bytes) } else { bytes };
        if bytes.len() != to.len() {
            return Err(Error::internal(format!("a buffer of {} bytes read into {}", bytes.len(), to.len())));
        }
        to.copy_from_slice(bytes);
        Ok(())
    }

    fn compile(&self, program: &Program, options: &CompileOptions) -> Result<Compiled<CpuExecutable>> {
        self.state.workers.check_process()?;
        compile::<Self>(program, options, self.state.job.as_deref())
    }

    fn execute(&self, executable: &Arc<CpuExecutable>, launch: &mut Launch<'_, Self>) -> Result<Event> {
        self.state.execute(executable, launch)
    }
}

impl AtExit for CpuBackend {
    /// Returns a function that stops the client's threads before the destructors of static objects run.
    fn at_exit(&self) -> Option<Box<dyn FnOnce() + Send>> {
        let state = Arc::downgrade(&self.state);
        Some(Box::new(move || {
            if let Some(state) = state.upgrade() {
                state.end_with_process();
            }
        }))
    }
}

impl Platform for CpuBackend {
    fn platform_name(&self) -> Option<String> {
        Some(self.platform_name.to_owned())
    }

    fn platform_version(&self) -> String {
        platform_version()
    }
}

impl MemoryStatistics for CpuBackend {
    fn memory_stats(&self, device: usize) -> Result<MemoryStats> {
        if let Some(info) = self.devices.get(device).filter(|info| !info.addressable) {
            let (id, process) = (info.id, info.process_index);
            return Err(Error::invalid_argument(format!(
                "device {id} belongs to process {process}, which has its statistics"
            )));
        }
        self.state.memories.stats(device)
    }

    fn clear_memory_stats(&self, device: usize) -> Result<()> {
        self.state.memories.clear_stats(device)
    }
}

impl BufferAddresses for CpuBackend {
    fn host_bytes<'a>(&self, buffer: &'a CpuBuffer) -> Option<&'a [u8]> {
        // A forked process may also read a buffer. It has a copy of the bytes, and reading them requires no lock or
        // thread.
        Some(buffer.tensor().ok()?.bytes())
    }
}

impl DynamicShapes for CpuBackend {
    #[inline]
    fn is_dynamic(&self, buffer: &CpuBuffer) -> bool {
        buffer.is_dynamic()
    }

    fn is_dynamic_output(&self, executable: &CpuExecutable, output: usize) -> bool {
        executable.program().is_bounded_output(output)
    }

    fn dynamic_dimensions(&self, buffer: &CpuBuffer, _: &Shape) -> Vec<(usize, i64)> {
        let Ok(tensor) = buffer.tensor() else { return Vec::new() };
        let extent = |&(dimension, extent)| (dimension, i64::try_from(extent).unwrap_or(i64::MAX));
        tensor.dynamic_dimensions().iter().map(extent).collect()
    }
}

impl DeviceCopies for CpuBackend {
    fn create_uninitialized_buffer(&self, shape: &Shape, to: Placement) -> Result<CpuBuffer> {
        self.state.workers.check_process()?;
        let (dtype, dims) = (types::dtype(shape.element_type)?, types::dims(shape)?);
        let tensor = Tensor::uninit(self.state.memories.of(to), dtype, &dims);
        Ok(tensor.map_err(|error| run_error(error, to.device))?.into())
    }

    fn bitcast(&self, buffer: &CpuBuffer, _: &Shape, to: &Shape, _: Placement) -> Result<CpuBuffer> {
        let (dtype, dims) = (types::dtype(to.element_type)?, types::dims(to)?);
        let bitcast = move |tensor: &Tensor| {
            tensor.bitcast(dtype, &dims).map_err(|error| Error::invalid_argument(error.to_string()))
        };
        self.state.derive(buffer, bitcast)
    }

    fn copy(&self, buffer: &CpuBuffer, _: &Shape, to: Placement) -> Result<CpuBuffer> {
        self.state.workers.check_process()?;
        let pool = self.state.memories.of(to).clone();
        self.state.derive(buffer, move |tensor| tensor.copy_to(&pool).map_err(|error| run_error(error, to.device)))
    }
}

impl ForeignViews for CpuBackend {
    fn create_view_of_device_buffer(&self, memory: ForeignMemory, shape: &Shape, at: Placement) -> Result<CpuBuffer> {
        let (dtype, dims) = (types::dtype(shape.element_type)?, types::dims(shape)?);
        if memory.bytes().is_none() {
            return Err(Error::unimplemented(format!("a view of {shape}: its elements share bytes")));
        }
        let address = memory.address();
        match Tensor::foreign(dtype, &dims, Lent(memory)).map_err(|error| run_error(error, at.device))? {
            Some(tensor) => Ok(tensor.into()),
            // An empty array has no elements to share, so its address does not matter.
            None if shape.host_size() == Some(0) => self.create_uninitialized_buffer(shape, at),
            None => Err(Error::invalid_argument(format!(
                "memory at {address:#x} is not aligned to 64 bytes, which a view needs; pass a copy"
            ))),
        }
    }
}

impl DmaMappings for CpuBackend {
    /// Does nothing, because the device can access all memory of the host.
    fn dma_map(&self, _: usize, _: usize) -> Result<()> {
        Ok(())
    }

    fn dma_unmap(&self, _: usize) -> Result<()> {
        Ok(())
    }
}

impl NamedOptions for CpuBackend {
    /// Accepts XLA's options because frameworks pass them. The device ignores them, except for the options that `dump`
    /// reads.
    fn compile_options() -> CompileOptionSchema {
        CompileOptionSchema::xla()
    }
}

impl AheadOfTime for CpuBackend {
    fn compile_for(_: &TopologyInfo, program: &Program, options: &CompileOptions) -> Result<Compiled<CpuExecutable>> {
        compile::<Self>(program, options, None)
    }

    /// Returns a topology with the number of devices in the options or in the name, such as `4` or `cpu:4`.
    fn topology(name: &str, options: &[NamedValue]) -> Result<TopologyInfo> {
        let mut options = options.to_vec();
        let count = name.strip_prefix("cpu:").unwrap_or(name);
        if !count.is_empty() && name != KIND {
            options.push(NamedValue::new("cpu_device_count", count));
        }
        let config = Config::new(&ClientOptions::new(options), variable)
            .map_err(|error| error.context(format_args!("topology {name:?}")))?;
        let mut topology = TopologyInfo::new(device_infos(config.devices));
        config.platform_name.clone_into(&mut topology.platform_name);
        topology.memories = memory::infos(topology.devices.iter().map(|device| device.id));
        topology.platform_version = platform_version();
        Ok(topology)
    }
}

impl MultiDevice for CpuBackend {
    fn execute_all(&self, executable: &Arc<CpuExecutable>, launches: &mut [Launch<'_, Self>]) -> Result<Vec<Event>> {
        self.state.execute_all(executable, launches)
    }
}

impl Poisoning for CpuBackend {
    /// Fails an execution that has not ended. If it has begun, it ends after the current step. A short program runs
    /// within the call that launches it, so its execution has already ended.
    fn poison_execution(&self, device: usize, launch_id: i32, error: Error) -> Result<bool> {
        Ok(self.state.running.poison(device, launch_id, &error))
    }
}

impl Distributed for CpuBackend {
    fn process_index(&self) -> i32 {
        self.state.job.as_ref().map_or(0, |job| i32::try_from(job.rank()).unwrap_or(i32::MAX))
    }

    /// Fails the launches that wait for a process that failed according to the framework.
    fn update_global_process_info(&self, processes: &[ProcessInfo]) -> Result<()> {
        let Some(job) = &self.state.job else { return Ok(()) };
        for process in processes {
            if let (Ok(rank), ProcessState::Failed(error)) = (usize::try_from(process.process_index), &process.state) {
                job.lose(rank, &format!("the framework reports that it failed: {}", error.message()));
            }
        }
        Ok(())
    }
}

impl CrossHostTransfers for CpuBackend {
    fn send_buffer(&self, buffer: &CpuBuffer, transfer: &CrossHostTransfer<'_>) -> Result<Event> {
        self.state.transfers.send(Ok(buffer), transfer)
    }

    fn send_error(&self, error: &Error, transfer: &CrossHostTransfer<'_>) {
        // The caller reports the error of the array. If the message cannot be sent, the receiving process notices that
        // this process has failed.
        let _ = self.state.transfers.send(Err(error.clone()), transfer);
    }

    fn receive_buffers(&self, transfers: &[CrossHostTransfer<'_>]) -> Result<Vec<(CpuBuffer, Event)>> {
        self.state.transfers.receive(transfers, &self.state.memories)
    }
}

impl CostAnalysis for CpuBackend {
    fn cost_analysis(executable: &CpuExecutable) -> Result<Vec<NamedValue>> {
        Ok(executable.costs())
    }

    fn compiled_memory_stats(executable: &CpuExecutable, info: &ExecutableInfo) -> Result<CompiledMemoryStats> {
        Ok(executable.memory_stats(info))
    }
}
