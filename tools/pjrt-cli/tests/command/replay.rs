//! Tests `pjrt replay` and `pjrt record` on the embedded device.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::recordings::Recording;

fn pjrt(arguments: &[&str], file: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pjrt"));
    let locks = Path::new(env!("CARGO_TARGET_TMPDIR")).join("replay-locks");
    command.args(&arguments[..arguments.len().min(2)]).arg(file).args(&arguments[arguments.len().min(2)..]);
    command.env("PJRT_REGISTRY_LOCK_DIR", locks).output().unwrap()
}

fn replay(file: &Path, arguments: &[&str]) -> (Option<i32>, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pjrt"));
    let locks = Path::new(env!("CARGO_TARGET_TMPDIR")).join("replay-locks");
    command.arg("replay").arg(file).arg("--json").args(arguments).env("PJRT_REGISTRY_LOCK_DIR", locks);
    let output = command.output().unwrap();
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn equal_results_exit_with_0() {
    let file = Recording::of([2.0, 4.0], 1).save("equal");
    let (code, report) = replay(&file, &[]);
    assert_eq!((code, report["equal"].as_bool()), (Some(0), Some(true)), "{report}");
    assert_eq!(report["comparisons"][0]["run"]["program"], "twice");
    assert_eq!(report["not_replayed"]["PJRT_FFI_Register_Handler"], 1);
}

#[test]
fn different_results_exit_with_1() {
    let file = Recording::of([2.0, 4.5], 1).save("different");
    let (code, report) = replay(&file, &[]);
    assert_eq!((code, report["equal"].as_bool()), (Some(1), Some(false)), "{report}");
    let one = &report["comparisons"][0];
    assert_eq!((&one["index"][0], &one["expected"], &one["got"]), (&1.into(), &"4.5".into(), &"4".into()), "{one}");
    let (code, _) = replay(&file, &["--tolerance", "0.2"]);
    assert_eq!(code, Some(0));
    let (code, _) = replay(&file, &["--tolerance", "0.2,f32=0"]);
    assert_eq!(code, Some(1));
}

#[test]
fn missing_device_is_reported() {
    let file = Recording::of([2.0, 4.0], 9).save("devices");
    let (code, report) = replay(&file, &["-O", "cpu_device_count=2"]);
    assert_eq!((code, report["equal"].as_bool()), (Some(1), Some(false)), "{report}");
    assert_eq!(report["problems"][0]["function"], "PJRT_Client_BufferFromHostBuffer");
}

#[test]
fn info_and_json_describe_the_file() {
    let file = Recording::of([2.0, 4.0], 1).save("info");
    let output = pjrt(&["record", "info"], &file);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("twice(f32[2]) -> (f32[2])"), "{text}");
    let output = pjrt(&["record", "info", "--json"], &file);
    let info: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&info["complete"], &info["runs"][0]["outputs"][0]), (&true.into(), &"f32[2]".into()), "{info}");
    let output = pjrt(&["record", "json"], &file);
    let lines: Vec<Value> =
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let execute = lines.iter().find(|line| line["call"]["function"] == "PJRT_LoadedExecutable_Execute").unwrap();
    assert_eq!(execute["call"]["arguments"]["execute"]["executable"], 2, "{execute}");
    assert!(lines.last().unwrap()["end"].is_object());
}

#[test]
fn cut_and_foreign_files_are_reported() {
    let file = Recording::of([2.0, 4.0], 1).save("cut");
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() - 5]).unwrap();
    let output = pjrt(&["record", "info", "--json"], &file);
    let info: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &info["complete"]), (Some(0), &false.into()), "{info}");
    assert_eq!(replay(&file, &[]).0, Some(0));
    fs::write(&file, "something else").unwrap();
    assert_eq!(pjrt(&["record", "info"], &file).status.code(), Some(1));
    assert_eq!(replay(&file, &[]).0, Some(1));
}

#[test]
fn trim_writes_one_run() {
    let file = Recording::of([2.0, 4.0], 1).save("trim");
    let one = file.with_extension("one.pjrt");
    let _ = fs::remove_file(&one);
    let output = one.to_str().unwrap();
    let trimmed = pjrt(&["record", "trim", "--run", "twice:1", "--json", "--output", output], &file);
    assert!(trimmed.status.success(), "{}", String::from_utf8_lossy(&trimmed.stderr));
    let report: Value = serde_json::from_slice(&trimmed.stdout).unwrap();
    // The six calls create a client, compile, upload, register a handler without arguments, execute, and download.
    assert_eq!((&report["calls"], &report["other_runs"]), (&6.into(), &0.into()), "{report}");
    let (code, report) = replay(&one, &[]);
    assert_eq!((code, report["runs"].as_u64()), (Some(0), Some(1)), "{report}");
    // `trim` fails if the output file exists, or if the recording has no such run.
    assert_eq!(pjrt(&["record", "trim", "--run", "1", "--output", output], &file).status.code(), Some(1));
    assert!(one.exists());
    let other = file.with_extension("other.pjrt");
    let trimmed = pjrt(&["record", "trim", "--run", "2", "--output", other.to_str().unwrap()], &file);
    assert_eq!((trimmed.status.code(), other.exists()), (Some(1), false));
}
