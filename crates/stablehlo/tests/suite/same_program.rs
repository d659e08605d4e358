//! Tests that the artifact and the text of a program are read as the same IR, in each version that can represent the
//! program.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use stablehlo::ir::*;

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

/// Returns the files of each program, by the name of the program.
fn programs() -> HashMap<String, Vec<PathBuf>> {
    let mut programs: HashMap<String, Vec<PathBuf>> = HashMap::new();
    for entry in std::fs::read_dir(data()).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_str().unwrap().to_owned();
        programs.entry(file.split('.').next().unwrap().to_owned()).or_default().push(path);
    }
    programs
}

fn read(path: &Path) -> Module {
    stablehlo::parse(std::fs::read(path).unwrap(), stablehlo::VerifyLevel::FULL)
        .unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Formats a function so that equal programs have equal texts. Values are numbered in the order of their definition,
/// and constants are printed with their elements.
fn describe(func: &Func) -> String {
    let mut names = HashMap::new();
    let mut text = format!(
        "@{} {} {:?} {:?} {:?} {:?}\n",
        func.name, func.public, func.arg_attributes, func.results, func.result_attributes, func.attributes
    );
    region(func, &func.body, &mut names, &mut text);
    text
}

fn region(func: &Func, body: &Region, names: &mut HashMap<ValueId, usize>, text: &mut String) {
    define(func, &body.args, names, text);
    text.push('\n');
    for op in &body.ops {
        let operands: Vec<usize> = op.operands.iter().map(|v| names[v]).collect();
        text.push_str(&format!("{:?} {operands:?} {:?} ->", op.kind, op.attributes));
        if let OpKind::Constant(literal) = &op.kind {
            text.push_str(&format!(" {:?}", literal.data));
        }
        define(func, &op.results, names, text);
        text.push('\n');
        for inner in &op.regions {
            text.push_str("{\n");
            region(func, inner, names, text);
            text.push_str("}\n");
        }
    }
}

fn define(func: &Func, values: &[ValueId], names: &mut HashMap<ValueId, usize>, text: &mut String) {
    for &value in values {
        let name = names.len();
        names.insert(value, name);
        text.push_str(&format!(" {name}: {}", func.ty(value)));
    }
}

fn assert_same(a: &str, b: &str, what: &str) {
    for (i, (a, b)) in a.lines().zip(b.lines()).enumerate() {
        assert_eq!(a, b, "{what}, line {i}");
    }
    assert_eq!(a.lines().count(), b.lines().count(), "{what}");
}

#[test]
fn artifact_and_text_agree() {
    let mut compared = 0;
    for (name, files) in programs() {
        // The program `nested` has no text, because it only tests the nesting depth.
        let Some(text) = files.iter().find(|p| p.extension().is_some_and(|e| e == "mlir")) else { continue };
        let artifact = files.iter().find(|p| p.to_str().unwrap().ends_with(".1.17.0.bc")).unwrap();
        let (text, artifact) = (read(text), read(artifact));
        assert_eq!(artifact.version, Some(Version(1, 17, 0)));
        assert_eq!(text.version, None);
        assert_eq!(text.name, artifact.name, "{name}");
        assert_eq!(format!("{:?}", text.attributes), format!("{:?}", artifact.attributes), "{name}");
        assert_eq!(format!("{:?}", text.symbols), format!("{:?}", artifact.symbols), "{name}");
        assert_eq!(text.funcs.len(), artifact.funcs.len(), "{name}");
        for (a, b) in text.funcs.iter().zip(&artifact.funcs) {
            assert_same(&describe(a), &describe(b), &format!("{name} @{}", a.name));
        }
        compared += 1;
    }
    assert!(compared >= 17, "only {compared} programs compared");
}

/// MLIR's serializer expands some ops differently in each version. Programs without such ops are the same in all
/// versions.
#[test]
fn every_version_agrees() {
    let programs = programs();
    for name in [
        "mlp_forward",
        "mlp_grad",
        "train_step",
        "random_normal",
        "scan",
        "while_loop",
        "branches",
        "convolution",
        "shapes",
    ] {
        let newest = read(&data().join(format!("{name}.1.17.0.bc")));
        for file in programs[name].iter().filter(|p| p.extension().is_some_and(|e| e == "bc")) {
            let module = read(file);
            for (a, b) in newest.funcs.iter().zip(&module.funcs) {
                assert_same(&describe(a), &describe(b), &file.display().to_string());
            }
            assert_eq!(newest.funcs.len(), module.funcs.len());
        }
        assert!(programs[name].len() >= 6, "{name} exists in few versions");
    }
}
