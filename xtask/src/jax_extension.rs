//! Builds and tests the Python module in `examples/jax-extension`.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::python::{JAX, pytest};
use crate::workspace::Example;
use crate::{Error, sh};

/// The module, built for the newest version of JAX, because older ones hide their clients.
pub(crate) struct Extension {
    python: PathBuf,
    example: Example,
}

impl Extension {
    /// Installs JAX.
    pub(crate) fn prepare() -> Result<Self, Error> {
        let python = JAX.last().ok_or("no version of JAX")?.python()?;
        // The build shares the compiled crates of the workspace.
        Ok(Self { python, example: Example { name: "jax-extension", target: sh::target() } })
    }

    /// Checks the sources and builds the module.
    pub(crate) fn build(&self) -> Result<(), Error> {
        self.example.format()?;
        let mut clippy = self.example.cargo("clippy");
        sh::run(clippy.args(["--quiet", "--", "--deny", "warnings"]).env("PYO3_PYTHON", &self.python))?;
        sh::run(self.example.cargo("build").arg("--quiet").env("PYO3_PYTHON", &self.python))
    }

    /// Returns the tests of the module on a plugin. `older` is a plugin that the module refuses, if there is one.
    pub(crate) fn tests(&self, library: &Path, older: Option<&Path>) -> Command {
        let mut pytest = pytest(&self.python);
        pytest.arg(self.example.folder().join("tests"));
        pytest.env("JAX_EXTENSION", self.example.target.join(format!("debug/{DLL_PREFIX}jax_pjrt{DLL_SUFFIX}")));
        // JAX reads the results on its own CPU device.
        pytest.env("JAX_PLATFORMS", "plugin,cpu");
        pytest.env("PJRT_NAMES_AND_LIBRARY_PATHS", format!("plugin:{}", library.display()));
        if let Some(older) = older {
            pytest.env("OLDER_PLUGIN", older);
        }
        pytest
    }
}
