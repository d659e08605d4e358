//! Tests programs that use StableHLO versions newer than those of the golden artifacts. `make_newest.py` creates the
//! programs.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::path::{Path, PathBuf};
use std::process::Command;

use stablehlo::ir::*;
use stablehlo::{ErrorKind, PrintOptions, VerifyLevel, parse, write};

/// The newest StableHLO version of the jaxlib that created the programs.
const JAXLIB: Version = Version(1, 22, 0);

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// Returns all programs. Each row contains the program's name, the oldest StableHLO version of its artifacts, and the
/// path of its text.
fn programs() -> Vec<(String, Version, PathBuf)> {
    let mut files: Vec<_> =
        std::fs::read_dir(tests().join("newest")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let split = |path: &PathBuf| {
        let file = path.file_name().unwrap().to_str().unwrap().strip_suffix(".bc")?.to_owned();
        let (name, version) = file.split_once('.')?;
        Some((name.to_owned(), version.parse::<Version>().unwrap()))
    };
    let artifacts: Vec<_> = files.iter().filter_map(split).collect();
    let mut programs = Vec::new();
    for path in files.iter().filter(|path| path.extension().is_some_and(|e| e == "mlir")) {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let first = artifacts.iter().filter(|(of, _)| of == name).map(|&(_, version)| version).min().unwrap();
        programs.push((name.to_owned(), first, path.clone()));
    }
    programs
}

fn read(path: &Path) -> Module {
    parse(std::fs::read(path).unwrap(), VerifyLevel::FULL).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[test]
fn artifact_versions_match_text() {
    let programs = programs();
    assert_eq!(programs.len(), 7);
    for (name, first, path) in programs {
        let text = read(&path).to_string();
        for version in [first, JAXLIB] {
            let artifact = read(&tests().join(format!("newest/{name}.{version}.bc")));
            assert_eq!(artifact.version, Some(version));
            assert_eq!(artifact.to_string(), text);
        }
    }
}

#[test]
fn written_from_first_version() {
    for (name, first, path) in programs() {
        let module = read(&path);
        for version in [first, Version::NEWEST] {
            let again = parse(write(&module, version).unwrap(), VerifyLevel::FULL).unwrap();
            assert_eq!(again.to_string(), module.to_string(), "{name}");
        }
        let error = write(&module, Version(first.0, first.1 - 1, 0)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Version, "{name}: {error}");
    }
}

#[test]
fn weak_order_needs_floats() {
    let module = read(&tests().join("newest/weak_order.1.22.0.bc"));
    let compare = &module.entry().unwrap().body.ops[0];
    assert!(matches!(compare.kind, OpKind::Compare { compare_type: ComparisonType::WeakOrder, .. }));
    let text = module.to_string().replace("bf16", "i32");
    assert_eq!(parse(text, VerifyLevel::FULL).unwrap_err().kind(), ErrorKind::Type);
}

#[test]
fn fuzz_regressions() {
    for (name, message) in [
        // The storage range uses all bits of the storage type.
        ("quantized_storage_of_63_bits.bc", ""),
        ("type_of_no_text.bc", "is not a type"),
        ("tensor_of_tensors.bc", "a tensor of tensor<"),
        ("op_without_a_dialect.bc", "unknown op in an artifact"),
        ("value_of_an_element_type.bc", "is not the type of a value"),
    ] {
        let error =
            parse(std::fs::read(tests().join("broken").join(name)).unwrap(), VerifyLevel::FULL).expect_err(name);
        assert!(error.message().contains(message), "{name}: {error}");
    }
}

#[test]
fn empty_name_round_trip() {
    let module = read(&tests().join("broken/function_without_a_name.bc"));
    assert_eq!(module.funcs[0].name, "");
    assert_eq!(parse(module.to_string(), VerifyLevel::FULL).unwrap().to_string(), module.to_string());
}

#[test]
fn jaxlib_reads_artifacts() {
    let python = tests().join("../../../target/venv-jax-0.12.0.1/bin/python");
    if !python.exists() {
        println!("SKIPPED jaxlib_reads_artifacts: no {}", python.display());
        return;
    }
    let ours = Path::new(env!("CARGO_TARGET_TMPDIR")).join("newest");
    let _ = std::fs::remove_dir_all(&ours);
    std::fs::create_dir_all(&ours).unwrap();
    for (name, first, path) in programs() {
        let module = read(&path);
        for version in [first, JAXLIB] {
            std::fs::write(ours.join(format!("{name}.{version}.bc")), write(&module, version).unwrap()).unwrap();
        }
        for generic in [false, true] {
            let mut options = PrintOptions::default();
            options.generic = generic;
            std::fs::write(ours.join(format!("{name}.{generic}.mlir")), module.print(&options)).unwrap();
        }
    }
    let script = tests().join("make_newest.py");
    let output = Command::new(python).arg(script).arg("--check").arg(&ours).output().unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
