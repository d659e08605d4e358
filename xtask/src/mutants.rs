//! `cargo xtask mutants`: runs the conformance suite against deliberately broken plugins.

use std::process::Command;

use crate::{Error, sh};

/// Builds and runs `crates/pjrt-mutants`. The build selects the whole workspace, so that it shares its dependencies with
/// the tests.
pub(crate) fn run(args: &[&str]) -> Result<(), Error> {
    sh::run(sh::cargo().args(["build", "--quiet", "--workspace", "--bin", "pjrt-mutants"]))?;
    let program = sh::target().join(format!("debug/pjrt-mutants{}", std::env::consts::EXE_SUFFIX));
    sh::run(Command::new(program).args(args))
}
