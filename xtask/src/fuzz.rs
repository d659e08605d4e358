//! `cargo xtask fuzz`: runs the fuzz targets with libFuzzer, on the stable toolchain. Sanitizers are not needed,
//! because most crates under test have no unsafe code. The target `jit` checks itself that generated code does not
//! write beside its arrays.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::{Error, sh};

/// The fuzz targets, each with the file extensions of its seeds in the repository. A target without extensions starts
/// from nothing.
const TARGETS: [(&str, &[&str]); 8] = [
    ("jit", &[]),
    ("bytecode", &["bc"]),
    ("text", &["mlir"]),
    ("hlo", &["hlo"]),
    ("round_trip", &["bc", "mlir"]),
    ("record", &["pjrt"]),
    ("replay", &["pjrt"]),
    ("requests", &[]),
];

/// Maximum size of a seed in bytes, except for the target `hlo`. Larger seeds slow fuzzing down.
const LARGEST_SEED: u64 = 6_000;

/// Default time for each target, in seconds.
pub(crate) const SECONDS: u32 = 15;

/// Compiler options for the coverage that libFuzzer needs.
const COVERAGE: [&str; 5] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// The packages whose coverage guides the targets. Other packages are those of the debug build.
const COVERED: [&str; 12] = [
    "device-plugin",
    "pjrt-cpu",
    "pjrt-fuzz",
    "pjrt-record",
    "pjrt-remote",
    "pjrt-rs",
    "pjrt-types",
    "plugin-manifest",
    "plugin-registry",
    "stablehlo-cpu",
    "stablehlo-jit",
    "stablehlo-rs",
];

/// The packages that are optimized in short runs. In the others, more time would be lost than won.
const OPTIMIZED: [&str; 8] = [
    "device-plugin",
    "libfuzzer-sys",
    "pjrt-cpu",
    "pjrt-fuzz",
    "pjrt-rs",
    "pjrt-record",
    "stablehlo-jit",
    "stablehlo-rs",
];

/// The limit at which a target ends.
#[derive(Clone, Copy)]
pub(crate) enum Limit {
    /// Maximum time in seconds.
    Seconds(u32),
    /// Maximum number of inputs.
    Runs(u64),
}

/// Parses the arguments `[--seconds N | --runs N] [TARGET ...]`, and runs the task.
pub(crate) fn arguments(args: &[&str]) -> Result<(), Error> {
    let (mut limit, mut only) = (Limit::Seconds(SECONDS), Vec::new());
    let mut args = args.iter();
    while let Some(&arg) = args.next() {
        if arg == "--seconds" {
            limit = Limit::Seconds(args.next().ok_or("--seconds needs a number")?.parse()?);
        } else if arg == "--runs" {
            limit = Limit::Runs(args.next().ok_or("--runs needs a number")?.parse()?);
        } else if TARGETS.iter().any(|(name, _)| *name == arg) {
            only.push(arg);
        } else {
            let names: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
            return Err(format!("fuzz: unknown argument {arg}; the targets are {}", names.join(", ")).into());
        }
    }
    run(limit, &only).map(|passed| println!("{passed} fuzz targets without a finding"))
}

/// Checks that the targets can be built on this system.
pub(crate) fn available() -> Result<(), Error> {
    if !cfg!(all(target_os = "linux", target_env = "gnu")) {
        return Err("libFuzzer is built and run on Linux".into());
    }
    sh::output(Command::new("c++").arg("--version"))
        .map(drop)
        .map_err(|_| "there is no `c++` to build libFuzzer; install a C++ compiler".into())
}

/// Builds all targets, and runs the targets in `only`, or all targets if `only` is empty. Returns the number of targets
/// that it ran.
pub(crate) fn run(limit: Limit, only: &[&str]) -> Result<u64, Error> {
    available()?;
    let programs = build(matches!(limit, Limit::Seconds(..=SECONDS)))?;
    let target = sh::target().join("fuzz");
    let targets = Mutex::new(TARGETS.iter().filter(|(name, _)| only.is_empty() || only.contains(name)));
    let passed = AtomicU64::new(0);
    // Run one target per processor at a time, because a target uses only one thread.
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let work = || -> Result<(), String> {
            loop {
                let next = targets.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some((name, extensions)) = next else { return Ok(()) };
                let folder = target.join("run").join(name);
                let said = fuzz(&programs.join(name), &folder, extensions, limit)
                    .map_err(|error| format!("fuzz target {name} {error}"))?;
                println!("fuzz target {name}: {said}");
                passed.fetch_add(1, Ordering::Relaxed);
            }
        };
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let outcomes =
            threads.into_iter().map(|thread| thread.join().map_err(|_| "a fuzz target: panic".to_owned())?);
        outcomes.fold(Ok(()), Result::and)
    })?;
    Ok(passed.into_inner())
}

/// Builds all targets for short or for long runs. Returns the folder with the programs.
fn build(brief: bool) -> Result<PathBuf, Error> {
    let (profile, folder) = if brief { ("dev", "debug") } else { ("fuzz", "fuzz") };
    let mut build = sh::cargo();
    // The selection of all packages and of a small test enables the features of dependencies that the tests need, so
    // that cargo uses the dependencies of a debug build.
    build.args(["build", "--quiet", "--profile", profile, "--workspace", "--test", "ledger"]);
    build.args(["--features", "pjrt-fuzz/libfuzzer"]);
    TARGETS.iter().for_each(|(name, _)| _ = build.args(["--bin", name]));
    // Cargo's own flags for single packages are unstable. To allow them, one would set RUSTC_BOOTSTRAP, and then all
    // procedural macros and what uses them would be compiled again, now and in the next build without it.
    build.env("RUSTC_WORKSPACE_WRAPPER", sh::root().join("testing/pjrt-fuzz/rustc.sh"));
    build.env("COVERED", COVERED.join(" ")).env("COVERAGE", COVERAGE.join(" "));
    if brief {
        for package in OPTIMIZED {
            build.arg("--config").arg(format!("profile.{profile}.package.{package}.opt-level=1"));
        }
    }
    sh::run(&mut build)?;
    Ok(sh::target().join(folder))
}

/// Runs a target in a new folder. Returns a summary with the number of seeds and of inputs.
fn fuzz(program: &Path, folder: &Path, extensions: &[&str], limit: Limit) -> Result<String, Error> {
    let (seeds, found) = (folder.join("seeds"), folder.join("found"));
    sh::remove(folder)?;
    fs::create_dir_all(&found)?;
    let count = copy_seeds(extensions, &seeds)?;
    let mut fuzz = Command::new(program);
    if extensions.is_empty() {
        // Without seeds, libFuzzer would try only short inputs for a long time.
        fuzz.args(["-len_control=0", "-max_len=600"]);
    } else if count == 0 {
        return Err("has no file to start from".into());
    }
    // libFuzzer stores new inputs in the first folder. Findings have a separate folder.
    fuzz.arg(&seeds).args(["-seed=1", "-timeout=60"]);
    if extensions == ["pjrt"] {
        // The memory of a recording's readers is in proportion to the file, and inputs have at most 64 KiB.
        fuzz.args(["-rss_limit_mb=1024", "-max_len=65536"]);
    }
    fuzz.arg(match limit {
        Limit::Seconds(seconds) => format!("-max_total_time={seconds}"),
        Limit::Runs(runs) => format!("-runs={runs}"),
    });
    fuzz.arg(format!("-artifact_prefix={}/", found.display()));
    // The fuzzer's output is only needed for a finding.
    let said = sh::stderr(&mut fuzz).map_err(|error| finding(&found, &error))?;
    let done =
        said.lines().rfind(|line| line.starts_with("Done ")).unwrap_or("Done 0 runs").trim_start_matches("Done ");
    if sh::number_before(done, " runs") == 0 {
        return Err(format!("ran no input:\n{said}").into());
    }
    Ok(format!("{count} seeds, {done}"))
}

/// Creates the error for a finding.
fn finding(found: &Path, error: &Error) -> Error {
    let text = error.to_string();
    let start = text.find("panicked at").or_else(|| text.find("ERROR: libFuzzer")).unwrap_or(0);
    let excerpt: Vec<&str> = text[start..].lines().take(12).collect();
    format!(
        "found an input, saved in {}:\n{}\nadd it to the tests of the reader's crate when it is fixed",
        found.display(),
        excerpt.join("\n")
    )
    .into()
}

/// Copies the files with these extensions in the folders with packages to a folder. Omits files that are larger than
/// [`LARGEST_SEED`], unless they are HLO files. Returns the number of copied files.
fn copy_seeds(extensions: &[&str], to: &Path) -> Result<usize, Error> {
    fs::create_dir_all(to)?;
    let mut folders: Vec<PathBuf> = sh::PACKAGES.iter().map(|name| sh::root().join(name)).collect();
    let mut count = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let (path, metadata) = (entry.path(), entry.metadata()?);
            if metadata.is_dir() {
                if path.file_name() != Some("target".as_ref()) {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|e| extensions.iter().any(|wanted| e == *wanted))
                && (metadata.len() <= LARGEST_SEED || extensions == ["hlo"])
            {
                fs::copy(&path, to.join(format!("{count}")))?;
                count += 1;
            }
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_is_run() {
        let mut files: Vec<String> = fs::read_dir(sh::root().join("testing/pjrt-fuzz/fuzz_targets"))
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        files.sort();
        let mut names: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        assert_eq!(files, names);
    }

    #[test]
    fn unknown_targets_are_named() {
        let error = arguments(&["bytecod"]).unwrap_err().to_string();
        assert!(error.contains("bytecod") && error.contains("round_trip"), "{error}");
    }
}
