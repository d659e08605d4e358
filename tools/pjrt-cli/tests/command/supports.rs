//! Tests `pjrt supports` on a plugin that is described by a manifest, on other libraries, and on the embedded device.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use device_plugin::support::{AttributeRule, OperationRule};
use device_plugin::{Manifest, SupportTable};
use serde_json::Value;

const PROGRAM: &str = "func.func @main(%x: tensor<2x2xf64>) -> tensor<2x2xf64> {
  %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST]
    : (tensor<2x2xf64>, tensor<2x2xf64>) -> tensor<2x2xf64> loc(\"model.py\":7:3)
  return %0 : tensor<2x2xf64>
}";

/// Returns the path of the odd plugin. With the environment that [`check`] sets, loading this plugin hangs.
fn library() -> PathBuf {
    device_plugin_testing::library("odd_plugin")
}

fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("program.mlir"), PROGRAM).unwrap();
    let library = library();
    let mut manifest = Manifest::new("board");
    manifest.library.push(device_plugin::manifest::LibraryFile::new(library.clone()));
    let precision = AttributeRule { one_of: vec!["DEFAULT".to_owned()], ..AttributeRule::default() };
    let rule = OperationRule {
        attributes: [("precision_config".to_owned(), precision)].into(),
        ..OperationRule::of_types(["@float"])
    };
    manifest.supported_programs = Some(SupportTable {
        complete: true,
        type_groups: [("float".to_owned(), vec!["f32".to_owned(), "bf16".to_owned()])].into(),
        operations: [("stablehlo.dot_general".to_owned(), rule)].into(),
        ..SupportTable::default()
    });
    fs::write(folder.join("board.json"), manifest.to_json()).unwrap();
    folder
}

fn check(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pjrt"));
    command
        .args(["supports"])
        .args(args)
        .current_dir(folder)
        .env("PJRT_REGISTRY_MANIFESTS", folder)
        .env("ODD_PLUGIN", "hang_in_initialize");
    command.output().unwrap()
}

fn answer(folder: &Path, args: &[&str]) -> (Option<i32>, String) {
    let output = check(folder, args);
    (output.status.code(), String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap())
}

#[test]
fn table_answers_without_loading() {
    let folder = folder("check-table");
    let ask = |depth: &str| answer(&folder, &["program.mlir", "-p", "board", "--depth", depth]);
    assert_eq!(ask("names"), (Some(0), "board, by names: yes\n".to_owned()));
    let (code, text) = ask("attributes");
    assert_eq!(code, Some(3), "{text}");
    let (code, text) = ask("types");
    assert_eq!(code, Some(3), "{text}");

    let output = check(&folder, &["program.mlir", "-p", "board", "--json"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["plugin"], &json["depth"]), (&Value::from("board"), &Value::from("types")));
    assert_eq!(json["support"]["answer"], "no");
    assert_eq!(json["support"]["reasons"][0]["location"], "model.py:7:3");
    assert_eq!(json["support"]["reasons"][0]["operation"], "stablehlo.dot_general");
}

#[test]
fn library_without_manifest_is_loaded_in_child() {
    let folder = folder("check-library");
    let ask = |mode: &str, depth: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pjrt"));
        command.args(["supports", "program.mlir", "--depth", depth, "-p"]).arg(library());
        let output = command.current_dir(&folder).env("ODD_PLUGIN", mode).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(ask("", "names"), (Some(0), "odd, by names: yes\n".to_owned()));
    let (code, text) = ask("", "types");
    assert_eq!(code, Some(3), "{text}");
}

#[test]
fn embedded_device() {
    let folder = folder("check-cpu");
    for depth in ["names", "attributes", "types", "compile"] {
        let (code, text) = answer(&folder, &["program.mlir", "--depth", depth]);
        assert_eq!(code, Some(0), "{depth}: {text}");
    }
    fs::write(folder.join("infeed.mlir"), PROGRAM.replace("stablehlo.dot_general %x, %x, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST]\n    : (tensor<2x2xf64>, tensor<2x2xf64>) -> tensor<2x2xf64>", "stablehlo.custom_call @nobody_has_this(%x) : (tensor<2x2xf64>) -> tensor<2x2xf64>")).unwrap();
    let (code, text) = answer(&folder, &["infeed.mlir", "--depth", "compile"]);
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("nobody_has_this"), "{text}");
}

#[test]
fn errors() {
    let folder = folder("check-wrong");
    fs::write(folder.join("broken.mlir"), "func.func @main(").unwrap();
    fs::write(folder.join("text.hlo"), "HloModule main, entry_computation_layout={()->f32[]}").unwrap();
    let mut messages = String::new();
    for (args, expected) in [
        (&["none.mlir"][..], 1),
        (&["program.mlir", "--depth", "all"], 2),
        (&["program.mlir", "-p", "nobody"], 1),
        (&["broken.mlir", "-p", "board"], 3),
        (&["program.mlir", "-p", "board", "--depth", "attributes"], 3),
        (&["program.mlir", "-p", "board", "--depth", "types"], 3),
        (&["text.hlo"], 1),
    ] {
        let (code, text) = answer(&folder, args);
        assert_eq!(code, Some(expected), "{args:?}: {text}");
        let text = text.replace(library().to_str().unwrap(), "<library>").replace(folder.to_str().unwrap(), "<folder>");
        messages += &format!("pjrt supports {}\n{text}\n", args.join(" "));
    }
    expect_test::expect_file!["../messages/supports.txt"].assert_eq(&messages);
}

/// The StableHLO version in the header of an artifact determines the outcome, regardless of the artifact's body.
#[test]
fn future_artifact_version() {
    let folder = folder("check-version");
    let module = stablehlo::parse(PROGRAM.as_bytes().to_vec(), stablehlo::VerifyLevel::FULL).unwrap();
    let mut artifact = stablehlo::write(&module, "1.9.0".parse().unwrap()).unwrap();
    let head = b"StableHLO_v1.9.0";
    let at = artifact.windows(head.len()).position(|window| window == head).unwrap();
    artifact[at + "StableHLO_v".len()] = b'9';
    fs::write(folder.join("next.mlirbc"), artifact).unwrap();
    for depth in ["names", "attributes", "types", "compile"] {
        let (code, text) = answer(&folder, &["next.mlirbc", "--depth", depth]);
        assert_eq!(code, Some(3), "{depth}: {text}");
        assert!(text.contains("StableHLO 9.9.0") && text.contains("serialize it for"), "{text}");
    }
    let run = Command::new(env!("CARGO_BIN_EXE_pjrt"))
        .args(["run", "next.mlirbc", "f64[2,2]=1"])
        .current_dir(&folder)
        .output()
        .unwrap();
    let said = String::from_utf8(run.stderr).unwrap();
    assert!(!run.status.success() && said.contains("StableHLO 9.9.0"), "{said}");
}

#[test]
fn supports_and_run_agree_on_hlo() {
    let folder = folder("check-hlo");
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/stablehlo/tests/data/mlp_step.hlo");
    let program = program.to_str().unwrap();
    let (code, text) = answer(&folder, &[program]);
    assert_eq!(code, Some(0), "{text}");
    let run = Command::new(env!("CARGO_BIN_EXE_pjrt")).args(["run", program]).output().unwrap();
    let said = String::from_utf8(run.stderr).unwrap();
    // This error shows that the program was read and compiled, because only its inputs are missing.
    assert!(said.contains("parameters, but 0 arguments"), "{said}");
    fs::write(folder.join("text.hlo"), "HloModule main, entry_computation_layout={()->f32[]}").unwrap();
    for command in ["supports", "run"] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_pjrt")).args([command, "text.hlo"]).current_dir(&folder).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("HLO text is not supported"), "{command}: {said}");
    }
}

/// If a plugin has no table of supported programs, the command compiles the program with it in a separate process.
#[test]
fn real_plugins_are_asked_to_compile() {
    let Ok(paths) = std::env::var("PJRT_TEST_PLUGINS") else {
        println!("SKIPPED real_plugins_are_asked_to_compile: PJRT_TEST_PLUGINS is not set");
        return;
    };
    let folder = folder("check-real");
    let call = "%0 = stablehlo.custom_call @nobody_has_this(%x) : (tensor<2x2xf64>) -> tensor<2x2xf64>";
    let text =
        format!("func.func @main(%x: tensor<2x2xf64>) -> tensor<2x2xf64> {{\n{call}\nreturn %0 : tensor<2x2xf64>\n}}");
    fs::write(folder.join("call.mlir"), text).unwrap();
    for path in paths.split(':') {
        let ask = |program: &str, more: &[&str]| answer(&folder, &[&[program, "-p", path], more].concat());
        // Some plugins cannot create a topology without a client. For these, the command reports that they compile only
        // with a client.
        let (code, text) = ask("program.mlir", &[]);
        let decided = code == Some(0) && text.contains("by compile: yes");
        assert!(decided || code == Some(4) && text.contains("only with a client"), "{path}: {text}");
        let (code, text) = ask("program.mlir", &["--with-client"]);
        assert!(code == Some(0) && text.contains("by compile: yes"), "{path}: {text}");
        let (code, text) = ask("call.mlir", &["--with-client"]);
        assert!(code == Some(3) || code == Some(4) && text.contains("could not compile it here"), "{path}: {text}");
        assert!(text.contains("nobody_has_this"), "{path}: {text}");
    }
}

#[test]
fn compiles_for_a_topology_without_a_client() {
    let Ok(plugin) = std::env::var("PJRT_CPU_PLUGIN") else {
        println!("SKIPPED compiles_for_a_topology_without_a_client: PJRT_CPU_PLUGIN is not set");
        return;
    };
    let folder = folder("check-topology");
    fs::write(folder.join("program.mlir"), PROGRAM.replace("f64", "f32")).unwrap();
    let (code, text) = answer(&folder, &["program.mlir", "-p", &plugin, "--depth", "compile"]);
    assert!(code == Some(0) && text.contains("by compile: yes"), "{text}");
    let broken = "func.func @main(%x: tensor<f32>) -> tensor<f32> {
      %0 = stablehlo.custom_call @nobody_has_this(%x) : (tensor<f32>) -> tensor<f32>
      return %0 : tensor<f32>
    }";
    fs::write(folder.join("broken.mlir"), broken).unwrap();
    let (code, text) = answer(&folder, &["broken.mlir", "-p", &plugin, "--depth", "compile"]);
    assert!(code == Some(4) && text.contains("could not compile it here"), "{text}");
    assert!(text.contains("nobody_has_this"), "{text}");
}

#[test]
fn plugin_without_topology() {
    let folder = folder("check-maybe");
    let mut command = Command::new(env!("CARGO_BIN_EXE_pjrt"));
    fs::write(folder.join("program.mlir"), PROGRAM.replace("f64", "f32")).unwrap();
    command.args(["supports", "program.mlir", "--depth", "compile", "-p"]).arg(library()).env("ODD_PLUGIN", "");
    let output = command.current_dir(&folder).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(4), "{text}");
    assert!(text.contains("only compiling can find") && text.contains("only with a client"), "{text}");
}
