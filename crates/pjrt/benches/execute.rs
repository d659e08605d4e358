//! Measures the overhead of this crate for a run: `x + x` on four floats, through `pjrt` and through the raw table from
//! C.
//!
//! `PJRT_TEST_PLUGINS=… cargo bench -p pjrt-rs --bench execute [-- --assert 1.05]`. C and Rust run alternately, batch
//! by batch, in one process with the same plugin. The numbers are medians over the batches. With `--assert`, a ratio
//! above the limit is a failure.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use pjrt::raw::slot;
use pjrt::{ClientOptions, CompileOptions, ElementType, ExecuteOptions, Input, Plugin, Program};
use pjrt_sys::{PJRT_Api, Slot};

mod support;

const BATCH: u32 = 200;
const BATCHES: usize = 400;

const PROGRAM: &str = "
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %x, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}";

type Init = unsafe extern "C" fn(*const *const u8, *const u8, usize, *const u8, usize, u32) -> i32;
type Run = unsafe extern "C" fn(usize, i32, i32) -> i32;

/// The C side, for one plugin.
struct Baseline {
    _library: libloading::Library,
    run: Run,
}

fn build() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/execute.c");
    let target = std::env::temp_dir().join(format!("pjrt-bench-{}.so", std::process::id()));
    let cc = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let status = Command::new(&cc).args(["-O2", "-Wall", "-shared", "-fPIC", "-o"]).arg(&target).arg(&source).status();
    assert!(status.unwrap_or_else(|error| panic!("{cc}: {error}")).success(), "{cc} failed");
    target
}

/// The function in the slot `S`, for C.
fn function<S: Slot<Table = PJRT_Api>>(plugin: &Plugin) -> *const u8 {
    // SAFETY: the type is a pointer.
    unsafe { support::function::<S, *const u8>(plugin) }
}

impl Baseline {
    fn new(plugin: &Plugin, library: &Path) -> Self {
        // SAFETY: the library was just built from execute.c, which has no initializers.
        let library = unsafe { libloading::Library::new(library) }.unwrap_or_else(|error| panic!("{error}"));
        // SAFETY: the type is that of execute.c.
        let init = *unsafe { library.get::<Init>(b"bench_init\0") }.unwrap_or_else(|error| panic!("{error}"));
        // SAFETY: the type is that of execute.c.
        let run = *unsafe { library.get::<Run>(b"bench_run\0") }.unwrap_or_else(|error| panic!("{error}"));
        let functions = [
            function::<slot::PJRT_Client_Create>(plugin),
            function::<slot::PJRT_Client_AddressableDevices>(plugin),
            function::<slot::PJRT_Client_Compile>(plugin),
            function::<slot::PJRT_Client_BufferFromHostBuffer>(plugin),
            function::<slot::PJRT_LoadedExecutable_Execute>(plugin),
            function::<slot::PJRT_Event_Await>(plugin),
            function::<slot::PJRT_Event_Destroy>(plugin),
            function::<slot::PJRT_Buffer_Destroy>(plugin),
            function::<slot::PJRT_Buffer_ReadyEvent>(plugin),
        ];
        let options = CompileOptions::default().encode();
        let f32 = ElementType::F32.as_raw();
        // SAFETY: the functions are those that execute.c names, in its order; the text lives through the call.
        let rc =
            unsafe { init(functions.as_ptr(), PROGRAM.as_ptr(), PROGRAM.len(), options.as_ptr(), options.len(), f32) };
        assert_eq!(rc, 0, "bench_init");
        Self { _library: library, run }
    }

    fn run(&self, mode: i32, keep: bool) {
        // SAFETY: `new` has initialized the library.
        let rc = unsafe { (self.run)(BATCH as usize, mode, i32::from(keep)) };
        assert_eq!(rc, 0, "bench_run");
    }
}

fn main() -> ExitCode {
    let plugins = std::env::var("PJRT_TEST_PLUGINS").unwrap_or_default();
    if plugins.is_empty() {
        println!("SKIPPED execute: PJRT_TEST_PLUGINS names no plugin");
        return ExitCode::SUCCESS;
    }
    let arguments: Vec<String> = std::env::args().collect();
    let limit = arguments.iter().position(|argument| argument == "--assert");
    let limit: Option<f64> = limit.and_then(|i| arguments.get(i + 1)?.parse().ok());
    let library = build();
    let mut worst = 0f64;
    for path in plugins.split(':') {
        // SAFETY: whoever runs the benchmark vouches for the plugins they name.
        let plugin = unsafe { Plugin::load(path) }.unwrap_or_else(|error| panic!("{error}"));
        let copy = library.with_extension(format!("{}.so", plugin.api_version().minor));
        std::fs::copy(&library, &copy).expect("a copy of the library, for state of its own");
        let c = Baseline::new(&plugin, &copy);
        let client = plugin.client(&ClientOptions::new()).expect("client");
        let executable = client.compile(&Program::mlir(PROGRAM), &CompileOptions::default()).expect("compile");
        let x = client.buffer_from_host(&[1.0f32, 2.0, 3.0, 4.0], &[4]).expect("input");
        x.wait().expect("input");
        let options = ExecuteOptions::default();
        let repeat = |f: &dyn Fn()| (0..BATCH).for_each(|_| f());
        let ready = || {
            let outputs = executable.execute(&[&x]).expect("execute");
            outputs[0].wait().expect("run");
        };
        let event = || {
            let run = executable.execute_with([Input::Borrow(&x)], &options).expect("execute");
            run.done.wait().expect("run");
        };
        let times = support::in_turns(
            BATCHES,
            BATCH,
            &[&|| c.run(1, true), &|| repeat(&ready), &|| c.run(0, true), &|| repeat(&event), &|| c.run(1, false)],
        );
        let [c_ready, rust_ready, c_event, rust_event, c_unlisted] = times[..] else { unreachable!("five candidates") };
        println!("{path}, API {}", plugin.api_version());
        let line = |name: &str, c: f64, rust: f64| {
            println!("  {name:<44} C {c:7.0} ns   pjrt {rust:7.0} ns   +{:5.0} ns   x{:.3}", rust - c, rust / c);
        };
        line("execute, wait for the output, destroy", c_ready, rust_ready);
        line("execute_with, wait for the run, destroy", c_event, rust_event);
        line("execute, against C that lists no inputs to keep", c_unlisted, rust_ready);
        worst = worst.max(rust_ready / c_ready);
        drop(std::fs::remove_file(&copy));
    }
    drop(std::fs::remove_file(&library));
    if limit.is_some_and(|limit| worst > limit) {
        println!("the worst ratio, x{worst:.3}, is above the limit");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
