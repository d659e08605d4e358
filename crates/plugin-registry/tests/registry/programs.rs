//! Tests the example programs on the embedded CPU device and on every real plugin in `PJRT_TEST_PLUGINS`, and compares
//! the results with NumPy's.

use std::fs;
use std::path::{Path, PathBuf};

use pjrt::{Buffer, Client, ClientOptions, CompileOptions, HostArray, LoadedExecutable, Program, Upload};
use plugin_registry::discovery::Refusal;
use plugin_registry::{Error, LoadedPlugin, PluginRegistry, RejectReason};

const PROGRAMS: [(&str, usize, usize); 3] = [("axpy", 3, 1), ("mlp", 5, 1), ("mlp_train_step", 6, 5)];
/// Maximum difference from NumPy's double-precision result. The difference is relative if the magnitude of the expected
/// value exceeds 1, and absolute otherwise.
const TOLERANCE: f32 = 2e-5;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/programs")
}

/// Returns the name of the embedded device, and the paths of this repository's CPU plugin as a shared library and of
/// the real plugins.
fn plugins() -> Vec<String> {
    let mut plugins = vec!["cpu".to_owned()];
    for (variable, what) in
        [("PJRT_CPU_PLUGIN", "the CPU plugin as a library"), ("PJRT_TEST_PLUGINS", "the real XLA CPU plugins")]
    {
        match std::env::var_os(variable) {
            Some(paths) => plugins.extend(std::env::split_paths(&paths).map(|path| path.display().to_string())),
            None => println!("SKIPPED programs on {what}: {variable} is not set; `cargo xtask test --all` sets it"),
        }
    }
    plugins
}

/// Reads a `.npy` file of version 1 that contains little-endian `float32` elements in row-major order.
fn array(path: &Path) -> HostArray {
    let file = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (start, rest) = file.split_at(10);
    assert!(start.starts_with(b"\x93NUMPY\x01\x00"), "{}: not a .npy file of version 1", path.display());
    let (header, data) = rest.split_at(usize::from(u16::from_le_bytes([start[8], start[9]])));
    let header = std::str::from_utf8(header).unwrap();
    for part in ["'descr': '<f4'", "'fortran_order': False"] {
        assert!(header.contains(part), "{}: the header lacks {part}: {header}", path.display());
    }
    let shape = header.split("'shape': (").nth(1).and_then(|rest| rest.split(')').next()).unwrap();
    let extents = shape.split(',').map(str::trim).filter(|extent| !extent.is_empty());
    let dimensions: Vec<i64> = extents.map(|extent| extent.parse().unwrap()).collect();
    let (elements, rest) = data.as_chunks::<4>();
    assert!(rest.is_empty(), "{}: {} bytes after the last element", path.display(), rest.len());
    let elements: Vec<f32> = elements.iter().copied().map(f32::from_le_bytes).collect();
    HostArray::from_elements(&elements, &dimensions).unwrap()
}

fn arrays(name: &str, prefix: &str, count: usize) -> Vec<HostArray> {
    (0..count).map(|i| array(&folder().join(name).join(format!("{prefix}{i}.npy")))).collect()
}

fn upload(client: &Client, arrays: &[HostArray]) -> Vec<Buffer> {
    let device = client.default_device().unwrap();
    arrays
        .iter()
        .map(|array| client.upload(Upload::of(array.bytes()).shape(array.shape()).to(&device)).unwrap())
        .collect()
}

fn check(what: &str, outputs: &[Buffer], expected: &[HostArray]) {
    assert_eq!(outputs.len(), expected.len(), "{what}");
    for (i, (output, expected)) in outputs.iter().zip(expected).enumerate() {
        let output = output.download().array().unwrap();
        assert_eq!(output.shape(), expected.shape(), "{what}, output {i}");
        let (ours, theirs) = (output.to_vec::<f32>().unwrap(), expected.to_vec::<f32>().unwrap());
        for (a, b) in ours.iter().zip(&theirs) {
            assert!((a - b).abs() <= TOLERANCE * b.abs().max(1.0), "{what}, output {i}: {a}, expected {b}");
        }
    }
}

/// Opens a plugin by its name or by the path of its library.
fn open(plugin: &str) -> Result<LoadedPlugin, Error> {
    match plugin_registry::open(plugin) {
        // SAFETY: R1 (the library is trusted): whoever runs the tests trusts the libraries that the variable names.
        Err(Error::PathNotName { path }) => unsafe { plugin_registry::open_path(path) },
        opened => opened,
    }
}

/// Compiles the program from its MLIR text and from its MLIR bytecode.
fn compile(client: &Client, name: &str) -> Vec<(&'static str, LoadedExecutable)> {
    let compile = |extension| {
        let code = fs::read(folder().join(format!("{name}.{extension}"))).unwrap();
        (extension, client.compile(&Program::mlir(code), &CompileOptions::default()).unwrap())
    };
    vec![compile("mlir"), compile("mlirbc")]
}

#[test]
fn programs_compute_what_numpy_does() {
    for plugin in plugins() {
        let client = open(&plugin).unwrap().client(&ClientOptions::new()).unwrap();
        for (name, num_inputs, num_outputs) in PROGRAMS {
            let inputs = upload(&client, &arrays(name, "in", num_inputs));
            let inputs: Vec<&Buffer> = inputs.iter().collect();
            let expected = arrays(name, "out", num_outputs);
            for (form, executable) in compile(&client, name) {
                // All runs use the same input buffers, because no run donates them.
                for run in 0..3 {
                    let outputs = executable.execute(&inputs).unwrap();
                    check(&format!("{plugin}, {name}.{form}, run {run}"), &outputs, &expected);
                }
            }
        }
        println!("{plugin}: {} programs in both forms agree with NumPy", PROGRAMS.len());
    }
}

#[test]
fn training_lowers_the_loss() {
    for plugin in plugins() {
        let client = open(&plugin).unwrap().client(&ClientOptions::new()).unwrap();
        let (_, step) = compile(&client, "mlp_train_step").remove(1);
        let mut inputs = upload(&client, &arrays("mlp_train_step", "in", 6));
        let mut losses = Vec::new();
        for _ in 0..10 {
            let mut outputs = step.execute(&inputs.iter().collect::<Vec<_>>()).unwrap();
            losses.push(outputs.pop().unwrap().download().array().unwrap().scalar::<f32>().unwrap());
            // The outputs are the weights for the next step. `x` and `y` do not change.
            inputs.splice(..4, outputs);
        }
        assert!(losses.windows(2).all(|pair| pair[1] < pair[0]), "{plugin}: {losses:?}");
    }
}

#[test]
fn unknown_names_and_files_are_errors() {
    let Error::Select(error) = plugin_registry::open("gpu").unwrap_err() else { panic!("gpu") };
    let cpu = error.rejected().iter().find(|rejected| rejected.name == "pjrt_cpu").unwrap();
    assert!(cpu.aliases == ["cpu"] && matches!(cpu.reason, RejectReason::OtherName), "{error}");
    let refusals = |path: &str| match open(path).unwrap_err() {
        Error::Refused { refusals, .. } => refusals,
        error => panic!("{error}"),
    };
    let missing = "/nonexistent/plugin.so";
    // On Windows, `absolute` adds the drive, which the path lacks.
    let expected = std::path::absolute(missing).unwrap();
    assert!(matches!(&refusals(missing)[..], [Refusal::Missing { path }] if *path == expected));
    // Other tests may register more plugins, so compare only the first two names.
    assert_eq!(plugin_registry::names()[..2], ["pjrt_cpu", "cpu"]);
    let program = folder().join("axpy.mlir");
    assert!(matches!(refusals(program.to_str().unwrap())[..], [Refusal::NotALibrary { .. }]));
}

#[test]
fn opened_plugins_check_client_options() {
    let plugin = plugin_registry::open("cpu").unwrap();
    let error = plugin.client(&ClientOptions::new().with("bogus", 1i64)).unwrap_err();
    assert!(matches!(error, Error::Options(_)), "{error}");
}

#[test]
fn opened_plugins_join_global_registry() {
    let cpu = plugin_registry::open("cpu").unwrap();
    assert!(cpu.entry().registry().is(PluginRegistry::global()));
}
