//! `cargo xtask mpi`: builds the transport over MPI and runs its tests. Other builds omit this transport, because it
//! needs an installed MPI and libclang.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::process::{Command, Stdio};

use crate::python::{JAX, Jax, MAIN, pytest};
use crate::{Error, sh};

/// Arguments of cargo that select the workspace with the feature `mpi`. A selection of fewer packages would need other
/// features of their dependencies, and cargo would compile these dependencies again.
const WORKSPACE: &[&str] = &["--workspace", "--features", "pjrt-cpu-plugin/mpi,pjrt-cpu/mpi,process-transport-mpi/mpi"];

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
    sh::run(sh::cargo().arg("test").args(WORKSPACE).args(["--test", "mpi"]))?;
    sh::run(sh::cargo().args(["test", "-p", "process-transport-mpi", "--lib", "--features", "mpi"]))?;
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
    // Select the tests, too, because they need additional features of dependencies.
    sh::run(sh::cargo().arg("build").args(WORKSPACE).args(["--lib", "--test", "mpi"]))?;
    let library = sh::target().join("debug").join(format!("{DLL_PREFIX}pjrt_plugin_cpu{DLL_SUFFIX}"));
    let mut pytest = pytest(&python);
    pytest.arg(sh::root().join(JAX_TESTS)).env("PJRT_CPU_PLUGIN", library).env_remove("PJRT_CPU_PACKAGE");
    sh::run(&mut pytest)
}
