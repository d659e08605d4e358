//! `cargo xtask plugin-header`: the C header of the CPU plugin, as `pjrt header` writes it.

use std::path::PathBuf;
use std::process::Command;

use crate::{Error, sh};

const HEADER: &str = "crates/pjrt-cpu-plugin/include/pjrt_cpu_plugin.h";

pub(crate) fn run(check: bool) -> Result<(), Error> {
    sh::run(cargo().args(["build", "--quiet", "-p", "pjrt-cpu-plugin"]))?;
    let library =
        target().join(format!("debug/{}pjrt_plugin_cpu{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX));
    let mut pjrt = cargo();
    pjrt.args(["run", "--quiet", "-p", "pjrt-cli", "--", "header", "--name", "pjrt_cpu", "--output", HEADER]);
    pjrt.arg("--library").arg(library);
    if check {
        pjrt.arg("--check");
    }
    sh::run(&mut pjrt)
}

fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(sh::root());
    cargo
}

/// Cargo's target folder.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| sh::root().join("target"), PathBuf::from)
}
