//! Tests the cases of `pjrt conform` in which a program exchanges data with the host. Neither the embedded device nor
//! XLA's CPU plugins run such programs, so these tests use the example `host_transfers_plugin`.
#![cfg(unix)]
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::process::Command;

use device_plugin_testing::library;
use serde_json::Value;

/// Runs the cases on the plugin with the given fault. Returns the outcome of each case, by its id.
fn outcomes(fault: &str) -> BTreeMap<String, String> {
    let plugin = library("host_transfers_plugin");
    let mut command = Command::new(env!("CARGO_BIN_EXE_pjrt"));
    command.args(["conform", plugin.to_str().unwrap(), "--json", "--repeats", "0"]);
    command.args(["--filter", "transfers.send.*", "--filter", "transfers.recv.*"]);
    command.env("HOST_TRANSFERS_PLUGIN", fault).env("NO_COLOR", "1");
    command.env("PJRT_REGISTRY_LOCK_DIR", env!("CARGO_TARGET_TMPDIR"));
    let output = command.output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let results = report["results"].as_array().unwrap();
    results.iter().map(|result| (text(&result["id"]), text(&result["outcome"]))).collect()
}

#[test]
fn good_plugin_passes() {
    let outcomes = outcomes("");
    assert_eq!(outcomes.len(), 8, "{outcomes:?}");
    for (id, outcome) in &outcomes {
        // The program of this case adds numbers, which the device cannot do.
        let expected = if id == "transfers.send.unused_callbacks" { "unsupported" } else { "pass" };
        assert_eq!(outcome, expected, "{id}");
    }
}

#[test]
fn each_fault_is_found() {
    for (fault, culprits) in [
        ("reversed", &["transfers.send.received_value", "transfers.send.value"][..]),
        ("half", &["transfers.send.received_value", "transfers.send.value"]),
        ("early_end", &["transfers.send.received_value", "transfers.send.value"]),
        ("wrong_total", &["transfers.send.received_value", "transfers.send.value"]),
        ("lost_error", &["transfers.send.error"]),
        (
            "zeros",
            &[
                "transfers.recv.later",
                "transfers.recv.value[pieces=1]",
                "transfers.recv.value[pieces=2]",
                "transfers.recv.value[pieces=4]",
                "transfers.send.received_value",
            ],
        ),
    ] {
        let outcomes = outcomes(fault);
        let failed: Vec<&str> =
            outcomes.iter().filter(|(_, outcome)| *outcome == "fail").map(|(id, _)| id.as_str()).collect();
        assert_eq!(failed, culprits, "{fault}");
    }
}
