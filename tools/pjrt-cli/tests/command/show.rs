//! Tests `pjrt show`, and the inputs that `pjrt run` accepts and suggests.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

const AXPY: &str = "examples/programs/axpy.mlir";

fn pjrt(args: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    Command::new(env!("CARGO_BIN_EXE_pjrt")).args(args).current_dir(root).output().unwrap()
}

fn stdout(args: &[&str]) -> String {
    let output = pjrt(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn refused(args: &[&str]) -> String {
    let output = pjrt(args);
    assert_eq!(output.status.code(), Some(1), "{args:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn signature_and_ops() {
    let text = stdout(&["show", AXPY]);
    for part in ["StableHLO text", "input 0   tensor<f32>", "input 2   tensor<4xf32>", "output 0  tensor<4xf32>"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.contains("1  stablehlo.multiply") && text.contains("StableHLO 0.9.0 or later"), "{text}");
    let shown: Value = serde_json::from_str(&stdout(&["show", "examples/programs/axpy.mlirbc", "--json"])).unwrap();
    assert_eq!(shown["inputs"], json!(["tensor<f32>", "tensor<4xf32>", "tensor<4xf32>"]));
    assert_eq!(shown["ops"]["stablehlo.add"], 1);
    assert_eq!(shown["format"], "portable artifact (MLIR bytecode)");
    assert!(shown["artifact_version"].is_string(), "{shown}");
    assert!(stdout(&["show", "examples/programs/axpy.mlirbc", "--text"]).contains("stablehlo.multiply"));
}

#[test]
fn versions_and_donation_are_shown() {
    let folder = folder("show-versions");
    let program = folder.join("tan.mlir");
    let text = "func.func @main(%x: tensor<2xf32> {tf.aliasing_output = 0 : i32}) -> tensor<2xf32> {
      %0 = stablehlo.tan %x : tensor<2xf32>
      return %0 : tensor<2xf32>
    }";
    std::fs::write(&program, text).unwrap();
    let shown = stdout(&["show", program.to_str().unwrap()]);
    assert!(shown.contains("StableHLO 1.4.0 or later") && shown.contains("tensor<2xf32>  donated"), "{shown}");
}

#[test]
fn untyped_inputs() {
    let text = stdout(&["run", AXPY, "2", "[0,1,2,3]", "10"]);
    assert!(text.contains("out0 f32[4] [10.0, 12.0, 14.0, 16.0]"), "{text}");
}

#[test]
fn matrices_and_archives() {
    let folder = folder("show-rows");
    let program = folder.join("transpose.mlir");
    let text = "func.func @main(%x: tensor<2x3xi32>) -> (tensor<3x2xi32>, tensor<2x3xi32>) {
      %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3xi32>) -> tensor<3x2xi32>
      return %0, %x : tensor<3x2xi32>, tensor<2x3xi32>
    }";
    std::fs::write(&program, text).unwrap();
    let (program, archive) = (program.to_str().unwrap(), folder.join("out.npz"));
    let shown = stdout(&["run", program, "[[1,2,3],[4,5,6]]", "-o", archive.to_str().unwrap()]);
    assert!(shown.contains("out0 s32[3,2]\n  [[1, 4],\n   [2, 5],\n   [3, 6]]\n"), "{shown}");
    let again = format!("{}:out1", archive.display());
    assert_eq!(stdout(&["run", program, &again]).lines().nth(1), shown.lines().nth(1));
    assert!(refused(&["run", program, archive.to_str().unwrap()]).contains("out0, out1"));
}

#[test]
fn hlo_is_shown() {
    let shown = stdout(&["show", "crates/stablehlo/tests/data/mlp_step.hlo"]);
    assert!(shown.contains("format    hlo") && shown.contains("stablehlo.dot_general"), "{shown}");
}

#[test]
fn suggestions() {
    let program = folder("show-misspelt").join("ad.mlir");
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(AXPY)).unwrap();
    std::fs::write(&program, text.replace("stablehlo.add", "stablehlo.ad")).unwrap();
    let reason = refused(&["run", program.to_str().unwrap(), "2", "1", "1"]);
    assert!(reason.contains("unknown op stablehlo.ad; did you mean stablehlo.add?"), "{reason}");
}
