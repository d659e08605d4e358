//! `cargo xtask vendor`: checks the plugin that `pjrt new` creates. The plugin's `ci.sh` builds, tests and packages the
//! plugin, and runs it with JAX. The size of its library and the number of its dependencies must stay within limits.
//! The plugin of `pjrt new --driver` and its tests must compile.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::workspace::Workspace;
use crate::{Error, sh};

/// Name of the plugin. Package names replace its underscore by a hyphen.
const NAME: &str = "acme_npu";
/// Name of the plugin of `pjrt new --driver`.
const DRIVER: &str = "acme_gpu";
/// Maximum size of the library, in bytes. The reader of portable artifacts, this SDK, unwind tables, and the backtraces
/// of Rust's standard library take about 15 % each.
const MAX_SIZE: u64 = 1_000_000;
/// Maximum number of crates in the library's dependency tree, including those of the SDK and build dependencies.
///
/// Seven crates are the SDK's own. The types for half-precision and complex numbers add nine, `prost` for compile
/// options six, the manifest twelve, derived errors and macros seven, `tracing` four, and reading and writing programs
/// one each. They belong to the SDK's interface or implement a documented format, so the SDK cannot omit them.
const MAX_CRATES: usize = 47;

/// A new project and its target folder.
struct Project {
    folder: PathBuf,
    build: PathBuf,
}

impl Project {
    /// Creates a project with `pjrt new`. Starts with a copy of this repository's lock file, so that other crates have
    /// the same versions.
    fn new(pjrt: &Path, name: &str, options: &[&str]) -> Result<Self, Error> {
        let root = sh::target().join("vendor");
        let project = Self { folder: root.join(name), build: root.join("build") };
        sh::remove(&project.folder)?;
        fs::create_dir_all(&root)?;
        sh::run(Command::new(pjrt).args(["new", name]).args(options).arg("--output").arg(&project.folder))?;
        fs::copy(sh::root().join("Cargo.lock"), project.folder.join("Cargo.lock"))?;
        sh::run(&mut project.cargo(&["fetch", "--quiet"]))?;
        // Write the configuration to a folder above the project. Cargo reads it there, too, and the project stays
        // unchanged.
        fs::create_dir_all(root.join(".cargo"))?;
        fs::write(root.join(".cargo/config.toml"), settings(&source_folders()?)?)?;
        Ok(project)
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.folder).env("CARGO_TARGET_DIR", &self.build);
        // Debug information takes time, and several times the space of everything else.
        command.env("CARGO_PROFILE_DEV_DEBUG", "false");
        // Flags from the environment would replace those of the project.
        for flags in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_RUSTFLAGS"] {
            command.env_remove(flags);
        }
        command
    }

    fn cargo(&self, args: &[&str]) -> Command {
        let mut cargo = self.command(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(args);
        cargo
    }

    /// Checks the size of the library and the number of its crates, and that the library contains no path of a source
    /// folder.
    fn check_size(&self) -> Result<(), Error> {
        let name = format!("{}pjrt_plugin_{NAME}{}", env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX);
        let library = fs::read(self.build.join("release").join(name))?;
        for (folder, _) in source_folders()? {
            without(&library, &folder)?;
        }
        let size = library.len() as u64;
        let tree = sh::output(&mut self.cargo(&["tree", "--edges=normal,build", "--prefix=none", "--format={p}"]))?;
        let crates: BTreeSet<_> = tree.lines().filter_map(|line| line.split(" (").next()).collect();
        println!("library: {size} bytes of at most {MAX_SIZE}; crates: {} of at most {MAX_CRATES}", crates.len());
        within(size, crates.len())
    }
}

/// Returns the folders with the library's sources, each with the name that replaces it in panic messages. If several
/// folders contain a source file, the last one applies.
fn source_folders() -> Result<Vec<(PathBuf, &'static str)>, Error> {
    let sources = sh::cargo_home()?.join("registry/src");
    let mut folders = vec![(sh::root(), "/sdk")];
    // One folder for each registry, because the mirrors of a registry have folders of their own.
    for entry in fs::read_dir(&sources).map_err(|error| format!("{}: {error}", sources.display()))? {
        folders.push((entry?.path(), "/crates"));
    }
    Ok(folders)
}

/// Returns a cargo configuration that renames the folders in a library's paths, so that the library's size does not
/// depend on the location of the folders.
fn settings(folders: &[(PathBuf, &str)]) -> Result<String, Error> {
    let flags = folders.iter().map(|(folder, name)| {
        let folder = folder.to_str().filter(|folder| !folder.contains('\''));
        let folder = folder.ok_or("a folder's path has a quotation mark or is not UTF-8: move it")?;
        Ok(format!("    '--remap-path-prefix={folder}={name}',\n"))
    });
    Ok(format!("[build]\nrustflags = [\n{}]\n", flags.collect::<Result<String, Error>>()?))
}

/// Checks that a library does not contain the path of a folder.
fn without(library: &[u8], folder: &Path) -> Result<(), Error> {
    let path = folder.as_os_str().as_encoded_bytes();
    if library.windows(path.len()).any(|bytes| bytes == path) {
        return Err(format!("the library contains the path {}, so its size depends on it", folder.display()).into());
    }
    Ok(())
}

/// Checks that a library and its dependency tree are small enough.
fn within(size: u64, crates: usize) -> Result<(), Error> {
    if size > MAX_SIZE {
        return Err(format!("the smallest plugin's library has {size} bytes, more than {MAX_SIZE}").into());
    }
    if crates > MAX_CRATES {
        return Err(format!("the smallest plugin is built from {crates} crates, more than {MAX_CRATES}").into());
    }
    Ok(())
}

/// Checks that a new plugin passes its own CI and is small enough. `shows` decides whether a line of the output is
/// printed.
pub(crate) fn run(python: Option<&Path>, shows: impl FnMut(&str) -> bool) -> Result<(), Error> {
    let pjrt = Workspace::build()?.command("pjrt");
    let project = Project::new(&pjrt, NAME, &[])?;
    let mut ci = project.command("bash");
    ci.arg("ci.sh").env("PJRT", &pjrt);
    // Without JAX, `ci.sh` prints the skipped checks.
    ci.env("PYTHON", python.unwrap_or(Path::new("python3"))).env("PYTHONDONTWRITEBYTECODE", "1");
    sh::run_filtered(&mut ci, shows)?;
    project.check_size()?;
    // The tests of the example run on OpenCL devices.
    let driver = Project::new(&pjrt, DRIVER, &["--driver"])?;
    sh::run(&mut driver.cargo(&["check", "--quiet", "--all-targets"]))
}

/// Builds the library of a new plugin from scratch, prints the build times, and prints and checks the library's size
/// and its number of crates.
pub(crate) fn size() -> Result<(), Error> {
    let project = Project::new(&Workspace::build()?.command("pjrt"), NAME, &[])?;
    sh::remove(&project.build)?;
    for (what, args) in [("debug", &["build", "--quiet"][..]), ("release", &["build", "--quiet", "--release"])] {
        let start = Instant::now();
        sh::run(&mut project.cargo(args))?;
        let cores = std::thread::available_parallelism()?;
        println!("clean {what} build: {:.1} s on {cores} cores", start.elapsed().as_secs_f64());
    }
    project.check_size()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_in_the_library_are_found() {
        assert!(without(b"at /sdk/crates/x.rs", Path::new("/home/me")).is_ok());
        assert!(
            without(b"at /home/me/crates/x.rs", Path::new("/home/me")).unwrap_err().to_string().contains("/home/me")
        );
    }

    #[test]
    fn each_folder_is_renamed() {
        let folders =
            [(PathBuf::from("/home/me"), "/sdk"), (PathBuf::from("/home/me/.cargo/registry/src/x"), "/crates")];
        let text = settings(&folders).unwrap();
        let first = text.find("'--remap-path-prefix=/home/me=/sdk'").unwrap();
        assert!(text.find("'--remap-path-prefix=/home/me/.cargo/registry/src/x=/crates'").unwrap() > first, "{text}");
        assert!(settings(&[(PathBuf::from("/it's"), "/sdk")]).is_err());
    }

    #[test]
    fn bounds_can_be_broken() {
        assert!(within(MAX_SIZE, MAX_CRATES).is_ok());
        assert!(within(MAX_SIZE + 1, MAX_CRATES).unwrap_err().to_string().contains("library"));
        assert!(within(0, MAX_CRATES + 1).unwrap_err().to_string().contains("crates"));
    }
}
