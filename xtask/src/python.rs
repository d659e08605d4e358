//! Python environments, one for each supported version of JAX.

use std::fs;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use crate::{Error, sh};

/// A version of JAX, and the Python version of its requirements.
pub(crate) struct Jax {
    pub(crate) version: &'static str,
    python: &'static str,
}

/// The supported versions of JAX, from the oldest to the newest. The first and the last version are always tested.
pub(crate) const JAX: &[Jax] = &[
    Jax { version: "0.5.3", python: "3.11" },
    Jax { version: "0.7.2", python: "3.11" },
    Jax { version: "0.9.2", python: "3.11" },
    Jax { version: MAIN, python: "3.11" },
    Jax { version: "0.12.0.1", python: "3.12" },
];

/// The version of JAX whose environment also contains other tools for tests, such as `pypjrt`.
pub(crate) const MAIN: &str = "0.10.2";

/// Returns a command that runs pytest. The caller adds the paths of the tests.
pub(crate) fn pytest(python: &Path) -> Command {
    let mut pytest = Command::new(python);
    pytest.args(["-m", "pytest", "-q", "-rsfE", "-p", "no:cacheprovider"]).env("PYTHONDONTWRITEBYTECODE", "1");
    pytest
}

/// Returns a Python interpreter that can import PyTorch, NumPy and pytest. PyTorch's wheel takes several gigabytes on
/// Linux, so the tests use the packages of the system.
pub(crate) fn with_torch() -> Result<PathBuf, Error> {
    let candidates = ["python3", "/usr/bin/python3"];
    let imports = |python: &&&str| {
        let outcome = Command::new(python).args(["-c", "import torch, numpy, pytest"]).output();
        outcome.is_ok_and(|output| output.status.success())
    };
    let found = candidates.iter().find(imports);
    found.map(PathBuf::from).ok_or_else(|| {
        let names = candidates.join(" and ");
        format!(
            "{names} cannot import torch, numpy and pytest; on Debian, install python3-torch, python3-numpy and \
             python3-pytest"
        )
        .into()
    })
}

/// Returns the path of Python in an environment with torch_tpu.
pub(crate) fn torch_tpu() -> Result<PathBuf, Error> {
    let newest = JAX.last().ok_or("no version of JAX")?;
    newest.environment("target/venv-torch-tpu", &["tests/torch_tpu/requirements.txt"])
}

/// Returns the path of Python in an environment without JAX, which contains the packages in requirements files. Creates
/// the environment if needed.
pub(crate) fn tools(folder: &str, requirements: &[&str]) -> Result<PathBuf, Error> {
    let main = JAX.iter().find(|jax| jax.version == MAIN).ok_or("no such version of JAX")?;
    main.environment(folder, requirements)
}

impl Jax {
    /// Returns the path of the requirements file. The file contains the packages of the environment, and the hash of
    /// each package file for the Python version.
    fn requirements(&self) -> String {
        format!("tests/jax/requirements-{}.txt", self.version)
    }

    /// Returns the path of the environment's Python. Creates the environment if needed.
    pub(crate) fn python(&self) -> Result<PathBuf, Error> {
        self.environment(&format!("target/venv-jax-{}", self.version), &[&self.requirements()])
    }

    /// Creates a new environment with this version of JAX, and returns the path of its Python.
    pub(crate) fn new_python(&self, folder: &str) -> Result<PathBuf, Error> {
        sh::remove(&sh::root().join(folder))?;
        self.environment(folder, &[&self.requirements()])
    }

    /// Returns the path of Python in an environment that also contains the requirements of JAX's own tests.
    pub(crate) fn python_for_its_tests(&self) -> Result<PathBuf, Error> {
        let files = [self.requirements(), "xtask/jax_tests/requirements.txt".to_owned()];
        self.environment(&format!("target/venv-jax-tests-{}", self.version), &[&files[0], &files[1]])
    }

    /// Returns the path of Python in an environment that also contains third-party libraries.
    pub(crate) fn python_for_libraries(&self) -> Result<PathBuf, Error> {
        let files = [self.requirements(), "tests/third_party/requirements.txt".to_owned()];
        self.environment(&format!("target/venv-jax-libraries-{}", self.version), &[&files[0], &files[1]])
    }

    fn environment(&self, folder: &str, requirements: &[&str]) -> Result<PathBuf, Error> {
        // Several threads may need the same environment.
        static CREATING: Mutex<()> = Mutex::new(());
        let _creating = CREATING.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = sh::root().join(folder);
        let python = folder.join("bin/python");
        let done = folder.join(".requirements");
        let texts = requirements.iter().map(|file| fs::read_to_string(sh::root().join(file)));
        let wanted = texts.collect::<Result<String, _>>()?;
        if python.exists() && fs::read_to_string(&done).is_ok_and(|installed| installed == wanted) {
            return Ok(python);
        }
        let base = self.base()?;
        eprintln!("creating a Python environment from {}", requirements.join(" and "));
        sh::output(Command::new(base).args(["-m", "venv", "--clear"]).arg(&folder))?;
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--disable-pip-version-check", "--require-hashes"]);
        if !std::io::stderr().is_terminal() {
            pip.arg("--quiet");
        }
        for file in requirements {
            pip.arg("-r").arg(sh::root().join(file));
        }
        sh::shown(&mut pip)?;
        fs::write(&done, wanted)?;
        Ok(python)
    }

    /// Finds an interpreter of the required Python version on the path or in pyenv, which hides versions that are not
    /// selected.
    fn base(&self) -> Result<PathBuf, Error> {
        let mut candidates = vec![PathBuf::from(format!("python{}", self.python)), PathBuf::from("python3")];
        if let Ok(root) = sh::output(Command::new("pyenv").arg("root")) {
            let versions = fs::read_dir(PathBuf::from(root.trim()).join("versions"));
            let folders = versions.into_iter().flatten().flatten().map(|entry| entry.path());
            candidates.extend(folders.map(|folder| folder.join(format!("bin/python{}", self.python))));
        }
        for candidate in candidates {
            let mut version = Command::new(&candidate);
            version.args(["-c", "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"]);
            if sh::output(&mut version).is_ok_and(|version| version.trim() == self.python) {
                return Ok(candidate);
            }
        }
        Err(format!("no Python {} with the venv module; {} is for that version", self.python, self.requirements())
            .into())
    }
}
