//! Tests plugins for hardware that this computer does not have. The environment variable
//! `PJRT_TEST_PLUGINS_WITHOUT_HARDWARE` contains their paths, separated by colons.
//!
//! Each test runs each plugin in a child process, because such a plugin may abort its process or hang.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test program")]

mod newest;
mod tpu;

use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;

use pjrt::extensions::{AbiVersions, ExecutableMetadata, Layouts, MemoryDescriptions, Shardings};
use pjrt::{
    ClientOptions, CompileOptions, ElementType, Error, ErrorCode, ErrorKind, Executable, NamedValue, Plugin, Program,
    Shape, TopologyDescription,
};

const LIST: &str = "PJRT_TEST_PLUGINS_WITHOUT_HARDWARE";
const LIBRARY: &str = "PJRT_TEST_PLUGIN_OF_STEP";
const LIMIT: Duration = Duration::from_secs(120);

/// Names of topologies of libtpu. Other plugins reject these names.
const TOPOLOGIES: [&str; 2] = ["v5e:2x2x1", "v4:2x2x1"];

const DOUBLE: &str = "module { func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = stablehlo.add %x, %x : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
} }";

/// Held while a child process runs. libtpu locks a file, so only one process at a time can use it.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The exit status and the standard output of a child process.
struct Ended {
    status: ExitStatus,
    output: String,
}

/// Runs `step` with each plugin of the list in a child process. Passes the path of the plugin and the outcome of the
/// process to `check`. The child process runs the same test, and this function then only calls `step`.
fn each(test: &str, step: fn(&Plugin), check: impl Fn(&Path, &Ended)) {
    if let Some(path) = std::env::var_os(LIBRARY) {
        // SAFETY: whoever runs the tests vouches for the plugins in `PJRT_TEST_PLUGINS_WITHOUT_HARDWARE`.
        return step(&unsafe { Plugin::load(path) }.unwrap_or_else(|error| panic!("{error}")));
    }
    let list = std::env::var(LIST).unwrap_or_default();
    if list.is_empty() {
        let line = format!("SKIPPED {test} of plugins without their hardware: only with cargo xtask test --thorough\n");
        std::io::stderr().write_all(line.as_bytes()).unwrap();
    }
    for path in list.split(':').filter(|path| !path.is_empty()) {
        let path = Path::new(path);
        let ended = run(test, path);
        eprintln!("{test}, {}: {}\n{}", path.display(), ended.status, ended.output);
        check(path, &ended);
    }
}

/// Runs a test of this program in a child process. Kills the process if it exceeds the time limit.
fn run(test: &str, library: &Path) -> Ended {
    let _lock = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads", "1"]).env(LIBRARY, library);
    // The plugin for Tenstorrent unpacks 400 MB of temporary files. Use a folder that is deleted afterwards.
    let temporary = std::env::temp_dir().join(format!("pjrt-no-hardware-{test}-{}", std::process::id()));
    std::fs::create_dir_all(&temporary).unwrap();
    command.env("TMPDIR", &temporary);
    // Without this variable, libtpu queries a metadata server of Google Cloud for over a minute.
    command.env("TPU_SKIP_MDS_QUERY", "1");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0).spawn().unwrap();
    let mut pipe = child.stdout.take().unwrap();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut output = Vec::new();
        pipe.read_to_end(&mut output).unwrap();
        sender.send(String::from_utf8_lossy(&output).into_owned()).unwrap();
    });
    let output = receiver.recv_timeout(LIMIT);
    if output.is_err() {
        child.kill().unwrap();
    }
    let status = child.wait().unwrap();
    std::fs::remove_dir_all(&temporary).unwrap();
    let output = output.unwrap_or_else(|_| format!("killed after {LIMIT:?}"));
    assert!(!status.success() || output.contains("1 passed"), "{test} is not a test:\n{output}");
    Ended { status, output }
}

/// Prints whether a function succeeded, and returns its value in this case. Otherwise checks the error. It must come
/// from the plugin or state that the function is unsupported, and it must have a message.
fn report<T: std::fmt::Debug>(what: &str, result: Result<T, Error>) -> Option<T> {
    match result {
        Ok(value) => {
            println!("{what}: ok");
            Some(value)
        }
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::Plugin | ErrorKind::Unsupported), "{what}: {error}");
            assert!(!error.message().is_empty(), "{what}: no message");
            println!("{what}: {error}");
            None
        }
    }
}

#[test]
fn plugins_describe_themselves() {
    each("plugins_describe_themselves", describes_itself, |path, ended| {
        assert!(ended.status.success(), "{}", path.display())
    });
}

fn describes_itself(plugin: &Plugin) {
    println!("API {}", plugin.api_version());
    assert!(plugin.api_version().minor >= 100);
    for extension in plugin.extensions() {
        println!("extension {}: {} bytes", extension.number, extension.struct_size);
    }
    let attributes = plugin.attributes().unwrap();
    assert!(attributes.iter().any(|attribute| attribute.name == "stablehlo_current_version"), "{attributes:?}");
}

#[test]
fn clients_are_errors() {
    each("clients_are_errors", client_is_error, |path, ended| {
        // If a plugin throws a C++ exception, the process aborts, because Rust code cannot catch the exception.
        let threw = path.ends_with("libtt.so") && ended.status.signal() == Some(SIGABRT);
        assert!(ended.status.success() || threw, "{}", path.display());
    });
}

/// Number of the signal `SIGABRT`, which is the same on all Unix systems.
const SIGABRT: i32 = 6;

fn client_is_error(plugin: &Plugin) {
    let error = plugin.client(&ClientOptions::new()).expect_err("a client without hardware");
    println!("{error}");
    assert_eq!(error.kind(), ErrorKind::Plugin);
    assert_ne!(error.code(), ErrorCode::OK);
    assert!(!error.message().is_empty());
}

#[test]
fn topologies_compile_or_are_errors() {
    each("topologies_compile_or_are_errors", topology_compiles_or_is_error, |path, ended| {
        assert!(ended.status.success(), "{}", path.display());
        if path.ends_with("libtpu.so") {
            for part in ["compile", "arrangement of chips", "slices", "serialized program"] {
                assert!(ended.output.contains(&format!("{part}: ok")), "{part}");
            }
        }
    });
}

#[test]
fn newest_ops_compile_or_are_errors() {
    each("newest_ops_compile_or_are_errors", newest::compile, |path, ended| {
        assert!(ended.status.success(), "{}", path.display());
        if path.ends_with("libtpu.so") {
            newest::check(&ended.output);
        }
    });
}

fn topology_compiles_or_is_error(plugin: &Plugin) {
    for name in TOPOLOGIES {
        let Some(topology) = report(name, TopologyDescription::create(plugin, name, &[])) else { continue };
        query_topology(plugin, &topology);
        tpu::query_topology(plugin, &topology);
        let compiled = topology.compile(&Program::mlir(DOUBLE), &CompileOptions::default());
        if let Some(executable) = report("compile", compiled) {
            query_executable(plugin, &executable);
            tpu::query_executable(plugin, &executable);
        }
    }
    let error = TopologyDescription::create(plugin, "no such topology", &[]).expect_err("an unknown name");
    assert!(matches!(error.kind(), ErrorKind::Plugin | ErrorKind::Unsupported), "{error}");
    let options = [NamedValue::new("no_such_option", 1)];
    report("an unknown option", TopologyDescription::create(plugin, TOPOLOGIES[0], &options));
}

fn query_topology(plugin: &Plugin, topology: &TopologyDescription) {
    assert!(!topology.platform_name().unwrap().is_empty());
    let devices = topology.device_descriptions().unwrap();
    assert!(!devices.is_empty());
    for device in &devices {
        assert!(!device.kind().unwrap().is_empty());
        device.id().unwrap();
        device.process_index().unwrap();
        report("attributes of a device", device.attributes());
        report("text of a device", device.debug_string());
    }
    report("platform version", topology.platform_version());
    report("attributes", topology.attributes());
    report("fingerprint", topology.fingerprint());
    report("memory kind ids", topology.memory_kind_ids());
    if let Some(bytes) = report("serialize", topology.serialize()) {
        let again = TopologyDescription::deserialize(plugin, &bytes);
        let again = report("deserialize", again).map(|again| again.device_descriptions().unwrap().len());
        assert!(again.is_none_or(|count| count == devices.len()));
    }
    if let Some(layouts) = plugin.extension::<Layouts>() {
        let shape = Shape::new(ElementType::F32, [2, 3]);
        report("default layout", layouts.topology_default_layout(topology, &shape));
    }
    if let Some(memories) = plugin.extension::<MemoryDescriptions>() {
        report("memories", memories.memories(&devices[0]));
    }
}

fn query_executable(plugin: &Plugin, executable: &Executable) {
    assert_eq!(executable.num_outputs().unwrap(), 1);
    report("name", executable.name());
    report("replicas", executable.num_replicas());
    report("partitions", executable.num_partitions());
    report("code size", executable.size_of_generated_code());
    report("fingerprint of the program", executable.fingerprint());
    report("cost analysis", executable.cost_analysis());
    report("memory statistics", executable.compiled_memory_stats());
    report("memory kinds of parameters", executable.parameter_memory_kinds());
    report("memory kinds of outputs", executable.output_memory_kinds());
    report("optimized program", executable.optimized_program());
    report("compile options", executable.compile_options());
    if let Some(shapes) = report("output shapes", executable.output_shapes()) {
        assert_eq!(shapes[0].to_string(), "f32[2,3]");
    }
    if let Some(bytes) = report("serialize the program", executable.serialize()) {
        assert!(!bytes.as_bytes().is_empty());
    }
    if let Some(layouts) = plugin.extension::<Layouts>() {
        report("layouts of parameters", layouts.parameter_layouts(executable));
        report("layouts of outputs", layouts.output_layouts(executable));
    }
    if let Some(shardings) = plugin.extension::<Shardings>() {
        report("shardings of parameters", shardings.parameter_shardings(executable));
        report("shardings of outputs", shardings.output_shardings(executable));
    }
    if let Some(metadata) = plugin.extension::<ExecutableMetadata>() {
        report("metadata", metadata.of(executable));
    }
    if let Some(versions) = plugin.extension::<AbiVersions>()
        && let Some(version) = report("ABI version", versions.of_executable(executable))
    {
        report("platform of the ABI version", version.platform_id());
        if let Some(bytes) = report("serialize the ABI version", version.serialize()) {
            report("parse the ABI version", versions.parse_executable(&bytes));
        }
    }
}
