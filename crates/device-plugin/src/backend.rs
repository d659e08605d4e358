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
/// Methods are called from any thread and overlap; those that work on one buffer or executable get it shared. Most calls
/// come from a thread of the framework. The SDK has threads of its own for work that has to wait: one calls `execute`
/// when the last argument of a deferred launch is ready, another one `read` and `copy` when their buffer is. No method is
/// called on a thread that completes an event with [`Completer::complete`](crate::Completer::complete), which may
/// therefore be a driver's callback. A panic in a method becomes an `INTERNAL` error of the call.
///
/// # Drop
///
/// **Finish all work before `drop` returns.** The SDK drops the backend when the framework has destroyed the client and
/// everything made of it, also while programs run, on any thread, and possibly when the process is about to end. Wait for
/// the device's queues, for the driver's callbacks and for your threads. A driver that still works while the process
/// unloads it crashes. Waiting is safe: nothing of the SDK waits for the thread that drops the backend. Events may be
/// left pending only by dropping their completers, which fails them.
///
/// A backend need not know of deferred launches: each holds the client, so none is left when the backend is dropped.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no device: it does not implement `device_plugin::Backend`",
    label = "no backend",
    note = "write `impl Backend for {Self} {{ … }}`; where another library drives the device, leave `type Backend` out \
            and write `fn library() -> Library {{ Library::beside(\"libexample.so\") }}`"
)]
pub trait Backend: Sized + Send + Sync + 'static {
    /// A reference to device memory, cheap to clone: an `Arc`, or a handle that counts. The SDK drops its clone when
    /// the framework deletes the buffer; whatever still runs keeps its own clone.
    type Buffer: Clone + Send + Sync + 'static;

    /// A compiled program.
    type Executable: Send + Sync + 'static;

    /// Whether the device runs work in the order of submission, so that `execute` may be given buffers whose event is
    /// still pending.
    ///
    /// By default it is given buffers that are ready. If one is not when the framework launches the program, the call
    /// returns all the same. The SDK makes the outputs, holds the arguments, and calls `execute` on a thread of its own
    /// when the last one is ready. If an argument fails, the outputs fail with its error and `execute` is not called.
    /// Launches that were deferred begin in the order in which their arguments become ready, so programs of different
    /// launches that wait for each other on the device need a backend that keeps the order itself.
    ///
    /// With `true` the SDK adds the events of the arguments to the one that `execute` returns: if an argument fails
    /// later, the outputs fail with its error. So the device may compute with the contents of an input that failed, and
    /// must only not be harmed by them. A launch is deferred here, too, if the value of an argument does not exist yet,
    /// such as that of a buffer whose data the framework is still to send.
    ///
    /// `read`, `copy`, `bitcast` and the functions of raw buffers get buffers that are ready in any case: they return no
    /// event by which to fail later, or to say when memory is there. So a copy of what is under way is made when that is
    /// ready.
    const QUEUED: bool = false;

    /// Whether the backend has a [`Backend::begin_read`] of its own.
    const ASYNC_READ: bool = false;

    /// Whether the backend has a [`Backend::write_piece`] of its own: data that arrives in pieces then goes to the device
    /// piece by piece. By default the SDK gathers it first.
    const PIECES: bool = false;

    /// Whether arrays may have fewer elements than their shapes say, as [`Backend::dynamic_dimensions`] tells.
    const DYNAMIC: bool = false;

    /// The optional groups of functions the backend offers frameworks: streams, raw buffers, a profiler, custom calls.
    const EXTENSIONS: Extensions<Self> = Extensions::none();

    /// Whether there is a backend; false for [`NoBackend`](crate::NoBackend) alone.
    #[doc(hidden)]
    const PRESENT: bool = true;

    /// Opens the devices.
    ///
    /// # Errors
    ///
    /// Whatever keeps the devices from being used, and options the backend does not know.
    fn create(options: &CreateOptions) -> Result<Self>;

    /// Name of the platform, where it is not [`DevicePlugin::NAME`](crate::DevicePlugin::NAME).
    fn platform_name(&self) -> Option<String> {
        None
    }

    /// Version of the platform, such as the driver's, as people read it.
    fn platform_version(&self) -> String {
        String::new()
    }

    /// Index of this process among those that drive devices together.
    fn process_index(&self) -> i32 {
        0
    }

    /// What to do if the process ends while this client exists: frameworks such as PyTorch/XLA never destroy theirs.
    /// Asked once, when the client is made.
    ///
    /// With `None`, the default, the SDK waits for its own work, for at most 5 seconds. It waits until the launches that it
    /// deferred have ended, including those whose arguments have not arrived, and until its launch and completion threads
    /// are idle. It does not wait for a backend's own threads. With `Some`, it waits for none of these; use
    /// `Some(Box::new(|| ()))` to disable the wait.
    ///
    /// A backend with threads of its own stops them here, or waits until they have no work, because they must not call a
    /// driver or the framework once the destructors of static objects run. The closure holds what it needs, such as the
    /// queue, and not the backend, which may be destroyed at the same time.
    ///
    /// - **When:** it runs once, in a function that the first client registers with the C library's `atexit`. It runs
    ///   after `main` returned, or within `exit`, and before the destructors of static objects that were made before the
    ///   first client. It does not run after `_exit`, `abort` or a signal, not in a process that was forked, and only on
    ///   Unix: other systems end a process's threads first. If the client is destroyed before, the closure is dropped
    ///   without being run, and the backend's destructor is what ends its work.
    /// - **Thread:** the one that ends the process, which may be one of the backend's own, in a callback of the framework.
    ///   Other threads run on meanwhile, and may still call the plugin.
    /// - **What it may do:** whatever the backend does on other threads. It should not complete events: that calls the
    ///   framework's callbacks and wakes its threads, and Python, which has ended by then, ends the process with an error
    ///   when a thread comes back to it. An event that never becomes ready is harmless. It must return soon: limit each
    ///   wait to a few seconds.
    /// - **Afterwards:** the framework may still call, for instance to destroy the client in a destructor of its own. Such
    ///   calls must return, with an error if need be.
    fn at_exit(&self) -> Option<Box<dyn FnOnce() + Send>> {
        None
    }

    /// The devices, addressable or not, in a fixed order; at least one. Asked once.
    fn devices(&self) -> Vec<DeviceInfo>;

    /// The memories of the addressable devices, in a fixed order. Asked once. By default each addressable device has
    /// one memory of kind `device`.
    fn memories(&self) -> Vec<MemoryInfo> {
        let addressable = self.devices().into_iter().filter(|device| device.addressable);
        addressable.map(|device| MemoryInfo::new("device", 0, [device.id])).collect()
    }

    /// The layout in which devices store arrays of that shape unless a framework asks for another; by default, none,
    /// they are row-major. Frameworks are told of it, and the SDK keeps to its order: a backend sees the dimensions of
    /// each array as they are stored, from the slowest varying to the fastest, so that all its data is dense and
    /// row-major. With the layout `{0,1}` an array `f32[2,3]` arrives as the columns `f32[3,2]`. Tiles are for the
    /// backend to make: it gets and gives what it stores without them.
    ///
    /// Any order may be asked for, whatever this says, but only these tiles. Programs name dimensions as frameworks do;
    /// [`ExecutableInfo::parameter_layouts`] says how the arrays of one are stored. Where an extent of one stands makes
    /// no difference to the bytes, so without tiles a program may get `f32[1,5]` where its parameter is stored as
    /// `f32[5,1]`.
    fn default_layout(topology: &TopologyInfo, shape: &Shape) -> Option<Layout> {
        let _ = (topology, shape);
        None
    }

    /// Attributes of the topology the devices form.
    fn topology_attributes(&self) -> Vec<NamedValue> {
        Vec::new()
    }

    /// Use of a device's memory.
    ///
    /// # Errors
    ///
    /// `UNIMPLEMENTED` unless the backend counts.
    fn memory_stats(&self, device: usize) -> Result<MemoryStats> {
        Err(Error::unimplemented(format!("no memory statistics of device {device}")))
    }

    /// Forgets the peaks and counts in [`Backend::memory_stats`].
    ///
    /// # Errors
    ///
    /// `UNIMPLEMENTED` unless the backend counts.
    fn clear_memory_stats(&self, device: usize) -> Result<()> {
        Err(Error::unimplemented(format!("no memory statistics of device {device}")))
    }

    /// Hears which processes take part in a distributed run, each time that changes.
    ///
    /// # Errors
    ///
    /// Frameworks end the process on any error.
    fn update_processes(&self, processes: &[ProcessInfo]) -> Result<()> {
        let _ = processes;
        Ok(())
    }

    /// Copies host data to a device. The data may still be on its way when this returns, if [`Backend::ready`] says so;
    /// what of `host` is needed then is copied, or kept as its alias.
    ///
    /// # Errors
    ///
    /// `RESOURCE_EXHAUSTED` where it does not fit, `UNIMPLEMENTED` for element types the device lacks.
    fn buffer_from_host(&self, host: HostArray<'_>, to: Placement) -> Result<Self::Buffer>;

    /// When the contents of a buffer are there that was made by other means than [`Backend::execute`]: by
    /// `buffer_from_host`, `uninitialized`, `bitcast`, `view` or `copy`. Asked once, when the buffer is made. By default
    /// they are there when those return; a device whose transfers go on answers with an [`Event::pending`] of its own,
    /// and the SDK treats the buffer as it treats the output of an execution: who uses it waits, or hears of the error.
    fn ready(&self, buffer: &Self::Buffer) -> Event {
        let _ = buffer;
        Event::ready()
    }

    /// Copies a buffer to the host: dense, row-major, sub-byte types in one byte per element. `to` has the size of the
    /// buffer's shape.
    ///
    /// # Errors
    ///
    /// Whatever the device reports.
    fn read(&self, buffer: &Self::Buffer, to: &mut [u8]) -> Result<()>;

    /// Writes a piece of the data of a buffer that [`Backend::uninitialized`] made, and that nobody reads yet: bytes of
    /// the array as [`Backend::read`] gives them, from byte `offset` on. Used with [`Backend::PIECES`]. Pieces of one
    /// buffer may come from several threads at once; after the last one [`Backend::ready`] is asked.
    ///
    /// # Errors
    ///
    /// Whatever the device reports; it becomes the buffer's.
    fn write_piece(&self, buffer: &Self::Buffer, offset: usize, bytes: &[u8]) -> Result<()> {
        let _ = (buffer, bytes);
        Err(Error::unimplemented(format!("a piece of an array, at byte {offset}")))
    }

    /// The dimensions of a buffer, which is ready, that are shorter than its shape says, or may be, and how long they
    /// are; for devices whose programs find out when they run. Asked once of each buffer, with [`Backend::DYNAMIC`].
    /// Reads are then of an array of these extents.
    fn dynamic_dimensions(&self, buffer: &Self::Buffer, shape: &Shape) -> Vec<(usize, i64)> {
        let _ = (buffer, shape);
        Vec::new()
    }

    /// Begins a [`Backend::read`], which may go on after this returns: the copy is there when the event is ready and `to`
    /// is dropped. Used with [`Backend::ASYNC_READ`] where a framework wants a whole buffer as the device stores it;
    /// ranges of bytes, and arrays that are to be reordered, are read by [`Backend::read`].
    ///
    /// What the device still needs of the buffer it must keep in a clone.
    ///
    /// # Errors
    ///
    /// What can be told at once; what comes later is the event's.
    fn begin_read(&self, buffer: &Self::Buffer, mut to: HostDestination) -> Result<Event> {
        self.read(buffer, to.bytes())?;
        Ok(Event::ready())
    }

    /// The bytes of a buffer in host memory, in the layout of [`Backend::read`]. They must neither move nor change as
    /// long as the buffer or a clone of it lives. None where the host cannot see them.
    fn host_bytes<'a>(&self, buffer: &'a Self::Buffer) -> Option<&'a [u8]> {
        let _ = buffer;
        None
    }

    /// Address of a buffer on the device; for memory that the host sees, by default that of its bytes.
    fn device_pointer(&self, buffer: &Self::Buffer) -> Option<usize> {
        self.host_bytes(buffer).map(|bytes| bytes.as_ptr().addr())
    }

    /// Bytes a buffer takes on the device, where that is not its size on the host.
    fn size_on_device(&self, buffer: &Self::Buffer) -> Option<usize> {
        let _ = buffer;
        None
    }

    /// Memory for an array whose contents do not matter yet; by default zeros.
    ///
    /// # Errors
    ///
    /// Those of [`Backend::buffer_from_host`].
    fn uninitialized(&self, shape: &Shape, to: Placement) -> Result<Self::Buffer> {
        self.buffer_from_host(HostArray::new(shape, zeroed(host_size(shape)?)?)?, to)
    }

    /// The bytes of a buffer as an array of another shape, which takes as many bytes on the host. It may share the
    /// memory of `buffer`; by default it is a copy through the host.
    ///
    /// # Errors
    ///
    /// Those of [`Backend::read`] and [`Backend::buffer_from_host`].
    fn bitcast(&self, buffer: &Self::Buffer, from: &Shape, to: &Shape, placement: Placement) -> Result<Self::Buffer> {
        let mut bytes = zeroed(host_size(from)?)?;
        self.read(buffer, &mut bytes)?;
        self.buffer_from_host(HostArray::new(to, bytes)?, placement)
    }

    /// A buffer in memory that another library allocated, such as one that DLPack hands over. The other library keeps
    /// the memory until the last clone of `memory` is dropped.
    ///
    /// # Errors
    ///
    /// `UNIMPLEMENTED` unless the backend overrides this.
    fn view(&self, memory: ForeignMemory, shape: &Shape, at: Placement) -> Result<Self::Buffer> {
        let _ = (memory, at);
        Err(Error::unimplemented(format!("a buffer of {shape} in memory of another library")))
    }

    /// Prepares host memory for direct access by the devices: `size` bytes from `address` on, which stay valid until
    /// [`Backend::dma_unmap`]. The SDK keeps account of what is mapped.
    ///
    /// # Errors
    ///
    /// `UNIMPLEMENTED` unless the backend overrides this.
    fn dma_map(&self, address: usize, size: usize) -> Result<()> {
        let _ = (address, size);
        Err(Error::unimplemented("direct memory access of host memory"))
    }

    /// Ends what [`Backend::dma_map`] began at that address.
    ///
    /// # Errors
    ///
    /// Whatever the device reports; the memory then counts as mapped still.
    fn dma_unmap(&self, address: usize) -> Result<()> {
        let _ = address;
        Err(Error::unimplemented("direct memory access of host memory"))
    }

    /// Copies a buffer, which is ready, to another memory or device; by default through the host. The copy is there
    /// when this returns, unless [`Backend::ready`] says otherwise.
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
    /// `compiler_options`. By default, which is `None`, all options are passed on unchecked. A backend that lists its options here leaves
    /// it to the SDK to refuse unknown names and values of another type, in XLA's words. A backend that takes the
    /// options of XLA's CPU plugin, or ignores them, starts from [`CompileOptionSchema::xla`].
    fn compile_options() -> Option<CompileOptionSchema> {
        None
    }

    /// Compiles a program.
    ///
    /// # Errors
    ///
    /// `INVALID_ARGUMENT` for a broken program, `UNIMPLEMENTED` for what the device cannot do, naming the operation.
    fn compile(&self, program: &Program, options: &CompileOptions) -> Result<Compiled<Self::Executable>>;

    /// Compiles a program for devices that need not be present. The executable is loaded later, by a client of the
    /// same platform, here or after serialization elsewhere.
    ///
    /// # Errors
    ///
    /// `UNIMPLEMENTED` unless the backend overrides this; else those of [`Backend::compile`].
    fn compile_for(
        topology: &TopologyInfo,
        program: &Program,
        options: &CompileOptions,
    ) -> Result<Compiled<Self::Executable>> {
        let _ = (topology, program, options);
        Err(Error::unimplemented("this plugin compiles only for devices that are present"))
    }

    /// Prepares what [`Backend::compile_for`] made for the devices of this client; by default it is used as it is.
    ///
    /// # Errors
    ///
    /// `INVALID_ARGUMENT` for a program that was compiled for other devices.
    fn load(&self, executable: &Arc<Self::Executable>) -> Result<Arc<Self::Executable>> {
        Ok(Arc::clone(executable))
    }

    /// Runs a program on one device: reads or takes the inputs of the launch and pushes its outputs, in order.
    ///
    /// Each output has memory of its own. A program that returns an argument returns a copy of it, unless the argument
    /// is donated ([`Inputs::take`](crate::Inputs::take)); a value that is returned twice is copied once; and a constant
    /// of the program is copied too. Frameworks rely on this: `jnp.array(x, copy=True)` is such a program, one output
    /// may be donated while the other is still read, and another library may write to the memory of an output that it
    /// imported. The SDK cannot see whether two buffers share memory, so do not push a clone of an input, unless the memory
    /// is copied before anybody writes to it and its address is never given out.
    ///
    /// May return before the outputs are computed; then the event completes when they are, and an error it completes
    /// with becomes that of the outputs. Inputs an execution needs after it returns must be cloned or taken.
    ///
    /// # Errors
    ///
    /// What can be told at once; the outputs then do not exist. It is the error of the framework's call, or of the
    /// outputs if the launch was deferred.
    fn execute(&self, executable: &Arc<Self::Executable>, launch: &mut Launch<'_, Self>) -> Result<Event>;

    /// Runs a program on several devices at once: one launch for each device it was compiled for, in the order of the
    /// device assignment. Returns one event for each.
    ///
    /// Calls from several threads of the framework overlap. A backend whose programs meet holds a lock for the whole
    /// call, so that the queues of all devices get launches in one order. Deferred launches never overlap with others.
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

    /// Fails the earliest execution on a device with that launch id that is not finished: its event completes with the
    /// error. False when there is none. Launches that the SDK has deferred it fails by itself.
    ///
    /// This is how a framework, or Ctrl-C in `pjrt run`, ends an execution that would otherwise never end: a loop, or a
    /// collective whose other members are gone. So an execution that has begun is asked to stop as well: a device of its
    /// own is reset or its queue aborted, and code on the host looks at a flag in each iteration of a loop. The event
    /// completes once the execution no longer uses its arguments and outputs. An execution that waits to begin fails at
    /// once.
    ///
    /// # Errors
    ///
    /// `UNIMPLEMENTED` unless the backend overrides this.
    fn poison(&self, device: usize, launch_id: i32, error: Error) -> Result<bool> {
        let _ = (launch_id, error);
        Err(Error::unimplemented(format!("poisoning an execution on device {device}")))
    }

    /// Begins to track work of the framework that the device waits for, for diagnostics: the work ends when the value
    /// is dropped. By default nothing is tracked.
    fn track(&self, device: usize, description: &str) -> Box<dyn Send + Sync> {
        let _ = (device, description);
        Box::new(())
    }

    /// Costs of a program by name, such as `flops` and `bytes accessed`.
    ///
    /// # Errors
    ///
    /// `UNIMPLEMENTED` unless the backend counts.
    fn cost_analysis(executable: &Self::Executable) -> Result<Vec<NamedValue>> {
        let _ = executable;
        Err(Error::unimplemented("no cost analysis"))
    }

    /// Memory an execution of a program needs; by default only what its signature tells.
    ///
    /// # Errors
    ///
    /// `UNIMPLEMENTED` from backends that cannot tell.
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

    /// Serializes a compiled program for this very version of the platform. None makes the SDK store the program as
    /// received and compile it again.
    ///
    /// # Errors
    ///
    /// Whatever prevents it.
    fn serialize(executable: &Self::Executable) -> Result<Option<Vec<u8>>> {
        let _ = executable;
        Ok(None)
    }

    /// Loads what [`Backend::serialize`] made of a program.
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

/// Bytes of a shape on the host.
fn host_size(shape: &Shape) -> Result<usize> {
    shape.host_size().ok_or_else(|| Error::invalid_argument(format!("{shape} is too large")))
}

/// What a framework passes when it creates a client.
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

    /// The value of that name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.iter().find(|value| value.name == name).map(|value| &value.value)
    }

    /// The integer of that name; text that spells one counts, because frameworks pass options from the environment as
    /// text.
    ///
    /// # Errors
    ///
    /// `INVALID_ARGUMENT` when the option is there and no integer.
    pub fn int(&self, name: &str) -> Result<Option<i64>> {
        let fault = |value: &Value| Error::invalid_argument(format!("option {name} is no integer: {value}"));
        match self.get(name) {
            None => Ok(None),
            Some(Value::Int64(value)) => Ok(Some(*value)),
            Some(value @ Value::String(text)) => text.trim().parse().map(Some).map_err(|_| fault(value)),
            Some(value) => Err(fault(value)),
        }
    }

    /// Refuses options that are not among `known`, naming those that are.
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

    /// The store shared by the processes of a distributed run; none in a single process.
    pub fn key_value(&self) -> Option<&KeyValueStore> {
        self.key_value.as_ref()
    }
}
