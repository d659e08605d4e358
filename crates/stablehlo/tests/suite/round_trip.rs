//! Tests that jaxlib reads the text and the artifacts that this crate writes as the original program.
//!
//! Requires Python with JAX 0.10.2, at `target/venv-jax-0.10.2` or at the path in `STABLEHLO_TEST_PYTHON`.
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::path::{Path, PathBuf};
use std::process::Command;

use stablehlo::ir::Version;
use stablehlo::{ErrorKind, PrintOptions, VerifyLevel, parse, write};

/// Versions in which the programs are written. jaxlib 0.10.2 supports versions up to 1.17.0.
const VERSIONS: [Version; 8] = [
    Version(1, 17, 0),
    Version(1, 13, 0),
    Version(1, 9, 0),
    Version(1, 0, 0),
    Version(0, 19, 0),
    Version(0, 14, 0),
    Version(0, 12, 0),
    Version(0, 9, 0),
];

fn python() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("STABLEHLO_TEST_PYTHON") {
        return Some(path.into());
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/venv-jax-0.10.2/bin/python");
    path.exists().then_some(path)
}

/// Runs the script `round_trip.py`. Returns its standard output, or `Err` with its whole output if the script fails.
fn script(python: &Path, arguments: &[&Path]) -> Result<String, String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/round_trip.py");
    let output = Command::new(python).arg(script).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() { Ok(text) } else { Err(text + &String::from_utf8_lossy(&output.stderr)) }
}

/// Writes every program in `originals` to `ours` in several text forms and versions. Returns the number of written
/// files.
fn convert(originals: &Path, ours: &Path) -> usize {
    let mut forms = 0;
    for entry in std::fs::read_dir(originals).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        // jaxlib's printer cannot print the deeply nested golden program, and HLO files are not StableHLO.
        if name.starts_with("nested.") || name.ends_with(".hlo") {
            continue;
        }
        let module = parse(std::fs::read(&path).unwrap(), VerifyLevel::FULL).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut put = |form: &str, bytes: &[u8]| {
            std::fs::write(ours.join(format!("{name}~{form}")), bytes).unwrap();
            forms += 1;
        };
        put("text", module.to_string().as_bytes());
        for form in ["generic", "debug"] {
            let mut options = PrintOptions::default();
            (options.generic, options.locations) = (form == "generic", form == "debug");
            put(form, module.print(&options).as_bytes());
        }
        for version in VERSIONS {
            match write(&module, version) {
                Ok(bytes) => {
                    let again = parse(bytes.clone(), VerifyLevel::FULL)
                        .unwrap_or_else(|e| panic!("{name} written at {version}: {e}"));
                    assert_eq!(again.version, Some(version));
                    // Artifacts omit the channel type, because the op determines it.
                    let text = module.to_string().replace(", type = 1>", ", type = 0>");
                    assert_eq!(again.to_string(), text, "{name} written at {version}");
                    put(&version.to_string(), &bytes);
                }
                // JAX's text contains CHLO ops. JAX's serializer expands such ops, but this crate cannot write them.
                Err(e) if e.op().is_some_and(|op| op.starts_with("chlo.")) => {
                    assert_eq!(e.kind(), ErrorKind::Unsupported, "{name} at {version}: {e}");
                }
                // The error names the unsupported feature and the required version.
                Err(e) => {
                    assert_eq!(e.kind(), ErrorKind::Version, "{name} at {version}: {e}");
                    assert!(e.op().is_some(), "{name} at {version}: {e}");
                    assert!(version < Version(1, 13, 0), "{name} at {version}: {e}");
                }
            }
        }
    }
    forms
}

fn fresh(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("round_trip").join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

#[test]
fn golden_programs() {
    let Some(python) = python() else {
        return println!("SKIPPED golden_programs: no Python with JAX at target/venv-jax-0.10.2");
    };
    let ours = fresh("golden");
    let originals = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let forms = convert(&originals, &ours);
    assert!(forms > 800, "only {forms} forms");
    let report = script(&python, &[Path::new("compare"), &originals, &ours]).unwrap_or_else(|e| panic!("{e}"));
    assert!(report.contains(&format!("{forms} same, 0 different")), "{report}");
}

#[test]
fn jax_programs() {
    let Some(python) = python() else {
        return println!("SKIPPED jax_programs: no Python with JAX at target/venv-jax-0.10.2");
    };
    let (originals, ours) = (fresh("programs"), fresh("ours"));
    script(&python, &[Path::new("make"), &originals]).unwrap_or_else(|e| panic!("{e}"));
    let forms = convert(&originals, &ours);
    assert!(forms > 800, "only {forms} forms");
    let report = script(&python, &[Path::new("compare"), &originals, &ours]).unwrap_or_else(|e| panic!("{e}"));
    assert!(report.contains(&format!("{forms} same, 0 different")), "{report}");
}
