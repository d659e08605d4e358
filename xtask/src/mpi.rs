//! `cargo xtask mpi`: builds the transport over MPI and runs its tests. Other builds omit this transport, because it
//! needs an installed MPI and libclang.

use std::process::{Command, Stdio};

use crate::{Error, sh};

/// Arguments of `cargo test` that select the packages with a transport over MPI, and their tests of this transport.
const TESTS: &[&[&str]] = &[&["-p", "process-transport-mpi"], &["-p", "pjrt-cpu", "--test", "mpi"]];

/// Builds and tests the packages with the feature `mpi`.
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
    Ok(())
}
