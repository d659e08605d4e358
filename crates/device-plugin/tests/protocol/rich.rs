//! A device that supports the extensions for profiles, streams, custom calls and raw buffers, and some features without
//! an extension. The code of a program is one word. A program takes and returns an array of two 32-bit integers:
//!
//! - `echo` and all other words that are not listed here return their argument.
//! - `narrow` returns an array that occupies only half of its usual size on the device.
//! - `puts` does the same as `echo`, and also passes its argument to output callback 5.
//! - `waits` does the same as `puts`, but on another thread and after [`GATE`] has received a message.

use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use device_plugin::features::{BufferAddresses, Features, MultiDevice, Profiler, RawBuffers, Stream, Streams};
use device_plugin::profiler::{self, Activity, Place};
use device_plugin::{
    Backend, CompileOptions, Compiled, DevicePlugin, ElementType, Error, Event, ExecutableInfo, ExecuteOptions,
    HostArray, Launch, Program, Result, Shape, device_plugin,
};

pub struct Rich;

#[device_plugin]
impl DevicePlugin for Rich {
    const NAME: &'static str = "rich";
    type Backend = RichDevice;
}

pub struct RichDevice;

type Memory = Arc<RwLock<Vec<u8>>>;

/// The options of each execution, with the code of its program.
pub static OPTIONS: Mutex<Vec<(String, ExecuteOptions)>> = Mutex::new(Vec::new());
/// Results of output callbacks that were called after the execution had ended.
pub static LATE: Mutex<Vec<Result<()>>> = Mutex::new(Vec::new());
/// The program `waits` continues when this channel receives a message.
pub static GATE: Mutex<Option<std::sync::mpsc::Receiver<()>>> = Mutex::new(None);
/// Streams that wait for buffers, each with the first byte of its buffer.
pub static WAITS: Mutex<Vec<(Stream, u8)>> = Mutex::new(Vec::new());
/// Options of the profiles that were started, and the number of profiles that ended.
pub static PROFILES: Mutex<(Vec<Vec<u8>>, usize)> = Mutex::new((Vec::new(), 0));

pub fn shape() -> Shape {
    Shape::new(ElementType::S32, [2])
}

impl Backend for RichDevice {
    type Executable = String;

    const FEATURES: Features<Self> =
        Features::none().buffer_addresses().multi_device().profiler().streams().ffi().raw_buffers();

    device_plugin_testing::unit_backend!();
    device_plugin_testing::several_devices!(2, "Rich v1");
    device_plugin_testing::writable_host_memory!();

    fn compile(&self, program: &Program, _: &CompileOptions) -> Result<Compiled<String>> {
        let code = String::from_utf8(program.code().to_vec()).map_err(|_| Error::invalid_argument("no text"))?;
        let _span = tracing::info_span!("lowering", code = code.as_str(), bytes = program.code().len()).entered();
        let info = ExecutableInfo::new(code.as_str(), [shape()], [shape()]);
        Ok(Compiled::new(code, info))
    }

    fn execute(&self, program: &Arc<String>, launch: &mut Launch<'_, Self>) -> Result<Event> {
        let span = tracing::debug_span!("kernel", step = tracing::field::Empty);
        let entered = span.enter();
        span.record("step", 7);
        tracing::info!("halfway");
        OPTIONS.lock().unwrap().push((program.to_string(), launch.options.clone()));
        let output = match program.as_str() {
            "narrow" => Arc::new(RwLock::new(launch.inputs[0].read().unwrap()[..4].to_vec())),
            _ => launch.inputs[0].clone(),
        };
        launch.outputs.push(output)?;
        let begun = Instant::now();
        profiler::record(
            Activity::new("matmul", Place::device(launch.device, "kernels"), begun, begun + Duration::from_micros(3))
                .with("flops", 12i64)
                .with("kind", "fast"),
        );
        drop(entered);
        let callbacks = launch.options.output_callbacks();
        let data = launch.inputs[0].read().unwrap().clone();
        let put = move || callbacks.call(5, (0, 1), 1, &HostArray::new(&shape(), data.as_slice())?);
        match program.as_str() {
            "puts" => put()?,
            "waits" => {
                let gate = GATE.lock().unwrap().take().expect("a gate");
                let (event, completer) = Event::pending();
                std::thread::spawn(move || {
                    let _scope = profiler::scope();
                    let _span = tracing::info_span!("on a thread of the device").entered();
                    gate.recv().unwrap();
                    let result = put();
                    completer.complete(result);
                    LATE.lock().unwrap().push(put());
                });
                return Ok(event);
            }
            _ => {}
        }
        Ok(Event::ready())
    }
}

impl BufferAddresses for RichDevice {
    fn on_device_size(&self, buffer: &Memory) -> Option<usize> {
        Some(buffer.read().unwrap().len())
    }
}

impl MultiDevice for RichDevice {
    fn execute_all(&self, program: &Arc<String>, launches: &mut [Launch<'_, Self>]) -> Result<Vec<Event>> {
        launches.iter_mut().map(|launch| self.execute(program, launch)).collect()
    }
}

impl Streams for RichDevice {
    fn stream_for_external_ready_events(&self, device: usize) -> Result<Stream> {
        Ok(Stream(isize::try_from(device).unwrap() - 100))
    }

    fn wait_until_buffer_ready_on_stream(&self, stream: Stream, buffer: &Memory) -> Result<()> {
        WAITS.lock().unwrap().push((stream, buffer.read().unwrap()[0]));
        if stream == Stream(13) { Err(Error::internal("an unlucky stream")) } else { Ok(()) }
    }
}

impl RawBuffers for RichDevice {
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

impl Profiler for RichDevice {
    fn profile_started(options: &[u8]) -> Result<()> {
        PROFILES.lock().unwrap().0.push(options.to_vec());
        match options {
            b"refuse" => Err(Error::unimplemented("this device is shy")),
            b"panic" => panic!("asked to panic"),
            _ => Ok(()),
        }
    }

    fn profile_stopping() -> Result<()> {
        PROFILES.lock().unwrap().1 += 1;
        Ok(())
    }
}
