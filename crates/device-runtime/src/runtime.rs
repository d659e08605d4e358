//! The backend over a driver.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use device_plugin::__private::host_size;
use device_plugin::features::{AsyncReads, AtExit, DeviceCopies, Features, MemoryStatistics, MultiDevice, Profiler};
use device_plugin::{
    Backend, ClientOptions, CompileOptions, Compiled, DeviceInfo, Error, Event, HostArray, HostDestination, Launch,
    MemoryInfo, MemoryStats, Placement, Program, Result, Shape,
};

use crate::buffer::Buffer;
use crate::collectives::Member;
use crate::copies;
use crate::device::Device;
use crate::driver::{Driver, DriverMemory};
use crate::host_memory::{HostSource, HostTarget};
use crate::host_thread::set_process_exits;
use crate::launch::{PlannedLaunch, plan};

/// Maximum time that the end of the process waits for the devices.
const EXIT_LIMIT: Duration = Duration::from_secs(5);

/// A [`Backend`] over a [`Driver`].
///
/// Dropping it waits until the driver has ended all operations, and joins the threads of all queues. It does not wait
/// for operations of a device that the driver has reported as lost. If the process ends while the backend exists, it
/// rejects new operations, and waits up to five seconds for those in progress. In a forked process, all functions
/// that compile a program or use a device return an error.
pub struct Runtime<D: Driver> {
    // Dropped before the driver.
    devices: Vec<Device<D>>,
    infos: Vec<DeviceInfo>,
    /// The memories, in the order of the devices, with their indices among the memories of their device.
    memories: Vec<(MemoryInfo, usize)>,
    /// Held while the launches of one call on several devices are submitted, so that all devices get the launches of
    /// several calls in the same order.
    order: Mutex<()>,
    driver: Arc<D>,
}

impl<D: Driver> Runtime<D> {
    /// Returns a device.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such device, if the process is about to end, or if this process is a fork of the
    /// one that created the client.
    pub(crate) fn device(&self, index: usize) -> Result<&Device<D>> {
        let (device, count) = (self.devices.get(index), self.devices.len());
        let device = device.ok_or_else(|| Error::internal(format!("there is no device {index} of {count}")))?;
        device.health.check_open()?;
        Ok(device)
    }

    pub(crate) fn driver(&self) -> &D {
        &self.driver
    }

    /// Returns the driver, for a call that uses no particular device.
    ///
    /// # Errors
    ///
    /// Returns an error if the process is about to end, or if this process is a fork of the one that created the
    /// client.
    pub(crate) fn open_driver(&self) -> Result<&D> {
        // All devices belong to the same process.
        self.device(0)?;
        Ok(&self.driver)
    }

    fn plan(
        &self,
        executable: &Arc<D::Executable>,
        launch: &mut Launch<'_, Self>,
        member: Option<Member>,
    ) -> Result<PlannedLaunch<'_, D>> {
        // An output without a placement has the default memory.
        let memory_of = |at: Option<Placement>| at.map_or(0, |at| self.memories[at.memory].1);
        plan(&*self.driver, self.device(launch.device)?, executable, launch, memory_of, member)
    }

    /// Returns the device of a place, and the index of the memory among those of the device.
    fn place(&self, at: Placement) -> Result<(&Device<D>, usize)> {
        let count = self.memories.len();
        let memory = self.memories.get(at.memory);
        let (_, memory) =
            memory.ok_or_else(|| Error::internal(format!("there is no memory {} of {count}", at.memory)))?;
        Ok((self.device(at.device)?, *memory))
    }

    pub(crate) fn device_of(&self, buffer: &Buffer<D>) -> Result<&Device<D>> {
        self.device(buffer.block().device())
    }
}

impl<D: Driver> Backend for Runtime<D> {
    type Buffer = Buffer<D>;
    type Executable = D::Executable;

    const FEATURES: Features<Self> =
        D::FEATURES.async_reads().at_exit().device_copies().memory_statistics().multi_device().profiler().queued();

    fn create(options: &ClientOptions) -> Result<Self> {
        let driver = Arc::new(D::open(options)?);
        let (mut devices, mut infos, mut memories) = (Vec::new(), Vec::new(), Vec::new());
        let mut kinds: Vec<String> = Vec::new();
        for (index, device) in driver.devices().into_iter().enumerate() {
            let id = device.info.id;
            if !device.info.addressable {
                return Err(Error::internal(format!(
                    "device {id} is not addressable; the runtime supports devices of one process only"
                )));
            }
            let default = DriverMemory::new("device", device.memory_limit);
            let of_device: Vec<_> = std::iter::once(default).chain(device.other_memories).collect();
            for (index, memory) in of_device.iter().enumerate() {
                if of_device[..index].iter().any(|other| other.kind == memory.kind) {
                    let kind = &memory.kind;
                    return Err(Error::internal(format!("device {id} has two memories of the kind {kind:?}")));
                }
                if memory.limit == 0 {
                    let kind = &memory.kind;
                    return Err(Error::internal(format!("the memory {kind:?} of device {id} has a limit of 0 bytes")));
                }
                let kind = kinds.iter().position(|kind| *kind == memory.kind).unwrap_or_else(|| {
                    kinds.push(memory.kind.clone());
                    kinds.len() - 1
                });
                let kind_id = i32::try_from(kind).unwrap_or(i32::MAX);
                memories.push((MemoryInfo::new(memory.kind.clone(), kind_id, [id]), index));
            }
            devices.push(Device::start(&driver, index, id, of_device)?);
            infos.push(device.info);
        }
        Ok(Self { devices, infos, memories, order: Mutex::new(()), driver })
    }

    fn memories(&self) -> Vec<MemoryInfo> {
        self.memories.iter().map(|(info, _)| info.clone()).collect()
    }

    fn devices(&self) -> Vec<DeviceInfo> {
        self.infos.clone()
    }

    fn buffer_from_host(&self, host: HostArray<'_>, to: Placement) -> Result<Buffer<D>> {
        copies::upload(self.place(to)?, HostSource::new(host))
    }

    fn ready(&self, buffer: &Buffer<D>) -> Event {
        buffer.ready()
    }

    fn read(&self, buffer: &Buffer<D>, to: &mut [u8]) -> Result<()> {
        let bytes = copies::read(self.device_of(buffer)?, buffer, to.len())?;
        to.copy_from_slice(&bytes);
        Ok(())
    }

    fn compile(&self, program: &Program, options: &CompileOptions) -> Result<Compiled<D::Executable>> {
        self.open_driver()?.compile(program, options)
    }

    fn execute(&self, executable: &Arc<D::Executable>, launch: &mut Launch<'_, Self>) -> Result<Event> {
        Ok(self.plan(executable, launch, None)?.start())
    }
}

impl<D: Driver> MultiDevice for Runtime<D> {
    fn execute_all(&self, executable: &Arc<D::Executable>, launches: &mut [Launch<'_, Self>]) -> Result<Vec<Event>> {
        // The launches are in the order of the flattened ids. The SDK passes a launch alone to `execute`.
        let members = Member::create(launches.len()).into_iter().map(Some);
        let plan = |(launch, member)| self.plan(executable, launch, member);
        // If one launch cannot be prepared, no launch begins.
        let planned: Vec<PlannedLaunch<'_, D>> = launches.iter_mut().zip(members).map(plan).collect::<Result<_>>()?;
        let _order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        planned.iter().try_for_each(PlannedLaunch::check)?;
        // The launches may wait for each other on the devices, so from here on all of them begin.
        Ok(planned.into_iter().map(PlannedLaunch::start).collect())
    }
}

impl<D: Driver> AsyncReads for Runtime<D> {
    fn begin_read(&self, buffer: &Buffer<D>, to: HostDestination) -> Result<Event> {
        copies::download(self.device_of(buffer)?, buffer, HostTarget::framework(to))
    }
}

impl<D: Driver> DeviceCopies for Runtime<D> {
    fn create_uninitialized_buffer(&self, shape: &Shape, to: Placement) -> Result<Buffer<D>> {
        let (device, memory) = self.place(to)?;
        device.ready_buffer(memory, host_size(shape)?)
    }

    fn bitcast(&self, buffer: &Buffer<D>, _: &Shape, _: &Shape, _: Placement) -> Result<Buffer<D>> {
        Ok(buffer.clone())
    }

    fn copy(&self, buffer: &Buffer<D>, _: &Shape, to: Placement) -> Result<Buffer<D>> {
        copies::copy(buffer, self.device_of(buffer)?, self.place(to)?)
    }
}

impl<D: Driver> MemoryStatistics for Runtime<D> {
    fn memory_stats(&self, device: usize) -> Result<MemoryStats> {
        Ok(self.device(device)?.pool().stats())
    }

    fn clear_memory_stats(&self, device: usize) -> Result<()> {
        self.device(device)?.pool().clear_stats();
        Ok(())
    }
}

/// Profiles contain the executions and transfers. A driver adds the times of its kernels with
/// [`KernelTimes`](crate::KernelTimes).
impl<D: Driver> Profiler for Runtime<D> {}

impl<D: Driver> AtExit for Runtime<D> {
    fn at_exit(&self) -> Option<Box<dyn FnOnce() + Send>> {
        let queues = self.devices.iter().flat_map(|device| [&device.compute, &device.transfer]);
        let queues: Vec<_> = queues.map(|queue| Arc::clone(queue.shared())).collect();
        Some(Box::new(move || {
            set_process_exits();
            let deadline = Instant::now() + EXIT_LIMIT;
            queues.iter().for_each(|queue| queue.drain_until(deadline));
        }))
    }
}

impl<D: Driver> fmt::Debug for Runtime<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("devices", &self.infos).finish_non_exhaustive()
    }
}
