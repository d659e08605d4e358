//! Builds and runs programs that use libdevice_plugin.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::c_library::Installed;
use crate::report::Report;
use crate::{Error, sh};

/// Where programs run: a folder for their files, and the plugins that they find.
pub(super) struct Home {
    pub(super) folder: PathBuf,
    /// The value of `PJRT_NAMES_AND_LIBRARY_PATHS`.
    pub(super) plugins: String,
}

/// Counts a test, and prints its name.
pub(super) fn check(report: &mut Report, name: &str, outcome: Result<(), Error>) {
    println!("C: {name} ... {}", if outcome.is_ok() { "ok" } else { "FAILED" });
    report.count(name, outcome);
}

/// Returns whether a program is installed.
pub(super) fn present(tool: &str) -> bool {
    Command::new(tool).arg("--version").output().is_ok_and(|out| out.status.success())
}

/// Checks that an output contains a text.
pub(super) fn expect(said: &str, part: &str) -> Result<(), Error> {
    if said.contains(part) { Ok(()) } else { Err(format!("expected {part:?} in:\n{said}").into()) }
}

/// Creates a command that does not read or write the user's files.
pub(super) fn clean(program: &Path, home: &Home) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("HOME", &home.folder).env("PJRT_REGISTRY_LOCK_DIR", &home.folder);
    command.env("PJRT_NAMES_AND_LIBRARY_PATHS", &home.plugins);
    command
}

/// Builds a CMake project with an installed library.
pub(super) fn cmake(source: &Path, build: &Path, library: &Installed, options: &[(&str, &OsStr)]) -> Result<(), Error> {
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(source).arg("-B").arg(build);
    for (name, value) in [("CMAKE_PREFIX_PATH", library.prefix.as_os_str())].iter().chain(options) {
        let mut option = std::ffi::OsString::from(format!("-D{name}="));
        option.push(value);
        configure.arg(option);
    }
    sh::output(&mut configure)?;
    sh::output(Command::new("cmake").arg("--build").arg(build).args(["--parallel", "2"]))?;
    Ok(())
}

/// Builds an example under sanitizers, whose names may be empty.
pub(super) fn example(name: &str, build: &Path, library: &Installed, sanitizers: &str) -> Result<(), Error> {
    let flags = if sanitizers.is_empty() {
        String::new()
    } else {
        format!("-fsanitize={sanitizers} -fno-sanitize-recover=all")
    };
    let options = [("CMAKE_C_FLAGS", OsStr::new(&flags)), ("CMAKE_CXX_FLAGS", OsStr::new(&flags))];
    cmake(&sh::root().join("examples").join(name), build, library, &options)
}

/// Returns the flags with which pkg-config lets a program use the library.
pub(super) fn flags(library: &Installed, is_static: bool) -> Result<Vec<String>, Error> {
    let mut pkg_config = Command::new("pkg-config");
    pkg_config.env("PKG_CONFIG_PATH", library.prefix.join("lib/pkgconfig")).args(["--cflags", "--libs"]);
    let said = sh::output(pkg_config.arg(if is_static { "device_plugin-static" } else { "device_plugin" }))?;
    Ok(said.split_whitespace().map(str::to_owned).collect())
}
