//! Tests how `pjrt run` handles signals.
#![cfg(target_os = "linux")]
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Output, Stdio};

/// A program that counts forever.
const ENDLESS: &str = "
func.func @main(%x: tensor<i32>) -> tensor<i32> {
  %one = stablehlo.constant dense<1> : tensor<i32>
  %true = stablehlo.constant dense<true> : tensor<i1>
  %r = stablehlo.while(%i = %x) : tensor<i32>
    cond { stablehlo.return %true : tensor<i1> }
    do { %j = stablehlo.add %i, %one : tensor<i32>
         stablehlo.return %j : tensor<i32> }
  return %r : tensor<i32>
}";

/// A program that counts forever in the region of an op.
const ENDLESS_REGION: &str = "
func.func @main(%x: tensor<i32>) -> tensor<i32> {
  %r = \"stablehlo.map\"(%x) ({
    ^bb0(%a: tensor<i32>):
      %one = stablehlo.constant dense<1> : tensor<i32>
      %true = stablehlo.constant dense<true> : tensor<i1>
      %w = stablehlo.while(%i = %a) : tensor<i32>
        cond { stablehlo.return %true : tensor<i1> }
        do { %j = stablehlo.add %i, %one : tensor<i32>
             stablehlo.return %j : tensor<i32> }
      stablehlo.return %w : tensor<i32>
  }) {dimensions = array<i64>} : (tensor<i32>) -> tensor<i32>
  return %r : tensor<i32>
}";

/// Returns whether the device has started a thread to run the program.
fn is_running(child: &Child) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{}/task", child.id())) else { return false };
    let names = threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("comm")).ok());
    names.into_iter().any(|name| name.starts_with("pjrt-cpu"))
}

/// Runs a program that never ends. Sends the signal with the given name to the command after the program has started.
fn ended_by(signal: &str, program: &str) -> Output {
    let file = std::env::temp_dir().join(format!("pjrt-endless-{signal}-{}.mlir", std::process::id()));
    fs::write(&file, program).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_pjrt"));
    command.arg("run").arg(&file).arg("i32=0").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    while !is_running(&child) {
        assert!(child.try_wait().unwrap().is_none(), "the program ended");
        std::thread::yield_now();
    }
    let sent = Command::new("kill").arg(format!("-{signal}")).arg(child.id().to_string()).status().unwrap();
    assert!(sent.success());
    let output = child.wait_with_output().unwrap();
    fs::remove_file(file).unwrap();
    output
}

#[test]
fn interrupted_run_ends_with_130() {
    for (signal, code, program) in [("INT", 130, ENDLESS), ("TERM", 143, ENDLESS), ("INT", 130, ENDLESS_REGION)] {
        let output = ended_by(signal, program);
        let reason = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.status.signal()), (Some(code), None), "{signal}: {reason}");
        assert_eq!(reason, "pjrt: interrupted\n", "the client was closed first");
        assert!(output.stdout.is_empty());
    }
}
