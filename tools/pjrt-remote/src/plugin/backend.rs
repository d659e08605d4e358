//! The backend, which sends the framework's operations to the server.

use std::sync::Arc;

use device_plugin::features::{
    AsyncReads, AtExit, CostAnalysis, DeviceCopies, Features, MemoryStatistics, MultiDevice, Platform, Poisoning,
};
use device_plugin::{
    Backend, ClientOptions, CompileOptions, Compiled, CompiledMemoryStats, DeviceInfo, Error, Event, ExecutableInfo,
    ExecuteOptions, HostArray, HostDestination, Launch, MemoryInfo, MemoryStats, NamedValue, Placement, Program,
    Result, Shape,
};

use crate::plugin::compile::compile;
use crate::plugin::connection::Connection;
use crate::plugin::objects::{Handle, RemoteBuffer, RemoteExecutable};
use crate::plugin::settings::Settings;
use crate::plugin::tickets::Answered;
use crate::wire::convert;
use crate::wire::messages as wire;

/// The devices of a server.
#[derive(Debug)]
pub struct RemoteBackend {
    connection: Arc<Connection>,
    devices: Vec<DeviceInfo>,
    memories: Vec<MemoryInfo>,
    platform_name: String,
    platform_version: String,
    topology_attributes: Vec<NamedValue>,
}

impl Drop for RemoteBackend {
    fn drop(&mut self) {
        self.connection.close();
    }
}

/// Maximum number of arguments of a launch. Their handles fit into a message.
const MAX_ARGUMENTS: usize = 50_000;

fn check_arguments(launch: &Launch<'_, RemoteBackend>) -> Result<()> {
    let count = launch.inputs.len();
    if count > MAX_ARGUMENTS {
        return Err(Error::unimplemented(format!("{count} arguments; this plugin sends at most {MAX_ARGUMENTS}")));
    }
    Ok(())
}

/// Returns an index as it is in messages.
fn number(index: usize) -> Result<u32> {
    u32::try_from(index).map_err(|_| Error::internal(format!("the index {index} is too large")))
}

impl RemoteBackend {
    /// Returns a new buffer, and the ticket for the request that creates it on the server.
    fn new_buffer(&self) -> Result<(u64, RemoteBuffer)> {
        let (ticket, ready) = self.connection.ticket()?;
        let handle = Handle { id: self.connection.handles(1), connection: Arc::clone(&self.connection) };
        Ok((ticket, RemoteBuffer { handle: Arc::new(handle), ready }))
    }

    /// Creates a buffer with the request that `request` returns for a ticket and a handle.
    fn create<R: Into<wire::Request>>(&self, request: impl FnOnce(u64, u64) -> R) -> Result<RemoteBuffer> {
        let (ticket, buffer) = self.new_buffer()?;
        self.connection.send(request(ticket, buffer.handle.id));
        Ok(buffer)
    }

    fn answer(&self, request: impl FnOnce(u64) -> wire::Request) -> Result<Vec<wire::NamedValue>> {
        query(&self.connection, request)
    }

    /// Takes the inputs of a launch and pushes its outputs. Returns its part of the request. Moves the donated inputs
    /// to `consumed`, with whether the server frees them. `consumed` must outlive the request. Otherwise the release of
    /// an input would precede it.
    fn launch(
        &self,
        ticket: u64,
        launch: &mut Launch<'_, Self>,
        consumed: &mut Vec<(RemoteBuffer, bool)>,
    ) -> Result<wire::Launch> {
        let (device, count) = (number(launch.device)?, number(launch.outputs.len())?);
        let mut donated = Vec::new();
        let mut arguments = Vec::with_capacity(launch.inputs.len());
        for index in 0..launch.inputs.len() {
            if let Some(buffer) = launch.inputs.take(index) {
                // If the SDK keeps a clone, a read of the buffer has not begun. The program then copies the buffer.
                let is_donated = Arc::strong_count(&buffer.handle) == 1;
                if is_donated {
                    donated.push(number(index)?);
                }
                arguments.push(buffer.handle.id);
                consumed.push((buffer, is_donated));
            } else {
                arguments.push(launch.inputs[index].handle.id);
            }
        }
        let outputs = launch.outputs.len();
        let first_output = self.connection.handles(outputs);
        for id in (first_output..).take(outputs) {
            let handle = Arc::new(Handle { id, connection: Arc::clone(&self.connection) });
            launch.outputs.push(RemoteBuffer { handle, ready: Event::ready() })?;
        }
        Ok(wire::Launch { ticket, device, arguments, donated, first_output, outputs: count })
    }

    fn execute_request(
        executable: &RemoteExecutable,
        options: &ExecuteOptions,
        all_devices: bool,
        launches: Vec<wire::Launch>,
    ) -> wire::Execute {
        wire::Execute {
            executable: executable.handle.id,
            launch_id: options.launch_id,
            all_devices,
            launches,
            call_location: options.call_location().unwrap_or_default().to_owned(),
        }
    }
}

/// Sends a query, and waits for its answer.
fn query(connection: &Connection, request: impl FnOnce(u64) -> wire::Request) -> Result<Vec<wire::NamedValue>> {
    match connection.call(request, &[])? {
        Answered::Answer(answer) => Ok(answer.values),
        _ => Err(Error::internal("the server did not answer the query")),
    }
}

impl Backend for RemoteBackend {
    type Buffer = RemoteBuffer;
    type Executable = RemoteExecutable;

    /// With the features `queued` and `queued_transfers`, executions and transfers accept buffers that are not ready,
    /// because the server handles requests in order.
    const FEATURES: Features<Self> = Features::none()
        .at_exit()
        .platform()
        .memory_statistics()
        .async_reads()
        .device_copies()
        .multi_device()
        .poisoning()
        .cost_analysis()
        .queued()
        .queued_transfers();

    fn create(options: &ClientOptions) -> Result<Self> {
        let (connection, welcome) = Connection::open(&Settings::new(options)?)?;
        let device = |device: wire::Device| {
            let mut info = DeviceInfo::new(device.id, device.kind);
            info.process_index = device.process_index;
            info.local_hardware_id = device.local_hardware_id;
            info.addressable = device.addressable;
            info.debug_string = device.debug_string;
            info.display_string = device.display_string;
            info.attributes = convert::named_values(device.attributes);
            info
        };
        let memory = |memory: wire::Memory| MemoryInfo::new(memory.kind, memory.kind_id, memory.devices);
        Ok(Self {
            connection,
            devices: welcome.devices.into_iter().map(device).collect(),
            memories: welcome.memories.into_iter().map(memory).collect(),
            platform_name: welcome.platform_name,
            platform_version: welcome.platform_version,
            topology_attributes: convert::named_values(welcome.topology_attributes),
        })
    }

    fn devices(&self) -> Vec<DeviceInfo> {
        self.devices.clone()
    }

    fn memories(&self) -> Vec<MemoryInfo> {
        self.memories.clone()
    }

    fn buffer_from_host(&self, host: HostArray<'_>, to: Placement) -> Result<RemoteBuffer> {
        let (memory, bytes) = (number(to.memory)?, host.bytes().len() as u64);
        let (shape, zero_copy) = (Some(wire::Shape::from(host.shape())), host.may_alias());
        let (ticket, buffer) = self.new_buffer()?;
        let handle = buffer.handle.id;
        let upload = wire::Upload { ticket, handle, shape, memory, bytes, zero_copy, in_ring: false, new_ring: false };
        self.connection.upload(upload, host.bytes());
        Ok(buffer)
    }

    fn ready(&self, buffer: &RemoteBuffer) -> Event {
        buffer.ready.clone()
    }

    fn read(&self, buffer: &RemoteBuffer, to: &mut [u8]) -> Result<()> {
        let handle = buffer.handle.id;
        match self.connection.call(|ticket| wire::Read { ticket, handle }.into(), &[])? {
            Answered::Bytes(bytes) if bytes.as_ref().len() == to.len() => to.copy_from_slice(bytes.as_ref()),
            Answered::Bytes(bytes) => {
                let len = bytes.as_ref().len();
                return Err(Error::internal(format!("the buffer has {len} bytes, and not {}", to.len())));
            }
            _ => return Err(Error::internal("the server did not answer with the contents of the buffer")),
        }
        Ok(())
    }

    fn compile(&self, program: &Program, options: &CompileOptions) -> Result<Compiled<RemoteExecutable>> {
        compile(&self.connection, program, options)
    }

    fn execute(&self, executable: &Arc<RemoteExecutable>, launch: &mut Launch<'_, Self>) -> Result<Event> {
        check_arguments(launch)?;
        let (ticket, done) = self.connection.ticket()?;
        let mut consumed = Vec::new();
        let part = self.launch(ticket, launch, &mut consumed)?;
        self.connection.send(Self::execute_request(executable, &launch.options, false, vec![part]));
        consumed.into_iter().filter(|(_, is_donated)| *is_donated).for_each(|(buffer, _)| buffer.consume());
        Ok(done)
    }
}

impl AtExit for RemoteBackend {
    /// Returns a function that ends the threads of the connection before static objects are destroyed. The server then
    /// frees what the client holds.
    fn at_exit(&self) -> Option<Box<dyn FnOnce() + Send>> {
        let connection = Arc::downgrade(&self.connection);
        Some(Box::new(move || {
            if let Some(connection) = connection.upgrade() {
                connection.end_with_process();
            }
        }))
    }
}

impl Platform for RemoteBackend {
    fn platform_name(&self) -> Option<String> {
        Some(self.platform_name.clone())
    }

    fn platform_version(&self) -> String {
        self.platform_version.clone()
    }

    fn topology_attributes(&self) -> Vec<NamedValue> {
        self.topology_attributes.clone()
    }
}

impl MemoryStatistics for RemoteBackend {
    fn memory_stats(&self, device: usize) -> Result<MemoryStats> {
        let device = number(device)?;
        let values = self.answer(|ticket| wire::DeviceQuery { ticket, device, clear: false }.into())?;
        Ok(convert::memory_stats(&values))
    }

    fn clear_memory_stats(&self, device: usize) -> Result<()> {
        let device = number(device)?;
        self.answer(|ticket| wire::DeviceQuery { ticket, device, clear: true }.into()).map(drop)
    }
}

impl AsyncReads for RemoteBackend {
    fn begin_read(&self, buffer: &RemoteBuffer, to: HostDestination) -> Result<Event> {
        self.connection.read(buffer.handle.id, to)
    }
}

impl DeviceCopies for RemoteBackend {
    fn create_uninitialized_buffer(&self, shape: &Shape, to: Placement) -> Result<RemoteBuffer> {
        let (shape, memory) = (Some(wire::Shape::from(shape)), number(to.memory)?);
        self.create(|ticket, handle| wire::Allocate { ticket, handle, shape, memory })
    }

    fn bitcast(&self, buffer: &RemoteBuffer, _: &Shape, to: &Shape, at: Placement) -> Result<RemoteBuffer> {
        let (source, memory, bitcast) = (buffer.handle.id, number(at.memory)?, Some(wire::Shape::from(to)));
        self.create(|ticket, handle| wire::Derive { ticket, handle, source, memory, bitcast })
    }

    fn copy(&self, buffer: &RemoteBuffer, _: &Shape, to: Placement) -> Result<RemoteBuffer> {
        let (source, memory) = (buffer.handle.id, number(to.memory)?);
        self.create(|ticket, handle| wire::Derive { ticket, handle, source, memory, bitcast: None })
    }
}

impl MultiDevice for RemoteBackend {
    /// All launches are one request, so the server receives the launches of different calls one after the other.
    fn execute_all(&self, executable: &Arc<RemoteExecutable>, launches: &mut [Launch<'_, Self>]) -> Result<Vec<Event>> {
        launches.iter().try_for_each(check_arguments)?;
        let (first_ticket, events) = self.connection.tickets(launches.len())?;
        let mut consumed = Vec::new();
        let launch = |(ticket, launch)| self.launch(ticket, launch, &mut consumed);
        let parts = (first_ticket..).zip(launches.iter_mut()).map(launch).collect::<Result<Vec<_>>>()?;
        if let Some(first) = launches.first() {
            self.connection.send(Self::execute_request(executable, &first.options, true, parts));
        }
        consumed.into_iter().filter(|(_, is_donated)| *is_donated).for_each(|(buffer, _)| buffer.consume());
        Ok(events)
    }
}

impl Poisoning for RemoteBackend {
    fn poison_execution(&self, device: usize, launch_id: i32, error: Error) -> Result<bool> {
        let failure = Some(wire::Failure::of(error.code(), error.message()));
        let device = number(device)?;
        let values = self.answer(|ticket| wire::Poison { ticket, device, launch_id, failure }.into())?;
        Ok(values.iter().any(|value| value.name == "poisoned"))
    }
}

impl CostAnalysis for RemoteBackend {
    fn cost_analysis(executable: &RemoteExecutable) -> Result<Vec<NamedValue>> {
        let Handle { id: handle, connection } = &executable.handle;
        let request = |ticket| wire::ExecutableQuery { ticket, handle: *handle, memory: false }.into();
        query(connection, request).map(convert::named_values)
    }

    fn compiled_memory_stats(executable: &RemoteExecutable, _: &ExecutableInfo) -> Result<CompiledMemoryStats> {
        let Handle { id: handle, connection } = &executable.handle;
        let request = |ticket| wire::ExecutableQuery { ticket, handle: *handle, memory: true }.into();
        query(connection, request).map(|values| convert::compiled_memory_stats(&values))
    }
}
