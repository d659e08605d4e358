//! The debug build of the workspace. Other steps use its commands, libraries and examples.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX, EXE_SUFFIX};
use std::path::PathBuf;
use std::process::Command;

use crate::{Error, sh};

/// The programs and libraries of the workspace in the debug profile.
#[derive(Clone, Copy)]
pub(crate) struct Workspace(());

impl Workspace {
    /// Builds all libraries, commands and examples.
    ///
    /// The selection contains examples, so that cargo enables the features of dependencies that the tests need. A build
    /// of one package (`-p`) would compile these dependencies again, with other features.
    pub(crate) fn build() -> Result<Self, Error> {
        sh::run(sh::cargo().args([
            "build",
            "--quiet",
            "--workspace",
            "--features",
            "pjrt-cli/full",
            "--lib",
            "--bins",
            "--examples",
        ]))?;
        Ok(Self(()))
    }

    /// Returns the path of a command.
    pub(crate) fn command(self, name: &str) -> PathBuf {
        debug().join(format!("{name}{EXE_SUFFIX}"))
    }

    /// Returns the path of a shared library.
    pub(crate) fn library(self, name: &str) -> PathBuf {
        debug().join(format!("{DLL_PREFIX}{name}{DLL_SUFFIX}"))
    }

    /// Returns the path of an example that is a program.
    pub(crate) fn example(self, name: &str) -> PathBuf {
        debug().join("examples").join(format!("{name}{EXE_SUFFIX}"))
    }

    /// Returns the path of an example that is a shared library.
    pub(crate) fn example_library(self, name: &str) -> PathBuf {
        debug().join("examples").join(format!("{DLL_PREFIX}{name}{DLL_SUFFIX}"))
    }
}

/// Builds the embedded device's plugin in the release profile, with these options of Cargo. Returns the library's path.
pub(crate) fn release_cpu(options: &[&str]) -> Result<PathBuf, Error> {
    sh::run(sh::cargo().args(["build", "--quiet", "--release", "-p", "pjrt-cpu-plugin"]).args(options))?;
    Ok(sh::target().join("release").join(format!("{DLL_PREFIX}pjrt_plugin_cpu{DLL_SUFFIX}")))
}

/// An example that is a workspace of its own, so that builds of the SDK do not include its dependencies.
pub(crate) struct Example {
    /// The name of the folder in `examples`.
    pub(crate) name: &'static str,
    /// The folder of the build's files.
    pub(crate) target: PathBuf,
}

impl Example {
    /// Returns a command that runs a task of Cargo. It fails if the lock file is not up to date.
    pub(crate) fn cargo(&self, task: &str) -> Command {
        let mut cargo = sh::cargo();
        cargo.current_dir(self.folder()).env("CARGO_TARGET_DIR", &self.target);
        cargo.args([task, "--locked"]);
        cargo
    }

    /// Checks the format of the sources.
    pub(crate) fn format(&self) -> Result<(), Error> {
        sh::run(sh::cargo().current_dir(self.folder()).args(["fmt", "--all", "--check"]))
    }

    pub(crate) fn folder(&self) -> PathBuf {
        sh::root().join("examples").join(self.name)
    }
}

fn debug() -> PathBuf {
    sh::target().join("debug")
}
