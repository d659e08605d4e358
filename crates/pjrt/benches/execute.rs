//! Measures the overhead of `pjrt` compared to C code that calls the plugin's function table. The benchmark measures a
//! query, and runs of programs with 1 and 32 arguments. Each argument has four floats, and a program has as many
//! outputs as arguments.
//!
//! Run it with `[PJRT_TEST_PLUGINS=…] cargo bench -p pjrt-rs --bench execute`. Batches of C calls and Rust calls
//! alternate in one process, with the same plugin, program and arguments. The benchmark measures first a plugin whose
//! functions do almost nothing, then each plugin of `PJRT_TEST_PLUGINS`. It prints a table with medians over the
//! batches.

use std::path::{Path, PathBuf};
use std::process::Command;

use pjrt::raw::{AsRaw, slot};
use pjrt::{Buffer, ClientOptions, CompileOptions, Event, ExecuteOptions, Input, LoadedExecutable, Plugin, Program};
use pjrt_sys::{PJRT_Api, Slot};

#[path = "support/null.rs"]
mod null;
mod support;

const BATCH: u32 = 200;
const BATCHES: usize = 400;
/// The number of arguments of each measured program. A program has as many outputs as arguments.
const COUNTS: [usize; 2] = [1, 32];

/// Number of queries in a batch for each run in a batch of runs. A query is much shorter than a run, so a batch needs
/// more of them.
const QUERIES: u32 = 50;

/// Returns the source of a program with `count` arguments and `count` outputs.
fn program(count: usize) -> String {
    let list = |item: &dyn Fn(usize) -> String| (0..count).map(item).collect::<Vec<_>>().join(", ");
    let arguments = list(&|i| format!("%a{i}: tensor<4xf32>"));
    let types = list(&|_| "tensor<4xf32>".to_owned());
    let sums: String = (0..count).map(|i| format!("  %r{i} = stablehlo.add %a{i}, %a{i} : tensor<4xf32>\n")).collect();
    let results = list(&|i| format!("%r{i}"));
    format!("func.func @main({arguments}) -> ({types}) {{\n{sums}  return {results} : {types}\n}}")
}

type Init = unsafe extern "C" fn(*const *const u8, *const u8, *const *const u8, usize, *const u8) -> i32;
type Run = unsafe extern "C" fn(usize, i32, i32) -> i32;
type Queries = unsafe extern "C" fn(usize) -> i32;

/// The C implementation of the benchmark, for one plugin.
struct Baseline {
    _library: libloading::Library,
    run: Run,
    queries: Queries,
}

fn build() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/execute.c");
    let target = std::env::temp_dir().join(format!("pjrt-bench-{}.so", std::process::id()));
    let cc = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let status = Command::new(&cc).args(["-O2", "-Wall", "-shared", "-fPIC", "-o"]).arg(&target).arg(&source).status();
    assert!(status.unwrap_or_else(|error| panic!("{cc}: {error}")).success(), "{cc} failed");
    target
}

/// Returns the function pointer in the slot `S` of the plugin's table, for the C code.
fn function<S: Slot<Table = PJRT_Api>>(plugin: &Plugin) -> *const u8 {
    // SAFETY: `*const u8` is a pointer type.
    unsafe { support::function::<S, *const u8>(plugin) }
}

impl Baseline {
    /// Loads the C library and passes the objects to it. The objects must outlive the returned value.
    fn new(
        plugin: &Plugin,
        library: &Path,
        executable: &LoadedExecutable,
        inputs: &[*const u8],
        ready: &Event,
    ) -> Self {
        // SAFETY: the library was just built from execute.c, which has no initializers.
        let library = unsafe { libloading::Library::new(library) }.unwrap_or_else(|error| panic!("{error}"));
        // SAFETY: the function has this type in execute.c.
        let init = *unsafe { library.get::<Init>(b"bench_init\0") }.unwrap_or_else(|error| panic!("{error}"));
        // SAFETY: the function has this type in execute.c.
        let run = *unsafe { library.get::<Run>(b"bench_run\0") }.unwrap_or_else(|error| panic!("{error}"));
        // SAFETY: the function has this type in execute.c.
        let queries = *unsafe { library.get::<Queries>(b"bench_query\0") }.unwrap_or_else(|error| panic!("{error}"));
        let functions = [
            function::<slot::PJRT_LoadedExecutable_Execute>(plugin),
            function::<slot::PJRT_Event_Await>(plugin),
            function::<slot::PJRT_Event_Destroy>(plugin),
            function::<slot::PJRT_Buffer_Destroy>(plugin),
            function::<slot::PJRT_Buffer_ReadyEvent>(plugin),
            function::<slot::PJRT_Event_IsReady>(plugin),
        ];
        let (program, event) = (executable.as_raw().cast::<u8>(), ready.as_raw().cast::<u8>());
        // SAFETY: the functions have the order that execute.c expects, and all objects are live.
        let rc = unsafe { init(functions.as_ptr(), program, inputs.as_ptr(), inputs.len(), event) };
        assert_eq!(rc, 0, "bench_init");
        Self { _library: library, run, queries }
    }

    fn run(&self, mode: i32, keep: bool) {
        // SAFETY: `new` initialized the library, and the objects are still alive.
        let rc = unsafe { (self.run)(BATCH as usize, mode, i32::from(keep)) };
        assert_eq!(rc, 0, "bench_run");
    }

    fn query(&self) {
        // SAFETY: `new` initialized the library, and the objects are still alive.
        let rc = unsafe { (self.queries)((BATCH * QUERIES) as usize) };
        assert_eq!(rc, 0, "bench_query");
    }
}

/// Compares C and Rust on one plugin, and prints the rows of the table.
fn compare(name: &str, plugin: &Plugin, library: &Path, program: &Program, count: usize) {
    let client = plugin.client(&ClientOptions::new()).expect("client");
    let executable = client.compile(program, &CompileOptions::default()).expect("compile");
    let inputs: Vec<Buffer> = (0..count)
        .map(|_| client.buffer_from_host(&[1.0f32, 2.0, 3.0, 4.0], &[4]).expect("input"))
        .inspect(|input| input.wait().expect("input"))
        .collect();
    let borrowed: Vec<&Buffer> = inputs.iter().collect();
    let options = ExecuteOptions::default();
    let held = inputs[0].ready_event().expect("event");
    let pointers: Vec<_> = inputs.iter().map(|input| input.as_raw().cast_const().cast::<u8>()).collect();
    let copy = library.with_extension(format!("{}-{count}.so", plugin.api_version().minor));
    std::fs::copy(library, &copy).expect("a copy of the library, for state of its own");
    let c = Baseline::new(plugin, &copy, &executable, &pointers, &held);
    drop(std::fs::remove_file(&copy));
    let repeat = |f: &dyn Fn()| (0..BATCH).for_each(|_| f());
    let ready = || {
        let outputs = executable.execute(&borrowed).expect("execute");
        outputs[0].wait().expect("run");
    };
    let event = || {
        let inputs = borrowed.iter().map(|input| Input::Borrow(input));
        let run = executable.execute_with(inputs, &options).expect("execute");
        run.done.wait().expect("run");
    };
    let query = || (0..BATCH * QUERIES).for_each(|_| assert!(held.is_ready().expect("query")));
    let times = support::in_turns(
        BATCHES,
        BATCH,
        &[
            &|| c.run(1, true),
            &|| repeat(&ready),
            &|| c.run(0, true),
            &|| repeat(&event),
            &|| c.run(1, false),
            &|| c.query(),
            &query,
        ],
    );
    let [c_ready, rust_ready, c_event, rust_event, c_unlisted, c_query, rust_query] = times[..] else {
        unreachable!("seven candidates")
    };
    let line = |calls: &str, c: f64, rust: f64| {
        println!("| {name} | {calls} | {count} | {c:.1} ns | {rust:.1} ns | {:+.1} ns | {:.3} |", rust - c, rust / c);
    };
    line("execute, wait for the output, destroy", c_ready, rust_ready);
    line("execute_with, wait for the run, destroy", c_event, rust_event);
    line("execute, against C that lists no inputs to keep", c_unlisted, rust_ready);
    line("Event::is_ready", c_query / f64::from(QUERIES), rust_query / f64::from(QUERIES));
}

fn main() {
    let library = build();
    println!("| plugin | calls | arguments and outputs | C | `pjrt` | difference | ratio |");
    println!("|---|---|--:|--:|--:|--:|--:|");
    let null = null::plugin();
    for count in COUNTS {
        compare("one that does nothing", &null, &library, &null::program(count), count);
    }
    let plugins = std::env::var("PJRT_TEST_PLUGINS").unwrap_or_default();
    if plugins.is_empty() {
        println!("SKIPPED other plugins: PJRT_TEST_PLUGINS names none");
    }
    for path in plugins.split(':').filter(|path| !path.is_empty()) {
        // SAFETY: whoever runs the benchmark vouches for the plugins in `PJRT_TEST_PLUGINS`.
        let plugin = unsafe { Plugin::load(path) }.unwrap_or_else(|error| panic!("{error}"));
        let name = format!("API {}", plugin.api_version());
        for count in COUNTS {
            compare(&name, &plugin, &library, &Program::mlir(program(count)), count);
        }
    }
    drop(std::fs::remove_file(&library));
}
