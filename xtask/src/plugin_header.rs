//! The second step of `cargo xtask header`: writes the C header of the CPU plugin with `pjrt header`.

use std::process::Command;

use crate::workspace::Workspace;
use crate::{Error, sh};

const HEADER: &str = "cpu/pjrt-cpu-plugin/include/pjrt_cpu_plugin.h";

pub(crate) fn run(check: bool) -> Result<(), Error> {
    let workspace = Workspace::build()?;
    let mut pjrt = Command::new(workspace.command("pjrt"));
    pjrt.current_dir(sh::root()).args(["header", "--output", HEADER]);
    pjrt.arg("--library").arg(workspace.library("pjrt_plugin_cpu"));
    if check {
        pjrt.arg("--check");
    }
    sh::run(&mut pjrt)
}
