//! `cargo xtask c-library`: builds libplugin_registry and installs it for C and C++.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use semver::Version;

use crate::{Error, sh};

/// The package that contains the functions of the library.
const PACKAGE: &str = "pjrt-c";

/// Name of the library that Cargo builds. A Rust library in the same target folder already has the name [`NAME`].
const BUILT: &str = "pjrt_c";

/// Name of the installed library and of its pkg-config file. The CMake package is named `PluginRegistry`.
const NAME: &str = "plugin_registry";

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

/// Parses the arguments of the task and runs it.
pub(crate) fn run(args: &[&str]) -> Result<(), Error> {
    let mut prefix = None;
    let mut release = false;
    let mut args = args.iter();
    while let Some(&arg) = args.next() {
        match arg {
            "--prefix" => prefix = Some(PathBuf::from(args.next().ok_or("--prefix needs a folder")?)),
            "--release" => release = true,
            other => return Err(format!("c-library: unknown argument {other}; see `cargo xtask`").into()),
        }
    }
    let installed = install(prefix, release)?;
    println!("installed libplugin_registry {} in {}", version()?, installed.prefix.display());
    println!("pkg-config: PKG_CONFIG_PATH={}", installed.prefix.join("lib/pkgconfig").display());
    println!("CMake: -DCMAKE_PREFIX_PATH={}", installed.prefix.display());
    Ok(())
}

/// Builds the library and installs it. Without a prefix, installs it below the target folder.
pub(crate) fn install(prefix: Option<PathBuf>, release: bool) -> Result<Installed, Error> {
    let profile = if release { "release" } else { "debug" };
    let prefix = match prefix {
        Some(prefix) => std::path::absolute(prefix)?,
        None => sh::target().join("c-library").join(profile),
    };
    let version = version()?;
    let private_libs = build(release, &version)?;
    let built = sh::target().join(profile);
    let lib = prefix.join("lib");
    let include = prefix.join("include");
    let cmake = lib.join("cmake/PluginRegistry");
    for folder in [&lib, &include, &cmake, &lib.join("pkgconfig")] {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    install_shared(&built, &lib, &version)?;
    copy(&built.join(format!("lib{BUILT}.a")), &lib.join(format!("lib{NAME}.a")))?;
    for header in ["device_plugin.h", "device_plugin.hpp", "device_plugin_pjrt.hpp"] {
        copy(&sh::root().join("include").join(header), &include.join(header))?;
    }
    let shared = format!("-L${{libdir}} -l{NAME}");
    fs::write(lib.join("pkgconfig").join(format!("{NAME}.pc")), pkg_config(&version, &shared, &private_libs))?;
    // Name the archive by its path, because with `-l` the linker prefers the shared library.
    let archive = format!("{}${{libdir}}/lib{NAME}.a {}", hiding(), private_libs.join(" "));
    fs::write(lib.join("pkgconfig").join(format!("{NAME}-static.pc")), pkg_config(&version, &archive, &[]))?;
    fs::write(cmake.join("PluginRegistryConfig.cmake"), cmake_config(&private_libs))?;
    fs::write(cmake.join("PluginRegistryConfigVersion.cmake"), cmake_version(&version))?;
    Ok(Installed { prefix })
}

/// Builds the shared and the static library. Returns the system libraries that a program with the static library must
/// link.
fn build(release: bool, version: &Version) -> Result<Vec<String>, Error> {
    let mut cargo = sh::cargo();
    cargo.args(["rustc", "--quiet", "-p", PACKAGE, "--lib"]);
    cargo.args(["--crate-type", "cdylib,staticlib"]);
    if release {
        cargo.arg("--release");
    }
    cargo.args(["--", "--print", "native-static-libs"]);
    if cfg!(target_os = "linux") {
        cargo.arg(format!("-Clink-arg=-Wl,-soname,{}", soname(version)));
    } else if cfg!(target_os = "macos") {
        cargo.arg(format!("-Clink-arg=-Wl,-install_name,@rpath/lib{NAME}.{}.dylib", compatible(version)));
    }
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
Description: Finds, chooses and loads PJRT plugins
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
        "# Targets: PluginRegistry::plugin_registry (shared), PluginRegistry::plugin_registry_static, and
# PluginRegistry::cpp, the C++17 header, to be linked beside one of them.
get_filename_component(_plugin_registry_prefix \"${{CMAKE_CURRENT_LIST_DIR}}/../../..\" ABSOLUTE)
if(NOT TARGET PluginRegistry::plugin_registry)
  add_library(PluginRegistry::plugin_registry SHARED IMPORTED)
  set_target_properties(PluginRegistry::plugin_registry PROPERTIES
    IMPORTED_LOCATION \"${{_plugin_registry_prefix}}/lib/{shared}\"
    INTERFACE_INCLUDE_DIRECTORIES \"${{_plugin_registry_prefix}}/include\")
  add_library(PluginRegistry::plugin_registry_static STATIC IMPORTED)
  set_target_properties(PluginRegistry::plugin_registry_static PROPERTIES
    IMPORTED_LOCATION \"${{_plugin_registry_prefix}}/lib/lib{NAME}.a\"
    INTERFACE_INCLUDE_DIRECTORIES \"${{_plugin_registry_prefix}}/include\"
    INTERFACE_LINK_OPTIONS \"{}\"
    INTERFACE_LINK_LIBRARIES \"{}\")
  add_library(PluginRegistry::cpp INTERFACE IMPORTED)
  set_target_properties(PluginRegistry::cpp PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES \"${{_plugin_registry_prefix}}/include\"
    INTERFACE_COMPILE_FEATURES cxx_std_17)
endif()
unset(_plugin_registry_prefix)
",
        hiding().trim_end(),
        private_libs.join(";")
    )
}

/// Creates a CMake version file that applies `SameMinorVersion` to 0.x and `SameMajorVersion` to later versions.
fn cmake_version(version: &Version) -> String {
    // `find_package(PluginRegistry 0)` accepts any 0.x, although for example 0.0.x and 0.1.x are incompatible.
    let compatible = compatible(version).replace('.', "\\\\.");
    let bare = if compatible.starts_with('0') { "|0\\\\.$" } else { "" };
    format!(
        "set(PACKAGE_VERSION \"{version}\")
set(_plugin_registry_compatible \"{compatible}\")
if(PACKAGE_VERSION VERSION_LESS PACKAGE_FIND_VERSION
   OR NOT \"${{PACKAGE_FIND_VERSION}}.\" MATCHES \"^(${{_plugin_registry_compatible}}\\\\.{bare})\")
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
else()
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
  if(PACKAGE_FIND_VERSION STREQUAL PACKAGE_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
  endif()
endif()
unset(_plugin_registry_compatible)
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
        assert_eq!(soname(&Version::new(0, 1, 0)), "libplugin_registry.so.0.1");
        assert_eq!(version().unwrap().to_string(), env!("CARGO_PKG_VERSION"));
    }

    #[test]
    fn static_libraries_name_what_they_need() {
        let libs = ["-lm".to_owned(), "-ldl".to_owned()];
        assert!(pkg_config(&Version::new(0, 1, 0), "-lx", &libs).ends_with("Libs: -lx\nLibs.private: -lm -ldl\n"));
        assert!(cmake_config(&libs).contains("INTERFACE_LINK_LIBRARIES \"-lm;-ldl\""));
    }
}
