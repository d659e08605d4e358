//! A device whose methods, destructors and clones fail on request.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};

use device_plugin::features::{
    AheadOfTime, AsyncReads, AtExit, BufferAddresses, CostAnalysis, DeviceCopies, Distributed, DmaMappings,
    DynamicShapes, Features, ForeignViews, MemoryStatistics, MultiDevice, NamedOptions, PiecewiseUploads, Platform,
    Poisoning, Profiler, RawBuffers, Serialization, StorageLayouts, Stream, Streams, Tracking,
};
use device_plugin::*;

/// The way in which a method fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Panic,
    /// Panics with a payload that panics again when it is dropped.
    PanicTwice,
    Error,
}

thread_local! {
    /// The methods that are armed to fail. The list is thread-local, because these tests make all calls on their own
    /// thread.
    static FAULTS: RefCell<Vec<(&'static str, Kind)>> = const { RefCell::new(Vec::new()) };
}

/// Makes the next call of `method` on this thread fail in the way that `kind` names. If several faults are armed, they
/// occur in the reverse order of the calls of `arm`.
pub fn arm(method: &'static str, kind: Kind) {
    FAULTS.with_borrow_mut(|faults| faults.push((method, kind)));
}

/// Removes all pending faults. Returns whether all faults occurred, in the reverse order of the calls of [`arm`].
pub fn disarm() -> bool {
    FAULTS.take().is_empty()
}

struct Explosive;

impl Drop for Explosive {
    fn drop(&mut self) {
        panic!("the panic payload panics");
    }
}

/// Fails if the most recently armed fault is a fault of `method`, and removes this fault.
fn enter(method: &str) -> Result<()> {
    match FAULTS.with_borrow_mut(|faults| faults.pop_if(|fault| fault.0 == method)) {
        Some((_, Kind::Panic)) => panic!("asked to panic in {method}"),
        Some((_, Kind::PanicTwice)) => std::panic::panic_any(Explosive),
        Some((_, Kind::Error)) => Err(Error::new(ErrorCode::DATA_LOSS, format!("asked to fail in {method}"))
            .with_payload("where", method.as_bytes().to_vec())),
        None => Ok(()),
    }
}

/// Does the same as [`enter`] for a method that cannot return an error. Panics if [`arm`] requested an error.
fn enter_or_panic(method: &str) {
    enter(method).expect("a method without an error was told to return one");
}

/// A function that the framework runs in a callback. It runs at most once.
type Callback = RefCell<Option<Box<dyn FnOnce()>>>;

thread_local! {
    /// The callback that the next execution runs.
    static WITHIN: Callback = const { RefCell::new(None) };
    /// The callback that runs when the next buffer is dropped.
    static AT_END: Callback = const { RefCell::new(None) };
}

/// Sets a callback of the framework that the next execution runs first.
pub fn within_execution(work: impl FnOnce() + 'static) {
    WITHIN.set(Some(Box::new(work)));
}

/// Sets a callback of the framework that runs when the value of the next buffer is dropped.
pub fn at_end_of_a_buffer(work: impl FnOnce() + 'static) {
    AT_END.set(Some(Box::new(work)));
}

fn call_back(work: &'static std::thread::LocalKey<Callback>) {
    if let Some(work) = work.take() {
        work();
    }
}

/// Number of live objects of the device.
pub static LIVE: AtomicIsize = AtomicIsize::new(0);

/// A value that counts as a live object. The second field is the name by which [`arm`] requests a panic of its
/// destructor.
pub struct Object<T>(T, &'static str);

impl<T> Object<T> {
    fn new(value: T, method: &'static str) -> Self {
        LIVE.fetch_add(1, Ordering::Relaxed);
        Self(value, method)
    }
}

impl<T> Drop for Object<T> {
    fn drop(&mut self) {
        LIVE.fetch_sub(1, Ordering::Relaxed);
        if self.1 == "Buffer::drop" {
            call_back(&AT_END);
        }
        enter_or_panic(self.1);
    }
}

pub struct Buffer(Arc<Object<Vec<u8>>>);

impl Buffer {
    fn new(bytes: Vec<u8>) -> Self {
        Self(Arc::new(Object::new(bytes, "Buffer::drop")))
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Self {
        enter_or_panic("Buffer::clone");
        Self(Arc::clone(&self.0))
    }
}

pub struct Faulty;

impl DevicePlugin for Faulty {
    const NAME: &'static str = "faulty";
    type Backend = Device;

    fn library() -> Library {
        enter_or_panic("library");
        Library::This
    }

    fn capabilities() -> Capabilities {
        enter_or_panic("capabilities");
        Capabilities::default()
    }

    fn options() -> OptionSchema {
        enter_or_panic("options");
        OptionSchema::any()
    }

    fn process() -> ProcessPlan {
        enter_or_panic("process");
        ProcessPlan::default()
    }

    fn configure(topology: &ProcessTopology, environment: &Environment) -> Result<EnvPlan> {
        enter("configure")?;
        Self::process().resolve(topology, environment).map_err(Error::from)
    }

    fn supports(_: &Program, _: Depth) -> Option<Support> {
        enter_or_panic("supports");
        None
    }

    fn ownership() -> Ownership {
        enter_or_panic("ownership");
        Ownership::Shared
    }

    fn shutdown() {
        enter_or_panic("shutdown");
    }

    fn manifest(manifest: Manifest) -> Manifest {
        enter_or_panic("manifest");
        manifest
    }

    fn initialize() -> Result<()> {
        enter("initialize")
    }

    fn stablehlo_versions() -> Option<StablehloVersions> {
        enter_or_panic("stablehlo_versions");
        None
    }

    fn attributes() -> Vec<NamedValue> {
        enter_or_panic("attributes");
        Vec::new()
    }
}

/// A backend with two devices, and one memory that is addressable from both devices.
pub struct Device(#[expect(dead_code, reason = "counted")] Object<()>);

fn devices() -> Vec<DeviceInfo> {
    vec![DeviceInfo::new(0, "Faulty"), DeviceInfo::new(1, "Faulty")]
}

fn memories() -> Vec<MemoryInfo> {
    vec![MemoryInfo::new("device", 0, [0, 1]).on_host()]
}

type Program_ = Object<String>;

/// Compiles a program. The programs `fresh`, `donated` and `both` return a copy of their first argument in a new
/// buffer. All other programs return the first argument itself. The argument of `donated` is donated, and `both` has
/// two arguments.
fn compiled(program: &Program) -> Result<Compiled<Program_>> {
    let code = String::from_utf8_lossy(program.code()).into_owned();
    let shape = Shape::new(ElementType::U8, [2]);
    let inputs = if code == "both" { 2 } else { 1 };
    let info = ExecutableInfo::new("echo", vec![shape.clone(); inputs], [shape]);
    let info = if code == "donated" { info.donating([0]) } else { info };
    Ok(Compiled::new(Object::new(code, "Executable::drop"), info))
}

impl Backend for Device {
    type Buffer = Buffer;
    type Executable = Program_;

    const FEATURES: Features<Self> = Features::none()
        .platform()
        .distributed()
        .storage_layouts()
        .memory_statistics()
        .piecewise_uploads()
        .dynamic_shapes()
        .async_reads()
        .buffer_addresses()
        .device_copies()
        .foreign_views()
        .dma_mappings()
        .at_exit()
        .named_options()
        .ahead_of_time()
        .multi_device()
        .poisoning()
        .tracking()
        .cost_analysis()
        .serialization()
        .profiler()
        .streams()
        .ffi()
        .raw_buffers();

    fn create(_: &ClientOptions) -> Result<Self> {
        enter("create")?;
        Ok(Self(Object::new((), "Backend::drop")))
    }

    fn devices(&self) -> Vec<DeviceInfo> {
        enter_or_panic("devices");
        devices()
    }

    fn memories(&self) -> Vec<MemoryInfo> {
        enter_or_panic("memories");
        memories()
    }

    fn buffer_from_host(&self, host: HostArray<'_>, _: Placement) -> Result<Buffer> {
        enter("buffer_from_host")?;
        Ok(Buffer::new(host.into_bytes()))
    }

    fn read(&self, buffer: &Buffer, to: &mut [u8]) -> Result<()> {
        enter("read")?;
        to.copy_from_slice(&buffer.0.0);
        Ok(())
    }

    fn ready(&self, _: &Buffer) -> Event {
        enter_or_panic("ready");
        Event::ready()
    }

    fn compile(&self, program: &Program, _: &CompileOptions) -> Result<Compiled<Program_>> {
        enter("compile")?;
        compiled(program)
    }

    fn execute(&self, program: &Arc<Program_>, launch: &mut Launch<'_, Self>) -> Result<Event> {
        call_back(&WITHIN);
        // A fault occurs after the output exists, so that the SDK must drop the output.
        let input = &launch.inputs[0];
        let fresh = matches!(program.0.as_str(), "fresh" | "donated" | "both");
        let output = if fresh { Buffer::new(input.0.0.clone()) } else { input.clone() };
        launch.outputs.push(output)?;
        enter("execute")?;
        Ok(Event::ready())
    }
}

impl Platform for Device {
    fn platform_name(&self) -> Option<String> {
        enter_or_panic("platform_name");
        None
    }

    fn platform_version(&self) -> String {
        enter_or_panic("platform_version");
        "1".to_owned()
    }

    fn topology_attributes(&self) -> Vec<NamedValue> {
        enter_or_panic("topology_attributes");
        Vec::new()
    }
}

impl Distributed for Device {
    fn process_index(&self) -> i32 {
        enter_or_panic("process_index");
        0
    }

    fn update_global_process_info(&self, _: &[ProcessInfo]) -> Result<()> {
        enter("update_global_process_info")
    }
}

impl StorageLayouts for Device {
    fn default_layout(_: &TopologyInfo, _: &Shape) -> Option<Layout> {
        enter_or_panic("default_layout");
        None
    }
}

impl MemoryStatistics for Device {
    fn memory_stats(&self, _: usize) -> Result<MemoryStats> {
        enter("memory_stats")?;
        Ok(MemoryStats::default())
    }

    fn clear_memory_stats(&self, _: usize) -> Result<()> {
        enter("clear_memory_stats")
    }
}

impl PiecewiseUploads for Device {
    fn transfer_data(&self, _: &Buffer, _: usize, _: &[u8]) -> Result<()> {
        enter("transfer_data")
    }
}

impl DynamicShapes for Device {
    fn is_dynamic(&self, _: &Buffer) -> bool {
        enter_or_panic("is_dynamic");
        true
    }

    fn is_dynamic_output(&self, _: &Program_, _: usize) -> bool {
        enter_or_panic("is_dynamic_output");
        true
    }

    fn dynamic_dimensions(&self, _: &Buffer, _: &Shape) -> Vec<(usize, i64)> {
        enter_or_panic("dynamic_dimensions");
        Vec::new()
    }
}

impl AsyncReads for Device {
    fn begin_read(&self, buffer: &Buffer, mut to: HostDestination) -> Result<Event> {
        enter("begin_read")?;
        self.read(buffer, to.bytes())?;
        Ok(Event::ready())
    }
}

impl BufferAddresses for Device {
    fn host_bytes<'a>(&self, buffer: &'a Buffer) -> Option<&'a [u8]> {
        enter_or_panic("host_bytes");
        Some(&buffer.0.0)
    }

    fn device_pointer(&self, buffer: &Buffer) -> Option<usize> {
        enter_or_panic("device_pointer");
        Some(buffer.0.0.as_ptr().addr())
    }

    fn on_device_size(&self, buffer: &Buffer) -> Option<usize> {
        enter_or_panic("on_device_size");
        Some(buffer.0.0.len())
    }
}

impl DeviceCopies for Device {
    fn create_uninitialized_buffer(&self, shape: &Shape, _: Placement) -> Result<Buffer> {
        enter("create_uninitialized_buffer")?;
        // The contents equal the data that the tests transfer.
        Ok(Buffer::new((3..).take(shape.host_size().unwrap()).collect()))
    }

    fn bitcast(&self, buffer: &Buffer, _: &Shape, _: &Shape, _: Placement) -> Result<Buffer> {
        enter("bitcast")?;
        Ok(Buffer(Arc::clone(&buffer.0)))
    }

    fn copy(&self, buffer: &Buffer, _: &Shape, _: Placement) -> Result<Buffer> {
        enter("copy")?;
        Ok(Buffer::new(buffer.0.0.clone()))
    }
}

impl ForeignViews for Device {
    fn create_view_of_device_buffer(&self, memory: ForeignMemory, _: &Shape, _: Placement) -> Result<Buffer> {
        enter("create_view_of_device_buffer")?;
        Ok(Buffer::new(memory.bytes().unwrap().to_vec()))
    }
}

impl DmaMappings for Device {
    fn dma_map(&self, _: usize, _: usize) -> Result<()> {
        enter("dma_map")
    }

    fn dma_unmap(&self, _: usize) -> Result<()> {
        enter("dma_unmap")
    }
}

impl AtExit for Device {
    fn at_exit(&self) -> Option<Box<dyn FnOnce() + Send>> {
        enter_or_panic("at_exit");
        None
    }
}

impl NamedOptions for Device {
    fn compile_options() -> CompileOptionSchema {
        enter_or_panic("compile_options");
        CompileOptionSchema::any()
    }
}

impl AheadOfTime for Device {
    fn compile_for(_: &TopologyInfo, program: &Program, _: &CompileOptions) -> Result<Compiled<Program_>> {
        enter("compile_for")?;
        compiled(program)
    }

    fn load_executable(&self, executable: &Arc<Program_>) -> Result<Arc<Program_>> {
        enter("load_executable")?;
        Ok(Arc::clone(executable))
    }

    fn topology(_: &str, _: &[NamedValue]) -> Result<TopologyInfo> {
        enter("topology")?;
        let mut info = TopologyInfo::new(devices());
        info.memories = memories();
        Ok(info)
    }
}

impl MultiDevice for Device {
    fn execute_all(&self, _: &Arc<Program_>, launches: &mut [Launch<'_, Self>]) -> Result<Vec<Event>> {
        for launch in launches.iter_mut() {
            launch.outputs.push(launch.inputs[0].clone())?;
        }
        enter("execute_all")?;
        Ok(launches.iter().map(|_| Event::ready()).collect())
    }
}

impl Poisoning for Device {
    fn poison_execution(&self, _: usize, _: i32, _: Error) -> Result<bool> {
        enter("poison_execution")?;
        Ok(false)
    }
}

impl Tracking for Device {
    fn track(&self, _: usize, _: &str) -> Box<dyn Send + Sync> {
        enter_or_panic("track");
        Box::new(Object::new((), "Tracked::drop"))
    }
}

impl CostAnalysis for Device {
    fn cost_analysis(_: &Program_) -> Result<Vec<NamedValue>> {
        enter("cost_analysis")?;
        Ok(Vec::new())
    }

    fn compiled_memory_stats(_: &Program_, _: &ExecutableInfo) -> Result<CompiledMemoryStats> {
        enter("compiled_memory_stats")?;
        Ok(CompiledMemoryStats::default())
    }
}

impl Serialization for Device {
    fn serialize(executable: &Program_) -> Result<Option<Vec<u8>>> {
        enter("serialize")?;
        Ok(Some(executable.0.clone().into_bytes()))
    }

    fn deserialize_and_load(&self, data: &[u8], _: &CompileOptions) -> Result<Compiled<Program_>> {
        enter("deserialize_and_load")?;
        compiled(&Program::new(String::new(), data.to_vec()))
    }
}

impl Streams for Device {
    fn stream_for_external_ready_events(&self, _: usize) -> Result<Stream> {
        enter("stream_for_external_ready_events")?;
        Ok(Stream(1))
    }

    fn wait_until_buffer_ready_on_stream(&self, _: Stream, _: &Buffer) -> Result<()> {
        enter("wait_until_buffer_ready_on_stream")
    }
}

impl RawBuffers for Device {
    fn read_raw(&self, buffer: &Buffer, offset: usize, to: &mut [u8]) -> Result<()> {
        enter("read_raw")?;
        to.copy_from_slice(&buffer.0.0[offset..offset + to.len()]);
        Ok(())
    }

    fn write_raw(&self, _: &Buffer, _: usize, _: &[u8]) -> Result<()> {
        enter("write_raw")
    }

    fn raw_host_pointer(&self, buffer: &Buffer) -> Option<usize> {
        enter_or_panic("raw_host_pointer");
        Some(buffer.0.0.as_ptr().addr())
    }
}

impl Profiler for Device {
    fn profile_started(_: &[u8]) -> Result<()> {
        enter("profile_started")
    }

    fn profile_stopping() -> Result<()> {
        enter("profile_stopping")
    }
}
