//! `cargo xtask mutants`: runs the conformance suite against deliberately broken plugins.

use std::process::Command;

use crate::workspace::Workspace;
use crate::{Error, sh};

/// Builds and runs `testing/pjrt-mutants`.
pub(crate) fn run(args: &[&str]) -> Result<(), Error> {
    let program = Workspace::build()?.command("pjrt-mutants");
    sh::run(Command::new(program).args(args))
}
