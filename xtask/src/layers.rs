//! `cargo xtask layers`: runs the conformance suite with layers in front of the embedded CPU device, and in front of
//! XLA's CPU plugins.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::package::PLUGINS;
use crate::workspace::Workspace;
use crate::{Error, sh};

/// Areas of the suite whose cases must not break any rule of `validate`. The area `abi` is omitted because its cases
/// break rules on purpose. The area `leaks` is omitted because its cases measure the memory of the process, and
/// `validate` stores facts about destroyed objects.
const AREAS: [&str; 18] = [
    "buffers",
    "client",
    "collectives",
    "data",
    "devices",
    "events",
    "executables",
    "extensions",
    "formats",
    "limits",
    "memories",
    "numerics",
    "process",
    "program",
    "teardown",
    "threads",
    "topology",
    "transfers",
];
/// The area whose cases pass wrong arguments on purpose. A plugin must answer with an error.
const ERRORS: [&str; 1] = ["errors"];
/// The rules of `validate` that cases of the area `errors` break.
const BROKEN_BY_ERRORS: [&str; 2] = ["execute.wrong-argument-count", "execute.wrong-shape"];
/// The areas that run with the layers `fault` and `override`, which delay and change calls.
const FEW_AREAS: [&str; 2] = ["program", "transfers"];

/// Runs the suite on the embedded device with each selection of layers, and on XLA's plugins with `trace`, `validate`
/// and `compat`.
pub(crate) fn run() -> Result<(), Error> {
    let workspace = Workspace::build()?;
    let embedded = workspace.library("pjrt_plugin_cpu");
    let run = |layers, areas: &[&str], plugin: &Path, expectations| {
        Run { workspace, layers, areas, plugin, expectations }.run()
    };
    run("trace,validate,compat", &AREAS, &embedded, "embedded-cpu.toml")?;
    run("trace,validate,compat", &ERRORS, &embedded, "embedded-cpu.toml")?;
    run("fault,override", &FEW_AREAS, &embedded, "embedded-cpu.toml")?;
    for plugin in PLUGINS {
        match plugin.path() {
            Ok(path) => {
                run("trace,validate,compat", &AREAS, &path, "xla-cpu.toml")?;
                run("trace,validate,compat", &ERRORS, &path, "xla-cpu.toml")?;
            }
            Err(error) => println!("SKIPPED layers on XLA CPU {}: {}", plugin.api, sh::reason(&error)),
        }
    }
    Ok(())
}

/// A run of the suite on one plugin with one selection of layers.
struct Run<'a> {
    workspace: Workspace,
    layers: &'a str,
    areas: &'a [&'a str],
    plugin: &'a Path,
    /// Name of the file with the expected outcomes.
    expectations: &'a str,
}

impl Run<'_> {
    fn run(&self) -> Result<(), Error> {
        println!("\n{} in front of {}", self.layers, self.plugin.display());
        let output = sh::target().join("layers");
        sh::remove(&output)?;
        let mut pjrt = Command::new(self.workspace.command("pjrt"));
        pjrt.current_dir(sh::root()).arg("conform").arg(self.workspace.library("pjrt_layers_plugin"));
        pjrt.args(["--jobs", "2", "--expectations"]);
        pjrt.arg(Path::new("tools/pjrt-conformance/expectations").join(self.expectations));
        if self.expectations == "embedded-cpu.toml" {
            pjrt.args(["--option", "device_count=4"]);
        }
        for area in self.areas {
            pjrt.arg("--filter").arg(format!("{area}.*"));
        }
        pjrt.env("PJRT_LAYERS", self.layers).env("PJRT_LAYERS_PLUGIN", self.plugin);
        pjrt.env("PJRT_LAYERS_OUTPUT", &output).env("PJRT_LAYERS_TRACE_CALLS", "1000");
        pjrt.env("PJRT_LAYERS_FAULT", "* delay=1us");
        sh::run(&mut pjrt)?;
        let broken: &[&str] = if self.areas == ERRORS { &BROKEN_BY_ERRORS } else { &[] };
        if self.layers.contains("validate") { reports(&output, broken) } else { Ok(()) }
    }
}

/// Returns an error if `validate` reported a violation of a rule that is not in `broken`, or if it wrote no file.
fn reports(folder: &Path, broken: &[&str]) -> Result<(), Error> {
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("validate-")) {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(format!("the layer `validate` wrote no file to {}", folder.display()).into());
    }
    for file in files {
        let text = fs::read_to_string(&file)?;
        let mut rules = text.lines().filter_map(|line| Some(line.strip_prefix('[')?.split_once(']')?.0));
        if rules.any(|rule| !broken.contains(&rule)) {
            return Err(format!("the layer `validate` reported in {}:\n{text}", file.display()).into());
        }
    }
    Ok(())
}
