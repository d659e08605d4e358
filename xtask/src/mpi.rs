//! `cargo xtask mpi`: builds the transport over MPI and runs its tests. Other builds omit this transport, because it
//! needs an installed MPI and libclang.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::process::{Command, Stdio};

use crate::python::{JAX, Jax, MAIN, pytest};
use crate::{Error, sh};

/// Arguments of `cargo test` that select the packages with a transport over MPI, and their tests of this transport.
const TESTS: &[&[&str]] = &[&["-p", "process-transport-mpi"], &["-p", "pjrt-cpu", "--test", "mpi"]];

/// Tests in which JAX programs use the transport.
const JAX_TESTS: &str = "tests/jax/processes_over_mpi.py";

/// Builds and tests the packages with the feature `mpi`, and runs the tests of JAX over MPI.
pub(crate) fn run() -> Result<(), Error> {
    for program in ["mpicc", "mpirun"] {
        let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if let Err(error) = found {
            println!(
                "SKIPPED mpi: {program} does not start: {error}; on Debian, install openmpi-bin and libopenmpi-dev"
            );
            return Ok(());
        }
    }
    for arguments in TESTS {
        sh::run(sh::cargo().arg("test").args(*arguments).args(["--features", "mpi"]))?;
    }
    jax()
}

/// Builds the plugin with the feature `mpi`, and runs the tests in [`JAX_TESTS`] with it. If no Python environment with
/// JAX can be created, prints that the tests are skipped.
fn jax() -> Result<(), Error> {
    let python = JAX.iter().find(|jax| jax.version == MAIN).ok_or("no version of JAX").map_err(Error::from);
    let python = match python.and_then(Jax::python) {
        Ok(python) => python,
        Err(error) => {
            println!("SKIPPED mpi: the tests with JAX {MAIN} need its Python environment: {}", sh::reason(&error));
            return Ok(());
        }
    };
    // The tests above need additional features of dependencies. Select a test here, too, so that cargo enables the same
    // features. Otherwise, it would compile these dependencies again.
    let selection = ["-p", "pjrt-cpu-plugin", "-p", "pjrt-cpu", "--lib", "--test", "mpi"];
    sh::run(sh::cargo().arg("build").args(selection).args(["--features", "pjrt-cpu-plugin/mpi,pjrt-cpu/mpi"]))?;
    let library = sh::target().join("debug").join(format!("{DLL_PREFIX}pjrt_plugin_cpu{DLL_SUFFIX}"));
    let mut pytest = pytest(&python);
    pytest.arg(sh::root().join(JAX_TESTS)).env("PJRT_CPU_PLUGIN", library).env_remove("PJRT_CPU_PACKAGE");
    sh::run(&mut pytest)
}
