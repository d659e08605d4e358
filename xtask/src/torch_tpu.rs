//! `cargo xtask torch-tpu`: runs PyTorch on plugins through torch_tpu. Not part of the tests, because its packages take
//! 7 GB.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::workspace::{Workspace, release_cpu};
use crate::{Error, python, sh};

/// The folder of the tests, relative to the root of the repository.
const TESTS: &str = "tests/torch_tpu";

/// Parses the arguments and runs the task.
pub(crate) fn run(args: &[&str]) -> Result<(), Error> {
    let (mut plugin, mut train, mut ops) = (None, false, Vec::new());
    let mut args = args.iter();
    while let Some(&arg) = args.next() {
        match arg {
            "--plugin" => plugin = Some(PathBuf::from(args.next().ok_or("--plugin needs the path of a library")?)),
            "--train" => train = true,
            option if option.starts_with("--") => {
                return Err(format!("torch-tpu: unknown argument {option}; see `cargo xtask`").into());
            }
            op => ops.push(op),
        }
    }
    if train && !ops.is_empty() {
        return Err("torch-tpu: --train takes no operations".into());
    }
    let python = python::torch_tpu()?;
    let name = install(&python, plugin.as_deref())?;
    let mut command = Command::new(&python);
    command.env("PJRT_DEVICE", &name).env("PYTHONWARNINGS", "ignore").env("PYTHONDONTWRITEBYTECODE", "1");
    let tests = sh::root().join(TESTS);
    if train {
        return sh::run(command.arg(tests.join("train.py")));
    }
    let report = sh::target().join(format!("torch-tpu-{name}.json"));
    sh::run(command.arg(tests.join("op_db.py")).arg(&report).args(ops))?;
    println!("the result of each operation: {}", report.display());
    Ok(())
}

/// Installs the wheel of a plugin, by default of the embedded CPU device. Returns the name of the plugin.
fn install(python: &Path, plugin: Option<&Path>) -> Result<String, Error> {
    let workspace = Workspace::build()?;
    let wheels = sh::target().join("torch-tpu-wheels");
    sh::remove(&wheels)?;
    let mut package = Command::new(workspace.command("pjrt"));
    package.args(["package", "--no-jax", "--output"]).arg(&wheels);
    let name = match plugin {
        // Plugins of other vendors may speak another version of the interface, and reject unknown options.
        Some(library) => {
            package.args(["--name", "other", "--version", "1", "--compat", "--library"]).arg(library);
            package.arg("--layers-library").arg(workspace.library("pjrt_layers_plugin"));
            "other"
        }
        None => {
            package.arg("--library").arg(release_cpu(&[])?);
            "pjrt_cpu"
        }
    };
    sh::run(&mut package)?;
    let wheel = std::fs::read_dir(&wheels)?.next().ok_or("`pjrt package` wrote no wheel")??.path();
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--force-reinstall"]).arg(wheel);
    sh::run(&mut pip)?;
    Ok(name.to_owned())
}
