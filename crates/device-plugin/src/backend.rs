//! The traits a vendor implements.

use std::sync::Arc;

use crate::extensions::Extensions;
use crate::host_array::zeroed;
use crate::program::total_size;
use crate::{
    CompileOptionSchema, CompileOptions, Compiled, CompiledMemoryStats, DeviceInfo, Error, Event, ExecutableInfo,
    ForeignMemory, HostArray, HostDestination, KeyValueStore, Launch, Layout, MemoryInfo, MemoryStats, NamedValue,
    Placement, ProcessInfo, Program, Result, Shape, TopologyInfo, Value,
};

/// A device, or a group of devices driven together.
///
/// # Threads
///
/// Methods are called from any thread and may overlap. Methods that work on one buffer or executable get a shared
/// reference to it. Most calls come from a thread of the framework. The SDK has its own threads for work that must
/// wait: one calls `execute` when the last argument of a deferred launch is ready, and another calls `read` and `copy`
/// when their buffer is ready. The SDK never calls a method on a thread that completes an event with
/// [`Completer::complete`](crate::Completer::complete), because that thread may run a driver's callback. A panic in a
/// method becomes an `INTERNAL` error of the call.
///
/// # Drop
///
/// **Finish all work before `drop` returns.** The SDK drops the backend when the framework has destroyed the client and
/// all objects created from it. This may happen on any thread, while programs run, and when the process is about to
/// end. Wait for the device's queues, for the driver's callbacks and for your threads. A driver that still works while
/// the process unloads it crashes. Waiting is safe, because nothing in the SDK waits for the thread that drops the
/// backend. The only events that may still be pending are those whose completers you drop, which fails them.
///
/// A backend can ignore deferred launches here. Each of them holds the client, so all have ended when the backend is
/// dropped.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no device: it does not implement `device_plugin::Backend`",
    label = "no backend",
    note = "write `impl Backend for {Self} {{ … }}`; where another library drives the device, leave `type Backend` out \
            and write `fn library() -> Library {{ Library::beside(\"libexample.so\") }}`"
)]
pub trait Backend: Sized + Send + Sync + 'static {
    /// A reference to device memory that is cheap to clone, such as an `Arc` or a counted handle. The SDK drops its
    /// clone when the framework deletes the buffer. Operations in progress keep their own clones.
    type Buffer: Clone + Send + Sync + 'static;

    /// A compiled program.
    type Executable: Send + Sync + 'static;

    /// Whether the device runs work in the order of submission, so that `execute` may be given buffers whose event is
    /// still pending.
    ///
    /// By default `execute` is called with ready buffers only. If a buffer is not ready when the framework launches the
    /// program, the call still returns at once. The SDK creates the outputs, holds the arguments, and calls `execute`
    /// on one of its own threads when the last argument is ready. If an argument fails, the outputs fail with its error
    /// and `execute` is not called. Deferred launches begin in the order in which their arguments become ready. If
    /// programs of different launches wait for each other on the device, the backend must keep the order itself.
    ///
    /// With `true` the SDK adds the events of the arguments to the event that `execute` returns. If an argument fails
    /// later, the outputs fail with its error. The device may therefore compute with the contents of a failed input,
    /// which must not harm it. A launch is still deferred if the value of an argument does not exist yet. An example is
    /// a buffer whose data the framework has not sent.
    ///
    /// `read`, `copy`, `bitcast` and the functions of raw buffers always get ready buffers. They return no event, so
    /// they cannot fail later or report when the memory becomes valid. A copy of a pending buffer is therefore made
    /// when that buffer is ready.
    const QUEUED: bool = false;

    /// Whether the backend overrides [`Backend::begin_read`].
    const ASYNC_READ: bool = false;

    /// Whether the backend overrides [`Backend::write_piece`]. If so, data that arrives in pieces is written to the
    /// device piece by piece. By default the SDK gathers it first.
    const PIECES: bool = false;

    /// Whether arrays may have fewer elements than their shapes declare. See [`Backend::dynamic_dimensions`].
    const DYNAMIC: bool = false;

    /// The optional groups of functions the backend offers frameworks: streams, raw buffers, a profiler, custom calls.
    const EXTENSIONS: Extensions<Self> = Extensions::none();

    /// Whether this is a real backend. False only for [`NoBackend`](crate::NoBackend).
    #[doc(hidden)]
    const PRESENT: bool = true;

    /// Opens the devices.
    ///
    /// # Errors
    ///
    /// Anything that prevents use of the devices, and options that the backend does not know.
    fn create(options: &CreateOptions) -> Result<Self>;

    /// Name of the platform. By default [`DevicePlugin::NAME`](crate::DevicePlugin::NAME).
    fn platform_name(&self) -> Option<String> {
        None
    }

    /// Human-readable version of the platform, such as the driver's version.
    fn platform_version(&self) -> String {
        String::new()
    }

    /// Index of this process among those that drive devices together.
    fn process_index(&self) -> i32 {
        0
    }

    /// Returns what to do if the process ends while this client exists. Frameworks such as PyTorch/XLA never destroy
    /// their client. Called once, when the client is created.
    ///
    /// With `None`, the default, the SDK waits for its own work, for at most 5 seconds. It waits until all deferred
    /// launches have ended, including those whose arguments have not arrived, and until its launch and completion
    /// threads are idle. It does not wait for a backend's own threads. With `Some`, it waits for none of these; use
    /// `Some(Box::new(|| ()))` to disable the wait.
    ///
    /// A backend with its own threads stops them in the closure, or waits until they are idle, because they must not
    /// call a driver or the framework once the destructors of static objects run. The closure holds the objects that it
    /// needs, such as the queue. It must not hold the backend, which may be destroyed at the same time.
    ///
    /// - **When:** it runs once, in a function that the first client registers with the C library's `atexit`. It runs
    ///   after `main` has returned, or within `exit`, and before the destructors of static objects that were created
    ///   before the first client. It does not run after `_exit`, `abort` or a signal, or in a forked process. It runs
    ///   only on Unix, because other systems end a process's threads first. If the client is destroyed earlier, the
    ///   closure is dropped without being run, and the backend's destructor ends its work.
    /// - **Thread:** the thread that ends the process. This may be one of the backend's own, in a callback of the
    ///   framework. Other threads keep running and may still call the plugin.
    /// - **Allowed work:** anything the backend does on other threads. It should not complete events. Completing one
    ///   calls the framework's callbacks and wakes its threads. Python has been finalized by then, so it ends the
    ///   process with an error when a thread returns to it. An event that never becomes ready is harmless. The closure
    ///   must return soon: limit each wait to a few seconds.
    /// - **Afterwards:** the framework may still call the plugin, for instance to destroy the client in one of its own
    ///   destructors. Such calls must return, possibly with an error.
    fn at_exit(&self) -> Option<Box<dyn FnOnce() + Send>> {
        None
    }

    /// The devices, addressable or not, in a fixed order; at least one. Called once.
    fn devices(&self) -> Vec<DeviceInfo>;

    /// The memories of the addressable devices, in a fixed order. Called once. By default each addressable device has
    /// one memory of kind `device`.
    fn memories(&self) -> Vec<MemoryInfo> {
        let addressable = self.devices().into_iter().filter(|device| device.addressable);
        addressable.map(|device| MemoryInfo::new("device", 0, [device.id])).collect()
    }

    /// The layout in which devices store arrays of this shape unless a framework requests another. By default `None`:
    /// arrays are row-major. The SDK reports this layout to frameworks and follows its dimension order. A backend sees
    /// the dimensions of each array as they are stored, from the slowest varying to the fastest, so all its data is
    /// dense and row-major. With the layout `{0,1}` an array `f32[2,3]` arrives as the columns `f32[3,2]`. The backend
    /// does the tiling. The SDK exchanges data with it without tiles.
    ///
    /// Frameworks may request any order, whatever this function returns, but only these tiles. Programs name dimensions
    /// as frameworks do. [`ExecutableInfo::parameter_layouts`] describes how a program's arrays are stored. The
    /// position of an extent of one does not affect the bytes. Without tiles, a program may therefore get `f32[1,5]`
    /// for a parameter that is stored as `f32[5,1]`.
    fn default_layout(topology: &TopologyInfo, shape: &Shape) -> Option<Layout> {
        let _ = (topology, shape);
        None
    }

    /// Attributes of the topology that the devices form.
    fn topology_attributes(&self) -> Vec<NamedValue> {
        Vec::new()
    }

    /// Memory statistics of a device.
    ///
    /// # Errors
    ///
    /// `UNIMPLEMENTED` unless the backend keeps statistics.
    fn memory_stats(&self, device: usize) -> Result<MemoryStats> {
        Err(Error::unimplemented(format!("no memory statistics of device {device}")))
    }

    /// Resets the peaks and counts in [`Backend::memory_stats`].
    ///
    /// # Errors
    ///
    /// `UNIMPLEMENTED` unless the backend keeps statistics.
    fn clear_memory_stats(&self, device: usize) -> Result<()> {
        Err(Error::unimplemented(format!("no memory statistics of device {device}")))
    }

    /// Receives the list of processes that take part in a distributed run, each time it changes.
    ///
    /// # Errors
    ///
    /// Frameworks end the process on any error.
    fn update_processes(&self, processes: &[ProcessInfo]) -> Result<()> {
        let _ = processes;
        Ok(())
    }

    /// Copies host data to a device. The transfer may still be in progress when this returns, if [`Backend::ready`]
    /// returns a pending event. In that case the backend has copied the data it still needs from `host`, or keeps an
    /// alias of it.
    ///
    /// # Errors
    ///
    /// `RESOURCE_EXHAUSTED` if the data does not fit, `UNIMPLEMENTED` for element types that the device does not
    /// support.
    fn buffer_from_host(&self, host: HostArray<'_>, to: Placement) -> Result<Self::Buffer>;

    /// An event that is ready when a buffer's contents are. It applies to buffers from `buffer_from_host`,
    /// `uninitialized`, `bitcast`, `view` and `copy`, not to outputs of [`Backend::execute`]. Called once, when the
    /// buffer is created. By default the contents are ready when those functions return. A device with asynchronous
    /// transfers returns its own [`Event::pending`]. The SDK then treats the buffer like the output of an execution:
    /// its users wait for it, or get its error.
    fn ready(&self, buffer: &Self::Buffer) -> Event {
        let _ = buffer;
        Event::ready()
    }

    /// Copies a buffer to the host: dense, row-major, sub-byte types in one byte per element. `to` has the size of the
    /// buffer's shape.
    ///
    /// # Errors
    ///
    /// Any error that the device reports.
    fn read(&self, buffer: &Self::Buffer, to: &mut [u8]) -> Result<()>;

    /// Writes a piece of a buffer's data. [`Backend::uninitialized`] created the buffer, and nothing reads it yet.
    /// `bytes` are those of the array in the format of [`Backend::read`], from byte `offset` on. Used with
    /// [`Backend::PIECES`]. Pieces of one buffer may arrive on several threads at once. The SDK calls
    /// [`Backend::ready`] after the last one.
    ///
    /// # Errors
    ///
    /// Any error that the device reports. It becomes the buffer's error.
    fn write_piece(&self, buffer: &Self::Buffer, offset: usize, bytes: &[u8]) -> Result<()> {
        let _ = (buffer, bytes);
        Err(Error::unimplemented(format!("a piece of an array, at byte {offset}")))
    }

    /// Returns the dimensions of a ready buffer that are, or may be, shorter than its shape declares, and their actual
    /// extents. For devices whose programs determine extents at run time. Called once for each buffer, with
    /// [`Backend::DYNAMIC`]. Later reads return an array of these extents.
    fn dynamic_dimensions(&self, buffer: &Self::Buffer, shape: &Shape) -> Vec<(usize, i64)> {
        let _ = (buffer, shape);
        Vec::new()
    }

    /// Begins a [`Backend::read`] that may continue after this returns. The copy is complete when the event is ready
    /// and `to` is dropped. Used with [`Backend::ASYNC_READ`] when a framework requests a whole buffer as the device
    /// stores it. Ranges of bytes, and arrays that must be reordered, are read by [`Backend::read`].
    ///
    /// If the device still needs the buffer afterwards, the backend must keep a clone of it.
    ///
    /// # Errors
    ///
    /// Errors that are known at once. Later errors are reported by the event.
    fn begin_read(&self, buffer: &Self::Buffer, mut to: HostDestination) -> Result<Event> {
        self.read(buffer, to.bytes())?;
        Ok(Event::ready())
    }

    /// The bytes of a buffer in host memory, in the layout of [`Backend::read`]. They must neither move nor change
    /// while the buffer or a clone of it exists. Returns `None` if the host cannot access them.
    fn host_bytes<'a>(&self, buffer: &'a Self::Buffer) -> Option<&'a [u8]> {
        let _ = buffer;
        None
    }

    /// Address of a buffer on the device. By default the address of [`Backend::host_bytes`], if there are any.
    fn device_pointer(&self, buffer: &Self::Buffer) -> Option<usize> {
        self.host_bytes(buffer).map(|bytes| bytes.as_ptr().addr())
    }

    /// Size of a buffer on the device in bytes, if it differs from the size on the host.
    fn size_on_device(&self, buffer: &Self::Buffer) -> Option<usize> {
        let _ = buffer;
        None
    }

    /// Allocates memory for an array whose contents do not matter yet. By default it is filled with zeros.
    ///
    /// # Errors
    ///
    /// Those of [`Backend::buffer_from_host`].
    fn uninitialized(&self, shape: &Shape, to: Placement) -> Result<Self::Buffer> {
        self.buffer_from_host(HostArray::new(shape, zeroed(host_size(shape)?)?)?, to)
    }

    /// Reinterprets the bytes of a buffer as an array of another shape with the same size on the host. The result may
    /// share the memory of `buffer`. By default it is a copy through the host.
    ///
    /// # Errors
    ///
    /// Those of [`Backend::read`] and [`Backend::buffer_from_host`].
    fn bitcast(&self, buffer: &Self::Buffer, from: &Shape, to: &Shape, placement: Placement) -> Result<Self::Buffer> {
        let mut bytes = zeroed(host_size(from)?)?;
        self.read(buffer, &mut bytes)?;
        self.buffer_from_host(HostArray::new(to, bytes)?, placement)
    }

    /// Creates a buffer in memory that another library allocated, such as one passed through DLPack. The other library
    /// keeps the memory until the last clone of `memory` is dropped.
    ///
    /// # Errors
    ///
    /// `UNIMPLEMENTED` unless the backend overrides this.
    fn view(&self, memory: ForeignMemory, shape: &Shape, at: Placement) -> Result<Self::Buffer> {
        let _ = (memory, at);
        Err(Error::unimplemented(format!("a buffer of {shape} in memory of another library")))
    }

    /// Prepares host memory for direct access by the devices: `size` bytes from `address` on, which stay valid until
    /// [`Backend::dma_unmap`]. The SDK keeps a list of the mapped ranges.
    ///
    /// # Errors
    ///
    /// `UNIMPLEMENTED` unless the backend overrides this.
    fn dma_map(&self, address: usize, size: usize) -> Result<()> {
        let _ = (address, size);
        Err(Error::unimplemented("direct memory access of host memory"))
    }

    /// Unmaps the memory that [`Backend::dma_map`] mapped at this address.
    ///
    /// # Errors
    ///
    /// Any error that the device reports. The memory then still counts as mapped.
    fn dma_unmap(&self, address: usize) -> Result<()> {
        let _ = address;
        Err(Error::unimplemented("direct memory access of host memory"))
    }

    /// Copies a ready buffer to another memory or device. By default the copy is made through the host. It is complete
    /// when this returns, unless [`Backend::ready`] returns a pending event for it.
    ///
    /// # Errors
    ///
    /// Those of [`Backend::read`] and [`Backend::buffer_from_host`].
    fn copy(&self, buffer: &Self::Buffer, shape: &Shape, to: Placement) -> Result<Self::Buffer> {
        let mut bytes = zeroed(host_size(shape)?)?;
        self.read(buffer, &mut bytes)?;
        self.buffer_from_host(HostArray::new(shape, bytes)?, to)
    }

    /// The options that a compilation takes by name, in
    /// [`CompileOptions::env_option_overrides`](crate::CompileOptions::env_option_overrides); `jax.jit` calls them
    /// `compiler_options`. By default, which is `None`, all options are passed on unchecked. If a backend lists its
    /// options here, the SDK rejects unknown names and values of another type, with messages that begin like XLA's. A
    /// backend that takes the options of XLA's CPU plugin, or ignores them, starts from [`CompileOptionSchema::xla`].
    fn compile_options() -> Option<CompileOptionSchema> {
        None
    }

    /// Compiles a program.
    ///
    /// # Errors
    ///
    /// `INVALID_ARGUMENT` for an invalid program, `UNIMPLEMENTED` with the operation's name if the device does not
    /// support it.
    fn compile(&self, program: &Program, options: &CompileOptions) -> Result<Compiled<Self::Executable>>;

    /// Compiles a program for devices that need not be present. The executable is loaded later, by a client of the
    /// same platform, here or after serialization elsewhere.
    ///
    /// # Errors
    ///
    /// `UNIMPLEMENTED` unless the backend overrides this; otherwise those of [`Backend::compile`].
    fn compile_for(
        topology: &TopologyInfo,
        program: &Program,
        options: &CompileOptions,
    ) -> Result<Compiled<Self::Executable>> {
        let _ = (topology, program, options);
        Err(Error::unimplemented("this plugin compiles only for devices that are present"))
    }

    /// Prepares a result of [`Backend::compile_for`] for the devices of this client. By default it is used unchanged.
    ///
    /// # Errors
    ///
    /// `INVALID_ARGUMENT` for a program that was compiled for other devices.
    fn load(&self, executable: &Arc<Self::Executable>) -> Result<Arc<Self::Executable>> {
        Ok(Arc::clone(executable))
    }

    /// Runs a program on one device. Reads or takes the inputs of the launch and pushes its outputs, in order.
    ///
    /// Each output needs its own memory. A program that returns an argument returns a copy of it, unless the argument
    /// is donated ([`Inputs::take`](crate::Inputs::take)). A value that is returned twice is copied once, and a
    /// constant of the program is copied too. Frameworks rely on this: `jnp.array(x, copy=True)` is such a program, one
    /// output may be donated while another is still read, and another library may write to the memory of an output that
    /// it imported. The SDK cannot detect whether two buffers share memory. Do not push a clone of an input unless the
    /// memory is copied before anything writes to it and its address is never exposed.
    ///
    /// This may return before the outputs are computed. The event then completes when they are, and its error becomes
    /// the error of the outputs. Clone or take the inputs that an execution needs after this returns.
    ///
    /// # Errors
    ///
    /// Errors that are known at once. The outputs then do not exist. The error is returned by the framework's call, or
    /// becomes the outputs' error if the launch was deferred.
    fn execute(&self, executable: &Arc<Self::Executable>, launch: &mut Launch<'_, Self>) -> Result<Event>;

    /// Runs a program on several devices at once, with one launch for each device of the device assignment, in its
    /// order. Returns one event for each.
    ///
    /// Calls from several threads of the framework overlap. If a backend's programs communicate with each other, it
    /// holds a lock for the whole call, so that the queues of all devices receive launches in the same order. Deferred
    /// launches never overlap with others.
    ///
    /// # Errors
    ///
    /// `UNIMPLEMENTED` unless the backend overrides this.
    fn execute_all(&self, executable: &Arc<Self::Executable>, launches: &mut [Launch<'_, Self>]) -> Result<Vec<Event>> {
        match launches {
            [launch] => Ok(vec![self.execute(executable, launch)?]),
            _ => Err(Error::unimplemented(format!("execution on {} devices at once", launches.len()))),
        }
    }

    /// Fails the earliest unfinished execution on a device with this launch id. Its event completes with the error.
    /// Returns false if there is no such execution. The SDK itself fails launches that it has deferred.
    ///
    /// A framework, or Ctrl-C in `pjrt run`, uses this to end an execution that would otherwise never end, such as an
    /// infinite loop or a collective whose other members have failed. An execution that has begun must therefore stop
    /// as well. For a separate device, reset it or abort its queue. Code on the host checks a flag in each iteration of
    /// a loop. The event completes once the execution no longer uses its arguments and outputs. An execution that has
    /// not begun fails at once.
    ///
    /// # Errors
    ///
    /// `UNIMPLEMENTED` unless the backend overrides this.
    fn poison(&self, device: usize, launch_id: i32, error: Error) -> Result<bool> {
        let _ = (launch_id, error);
        Err(Error::unimplemented(format!("poisoning an execution on device {device}")))
    }

    /// Begins to track work of the framework that the device waits for, for diagnostics. The work ends when the
    /// returned value is dropped. By default nothing is tracked.
    fn track(&self, device: usize, description: &str) -> Box<dyn Send + Sync> {
        let _ = (device, description);
        Box::new(())
    }

    /// Costs of a program by name, such as `flops` and `bytes accessed`.
    ///
    /// # Errors
    ///
    /// `UNIMPLEMENTED` unless the backend analyzes costs.
    fn cost_analysis(executable: &Self::Executable) -> Result<Vec<NamedValue>> {
        let _ = executable;
        Err(Error::unimplemented("no cost analysis"))
    }

    /// Memory that an execution of a program needs. By default it is computed from the signature only.
    ///
    /// # Errors
    ///
    /// `UNIMPLEMENTED` if the backend does not know.
    fn compiled_memory_stats(executable: &Self::Executable, info: &ExecutableInfo) -> Result<CompiledMemoryStats> {
        let _ = executable;
        let (argument_size, output_size) = (total_size(&info.parameters), total_size(&info.outputs));
        Ok(CompiledMemoryStats {
            generated_code_size: info.code_size.max(0),
            argument_size,
            output_size,
            peak_memory: argument_size.saturating_add(output_size),
            ..CompiledMemoryStats::default()
        })
    }

    /// Serializes a compiled program for exactly this version of the platform. If this returns `None`, the SDK stores
    /// the program as received and compiles it again.
    ///
    /// # Errors
    ///
    /// Any error that prevents serialization.
    fn serialize(executable: &Self::Executable) -> Result<Option<Vec<u8>>> {
        let _ = executable;
        Ok(None)
    }

    /// Loads a program that [`Backend::serialize`] serialized.
    ///
    /// # Errors
    ///
    /// `INVALID_ARGUMENT` for data of another version or device.
    fn deserialize(&self, data: &[u8], options: &CompileOptions) -> Result<Compiled<Self::Executable>> {
        let _ = (data, options);
        Err(Error::unimplemented("this backend serializes no compiled programs"))
    }

    /// Describes devices that need not be present.
    ///
    /// # Errors
    ///
    /// `UNIMPLEMENTED` unless the backend overrides this.
    fn topology(name: &str, options: &[NamedValue]) -> Result<TopologyInfo> {
        let _ = options;
        Err(Error::unimplemented(format!("no topology {name:?}: this plugin describes only devices that are present")))
    }
}

/// Size of a shape on the host in bytes.
fn host_size(shape: &Shape) -> Result<usize> {
    shape.host_size().ok_or_else(|| Error::invalid_argument(format!("{shape} is too large")))
}

/// The options that a framework passes when it creates a client.
#[derive(Debug, Default)]
pub struct CreateOptions {
    values: Vec<NamedValue>,
    key_value: Option<KeyValueStore>,
}

impl CreateOptions {
    /// Options without a key-value store.
    pub fn new(values: impl Into<Vec<NamedValue>>) -> Self {
        Self { values: values.into(), key_value: None }
    }

    pub(crate) fn with_key_value(mut self, store: KeyValueStore) -> Self {
        self.key_value = Some(store);
        self
    }

    /// All options.
    pub fn values(&self) -> &[NamedValue] {
        &self.values
    }

    /// The value of the option with this name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.iter().find(|value| value.name == name).map(|value| &value.value)
    }

    /// The integer option with this name. Text that contains an integer is accepted, because frameworks pass options
    /// from the environment as text.
    ///
    /// # Errors
    ///
    /// `INVALID_ARGUMENT` if the option is present but not an integer.
    pub fn int(&self, name: &str) -> Result<Option<i64>> {
        let fault = |value: &Value| Error::invalid_argument(format!("option {name} is no integer: {value}"));
        match self.get(name) {
            None => Ok(None),
            Some(Value::Int64(value)) => Ok(Some(*value)),
            Some(value @ Value::String(text)) => text.trim().parse().map(Some).map_err(|_| fault(value)),
            Some(value) => Err(fault(value)),
        }
    }

    /// Rejects options that are not among `known`. The error lists the known names.
    ///
    /// # Errors
    ///
    /// `INVALID_ARGUMENT` with the first unknown name.
    pub fn expect_only(&self, known: &[&str]) -> Result<()> {
        match self.values.iter().find(|value| !known.contains(&value.name.as_str())) {
            None => Ok(()),
            Some(unknown) => Err(Error::invalid_argument(format!(
                "unknown option {:?}; known are {}",
                unknown.name,
                if known.is_empty() { "none".to_owned() } else { known.join(", ") }
            ))),
        }
    }

    /// The store that the processes of a distributed run share. Returns `None` in a single process.
    pub fn key_value(&self) -> Option<&KeyValueStore> {
        self.key_value.as_ref()
    }
}
