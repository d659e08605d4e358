//! Python environments with a given JAX, for the tests that let JAX drive our plugins.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::{Error, sh};

/// Packages of the environment, each with the hash of its file; the files are those for this Python.
const REQUIREMENTS: &str = "tests/jax/requirements.txt";
const PYTHON: &str = "3.11";

/// The environment's Python, created first where needed.
pub(crate) fn jax() -> Result<PathBuf, Error> {
    let folder = sh::root().join("target/venv-jax-0.10.2");
    let python = folder.join("bin/python");
    let done = folder.join(".requirements");
    let requirements = sh::root().join(REQUIREMENTS);
    let wanted = fs::read_to_string(&requirements)?;
    if fs::read_to_string(&done).is_ok_and(|installed| installed == wanted) {
        return Ok(python);
    }
    let base = base()?;
    eprintln!("creating a Python environment from {REQUIREMENTS}");
    sh::output(Command::new(base).args(["-m", "venv", "--clear"]).arg(&folder))?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "-r"]);
    sh::output(pip.arg(&requirements))?;
    fs::write(&done, wanted)?;
    Ok(python)
}

/// An interpreter of the version the requirements were made for.
fn base() -> Result<String, Error> {
    for name in [format!("python{PYTHON}"), "python3".to_owned()] {
        let mut version = Command::new(&name);
        version.args(["-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])"]);
        if sh::output(&mut version).is_ok_and(|version| version.trim() == PYTHON) {
            return Ok(name);
        }
    }
    Err(format!("no Python {PYTHON} with the venv module; {REQUIREMENTS} is for that version").into())
}
