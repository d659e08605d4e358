//! The second part of `cargo xtask header`: the C header of the CPU plugin, as `pjrt header` writes it.

use crate::{Error, sh};

const HEADER: &str = "crates/pjrt-cpu-plugin/include/pjrt_cpu_plugin.h";

pub(crate) fn run(check: bool) -> Result<(), Error> {
    sh::run(sh::cargo().args(["build", "--quiet", "-p", "pjrt-cpu-plugin"]))?;
    let library = sh::target().join(format!(
        "debug/{}pjrt_plugin_cpu{}",
        std::env::consts::DLL_PREFIX,
        std::env::consts::DLL_SUFFIX
    ));
    let mut pjrt = sh::cargo();
    pjrt.args(["run", "--quiet", "-p", "pjrt-cli", "--", "header", "--output", HEADER]);
    pjrt.arg("--library").arg(library);
    if check {
        pjrt.arg("--check");
    }
    sh::run(&mut pjrt)
}
