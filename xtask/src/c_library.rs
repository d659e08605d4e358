//! `cargo xtask c-library`: builds libdevice_plugin and installs it for C and C++.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use semver::Version;

use crate::workspace::Workspace;
use crate::{Error, sh};

/// The package that contains the functions of the library.
const PACKAGE: &str = "pjrt-c";

/// Name of the library that Cargo builds. A Rust library in the same target folder already has the name [`NAME`].
const BUILT: &str = "pjrt_c";

/// Name of the installed library and of its pkg-config file. The CMake package is named `DevicePlugin`.
const NAME: &str = "device_plugin";

/// The profile of installed libraries.
const PROFILE: &str = "c-library";

/// The package and the library of the embedded CPU device, and the profile of installed ones.
const CPU: [&str; 3] = ["pjrt-cpu-plugin", "pjrt_plugin_cpu", "dist"];

/// The folder in which the library was installed.
pub(crate) struct Installed {
    pub(crate) prefix: PathBuf,
}

impl Installed {
    /// Returns the path of the shared library.
    pub(crate) fn shared(&self) -> PathBuf {
        self.prefix.join("lib").join(format!("{DLL_PREFIX}{NAME}{DLL_SUFFIX}"))
    }
}

/// How the library is built.
#[derive(Default)]
pub(crate) struct Build {
    /// Small and fast, and without paths of this machine, instead of quickly.
    pub(crate) release: bool,
    /// The oldest version of glibc with which the library works, instead of the machine's. Needs cargo-zigbuild.
    pub(crate) glibc: Option<String>,
    /// Whether to install the embedded CPU device, too.
    pub(crate) cpu: bool,
}

/// Parses the arguments of the task and runs it.
pub(crate) fn run(args: &[&str]) -> Result<(), Error> {
    let mut prefix = None;
    let mut how = Build::default();
    let mut tarball = false;
    let mut args = args.iter();
    while let Some(&arg) = args.next() {
        match arg {
            "--prefix" => prefix = Some(PathBuf::from(args.next().ok_or("--prefix needs a folder")?)),
            "--glibc" => how.glibc = Some((*args.next().ok_or("--glibc needs a version, such as 2.28")?).to_owned()),
            "--release" => how.release = true,
            "--cpu" => how.cpu = true,
            "--tarball" => tarball = true,
            other => return Err(format!("c-library: unknown argument {other}; see `cargo xtask`").into()),
        }
    }
    if how.glibc.is_some() {
        if !how.release {
            return Err("--glibc needs --release".into());
        }
        if sh::output(Command::new("cargo-zigbuild").arg("--version")).is_err() {
            return Err(
                "--glibc needs cargo-zigbuild and Zig; `pip install cargo-zigbuild ziglang` installs both".into()
            );
        }
    }
    let installed = install(prefix, &how)?;
    println!("installed libdevice_plugin {} in {}", version()?, installed.prefix.display());
    println!("pkg-config: PKG_CONFIG_PATH={}", installed.prefix.join("lib/pkgconfig").display());
    println!("CMake: -DCMAKE_PREFIX_PATH={}", installed.prefix.display());
    if tarball {
        println!("tarball: {}", pack(&installed, &[])?.display());
    }
    Ok(())
}

/// Writes the installed folder as a tarball beside it, whose only folder has the name of the tarball. `tar` gets the
/// `options`.
pub(crate) fn pack(installed: &Installed, options: &[String]) -> Result<PathBuf, Error> {
    let name = format!("{NAME}-{}-{}-{}", version()?, std::env::consts::ARCH, std::env::consts::OS);
    let folder = installed.prefix.parent().unwrap_or(Path::new("."));
    let path = folder.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    // The default of `-z` writes the time.
    tar.args(options).arg("--use-compress-program=gzip -n").arg("-cf").arg(&path).arg("-C").arg(&installed.prefix);
    tar.args(["--owner=0", "--group=0", "--sort=name", &format!("--transform=s,^\\.,{name},"), "."]);
    sh::output(&mut tar)?;
    Ok(path)
}

/// Builds the library and installs it. Without a prefix, installs it below the target folder.
pub(crate) fn install(prefix: Option<PathBuf>, how: &Build) -> Result<Installed, Error> {
    let prefix = match prefix {
        Some(prefix) => std::path::absolute(prefix)?,
        None => sh::target().join("c-library-prefix").join(if how.release { "release" } else { "debug" }),
    };
    let version = version()?;
    println!("building lib{NAME}{}", if how.release { "; a release takes several minutes" } else { "" });
    let private_libs = build(how, &version)?;
    let built = how.folder(PROFILE);
    let lib = prefix.join("lib");
    let cmake = lib.join("cmake/DevicePlugin");
    let licenses = prefix.join("share/licenses").join(NAME);
    for folder in [&cmake, &lib.join("pkgconfig"), &licenses] {
        create(folder)?;
    }
    install_shared(&built, &lib, &version)?;
    copy(&built.join(format!("lib{BUILT}.a")), &lib.join(format!("lib{NAME}.a")))?;
    copy_folder(&sh::root().join("include"), &prefix.join("include"))?;
    let shared = format!("-L${{libdir}} -l{NAME}");
    fs::write(lib.join("pkgconfig").join(format!("{NAME}.pc")), pkg_config(&version, &shared, &private_libs))?;
    // Name the archive by its path, because with `-l` the linker prefers the shared library.
    let archive = format!("{}${{libdir}}/lib{NAME}.a {}", hiding(), private_libs.join(" "));
    fs::write(lib.join("pkgconfig").join(format!("{NAME}-static.pc")), pkg_config(&version, &archive, &[]))?;
    fs::write(cmake.join("DevicePluginConfig.cmake"), cmake_config(&private_libs))?;
    fs::write(cmake.join("DevicePluginConfigVersion.cmake"), cmake_version(&version))?;
    for license in ["LICENSE-APACHE", "LICENSE-MIT"] {
        copy(&sh::root().join(license), &licenses.join(license))?;
    }
    if how.cpu {
        install_cpu(&prefix, how)?;
    }
    Ok(Installed { prefix })
}

/// Installs the embedded CPU device as a plugin that the library of the same prefix finds.
fn install_cpu(prefix: &Path, how: &Build) -> Result<(), Error> {
    let [package, library, profile] = CPU;
    println!("building lib{library}");
    let file = format!("{DLL_PREFIX}{library}{DLL_SUFFIX}");
    let built = if how.release {
        sh::run(how.cargo("build", profile)?.args(["-p", package]))?;
        how.folder(profile).join(&file)
    } else {
        // The workspace's build is there already in most cases.
        Workspace::build()?.library(library)
    };
    let (plugins, manifests) = (prefix.join("lib/pjrt"), prefix.join("share/pjrt/plugins.d"));
    for folder in [&plugins, &manifests] {
        create(folder)?;
    }
    copy(&built, &plugins.join(&file))?;
    let mut manifest = manifest(&plugins.join(&file))?;
    // Relative to the manifest, so that the folder can be moved.
    manifest["library"] = serde_json::json!([{ "path": format!("../../../lib/pjrt/{file}") }]);
    fs::write(manifests.join("pjrt_cpu.json"), format!("{manifest:#}\n"))?;
    Ok(())
}

/// Returns the manifest that a plugin contains. A C program reads it, because this program must not load libraries.
pub(crate) fn manifest(plugin: &Path) -> Result<serde_json::Value, Error> {
    let folder = sh::target().join("c-library-manifest");
    create(&folder)?;
    let program = folder.join("manifest");
    let mut cc = Command::new("cc");
    cc.arg(sh::root().join("xtask/src/c_library/manifest.c")).arg("-o").arg(&program);
    cc.arg("-I").arg(sh::root().join("include")).arg("-ldl");
    sh::output(&mut cc)?;
    Ok(serde_json::from_str(&sh::output(Command::new(&program).arg(plugin))?)?)
}

fn create(folder: &Path) -> Result<(), Error> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()).into())
}

impl Build {
    /// Returns a command that runs Cargo for libraries with the profile, or with the profile `dev`.
    fn cargo(&self, task: &str, profile: &str) -> Result<Command, Error> {
        let mut cargo = match &self.glibc {
            None => {
                let mut cargo = sh::cargo();
                cargo.arg(task);
                cargo
            }
            Some(glibc) => {
                let mut zigbuild = Command::new("cargo-zigbuild");
                zigbuild.current_dir(sh::root()).args([task, "--target", &format!("{TARGET}.{glibc}")]);
                zigbuild
            }
        };
        cargo.arg("--quiet");
        if self.release {
            cargo.args(["--profile", profile]);
            without_build_paths(&mut cargo)?;
        }
        Ok(cargo)
    }

    /// Returns the folder in which Cargo stores the built libraries.
    fn folder(&self, profile: &str) -> PathBuf {
        match (self.release, &self.glibc) {
            (false, _) => sh::target().join("debug"),
            (true, None) => sh::target().join(profile),
            (true, Some(_)) => sh::target().join(TARGET).join(profile),
        }
    }
}

/// Lets a command of Cargo build files that contain no paths of this machine.
pub(crate) fn without_build_paths(cargo: &mut Command) -> Result<(), Error> {
    let maps = [(sh::target(), "target"), (sh::root(), ""), (sh::cargo_home()?, "/cargo")];
    // The compiler applies the last map that fits.
    let flags = maps.iter().rev().map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()));
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.collect::<Vec<_>>().join("\u{1f}"));
    Ok(())
}

/// The target of libraries for another version of glibc.
const TARGET: &str =
    if cfg!(target_arch = "aarch64") { "aarch64-unknown-linux-gnu" } else { "x86_64-unknown-linux-gnu" };

/// Builds the shared and the static library. Returns the system libraries that a program with the static library must
/// link.
fn build(how: &Build, version: &Version) -> Result<Vec<String>, Error> {
    let library = |crate_type: &str| -> Result<Command, Error> {
        let mut cargo = how.cargo("rustc", PROFILE)?;
        cargo.args(["-p", PACKAGE, "--lib", "--crate-type", crate_type]);
        Ok(cargo)
    };
    let mut shared = library("cdylib")?;
    if cfg!(target_os = "linux") {
        shared.args(["--", &format!("-Clink-arg=-Wl,-soname,{}", soname(version))]);
    } else if cfg!(target_os = "macos") {
        let name = format!("-Clink-arg=-Wl,-install_name,@rpath/lib{NAME}.{}.dylib", compatible(version));
        shared.args(["--", &name]);
    }
    sh::run(&mut shared)?;
    // A plugin contains its own copy of the library, so that only the static one has the interface for vendors.
    let mut cargo = library("staticlib")?;
    cargo.args(["--features", "vendor", "--", "--print", "native-static-libs"]);
    // If the library is already built, Cargo repeats the compiler's output.
    let said = sh::stderr(&mut cargo)?;
    let line = said.lines().find_map(|line| line.split_once("native-static-libs: "));
    let (_, libs) = line.ok_or_else(|| format!("the compiler did not name the native libraries:\n{said}"))?;
    let mut known: Vec<String> = Vec::new();
    for lib in libs.split_whitespace() {
        if !known.iter().any(|earlier| earlier == lib) {
            known.push(lib.to_owned());
        }
    }
    Ok(known)
}

/// Returns the version of the package, as Cargo reports it.
fn version() -> Result<Version, Error> {
    let id = sh::output(sh::cargo().args(["pkgid", "--offline", "-p", PACKAGE]))?;
    let version = id.trim().rsplit(['#', '@']).next().unwrap_or_default();
    Version::parse(version).map_err(|error| format!("cargo pkgid printed {id:?}: {error}").into())
}

/// Returns the components of a version that change with the binary interface: `1` for 1.2.3, `0.1` for 0.1.2.
fn compatible(version: &Version) -> String {
    if version.major == 0 { format!("0.{}", version.minor) } else { version.major.to_string() }
}

fn soname(version: &Version) -> String {
    format!("lib{NAME}.so.{}", compatible(version))
}

/// Installs the library under its full version, with links for the names that the loader and the linker use.
fn install_shared(built: &Path, lib: &Path, version: &Version) -> Result<(), Error> {
    let built = built.join(format!("{DLL_PREFIX}{BUILT}{DLL_SUFFIX}"));
    let plain = format!("{DLL_PREFIX}{NAME}{DLL_SUFFIX}");
    if !cfg!(unix) {
        return copy(&built, &lib.join(&plain));
    }
    let (full, loader) = if cfg!(target_os = "macos") {
        (format!("lib{NAME}.{version}.dylib"), format!("lib{NAME}.{}.dylib", compatible(version)))
    } else {
        (format!("lib{NAME}.so.{version}"), soname(version))
    };
    copy(&built, &lib.join(&full))?;
    for link in [loader, plain] {
        let link = lib.join(link);
        if link.symlink_metadata().is_ok() {
            fs::remove_file(&link)?;
        }
        #[cfg(unix)]
        std::os::unix::fs::symlink(&full, &link)?;
    }
    Ok(())
}

/// Copies the files of a folder and of its subfolders, and removes others.
fn copy_folder(from: &Path, to: &Path) -> Result<(), Error> {
    fs::create_dir_all(to)?;
    let names = |folder: &Path| -> Result<Vec<std::ffi::OsString>, Error> {
        Ok(fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.file_name())).collect::<Result<_, _>>()?)
    };
    let wanted = names(from)?;
    for name in names(to)? {
        if to.join(&name).is_file() && !wanted.contains(&name) {
            fs::remove_file(to.join(name))?;
        }
    }
    for name in wanted {
        let (from, to) = (from.join(&name), to.join(&name));
        if from.is_dir() { copy_folder(&from, &to)? } else { copy(&from, &to)? }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    // Replace the file instead of overwriting it, because a running program may use the old file.
    if to.symlink_metadata().is_ok() {
        fs::remove_file(to)?;
    }
    fs::copy(from, to).map_err(|error| format!("{} to {}: {error}", from.display(), to.display()))?;
    Ok(())
}

/// Returns the linker option that keeps the archive's symbols private to a shared library that contains the archive,
/// followed by a space. Without this option, such a library exports every Rust function of the archive. Returns an
/// empty string if the linker does not have the option.
fn hiding() -> String {
    if cfg!(target_os = "linux") { format!("-Wl,--exclude-libs,lib{NAME}.a ") } else { String::new() }
}

fn pkg_config(version: &Version, libs: &str, private_libs: &[String]) -> String {
    format!(
        "# Found from the place of this file, so that the folder can be moved.
prefix=${{pcfiledir}}/../..
libdir=${{prefix}}/lib
includedir=${{prefix}}/include

Name: {NAME}
Description: Finds PJRT plugins and runs programs on their devices
Version: {version}
Cflags: -I${{includedir}}
Libs: {libs}
Libs.private: {}
",
        private_libs.join(" ")
    )
}

fn cmake_config(private_libs: &[String]) -> String {
    let shared = format!("{DLL_PREFIX}{NAME}{DLL_SUFFIX}");
    format!(
        "# Targets: DevicePlugin::device_plugin (shared), DevicePlugin::device_plugin_static, and
# DevicePlugin::cpp, the C++17 header, to be linked beside one of them. If a package manager installed only the static
# library, DevicePlugin::device_plugin is that one, too.
get_filename_component(_device_plugin_prefix \"${{CMAKE_CURRENT_LIST_DIR}}/../../..\" ABSOLUTE)
if(NOT TARGET DevicePlugin::cpp)
  if(EXISTS \"${{_device_plugin_prefix}}/lib/lib{NAME}.a\")
    add_library(DevicePlugin::device_plugin_static STATIC IMPORTED)
    set_target_properties(DevicePlugin::device_plugin_static PROPERTIES
      IMPORTED_LOCATION \"${{_device_plugin_prefix}}/lib/lib{NAME}.a\"
      INTERFACE_INCLUDE_DIRECTORIES \"${{_device_plugin_prefix}}/include\"
      INTERFACE_LINK_OPTIONS \"{}\"
      INTERFACE_LINK_LIBRARIES \"{}\")
  endif()
  if(EXISTS \"${{_device_plugin_prefix}}/lib/{shared}\")
    add_library(DevicePlugin::device_plugin SHARED IMPORTED)
    set_target_properties(DevicePlugin::device_plugin PROPERTIES
      IMPORTED_LOCATION \"${{_device_plugin_prefix}}/lib/{shared}\"
      INTERFACE_INCLUDE_DIRECTORIES \"${{_device_plugin_prefix}}/include\")
  else()
    add_library(DevicePlugin::device_plugin INTERFACE IMPORTED)
    set_target_properties(DevicePlugin::device_plugin PROPERTIES
      INTERFACE_LINK_LIBRARIES DevicePlugin::device_plugin_static)
  endif()
  add_library(DevicePlugin::cpp INTERFACE IMPORTED)
  set_target_properties(DevicePlugin::cpp PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES \"${{_device_plugin_prefix}}/include\"
    INTERFACE_COMPILE_FEATURES cxx_std_17)
endif()
unset(_device_plugin_prefix)
",
        hiding().trim_end(),
        private_libs.join(";")
    )
}

/// Creates a CMake version file that applies `SameMinorVersion` to 0.x and `SameMajorVersion` to later versions.
fn cmake_version(version: &Version) -> String {
    // `find_package(DevicePlugin 0)` accepts any 0.x, although for example 0.0.x and 0.1.x are incompatible.
    let compatible = compatible(version).replace('.', "\\\\.");
    let bare = if compatible.starts_with('0') { "|0\\\\.$" } else { "" };
    format!(
        "set(PACKAGE_VERSION \"{version}\")
set(_device_plugin_compatible \"{compatible}\")
if(PACKAGE_VERSION VERSION_LESS PACKAGE_FIND_VERSION
   OR NOT \"${{PACKAGE_FIND_VERSION}}.\" MATCHES \"^(${{_device_plugin_compatible}}\\\\.{bare})\")
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
else()
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
  if(PACKAGE_FIND_VERSION STREQUAL PACKAGE_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
  endif()
endif()
unset(_device_plugin_compatible)
"
    )
}

/// Lists the exported dynamic symbols of a library, with `nm`.
pub(crate) fn exports(library: &Path) -> Result<Vec<String>, Error> {
    let table = sh::output(Command::new("nm").args(["-D", "--defined-only"]).arg(library))?;
    Ok(table.lines().filter_map(|line| line.split_whitespace().nth(2)).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!(compatible(&Version::new(0, 1, 2)), "0.1");
        assert_eq!(compatible(&Version::new(3, 1, 2)), "3");
        assert_eq!(soname(&Version::new(0, 1, 0)), "libdevice_plugin.so.0.1");
        assert_eq!(version().unwrap().to_string(), env!("CARGO_PKG_VERSION"));
    }

    #[test]
    fn static_libraries_name_what_they_need() {
        let libs = ["-lm".to_owned(), "-ldl".to_owned()];
        assert!(pkg_config(&Version::new(0, 1, 0), "-lx", &libs).ends_with("Libs: -lx\nLibs.private: -lm -ldl\n"));
        assert!(cmake_config(&libs).contains("INTERFACE_LINK_LIBRARIES \"-lm;-ldl\""));
    }
}
