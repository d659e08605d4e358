//! Tests `pjrt conform` with plugins that use no SDK: null tables, functions without effect, and C++ exceptions.
#![cfg(unix)]
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// Builds the plugin with the given fault. Returns `None` if no C++ compiler is installed.
fn plugin(test: &str, fault: u8) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plugins/foreign.cc");
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!(
        "{}foreign-{fault}-{}{}",
        std::env::consts::DLL_PREFIX,
        std::process::id(),
        std::env::consts::DLL_SUFFIX
    ));
    let mut compiler = Command::new("c++");
    compiler.args(["-std=c++17", "-shared", "-fPIC", "-o"]).arg(&library).arg(source).arg(format!("-DFAULT={fault}"));
    match compiler.status() {
        Ok(status) => assert!(status.success(), "the plugin does not compile"),
        Err(error) => {
            println!("SKIPPED {test}: the C++ compiler c++ cannot be started: {error}");
            return None;
        }
    }
    Some(library)
}

fn conform(plugin: &Path, args: &[&str]) -> (Value, Output) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pjrt"));
    command.arg("conform").arg(plugin).args(["--json", "--jobs", "1", "--repeats", "0"]).args(args);
    command.env("PJRT_REGISTRY_LOCK_DIR", env!("CARGO_TARGET_TMPDIR"));
    let output = command.output().unwrap();
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (report, output)
}

fn outcomes(report: &Value) -> Vec<(&str, &str)> {
    let results = report["results"].as_array().unwrap();
    results.iter().map(|result| (result["id"].as_str().unwrap(), result["outcome"].as_str().unwrap())).collect()
}

/// Arguments that select the cases about the function table, and cases that need a client.
const CASES: &[&str] =
    &["--filter", "abi.table.*", "--filter", "client.create.first", "--filter", "data.round_trip.scalar[dtype=f32]"];

#[test]
fn plugin_that_does_not_load_is_a_failure() {
    for fault in [1, 2, 5] {
        let Some(library) = plugin("plugin_that_does_not_load_is_a_failure", fault) else { return };
        let (report, output) = conform(&library, CASES);
        assert_eq!(output.status.code(), Some(1), "fault {fault}: {output:?}");
        assert!(outcomes(&report).iter().all(|(_, outcome)| *outcome == "skipped"), "fault {fault}: {report:#}");
        assert_eq!(report["faults"].as_array().unwrap().len(), 1, "fault {fault}: {report:#}");
    }
}

#[test]
fn functions_without_effect_are_failures() {
    let Some(library) = plugin("functions_without_effect_are_failures", 3) else { return };
    let (report, output) = conform(&library, CASES);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(outcomes(&report).contains(&("client.create.first", "fail")), "{report:#}");
    assert!(outcomes(&report).contains(&("abi.table.major_version", "pass")), "{report:#}");
    assert!(outcomes(&report).contains(&("data.round_trip.scalar[dtype=f32]", "skipped")), "{report:#}");
}

#[test]
fn exception_ends_only_the_case() {
    let Some(library) = plugin("exception_ends_only_the_case", 4) else { return };
    let (report, output) = conform(&library, CASES);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let outcomes = outcomes(&report);
    assert_eq!(outcomes.iter().filter(|(_, outcome)| *outcome == "crash").count(), 2, "{outcomes:?}");
    assert_eq!(outcomes.iter().filter(|(_, outcome)| *outcome == "pass").count(), 4, "{outcomes:?}");
    let results = report["results"].as_array().unwrap();
    let crash = results.iter().find(|result| result["outcome"] == "crash").unwrap();
    assert!(crash["reason"].as_str().unwrap().contains("SIGABRT"), "{crash}");
}
