//! Runs the tests in `tests/jax` with several versions of JAX.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::python::{JAX, Jax, MAIN, pytest};
use crate::workspace::Workspace;
use crate::{Error, sh};

/// The outcome of the tests with one version of JAX.
pub(crate) struct Row {
    pub(crate) version: &'static str,
    pub(crate) outcome: Outcome,
}

pub(crate) enum Outcome {
    /// The tests ran. The fields contain the counts of passed and failed tests, and the lines of pytest's output about
    /// skipped and failed tests. `result` contains pytest's error.
    Ran { passed: u64, failed: u64, skipped: Vec<String>, failures: Vec<String>, result: Result<(), String> },
    /// The Python environment for the version is not available.
    Missing(String),
    /// The version was not requested.
    Left,
}

/// Returns whether a version is requested. Without `thorough`, the requested versions are the oldest, the newest and
/// [`MAIN`].
fn is_wanted(jax: &Jax, thorough: bool) -> bool {
    let ends = [JAX.first(), JAX.last()];
    thorough || jax.version == MAIN || ends.into_iter().flatten().any(|end| end.version == jax.version)
}

/// Installs the requested versions of JAX. Rust tests also use them. Ignores errors, because [`run`] reports versions
/// that are not available.
pub(crate) fn prepare(thorough: bool) {
    for jax in JAX.iter().filter(|jax| is_wanted(jax, thorough)) {
        let _ = jax.python();
    }
}

/// The libraries that `tests/jax` loads, and the command `pjrt`.
pub(crate) struct Libraries<'a> {
    pub(crate) command: &'a Path,
    pub(crate) cpu: &'a Path,
    /// Plugin library that records the calls of a framework.
    pub(crate) traced: &'a Path,
    /// Library that exchanges DLPack tensors.
    pub(crate) dlpack: &'a Path,
    /// Library of `pjrt-layers`, which the tests use to record a program.
    pub(crate) layers: &'a Path,
    /// Library of the plugin `remote`.
    pub(crate) remote: &'a Path,
    /// Paths of real plugins, in the format of `PJRT_TEST_PLUGINS`. Empty if there are none.
    pub(crate) plugins: &'a OsStr,
}

/// Runs `tests/jax` with the requested versions. Runs one version per core at a time, because most tests use one core.
/// `package` is a folder with the content of the CPU plugin's wheel, for tests of the wheel's additions to JAX.
pub(crate) fn run(libraries: &Libraries<'_>, package: &Path, thorough: bool) -> Vec<Row> {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let wanted: Vec<usize> = (0..JAX.len()).rev().filter(|version| is_wanted(&JAX[*version], thorough)).collect();
    std::thread::scope(|scope| {
        for _ in 0..cores.min(wanted.len()) {
            scope.spawn(|| {
                while let Some(version) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = under(&JAX[*version], libraries, package);
                    outcomes.lock().unwrap_or_else(PoisonError::into_inner).insert(*version, outcome);
                }
            });
        }
    });
    let mut outcomes = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
    let row = |(version, jax): (usize, &Jax)| Row {
        version: jax.version,
        outcome: outcomes.remove(&version).unwrap_or(Outcome::Left),
    };
    JAX.iter().enumerate().map(row).collect()
}

/// Creates the wheel of the CPU plugin with `pjrt package`, unpacks it, and returns the folder with its content.
pub(crate) fn package(cpu: &Path) -> Result<PathBuf, Error> {
    package_in("tests/jax-package", cpu, None, false)
}

/// Creates the wheel of a plugin with `pjrt package`, unpacks it below `folder` in cargo's target folder, and returns
/// the folder with its content. With `has_layers`, the wheel's library is the library with the layers, which loads the
/// plugin's library.
pub(crate) fn package_in(
    folder: &str,
    library: &Path,
    manifest: Option<&Path>,
    has_layers: bool,
) -> Result<PathBuf, Error> {
    let workspace = Workspace::build()?;
    let folder = sh::target().join(folder);
    sh::remove(&folder)?;
    let wheels = folder.join("wheels");
    let mut package = Command::new(workspace.command("pjrt"));
    package.arg("package").arg("--library").arg(library).arg("--output").arg(&wheels).arg("--no-torch");
    if let Some(manifest) = manifest {
        package.arg("--manifest").arg(manifest);
    }
    if has_layers {
        package.arg("--compat").arg("--layers-library").arg(workspace.library("pjrt_layers_plugin"));
    }
    sh::run(&mut package)?;
    let wheel = fs::read_dir(&wheels)?.next().ok_or("`pjrt package` wrote no wheel")??.path();
    let content = folder.join("content");
    sh::run(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(wheel).arg(&content))?;
    Ok(content)
}

fn under(jax: &Jax, libraries: &Libraries<'_>, package: &Path) -> Outcome {
    let python = match jax.python() {
        Ok(python) => python,
        Err(error) => return Outcome::Missing(sh::reason(&error)),
    };
    let mut pytest = pytest(&python);
    pytest.args(["tests/jax", "tests/dlpack/test_dlpack.py"].map(|tests| sh::root().join(tests)));
    pytest.env("PJRT_CPU_PACKAGE", package);
    pytest.env("PJRT_CPU_PLUGIN", libraries.cpu).env("PJRT_TRACED", libraries.traced);
    pytest.env("PJRT_COMMAND", libraries.command).env("PJRT_LAYERS_LIBRARY", libraries.layers);
    pytest.env("PJRT_REMOTE_LIBRARY", libraries.remote);
    pytest.env("PJRT_TEST_PLUGINS", libraries.plugins);
    pytest.env("PJRT_DLPACK", libraries.dlpack);
    let (mut passed, mut failed, mut skipped, mut failures) = (0, 0, Vec::new(), Vec::new());
    let result = sh::run_filtered(&mut pytest, |line| {
        // Print the version, because several versions run at the same time.
        println!("JAX {}: {line}", jax.version);
        if let Some(counts) = Counts::of(line) {
            (passed, failed) = (counts.passed, counts.failed);
        } else if line.starts_with("SKIPPED ") {
            skipped.push(format!("JAX {}: {line}", jax.version));
        } else if is_failure(line) {
            failures.push(format!("JAX {}: {line}", jax.version));
        }
        false
    });
    Outcome::Ran { passed, failed, skipped, failures, result: result.map_err(|error| error.to_string()) }
}

/// Returns whether a line of pytest's output is part of an error, or names a failed test in the summary.
pub(crate) fn is_failure(line: &str) -> bool {
    ["E   ", "FAILED ", "ERROR "].iter().any(|start| line.starts_with(start))
}

/// The counts in pytest's last line, such as `1 failed, 5 passed, 1 skipped in 3.21s`.
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

impl Counts {
    pub(crate) fn of(line: &str) -> Option<Self> {
        let words = [" passed", " failed", " error"];
        let closing = line.contains(" in ") && words.iter().any(|word| line.contains(word));
        closing.then(|| Self {
            passed: sh::number_before(line, " passed"),
            failed: sh::number_before(line, " failed") + sh::number_before(line, " error"),
        })
    }
}

/// Formats the rows as a table.
pub(crate) fn matrix(rows: &[Row]) -> String {
    let mut text = format!("{:<14} {:>6} {:>6} {:>7}\n", "", "passed", "failed", "skipped");
    for Row { version, outcome } in rows {
        let name = format!("JAX {version}");
        text += &match outcome {
            Outcome::Ran { passed, failed, skipped, result, .. } => {
                let broken = if result.is_err() && *failed == 0 { "  broken" } else { "" };
                format!("{name:<14} {passed:>6} {failed:>6} {:>7}{broken}\n", skipped.len())
            }
            Outcome::Missing(reason) => format!("{name:<14} SKIPPED: {reason}\n"),
            Outcome::Left => format!("{name:<14} not run; --thorough runs it\n"),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_are_read() {
        let counts = Counts::of("1 failed, 7 passed, 2 errors in 3.21s").unwrap();
        assert_eq!((counts.passed, counts.failed), (7, 3));
        assert!(Counts::of("tests/jax/test_jax.py::test_in passed").is_none());
    }

    #[test]
    fn matrix_lists_outcomes() {
        let ran = |failed, result| Outcome::Ran {
            passed: 30,
            failed,
            skipped: vec!["x".to_owned()],
            failures: vec![],
            result,
        };
        let rows = [
            Row { version: "0.5.3", outcome: ran(0, Ok(())) },
            Row { version: "0.7.2", outcome: ran(0, Err("signal".into())) },
            Row { version: "0.9.2", outcome: Outcome::Left },
            Row { version: "0.12.0.1", outcome: Outcome::Missing("no Python 3.12".to_owned()) },
        ];
        let lines: Vec<String> = matrix(&rows).lines().map(str::to_owned).collect();
        assert!(lines[1].ends_with("30      0       1"), "{}", lines[1]);
        assert!(lines[2].ends_with("broken"), "{}", lines[2]);
        assert!(lines[3].contains("not run"), "{}", lines[3]);
        assert!(lines[4].ends_with("SKIPPED: no Python 3.12"), "{}", lines[4]);
    }
}
