//! Tests how JAX uses the StableHLO version and the profiles that a plugin reports.
#![allow(unreachable_pub, missing_docs, clippy::unwrap_used, reason = "tests")]

#[path = "support/xspace.rs"]
mod xspace;

use std::path::{Path, PathBuf};
use std::process::Command;

use prost::Message;

use crate::xspace::Space;

/// Returns the path of the witness plugin, which reports in an error which program it received.
fn witness() -> PathBuf {
    device_plugin_testing::library("witness_plugin")
}

/// Returns the path of a Python with JAX `version`. If `cargo xtask test --all` has not installed it, prints that
/// `test` is skipped and returns `None`.
fn python(test: &str, version: &str) -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    let python = target.join(format!("venv-jax-{version}/bin/python"));
    if python.exists() {
        return Some(python);
    }
    println!("SKIPPED {test}: no JAX {version} at {}; `cargo xtask test --all` installs it", python.display());
    None
}

/// Runs a Python program with the witness plugin as JAX's first platform, and returns its output. The plugin reports
/// the StableHLO version `stablehlo`. The program receives `argument` on its command line.
fn run(python: &Path, program: &str, stablehlo: Option<&str>, argument: &Path) -> String {
    let mut command = Command::new(python);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", env!("CARGO_TARGET_TMPDIR"));
    command.env("PJRT_NAMES_AND_LIBRARY_PATHS", format!("witness:{}", witness().display()));
    command.env("JAX_PLATFORMS", "witness,cpu").env("TF_CPP_MIN_LOG_LEVEL", "1");
    if let Some(version) = stablehlo {
        command.env("WITNESS_STABLEHLO", version);
    }
    let output = command.arg("-c").arg(program).arg(argument).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}\n{}", output.status, text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn jax_serializes_for_plugins_version() {
    let Some(python) = python("jax_serializes_for_plugins_version", "0.10.2") else { return };
    let program = "
import jax, numpy as np
x = jax.device_put(np.ones(2, np.float32), jax.devices('witness')[0])
try:
    jax.jit(lambda x: x + 1)(x)
except jax.errors.JaxRuntimeError as error:
    print(error)
";
    // The tested JAX contains StableHLO 1.17.0. If the plugin does not report a version, JAX serializes for the version
    // of 12 weeks earlier.
    for (says, gets) in [
        (Some("1.16.0"), "1.16.0"),
        (Some("1.9.0"), "1.9.0"),
        (Some("1.0.0"), "1.0.0"),
        (Some("0.9.0"), "0.9.0"),
        (Some("1.17.0"), "1.17.0"),
        (Some("9.0.0"), "1.17.0"),
        (None, "1.13.7"),
    ] {
        let printed = run(&python, program, says, Path::new(""));
        let expected = format!("witness: format mlir, StableHLO {gets}, 1 replicas of 1 partitions");
        assert!(printed.contains(&expected), "a plugin of {says:?}: {printed}");
    }
}

#[test]
fn jax_profile_contains_device_plane() {
    let mut tried = 0;
    for version in ["0.5.3", "0.7.2", "0.9.2", "0.10.2", "0.12.0.1"] {
        if let Some(python) = python("jax_profile_contains_device_plane", version) {
            profile(&python, version);
            tried += 1;
        }
    }
    println!("profiles of {tried} versions of JAX");
}

fn profile(python: &Path, version: &str) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("jax-profile-{version}"));
    let _ = std::fs::remove_dir_all(&folder);
    let program = "
import glob, sys, jax, numpy as np
device = jax.devices('witness')[0]
for n in range(2):
    folder = f'{sys.argv[1]}/{n}'
    with jax.profiler.trace(folder):
        x = jax.device_put(np.arange(4, dtype=np.float32), device)
        assert np.asarray(x).tolist() == [0, 1, 2, 3]
    [file] = glob.glob(folder + '/**/*.xplane.pb', recursive=True)
    print(file)
    # JAX reads it, too, since it has a reader.
    if hasattr(jax.profiler, 'ProfileData'):
        planes = {plane.name: plane for plane in jax.profiler.ProfileData.from_file(file).planes}
        [line] = planes['/device:CUSTOM:witness:0'].lines
        assert [event.name for event in line.events] == ['host to device', 'device to host'], line
        # Times are from the start of the profile.
        assert all(0 <= event.start_ns < 600e9 for event in line.events), line
";
    let printed = run(python, program, None, &folder);
    let files: Vec<&str> = printed.lines().filter(|line| line.ends_with(".xplane.pb")).collect();
    assert_eq!(files.len(), 2, "{version}: {printed}");
    for file in files {
        let space = Space::decode(&*std::fs::read(file).unwrap()).unwrap();
        let names: Vec<&str> = space.planes.iter().map(|plane| plane.name.as_str()).collect();
        let device = space.plane("/device:CUSTOM:witness:0").unwrap_or_else(|| panic!("{version}: {names:?}"));
        for name in ["host to device", "device to host"] {
            assert_eq!(device.stats(Some("transfers"), name).unwrap()["bytes"], "16", "{version}: {name}");
        }
        let host = space.plane("/device:CUSTOM:witness:host").unwrap_or_else(|| panic!("{version}: {names:?}"));
        assert!(host.find(None, "PJRT_Client_BufferFromHostBuffer").is_some(), "{version}: {host:?}");
        assert_eq!(host.stats(None, "copying").unwrap()["bytes"], "16", "{version}");
    }
}
