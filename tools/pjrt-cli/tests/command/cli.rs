//! Runs the `pjrt` command as a person or a script does, on the embedded device and on all available plugins.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn pjrt(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pjrt")).args(args).current_dir(root()).output().unwrap()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn stdout(args: &[&str]) -> String {
    let output = pjrt(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&stdout(args)).unwrap()
}

/// Runs a command that must reject its arguments without a crash, and returns its error message.
fn refused(args: &[&str]) -> String {
    let output = pjrt(args);
    let reason = String::from_utf8(output.stderr).unwrap();
    assert!(matches!(output.status.code(), Some(1 | 2)), "{args:?}: {:?}, {reason}", output.status);
    reason
}

/// Returns the names or paths of plugins, and the API version that each plugin must report, if the test knows it.
fn plugins() -> Vec<(String, Option<&'static str>)> {
    let mut plugins = vec![("cpu".to_owned(), Some("0.117"))];
    match std::env::var("PJRT_CPU_PLUGIN") {
        Ok(path) => plugins.push((path, Some("0.117"))),
        Err(_) => println!("SKIPPED the command on the CPU plugin as a library: PJRT_CPU_PLUGIN is not set"),
    }
    match std::env::var("PJRT_TEST_PLUGINS") {
        Ok(paths) => plugins.extend(paths.split(':').map(|path| (path.to_owned(), None))),
        Err(_) => println!("SKIPPED the command on the real XLA CPU plugins: PJRT_TEST_PLUGINS is not set"),
    }
    plugins
}

const AXPY: &str = "examples/programs/axpy.mlir";

#[test]
fn run_prints_and_saves_outputs() {
    let folder = std::env::temp_dir().join(format!("pjrt-cli-{}", std::process::id()));
    for (plugin, _) in plugins() {
        let files = ["in0.npy", "in1.npy", "in2.npy"].map(|file| format!("examples/programs/axpy/{file}"));
        for inputs in [["f32=2", "f32[4]=0,1,2,3", "f32[4]=10"], [&files[0], &files[1], &files[2]]] {
            let mut args = vec!["run", AXPY, "-p", &plugin, "-o", folder.to_str().unwrap()];
            args.extend(inputs);
            let text = stdout(&args);
            assert!(text.contains("out0 f32[4] [10.0, 12.0, 14.0, 16.0]"), "{plugin}: {text}");
            args.push("--json");
            let outcome = json(&args);
            assert_eq!(outcome["outputs"][0]["values"], serde_json::json!([10.0, 12.0, 14.0, 16.0]));
            assert_eq!(outcome["outputs"][0]["element_type"], "f32");
            assert!(outcome["compile_ms"].as_f64().unwrap() > 0.0);
        }
        let expected = std::fs::read(root().join("examples/programs/axpy/out0.npy")).unwrap();
        let saved = std::fs::read(folder.join("out0.npy")).unwrap();
        assert_eq!(saved[saved.len() - 16..], expected[expected.len() - 16..]);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

#[test]
fn bench_compares_plugins() {
    let chart = std::env::temp_dir().join(format!("pjrt-bench-{}.svg", std::process::id()));
    for (plugin, _) in plugins() {
        let programs = [AXPY, "examples/programs/axpy.mlirbc"];
        let mut args = vec!["bench", "-p", "cpu", "-p", &plugin, "--seconds", "0.05"];
        args.extend(programs);
        args.extend(["--svg", chart.to_str().unwrap(), "--json"]);
        let report = json(&args);
        assert_eq!((report["version"].as_u64(), report["cases"].as_array().unwrap().len()), (Some(1), 2));
        for side in report["cases"][1]["sides"].as_array().unwrap() {
            assert!(side["execution"]["median"].as_f64().unwrap() > 0.0, "{plugin}: {side}");
            assert!(side["compilation"]["repetitions"].as_u64().unwrap() >= 7, "{plugin}: {side}");
        }
        assert!(std::fs::read_to_string(&chart).unwrap().starts_with("<svg "));
    }
    std::fs::remove_file(&chart).unwrap();
    let text = stdout(&["bench", AXPY, "--seconds", "0", "--input", "f32=2", "-i", "[0,1,2,3]", "-i", "f32[4]=10"]);
    assert!(text.starts_with("program") && text.contains("axpy") && text.lines().count() == 2, "{text}");
}

#[test]
fn bench_rejects_wrong_arguments() {
    refused(&["bench"]);
    refused(&["bench", "no such file"]);
    refused(&["bench", "Cargo.toml"]);
    refused(&["bench", AXPY, "--seconds", "-1"]);
    refused(&["bench", AXPY, "--plugin", "no such plugin"]);
    refused(&["bench", AXPY, "--tolerance", "x"]);
    refused(&["bench", AXPY, "--tolerance", "1", "--no-compare"]);
    refused(&["bench", AXPY, "-i", "f32=1"]);
    refused(&["bench", AXPY, AXPY, "-i", "f32=1"]);
    refused(&["bench", AXPY, "--svg", "chart.svg"]);
    refused(&["bench", AXPY, "-p", "cpu", "-p", "cpu", "--seconds", "0", "--svg", "no/such/folder.svg"]);
}

#[test]
fn run_takes_bytecode_and_repeats() {
    let text = stdout(&["run", "examples/programs/axpy.mlirbc", "f32=1", "f32[4]=1", "f32[4]=1", "--repeat", "5"]);
    assert!(text.contains("[2.0, 2.0, 2.0, 2.0]") && text.contains("median of 5 executions"), "{text}");
}

#[test]
fn devices_are_listed() {
    for (plugin, _) in plugins() {
        let text = stdout(&["devices", "-p", &plugin]);
        assert!(text.contains("platform ") && text.contains("device 0: cpu"), "{plugin}: {text}");
        let listed = json(&["devices", "-p", &plugin, "--json"]);
        let devices = listed["devices"].as_array().unwrap();
        assert!(!devices.is_empty());
        assert_eq!(devices[0]["id"], 0);
        assert!(devices[0]["memories"].as_array().unwrap().contains(&devices[0]["default_memory"]));
    }
}

#[test]
fn options_reach_the_plugin() {
    let reason = refused(&["devices", "-O", "no_such_option=3"]);
    assert!(reason.contains("no_such_option"), "{reason}");
    for (plugin, _) in plugins().into_iter().filter(|(_, version)| version.is_none()) {
        let listed = json(&["devices", "-p", &plugin, "-O", "cpu_device_count=2", "--json"]);
        assert_eq!(listed["devices"].as_array().unwrap().len(), 2, "{plugin}");
    }
}

#[test]
fn plugins_are_inspected() {
    for (plugin, version) in plugins() {
        let shown = json(&["inspect", "-p", &plugin, "--json"]);
        let found = shown["api_version"].as_str().unwrap();
        match version {
            Some(version) => assert_eq!(found, version),
            None => assert!(["0.81", "0.106", "0.115"].contains(&found), "{plugin}: {found}"),
        }
        let missing = shown["missing_functions"].as_array().unwrap().len();
        assert_eq!(shown["functions"].as_u64().unwrap() + u64::try_from(missing).unwrap(), 138);
        let extensions = shown["extensions"].as_array().unwrap();
        assert!(extensions.iter().any(|extension| extension["name"] == "Layouts"), "{plugin}: {extensions:?}");
        assert!(stdout(&["inspect", "-p", &plugin]).contains(&format!("API version {found}")));
    }
}

#[test]
fn library_by_path_has_its_description() {
    let Some(library) = std::env::var_os("PJRT_CPU_PLUGIN") else {
        println!("SKIPPED library_by_path_has_its_description: PJRT_CPU_PLUGIN names no library");
        return;
    };
    let library = library.to_str().unwrap();
    let shown = json(&["inspect", "-p", library, "--json"]);
    assert_eq!(shown["manifest"]["name"], "pjrt_cpu");
    let text = stdout(&["inspect", "-p", library]);
    let named = text.lines().any(|line| line.split_whitespace().eq(["name", "pjrt_cpu"]));
    assert!(named, "{text}");
}

#[test]
fn header_needs_description() {
    let Ok(libraries) = std::env::var("PJRT_TEST_PLUGINS") else {
        println!("SKIPPED header_needs_description: PJRT_TEST_PLUGINS is not set");
        return;
    };
    for library in libraries.split(':') {
        // XLA's plugins crash at process exit if they were loaded but not used, so the command must not load them.
        let error = refused(&["header", "--library", library]);
        assert!(error.contains("give --manifest FILE or --name NAME"), "{library}: {error}");
    }
}

#[test]
fn wrong_inputs() {
    let inputs = ["f32=2", "f32[4]=1", "f32[4]=1"];
    for (plugin, _) in plugins() {
        let run = |inputs: &[&str]| {
            let mut args = vec!["run", AXPY, "-p", &plugin];
            args.extend(inputs);
            refused(&args)
        };
        assert!(!run(&inputs[..2]).is_empty(), "too few inputs");
        assert!(!run(&["f32=2", "f32[4]=1", "f32[4]=1", "f32=0"]).is_empty(), "too many inputs");
        assert!(!run(&["f32=2", "f32[5]=1", "f32[4]=1"]).is_empty(), "a wrong shape");
        assert!(!run(&["f32=2", "f64[4]=1", "f32[4]=1"]).is_empty(), "a wrong type");
    }
    assert!(refused(&["devices", "-p", "gpu"]).contains("pjrt_cpu or cpu ("));
}
