//! `cargo xtask dist`: builds the files that a release publishes, and tests those that run on this machine.
//!
//! Each platform gets a wheel of the command `pjrt` and a wheel of the embedded CPU device. Linux on x86-64 also gets a
//! static command and the tarball of the C library. Zig links for old systems and for other platforms. Each file
//! contains its bill of materials and the licenses of its crates.

mod materials;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::c::packages::{needs_only_glibc, no_build_path, test_tarball, with_tools};
use crate::c_library::{self, Installed};
use crate::report::Report;
use crate::workspace::Workspace;
use crate::{Error, python, sh};
use materials::Materials;

/// The oldest glibc on which the files for Linux work.
const GLIBC: &str = "2.28";

/// The target of the static command.
const STATIC: &str = "x86_64-unknown-linux-musl";

/// The version of all files.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The package of the command.
const COMMAND: &str = "pjrt-cli";

/// The features of the command. Cargo ignores the form `PACKAGE/FEATURE` if packages are selected.
const FEATURES: &str = "full,jit";

/// The files with licenses.
const LICENSES: [&str; 4] = ["THIRD-PARTY-LICENSES", LIBRARY, "LICENSE-APACHE", "LICENSE-MIT"];

/// The licenses of Rust's standard library, a file of the Rust distribution.
const LIBRARY: &str = "COPYRIGHT-library.html";

/// The package of the embedded CPU device.
const DEVICE: &str = "pjrt-cpu-plugin";

struct Platform {
    name: &'static str,
    target: &'static str,
    /// The platform tag of wheels.
    tag: &'static str,
}

const PLATFORMS: [Platform; 3] = [
    Platform { name: "linux-x86_64", target: "x86_64-unknown-linux-gnu", tag: "manylinux_2_28_x86_64" },
    Platform { name: "linux-aarch64", target: "aarch64-unknown-linux-gnu", tag: "manylinux_2_28_aarch64" },
    Platform { name: "windows-x86_64", target: "x86_64-pc-windows-gnu", tag: "win_amd64" },
];

impl Platform {
    fn is_linux(&self) -> bool {
        self.target.ends_with("linux-gnu")
    }

    /// Whether the files run on the machine on which the task runs.
    fn runs_here(&self) -> bool {
        self.name == "linux-x86_64"
    }

    /// Returns the file name of a library.
    fn library(&self, name: &str) -> String {
        if self.is_linux() { format!("lib{name}.so") } else { format!("{name}.dll") }
    }

    /// Returns the file name of a program.
    fn program(&self, name: &str) -> String {
        if self.is_linux() { name.to_owned() } else { format!("{name}.exe") }
    }
}

/// The tools of a run, and where it writes.
struct Dist {
    /// Python of the environment with the tools.
    tools: PathBuf,
    /// The folder of the files.
    folder: PathBuf,
    /// A folder for files that are not published.
    work: PathBuf,
    /// The manifest of the embedded CPU device.
    manifest: PathBuf,
    workspace: Workspace,
    /// The time of the commit, in seconds since 1970. It is the time of all files in archives.
    epoch: String,
}

/// Builds the files for the named platforms, or for all.
pub(crate) fn run(names: &[&str]) -> Result<(), Error> {
    let known = PLATFORMS.map(|platform| platform.name);
    if let Some(name) = names.iter().find(|name| !known.contains(name)) {
        return Err(format!("dist: unknown platform {name}; write {}", known.join(", ")).into());
    }
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err("dist runs on Linux on x86-64".into());
    }
    if VERSION.contains(['-', '+']) {
        return Err(format!("dist: {VERSION} is no version for wheels; it has the form X.Y.Z").into());
    }
    // Fails if the lock file is not up to date.
    sh::output(sh::cargo().args(["metadata", "--locked", "--format-version", "1"]))?;
    let git = |args: &[&str]| sh::output(Command::new("git").current_dir(sh::root()).args(args));
    let commit = git(&["describe", "--always", "--dirty", "--tags"])?;
    let epoch = git(&["log", "-1", "--format=%ct"])?.trim().to_owned();
    let compiler = sh::output(Command::new("rustc").arg("-vV"))?;
    println!("building {VERSION} from {commit}");
    let workspace = Workspace::build()?;
    let work = sh::empty_folder(sh::target().join("dist-work"))?;
    let manifest = work.join("pjrt_plugin.json");
    fs::write(&manifest, c_library::manifest(&workspace.library("pjrt_plugin_cpu"))?.to_string())?;
    let tools = python::tools("target/venv-dist", &["packaging/requirements.txt"])?;
    // Not `dist`, where Cargo keeps the files of the profile.
    let folder = sh::empty_folder(sh::target().join("published"))?;
    let dist = Dist { tools, folder, work, manifest, workspace, epoch };
    let mut report = Report::default();
    for platform in PLATFORMS.iter().filter(|platform| names.is_empty() || names.contains(&platform.name)) {
        println!("building for {}, which takes several minutes", platform.name);
        dist.platform(platform, &mut report)?;
    }
    let folder = dist.folder;
    if report.failed > 0 || !report.broken.is_empty() {
        println!("{} has no SHA256SUMS, because a test failed", folder.display());
    } else {
        fs::write(folder.join("BUILT-FROM"), format!("{commit}{compiler}"))?;
        write_hashes(&folder)?;
    }
    report.close()
}

impl Dist {
    fn platform(&self, platform: &Platform, report: &mut Report) -> Result<(), Error> {
        let glibc = if platform.is_linux() { format!(".{GLIBC}") } else { String::new() };
        let built = self.build(platform.target, &glibc, &[COMMAND, DEVICE])?;
        let wheels = [self.command_wheel(platform, &built)?, self.device_wheel(platform, &built)?];
        for wheel in &wheels {
            let content = self.unpacked(wheel)?;
            report.count(&format!("no build folder in {}", wheel.display()), no_build_path(&content, |_| true));
        }
        let files = [platform.program("pjrt"), platform.library("pjrt_plugin_cpu")];
        for file in files.map(|file| built.join(file)) {
            let outcome = if platform.is_linux() { needs_only_glibc(&file) } else { needs_only_windows(&file) };
            report.count(&format!("libraries that {} needs", file.display()), outcome);
        }
        if !platform.runs_here() {
            report.skip(format!("tests of the wheels for {}, which do not run here", platform.name));
            return Ok(());
        }
        report.count("wheels in a new environment", self.test_wheels(&wheels));
        let command = self.static_command()?;
        report.count("static command", self.test_static(&command));
        let library = self.c_library(platform)?;
        test_tarball(report, &library)
    }

    /// Returns a command that runs a tool. The files that it builds contain no paths of this machine, and `pjrt new`
    /// uses published crates.
    fn tool(&self, name: &str) -> Result<Command, Error> {
        let mut tool = Command::new(self.tools.with_file_name(name));
        tool.current_dir(sh::root()).env("PJRT_RELEASE", "1").env("SOURCE_DATE_EPOCH", &self.epoch);
        c_library::without_build_paths(&mut tool)?;
        with_tools(&mut tool, &self.tools)?;
        Ok(tool)
    }

    /// Builds packages with Zig, and returns the folder of the results. `version` is that of glibc, after a dot.
    fn build(&self, target: &str, version: &str, packages: &[&str]) -> Result<PathBuf, Error> {
        sh::run(Command::new("rustup").args(["target", "add", target]))?;
        let mut build = self.tool("cargo-zigbuild")?;
        build.args(["build", "--quiet", "--locked", "--profile", "dist", "--features", FEATURES]);
        build.args(["--target", &format!("{target}{version}")]);
        sh::run(build.args(packages.iter().flat_map(|package| ["--package", package])))?;
        Ok(sh::target().join(target).join("dist"))
    }

    /// Writes the licenses of a file with these packages to the folder `licenses`, and its bill of materials to the
    /// folder `sboms`.
    fn describe(
        &self,
        folder: &Path,
        file: &str,
        packages: &[&str],
        features: &str,
        target: &str,
    ) -> Result<(), Error> {
        let (licenses, sboms) = (folder.join("licenses"), folder.join("sboms"));
        fs::create_dir_all(&licenses)?;
        fs::create_dir_all(&sboms)?;
        let materials = Materials::of(packages, features, target)?;
        fs::write(sboms.join(format!("{file}.cdx.json")), format!("{:#}\n", materials.bill(file)?))?;
        fs::write(licenses.join(LICENSES[0]), materials.licenses()?)?;
        let sysroot = sh::output(Command::new("rustc").args(["--print", "sysroot"]))?;
        let library = Path::new(sysroot.trim()).join("share/doc/rust").join(LIBRARY);
        fs::copy(&library, licenses.join(LIBRARY)).map_err(|error| format!("{}: {error}", library.display()))?;
        for license in &LICENSES[2..] {
            fs::copy(sh::root().join(license), licenses.join(license))?;
        }
        Ok(())
    }

    /// Writes the wheel of the command.
    fn command_wheel(&self, platform: &Platform, built: &Path) -> Result<PathBuf, Error> {
        let folder = sh::empty_folder(self.work.join("command"))?;
        let info = folder.join(format!("pjrt_cli-{VERSION}.dist-info"));
        let scripts = folder.join(format!("pjrt_cli-{VERSION}.data/scripts"));
        fs::create_dir_all(&scripts)?;
        let program = platform.program("pjrt");
        fs::copy(built.join(&program), scripts.join(&program))?;
        self.describe(&info, COMMAND, &[COMMAND], FEATURES, platform.target)?;
        let summary = "The pjrt command: run StableHLO programs on PJRT devices, list devices, inspect plugins";
        let readme = fs::read_to_string(sh::root().join("tools").join(COMMAND).join("README.md"))?;
        let metadata = format!(
            "{}Name: {COMMAND}\nVersion: {VERSION}\nSummary: {summary}\nRequires-Python: >=3.8\n\
             Description-Content-Type: text/markdown\n\n{readme}",
            license_fields()
        );
        fs::write(info.join("METADATA"), metadata)?;
        let tag = platform.tag;
        let wheel = format!("Wheel-Version: 1.0\nGenerator: xtask\nRoot-Is-Purelib: false\nTag: py3-none-{tag}\n");
        fs::write(info.join("WHEEL"), wheel)?;
        self.pack(&folder)
    }

    /// Writes the wheel of the embedded CPU device.
    fn device_wheel(&self, platform: &Platform, built: &Path) -> Result<PathBuf, Error> {
        let wheels = sh::empty_folder(self.work.join("device"))?;
        let mut package = Command::new(self.workspace.command("pjrt"));
        package.args(["package", "--library"]).arg(built.join(platform.library("pjrt_plugin_cpu")));
        package.args(["--platform-tag", platform.tag, "--manifest"]).arg(&self.manifest);
        sh::run(package.arg("--output").arg(&wheels))?;
        let wheel = fs::read_dir(&wheels)?.next().ok_or("`pjrt package` wrote no wheel")??.path();
        let folder = self.unpacked(&wheel)?;
        let mut entries = fs::read_dir(&folder)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, Error>>()?;
        entries.retain(|path| path.extension().is_some_and(|extension| extension == "dist-info"));
        let [info] = entries.as_slice() else { return Err("the wheel has no folder `.dist-info`".into()) };
        self.describe(info, DEVICE, &[DEVICE], "", platform.target)?;
        let metadata = fs::read_to_string(info.join("METADATA"))?;
        let fields = metadata.strip_prefix("Metadata-Version: 2.1\n").ok_or("unexpected metadata of the wheel")?;
        fs::write(info.join("METADATA"), license_fields() + fields)?;
        self.pack(&folder)
    }

    /// Unpacks a wheel into a folder that `pack` accepts.
    fn unpacked(&self, wheel: &Path) -> Result<PathBuf, Error> {
        let folder = sh::empty_folder(self.work.join("unpacked"))?;
        sh::output(self.tool("wheel")?.arg("unpack").arg("--dest").arg(&folder).arg(wheel))?;
        Ok(fs::read_dir(&folder)?.next().ok_or("the wheel is empty")??.path())
    }

    /// Packs a folder as a wheel that is published.
    fn pack(&self, folder: &Path) -> Result<PathBuf, Error> {
        equal_modes(folder)?;
        let packed = sh::empty_folder(self.work.join("packed"))?;
        sh::output(self.tool("wheel")?.arg("pack").arg("--dest-dir").arg(&packed).arg(folder))?;
        let wheel = fs::read_dir(&packed)?.next().ok_or("`wheel pack` wrote no wheel")??;
        let published = self.folder.join(wheel.file_name());
        fs::rename(wheel.path(), &published)?;
        Ok(published)
    }

    /// Returns options of `tar` that make the archive independent of this machine.
    fn tar_options(&self) -> [String; 3] {
        ["--mode=u=rwX,go=rX".to_owned(), format!("--mtime=@{}", self.epoch), "--numeric-owner".to_owned()]
    }

    /// Builds the command as a static program, and packs it.
    fn static_command(&self) -> Result<PathBuf, Error> {
        let built = self.build(STATIC, "", &[COMMAND])?;
        let name = format!("pjrt-{VERSION}-x86_64-linux-static");
        let folder = sh::empty_folder(self.work.join(&name))?;
        fs::copy(built.join("pjrt"), folder.join("pjrt"))?;
        self.describe(&folder, COMMAND, &[COMMAND], FEATURES, STATIC)?;
        let path = self.folder.join(format!("{name}.tar.gz"));
        let mut tar = Command::new("tar");
        tar.args(["-c", "--sort=name", "--owner=0", "--group=0"]).args(self.tar_options());
        // The default of `-z` writes the time.
        tar.arg("--use-compress-program=gzip -n").arg("-f").arg(&path).arg("-C").arg(&self.work).arg(&name);
        sh::output(&mut tar)?;
        Ok(path)
    }

    /// Writes the tarball of the C library with the embedded CPU device.
    fn c_library(&self, platform: &Platform) -> Result<PathBuf, Error> {
        let prefix = sh::empty_folder(self.work.join("c-library"))?.join("prefix");
        // Not the file of this program, which another build may have replaced.
        let mut build = sh::cargo();
        build.args(["xtask", "c-library", "--release", "--cpu", "--glibc", GLIBC, "--prefix"]).arg(&prefix);
        sh::output(with_tools(&mut build, &self.tools)?)?;
        let share = prefix.join("share/device_plugin");
        self.describe(&share, "device_plugin", &["pjrt-c", DEVICE], "vendor", platform.target)?;
        let tarball = c_library::pack(&Installed { prefix }, &self.tar_options())?;
        let published = self.folder.join(tarball.file_name().ok_or("the tarball has no name")?);
        fs::rename(&tarball, &published)?;
        Ok(published)
    }

    /// Installs the wheels into a new environment with JAX, and runs the command and JAX without the user's settings.
    fn test_wheels(&self, wheels: &[PathBuf]) -> Result<(), Error> {
        let main = python::JAX.iter().find(|jax| jax.version == python::MAIN).ok_or("no such version of JAX")?;
        let python = main.new_python("target/venv-dist-test")?;
        let mut install = Command::new(&python);
        install.args(["-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]);
        sh::run(install.args(wheels))?;
        let environment = python.parent().and_then(Path::parent).ok_or("Python is in no environment")?;
        let pjrt = || clean(&environment.join("bin/pjrt"), environment);
        // By path, because the command contains another plugin of this name.
        let mut folder = Command::new(&python);
        folder.args(["-c", "import pjrt_plugin_pjrt_cpu; print(pjrt_plugin_pjrt_cpu.__path__[0])"]);
        let library = Path::new(sh::output(&mut folder)?.trim()).join("libpjrt_plugin_cpu.so");
        axpy(pjrt().args(["run", "--plugin"]).arg(library))?;
        // A published command has no checkout of the SDK.
        let project = self.work.join("project");
        sh::output(pjrt().args(["new", "acme", "--output"]).arg(&project))?;
        let manifest = fs::read_to_string(project.join("Cargo.toml"))?;
        expect(&manifest, &format!("device-plugin = {{ version = \"{VERSION}\""))?;
        let mut jax = clean(&python, environment);
        jax.args(["-c", "import jax; print(jax.jit(lambda x: x + 1)(41.0))"]).env("JAX_PLATFORMS", "pjrt_cpu");
        expect(&sh::output(&mut jax)?, "42.0")
    }

    /// Unpacks the static command and runs it with an empty environment.
    fn test_static(&self, tarball: &Path) -> Result<(), Error> {
        let folder = sh::empty_folder(self.work.join("static"))?;
        sh::output(Command::new("tar").arg("-xf").arg(tarball).arg("-C").arg(&folder))?;
        no_build_path(&folder, |_| true)?;
        let program = fs::read_dir(&folder)?.next().ok_or("the tarball is empty")??.path().join("pjrt");
        let headers = sh::output(Command::new("objdump").arg("-p").arg(&program))?;
        if headers.contains("NEEDED") || headers.contains("INTERP") {
            return Err(format!("{} is not static", program.display()).into());
        }
        axpy(Command::new(program).env_clear().arg("run"))
    }
}

/// Returns the first fields of a wheel's metadata.
fn license_fields() -> String {
    let files = LICENSES.map(|file| format!("License-File: {file}\n")).concat();
    format!("Metadata-Version: 2.4\nLicense-Expression: MIT OR Apache-2.0\n{files}")
}

/// Gives files the modes that they have on every machine.
fn equal_modes(folder: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let mode = fs::metadata(&path)?.permissions().mode();
        fs::set_permissions(&path, Permissions::from_mode(if mode & 0o100 == 0 { 0o644 } else { 0o755 }))?;
        if path.is_dir() {
            equal_modes(&path)?;
        }
    }
    Ok(())
}

/// Checks that a file for Windows needs only libraries of the system.
fn needs_only_windows(file: &Path) -> Result<(), Error> {
    let headers = sh::output(Command::new("objdump").arg("-p").arg(file))?;
    let needed: Vec<&str> = headers.lines().filter_map(|line| line.trim().strip_prefix("DLL Name: ")).collect();
    println!("{} needs {}", file.display(), needed.join(", "));
    // Libraries of compilers, such as `libunwind.dll`, have this beginning.
    match needed.iter().find(|name| name.starts_with("lib")) {
        Some(name) => Err(format!("{} needs {name}", file.display()).into()),
        None if needed.is_empty() => Err(format!("objdump lists no libraries of {}", file.display()).into()),
        None => Ok(()),
    }
}

/// Returns a command of a Python environment, without the variables of this process.
fn clean(program: &Path, environment: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", environment.join("bin")).env("VIRTUAL_ENV", environment);
    command.env("HOME", environment);
    command
}

/// Writes the hashes of all files in the format of `sha256sum`.
fn write_hashes(folder: &Path) -> Result<(), Error> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let hash: String = Sha256::digest(fs::read(&path)?).iter().map(|byte| format!("{byte:02x}")).collect();
        println!("{}", path.display());
        lines.push(format!("{hash}  {}\n", path.file_name().unwrap_or_default().to_string_lossy()));
    }
    lines.sort_by(|one, other| one[64..].cmp(&other[64..]));
    Ok(fs::write(folder.join("SHA256SUMS"), lines.concat())?)
}

/// Runs a program on a device.
fn axpy(pjrt: &mut Command) -> Result<(), Error> {
    let program = sh::root().join("examples/programs/axpy.mlir");
    let output = sh::output(pjrt.arg(program).args(["f32=2", "f32[4]=0,1,2,3", "f32[4]=10"]))?;
    expect(&output, "[10.0, 12.0, 14.0, 16.0]")
}

fn expect(output: &str, part: &str) -> Result<(), Error> {
    if output.contains(part) { Ok(()) } else { Err(format!("expected {part:?} in:\n{output}").into()) }
}
