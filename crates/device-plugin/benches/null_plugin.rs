//! Compares how long one execution takes on a Rust backend that does nothing and on a hand-written C plugin.
//!
//! The benchmark alternates between batches of both plugins in one process, and compares the medians of their times.
//! `cc` builds the C plugin when the benchmark runs. Without a compiler, the benchmark reports this and fails.
//!
//! `cargo bench -p device-plugin --bench null_plugin` runs the benchmark. The environment variable `ONLY=N` selects
//! programs with N arguments, which is useful under a profiler.
#![allow(
    missing_docs,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a raw caller"
)]

use std::hint::black_box;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Instant;

use device_plugin::{
    Backend, ClientOptions, CompileOptions, Compiled, DeviceInfo, DevicePlugin, ElementType, Error, Event,
    ExecutableInfo, HostArray, Launch, Placement, Program, Result, Shape, device_plugin,
};
use pjrt_sys::*;

struct Null;

#[device_plugin]
impl DevicePlugin for Null {
    const NAME: &'static str = "null";
    type Backend = NullDevice;
}

struct NullDevice;

impl Backend for NullDevice {
    type Buffer = ();
    type Executable = ();

    fn create(_: &ClientOptions) -> Result<Self> {
        Ok(Self)
    }
    fn devices(&self) -> Vec<DeviceInfo> {
        vec![DeviceInfo::new(0, "null")]
    }
    fn buffer_from_host(&self, _: HostArray<'_>, _: Placement) -> Result<()> {
        Ok(())
    }
    fn read(&self, (): &(), _: &mut [u8]) -> Result<()> {
        Ok(())
    }
    fn compile(&self, program: &Program, _: &CompileOptions) -> Result<Compiled<()>> {
        let text = std::str::from_utf8(program.code()).ok().and_then(|text| text.parse().ok());
        let count: usize = text.ok_or_else(|| Error::invalid_argument("the program is a number"))?;
        let shapes = vec![Shape::new(ElementType::F32, [4]); count];
        Ok(Compiled::new((), ExecutableInfo::new("null", shapes.clone(), shapes)))
    }
    fn execute(&self, _: &Arc<()>, launch: &mut Launch<'_, Self>) -> Result<Event> {
        for _ in 0..launch.outputs.len() {
            launch.outputs.push(())?;
        }
        Ok(Event::ready())
    }
}

type Function<A> = unsafe extern "C" fn(*mut A) -> *mut PJRT_Error;

/// The plugin functions that a round trip calls, and the objects that it passes to them.
struct Plugin {
    execute: Function<PJRT_LoadedExecutable_Execute_Args>,
    event_await: Function<PJRT_Event_Await_Args>,
    event_destroy: Function<PJRT_Event_Destroy_Args>,
    buffer_destroy: Function<PJRT_Buffer_Destroy_Args>,
    executable: *mut PJRT_LoadedExecutable,
    inputs: Vec<*mut PJRT_Buffer>,
}

fn check(error: *mut PJRT_Error) {
    assert!(error.is_null());
}

impl Plugin {
    fn rust(count: usize) -> Self {
        let api = device_plugin::raw::api::<Null>();
        let mut create = PJRT_Client_Create_Args::new();
        unsafe { check(api.PJRT_Client_Create.unwrap()(&raw mut create)) };
        let code = count.to_string();
        let mut program = PJRT_Program::new();
        (program.code, program.code_size) = (code.as_ptr().cast_mut().cast(), code.len());
        let mut compile = PJRT_Client_Compile_Args::new();
        (compile.client, compile.program) = (create.client, &raw const program);
        unsafe { check(api.PJRT_Client_Compile.unwrap()(&raw mut compile)) };
        let input = || {
            let (dims, data) = ([4i64], [0f32; 4]);
            let mut devices = PJRT_Client_Devices_Args::new();
            devices.client = create.client;
            unsafe { check(api.PJRT_Client_Devices.unwrap()(&raw mut devices)) };
            let mut put = PJRT_Client_BufferFromHostBuffer_Args::new();
            (put.client, put.data) = (create.client, data.as_ptr().cast());
            (put.dims, put.num_dims, put.type_) = (dims.as_ptr(), 1, PJRT_Buffer_Type(ElementType::F32.as_raw()));
            put.device = unsafe { *devices.devices };
            unsafe { check(api.PJRT_Client_BufferFromHostBuffer.unwrap()(&raw mut put)) };
            put.buffer
        };
        Self {
            execute: api.PJRT_LoadedExecutable_Execute.unwrap(),
            event_await: api.PJRT_Event_Await.unwrap(),
            event_destroy: api.PJRT_Event_Destroy.unwrap(),
            buffer_destroy: api.PJRT_Buffer_Destroy.unwrap(),
            executable: compile.executable,
            inputs: (0..count).map(|_| input()).collect(),
        }
    }

    fn c(library: &libloading::Library, count: usize) -> Self {
        unsafe {
            let executable: libloading::Symbol<'_, unsafe extern "C" fn(usize, usize) -> *mut PJRT_LoadedExecutable> =
                library.get(b"null_executable").unwrap();
            let buffer: libloading::Symbol<'_, unsafe extern "C" fn() -> *mut PJRT_Buffer> =
                library.get(b"null_buffer").unwrap();
            Self {
                execute: *library.get(b"null_execute").unwrap(),
                event_await: *library.get(b"null_event_await").unwrap(),
                event_destroy: *library.get(b"null_event_destroy").unwrap(),
                buffer_destroy: *library.get(b"null_buffer_destroy").unwrap(),
                executable: executable(count, count),
                inputs: (0..count).map(|_| buffer()).collect(),
            }
        }
    }

    /// Executes the program, waits for the event, and destroys the event and the outputs.
    #[inline(never)]
    fn round_trip(&self, options: &mut PJRT_ExecuteOptions, outputs: &mut [*mut PJRT_Buffer]) {
        let mut event = null_mut();
        let (arguments, results) = ([self.inputs.as_ptr()], [outputs.as_mut_ptr()]);
        let mut execute = PJRT_LoadedExecutable_Execute_Args::new();
        execute.executable = self.executable;
        execute.options = options;
        execute.argument_lists = arguments.as_ptr();
        (execute.num_devices, execute.num_args) = (1, self.inputs.len());
        execute.output_lists = results.as_ptr();
        execute.device_complete_events = &raw mut event;
        unsafe { check((self.execute)(&raw mut execute)) };
        let mut wait = PJRT_Event_Await_Args::new();
        wait.event = event;
        unsafe { check((self.event_await)(&raw mut wait)) };
        let mut destroy = PJRT_Event_Destroy_Args::new();
        destroy.event = event;
        unsafe { check((self.event_destroy)(&raw mut destroy)) };
        for output in outputs {
            let mut destroy = PJRT_Buffer_Destroy_Args::new();
            destroy.buffer = *output;
            unsafe { check((self.buffer_destroy)(&raw mut destroy)) };
        }
    }

    /// Returns the mean time of a round trip in nanoseconds, measured over a batch of `rounds`.
    fn batch(&self, rounds: u32) -> f64 {
        let mut options = PJRT_ExecuteOptions::new();
        let mut outputs = vec![null_mut(); self.inputs.len()];
        let start = Instant::now();
        for _ in 0..rounds {
            black_box(self).round_trip(&mut options, &mut outputs);
        }
        start.elapsed().as_secs_f64() * 1e9 / f64::from(rounds)
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() -> ExitCode {
    // `cargo test --benches` also runs this benchmark, to check that it works.
    let quick = std::env::args().any(|argument| argument == "--test") || !std::env::args().any(|a| a == "--bench");
    let directory = std::env::temp_dir().join(format!("null_plugin-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("null_plugin.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/null_plugin.c");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let built = Command::new(&compiler).args(["-O2", "-shared", "-fPIC", "-o"]).arg(&path).arg(&source).status();
    if !built.is_ok_and(|status| status.success()) {
        println!("null_plugin: `{compiler}` cannot build {}: nothing to compare with", source.display());
        return ExitCode::FAILURE;
    }
    let library = unsafe { libloading::Library::new(&path) }.unwrap();
    println!("| arguments and outputs | `device-plugin` | C | ratio |");
    println!("|--:|--:|--:|--:|");
    for count in std::env::var("ONLY").map_or(vec![1, 32], |n| vec![n.parse().unwrap()]) {
        let (rust, c) = (Plugin::rust(count), Plugin::c(&library, count));
        let (batches, rounds) = if quick { (3, 10) } else { (401, if count == 1 { 20_000 } else { 2_000 }) };
        let (mut of_rust, mut of_c) = (Vec::new(), Vec::new());
        for _ in 0..batches {
            of_c.push(c.batch(rounds));
            of_rust.push(rust.batch(rounds));
        }
        let (rust, c) = (median(of_rust), median(of_c));
        println!("| {count} | {rust:.1} ns | {c:.1} ns | {:.2} |", rust / c);
    }
    drop(library);
    std::fs::remove_dir_all(&directory).unwrap();
    ExitCode::SUCCESS
}
