//! Tests extensions with a device that supports all extensions that these tests use.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, RwLock};

use crate::block_on::block_on;
use device_plugin::features::{self as offered, Features};
use device_plugin::ffi::{Handler, Registry};
use device_plugin::{
    Backend, CompileOptions as Options, Compiled, Completer, DevicePlugin, Event, ExecutableInfo, Launch, MemoryInfo,
    Result, Shape as DeviceShape, device_plugin,
};
use pjrt::extensions::{
    Ffi, HandlerTraits, HostMemoryAllocator, Layouts, MemoryDescriptions, Profiler, RawBuffers, Shardings, Stream,
    Streams,
};
use pjrt::raw::AsRaw;
use pjrt::{
    Client, ClientOptions, CompileOptions, ErrorCode, ErrorKind, ExecuteContext, ExecuteOptions, Function, Input,
    LoadedExecutable, Plugin, Program,
};

/// A plugin whose device supports the extensions that these tests use. Its programs return their argument, an array of
/// two 32-bit integers. A run of the program `later` is pending until [`finish`] is called.
struct All;

#[device_plugin]
impl DevicePlugin for All {
    const NAME: &'static str = "all";
    type Backend = Device;
}

struct Device;

type Memory = Arc<RwLock<Vec<u8>>>;

/// Raw handles of the streams that `wait_until_buffer_ready_on_stream` received.
static WAITS: Mutex<Vec<isize>> = Mutex::new(Vec::new());
/// The pending runs of the program `later`.
static RUNS: Mutex<Vec<Completer>> = Mutex::new(Vec::new());
/// Addresses of the user data that runs received in their execute contexts.
static DATA: Mutex<Vec<usize>> = Mutex::new(Vec::new());

fn finish() {
    let runs = std::mem::take(&mut *RUNS.lock().unwrap());
    runs.into_iter().for_each(|run| run.complete(Ok(())));
}

impl Backend for Device {
    type Executable = String;

    const FEATURES: Features<Self> = Features::none().profiler().streams().ffi().raw_buffers();

    device_plugin_testing::unit_backend!();
    device_plugin_testing::several_devices!(2, "All v1");
    device_plugin_testing::writable_host_memory!();

    fn memories(&self) -> Vec<MemoryInfo> {
        vec![MemoryInfo::new("device", 0, [0, 1]), MemoryInfo::new("pinned_host", 1, [0, 1]).on_host()]
    }

    fn compile(&self, program: &Program, _: &Options) -> Result<Compiled<String>> {
        let code = String::from_utf8_lossy(program.code()).into_owned();
        let shape = DeviceShape::new(device_plugin::ElementType::S32, [2]);
        let mut info = ExecutableInfo::new(code.as_str(), [shape.clone()], [shape]);
        if code == "sharded" {
            info.parameter_shardings = Some(vec![b"one".to_vec()]);
            info.output_shardings = Some(vec![b"another".to_vec()]);
        }
        Ok(Compiled::new(code, info))
    }

    fn execute(&self, program: &Arc<String>, launch: &mut Launch<'_, Self>) -> Result<Event> {
        launch.outputs.push(launch.inputs[0].clone())?;
        if let Some(context) = launch.options.context() {
            DATA.lock().unwrap().extend(context.user_data().iter().map(|data| data.address));
        }
        if program.as_str() != "later" {
            return Ok(Event::ready());
        }
        let (event, completer) = Event::pending();
        RUNS.lock().unwrap().push(completer);
        Ok(event)
    }
}

impl offered::Streams for Device {
    fn stream_for_external_ready_events(&self, device: usize) -> Result<offered::Stream> {
        Ok(offered::Stream(40 + isize::try_from(device).unwrap()))
    }

    fn wait_until_buffer_ready_on_stream(&self, stream: offered::Stream, _: &Memory) -> Result<()> {
        WAITS.lock().unwrap().push(stream.0);
        match stream.0 {
            13 => Err(device_plugin::Error::internal("an unlucky stream")),
            _ => Ok(()),
        }
    }
}

impl offered::RawBuffers for Device {
    fn read_raw(&self, buffer: &Memory, offset: usize, to: &mut [u8]) -> Result<()> {
        to.copy_from_slice(&buffer.read().unwrap()[offset..offset + to.len()]);
        Ok(())
    }

    fn write_raw(&self, buffer: &Memory, offset: usize, bytes: &[u8]) -> Result<()> {
        buffer.write().unwrap()[offset..offset + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn raw_host_pointer(&self, buffer: &Memory) -> Option<usize> {
        Some(buffer.read().unwrap().as_ptr().expose_provenance())
    }
}

impl offered::Profiler for Device {
    fn profile_started(options: &[u8]) -> Result<()> {
        if options == b"refuse" { Err(device_plugin::Error::unimplemented("this device is shy")) } else { Ok(()) }
    }
}

fn plugin() -> Plugin {
    Plugin::from_static(All::api()).unwrap()
}

fn client() -> Client {
    plugin().client(&ClientOptions::new()).unwrap()
}

fn compile(client: &Client, code: &str) -> LoadedExecutable {
    client.compile(&Program::new("text", code.as_bytes()), &CompileOptions::default()).unwrap()
}

/// Creates a client of another plugin. Objects of this plugin are not valid for the plugin [`All`].
fn stranger() -> Client {
    struct Other;
    #[device_plugin]
    impl DevicePlugin for Other {
        const NAME: &'static str = "other";
        type Backend = Device;
    }
    Plugin::from_static(Other::api()).unwrap().client(&ClientOptions::new()).unwrap()
}

#[test]
fn streams_are_those_of_a_device() {
    let streams = plugin().extension::<Streams>().unwrap();
    assert!(plugin().supports(Function::PJRT_Wait_Until_Buffer_Ready_On_Stream));
    let client = client();
    let device = &client.addressable_devices().unwrap()[1];
    let own = streams.stream_for_external_ready_events(device).unwrap();
    assert_eq!(own.as_raw(), 41);
    let buffer = client.buffer_from_host(&[1i32, 2], &[2]).unwrap();
    streams.wait_until_buffer_ready_on_stream(&own, &buffer).unwrap();
    assert!(WAITS.lock().unwrap().contains(&41));
    // SAFETY: the device does not dereference the stream handle.
    let unlucky = unsafe { Stream::from_raw(13, device) };
    let error = streams.wait_until_buffer_ready_on_stream(&unlucky, &buffer).unwrap_err();
    assert_eq!(error.message(), "an unlucky stream");
    let other = stranger();
    let refused = streams.stream_for_external_ready_events(&other.default_device().unwrap()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    let second = plugin().client(&ClientOptions::new()).unwrap();
    let theirs = second.buffer_from_host(&[1i32, 2], &[2]).unwrap();
    let refused = streams.wait_until_buffer_ready_on_stream(&own, &theirs).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
    buffer.delete().unwrap();
    let refused = streams.wait_until_buffer_ready_on_stream(&own, &buffer).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn raw_buffer_keeps_memory() {
    let raw_buffers = plugin().extension::<RawBuffers>().unwrap();
    let client = client();
    let buffer = client.buffer_from_host(&[1i32, 2], &[2]).unwrap();
    let raw = raw_buffers.alias(&buffer).unwrap();
    assert_eq!(raw.on_device_size().unwrap(), 8);
    assert!(!raw.as_raw().is_null());
    assert_eq!(raw.memory().unwrap(), buffer.memory().unwrap());
    assert_eq!(raw.client().platform_name().unwrap(), "all");
    // SAFETY: no other code uses the buffer, and the device owns the buffer's memory.
    let written = unsafe { raw.write(4, 9i32.to_ne_bytes()) }.unwrap();
    written.wait().unwrap();
    assert_eq!(buffer.to_host::<i32>().unwrap(), [1, 9]);
    assert_eq!(raw.read(4, 4).unwrap(), 9i32.to_ne_bytes());
    assert_eq!(block_on(raw.read_async(0, 4).unwrap()).unwrap(), 1i32.to_ne_bytes());
    assert_eq!(raw.read(8, 0).unwrap(), [0u8; 0]);
    let host = raw.host_pointer().unwrap().unwrap().cast::<[i32; 2]>();
    // SAFETY: no operation is writing to the buffer.
    assert_eq!(unsafe { host.read_unaligned() }, [1, 9]);
    for (offset, len) in [(0, 9), (8, 1), (usize::MAX, 2), (0, usize::MAX)] {
        let error = raw.read_async(offset, len).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        if len < 100 {
            // SAFETY: the call is rejected, because the range exceeds the buffer.
            let error = unsafe { raw.write(offset, vec![0; len]) }.map(drop).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        }
    }
    let refused = raw_buffers.alias(&stranger().buffer_from_host(&[0i32; 2], &[2]).unwrap()).map(drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
    buffer.delete().unwrap();
    assert_eq!(raw_buffers.alias(&buffer).map(drop).unwrap_err().kind(), ErrorKind::InvalidArgument);
    drop((buffer, client));
    // The raw buffer keeps the memory and the client alive.
    assert_eq!(raw.read(0, 4).unwrap(), 1i32.to_ne_bytes());
}

#[test]
fn raw_copies_await_contents_and_own_memory() {
    let raw_buffers = plugin().extension::<RawBuffers>().unwrap();
    let client = client();
    let later = compile(&client, "later");
    let x = client.buffer_from_host(&[5i32, 6], &[2]).unwrap();
    let output = later.execute(&[&x]).unwrap().remove(0);
    let raw = raw_buffers.alias(&output).unwrap();
    let read = raw.read_async(0, 4).unwrap();
    drop(raw.read_async(4, 4).unwrap());
    // SAFETY: no other code is using the memory.
    let written = unsafe { raw.write(4, [7u8; 4]) }.unwrap();
    assert!(!read.is_ready() && !written.is_ready().unwrap());
    drop((raw, output));
    finish();
    assert_eq!(read.wait().unwrap(), 5i32.to_ne_bytes());
    written.wait().unwrap();
    assert_eq!(x.to_host::<i32>().unwrap(), [5, i32::from_ne_bytes([7; 4])]);
}

#[test]
fn custom_calls_and_their_data() {
    let ffi = plugin().extension::<Ffi>().unwrap();
    let id = ffi.register_type("tests.data", None).unwrap();
    assert_eq!(ffi.register_type("tests.data", Some(id)).unwrap(), id);
    assert_eq!(ffi.register_type("tests.data", Some(id + 1)).unwrap_err().code(), ErrorCode::INVALID_ARGUMENT);
    assert_eq!(ffi.register_type("tests.data", Some(0)).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let handler = NonNull::from(&DATA).cast::<c_void>();
    // SAFETY: the device never calls a handler.
    let register = |target: &str| unsafe {
        ffi.register_handler(target, "all", handler, HandlerTraits::COMMAND_BUFFER_COMPATIBLE)
    };
    register("tests.call").unwrap();
    assert_eq!(register("").unwrap_err().code(), ErrorCode::INVALID_ARGUMENT);
    let known = Registry::of::<Device>().handler("tests.call", "all");
    let Some(Handler::Foreign(known)) = known else { panic!("{known:?}") };
    assert_eq!(known.address(), handler.as_ptr().addr());
    assert!(known.traits().is_command_buffer_compatible());

    let context = ExecuteContext::new(&plugin()).unwrap();
    let data = NonNull::from(&WAITS).cast::<c_void>();
    // SAFETY: the device does not dereference the pointer.
    unsafe { ffi.add_user_data(&context, id, data) }.unwrap();
    // SAFETY: the device does not dereference the pointer.
    let twice = unsafe { ffi.add_user_data(&context, id, data) }.unwrap_err();
    assert_eq!(twice.code(), ErrorCode::ALREADY_EXISTS);
    let client = client();
    let x = client.buffer_from_host(&[5i32, 6], &[2]).unwrap();
    let options = ExecuteOptions::new().with_context(context);
    let run = compile(&client, "echo").execute_with([Input::from(&x)], &options).unwrap();
    run.done.wait().unwrap();
    assert_eq!(std::mem::take(&mut *DATA.lock().unwrap()), [data.as_ptr().addr()]);
    // The execute context of one plugin is not valid for another plugin.
    let other = stranger();
    let theirs = other.buffer_from_host(&[5i32, 6], &[2]).unwrap();
    let refused = compile(&other, "echo").execute_with([Input::from(&theirs)], &options).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
    let context = ExecuteContext::new(&other.plugin()).unwrap();
    // SAFETY: the call is rejected before it uses the pointer.
    assert!(unsafe { ffi.add_user_data(&context, id, data) }.is_err());
}

#[test]
fn shardings_and_memories() {
    let client = client();
    let shardings = plugin().extension::<Shardings>().unwrap();
    let (sharded, echo) = (compile(&client, "sharded"), compile(&client, "echo"));
    let with = sharded.executable();
    assert_eq!(shardings.parameter_shardings(with).unwrap(), Some(vec![b"one".to_vec()]));
    assert_eq!(shardings.output_shardings(with).unwrap(), Some(vec![b"another".to_vec()]));
    let without = echo.executable();
    assert_eq!(shardings.parameter_shardings(without).unwrap(), None);
    assert_eq!(shardings.output_shardings(without).unwrap(), None);
    assert!(shardings.parameter_shardings(compile(&stranger(), "echo").executable()).is_err());

    let memories = plugin().extension::<MemoryDescriptions>().unwrap();
    let description = client.default_device().unwrap().description().unwrap();
    let all = memories.memories(&description).unwrap();
    let told: Vec<_> = all.iter().map(|memory| (memory.kind.as_str(), memory.kind_id, memory.is_default)).collect();
    assert_eq!(told, [("device", 0, true), ("pinned_host", 1, false)]);
    assert!(memories.memories(&stranger().default_device().unwrap().description().unwrap()).is_err());
}

/// Returns whether the bytes of a protobuf message contain a string.
fn mentions(message: &[u8], text: &str) -> bool {
    message.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn profile_records_activities() {
    let profiler = plugin().extension::<Profiler>().unwrap();
    let client = client();
    let x = client.buffer_from_host(&[5i32, 6], &[2]).unwrap();
    let run = |name: &str| drop(compile(&client, name).execute(&[&x]).unwrap());
    run("before the profile");
    let error = profiler.start(b"refuse").unwrap_err();
    assert_eq!((error.kind(), error.function()), (ErrorKind::Unsupported, Some("PLUGIN_Profiler_Start")));
    assert!(error.message().contains("this device is shy"), "{error}");
    let profile = profiler.start(&[]).unwrap();
    // Only one profile can run at a time. The failed second start does not affect the first profile.
    assert_eq!(profiler.start(&[]).unwrap_err().code(), ErrorCode::FAILED_PRECONDITION);
    run("during the profile");
    let space = profile.stop().unwrap();
    run("after the profile");
    assert!(mentions(&space, "/device:CUSTOM:all:0") && mentions(&space, "during the profile"));
    assert!(!mentions(&space, "before the profile") && !mentions(&space, "after the profile"));
    // Dropping a profile ends it, so another profile can start.
    drop(profiler.start(&[]).unwrap());
    profiler.start(&[]).unwrap().stop().unwrap();
}

#[test]
fn groups_outlive_their_objects() {
    let layouts = plugin().extension::<Layouts>().unwrap();
    let refused = layouts.buffer_layout(&stranger().buffer_from_host(&[1i32], &[1]).unwrap()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
    fn shared<T: Send + Sync + Clone + std::fmt::Debug>(value: Option<T>) {
        assert!(!format!("{:?}", value.clone().unwrap()).is_empty());
    }
    shared(Some(layouts));
    shared(plugin().extension::<Streams>());
    shared(plugin().extension::<RawBuffers>());
    shared(plugin().extension::<Ffi>());
    shared(plugin().extension::<Profiler>());
    shared(plugin().extension::<Shardings>());
    shared(plugin().extension::<MemoryDescriptions>());
}

#[test]
fn host_memory_is_offered_for_every_device() {
    let client = client();
    let allocator = plugin().extension::<HostMemoryAllocator>().unwrap();
    for size in [1, 64, 1000] {
        let memory = allocator.allocate(&client, size, Some(3)).unwrap();
        assert_eq!((memory.len(), memory.as_ptr().addr() % 64), (size, 0), "{size} bytes");
        assert!(memory.iter().all(|byte| *byte == 0));
    }
    let error = allocator.allocate(&client, usize::MAX / 4, None).unwrap_err();
    assert_eq!(error.code(), ErrorCode::RESOURCE_EXHAUSTED, "{error}");
}
