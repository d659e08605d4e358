//! `cargo xtask burn`: builds and tests the Burn backend in `examples/burn-pjrt`, which is a workspace of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::package::PLUGINS;
use crate::workspace::Example;
use crate::{Error, sh};

/// Substring of the names of Burn's tests for an operation that the backend does not support. No other tests may fail.
const UNSUPPORTED: &str = "deform_conv2d";

/// Integration tests that can run on a plugin. The remaining tests use the embedded device.
const PLUGIN_TESTS: [&str; 4] = ["floats", "integers", "modules", "training"];

/// Parses the arguments of `cargo xtask burn`, and runs the task.
pub(crate) fn arguments(args: &[&str]) -> Result<(), Error> {
    match args {
        [] => run(),
        ["--suite", checkout] => suite(Path::new(checkout), None),
        ["--suite", checkout, "--plugin", plugin] => suite(Path::new(checkout), Some(plugin)),
        _ => Err("usage: cargo xtask burn [--suite BURN_CHECKOUT [--plugin PATH]]".into()),
    }
}

/// Creates a cargo command in the workspace of the backend.
fn cargo(task: &str) -> Command {
    example().cargo(task)
}

fn example() -> Example {
    Example { name: "burn-pjrt", target: sh::target().join("burn") }
}

/// Checks the sources, and runs the tests on the embedded device and on the newest XLA CPU plugin.
fn run() -> Result<(), Error> {
    example().format()?;
    sh::run(&mut cargo("test"))?;
    match PLUGINS.last().map(|plugin| (plugin.api, plugin.path())) {
        Some((_, Ok(path))) => {
            let mut tests = cargo("test");
            PLUGIN_TESTS.iter().for_each(|name| {
                tests.args(["--test", name]);
            });
            on_library(&mut tests, &path);
            sh::run(&mut tests)
        }
        Some((api, Err(error))) => {
            println!("SKIPPED the Burn backend on XLA CPU {api}: {}", sh::reason(&error));
            Ok(())
        }
        None => Err("there is no plugin to test with".into()),
    }
}

/// Lets tests run on the plugin in a library.
fn on_library(tests: &mut Command, path: &Path) {
    tests.env("BURN_PJRT_PLUGIN", "other").env("PJRT_NAMES_AND_LIBRARY_PATHS", format!("other:{}", path.display()));
}

/// Runs Burn's own backend tests. Returns an error if a test of a supported operation fails.
fn suite(checkout: &Path, plugin: Option<&str>) -> Result<(), Error> {
    let folder: PathBuf = std::path::absolute(checkout)?.join("crates/burn-backend-tests");
    if !folder.join("tests/tensor").is_dir() {
        return Err(
            format!("{} is not a checkout of Burn 0.21.0: it lacks {}", checkout.display(), folder.display()).into()
        );
    }
    let mut tests = cargo("test");
    tests.args(["-p", "burn-suite", "--tests", "--no-fail-fast"]).env("BURN_SUITE", folder);
    if let Some(plugin) = plugin {
        on_library(&mut tests, Path::new(plugin));
    }
    let (mut passed, mut unsupported, mut failed) = (0u64, 0u64, Vec::new());
    // The command also fails if only tests of unsupported operations fail, so its status does not decide.
    let outcome = sh::run_watched(&mut tests, |line| match line.strip_prefix("test ") {
        Some(test) if test.ends_with(" ... ok") => passed += 1,
        Some(test) if test.ends_with("... FAILED") && test.contains(UNSUPPORTED) => unsupported += 1,
        Some(test) if test.ends_with("... FAILED") => failed.push(test.to_owned()),
        _ => {}
    });
    println!("{passed} of Burn's tests passed, {unsupported} of unsupported operations failed");
    match (passed, failed.is_empty()) {
        (0, _) => Err(outcome.err().unwrap_or_else(|| "no test ran".into())),
        (_, true) => Ok(()),
        (_, false) => Err(format!("tests of supported operations failed:\n{}", failed.join("\n")).into()),
    }
}
