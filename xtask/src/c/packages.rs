//! Tests of what `cargo xtask c-library` installs and packs, and of the recipes in `packaging`.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::languages;
use super::programs::{Home, check, clean, cmake, example, expect, flags, present};
use crate::c_library::{self, Build, Installed};
use crate::report::Report;
use crate::{Error, python, sh};

/// Tests a tarball of the debug library, with the CPU device.
pub(super) fn run(report: &mut Report, folder: &Path, home: &Home) {
    let how = Build { cpu: true, ..Build::default() };
    if let Some(Packed { path, prefix }) = packed(report, folder, &how) {
        tarball(report, "debug", folder, &prefix, home);
        fetch_content(report, folder, &path, home);
    }
}

/// The tests of `cargo xtask c-packages`.
pub(crate) const ALL: [&str; 6] = ["tarball", "glibc", "conan", "corrosion", "vcpkg", "cargo-c"];

/// Runs `cargo xtask c-packages`.
pub(crate) fn arguments(names: &[&str]) -> Result<(), Error> {
    if let Some(name) = names.iter().find(|name| !ALL.contains(name)) {
        return Err(format!("c-packages: there is no test {name}; the tests are {}", ALL.join(", ")).into());
    }
    let mut report = Report::default();
    slow(&mut report, if names.is_empty() { &ALL } else { names })?;
    report.close()
}

/// Runs tests that build the library in the profile for users, or with other tools.
pub(crate) fn slow(report: &mut Report, names: &[&str]) -> Result<(), Error> {
    let folder = sh::target().join("c-tests/packages");
    let home = Home { folder: folder.join("home"), plugins: String::new() };
    fs::create_dir_all(&home.folder)?;
    for name in names {
        match *name {
            "tarball" => release(report, &folder, &home)?,
            "corrosion" => corrosion(report, &folder, &home),
            "vcpkg" => vcpkg(report, &folder, &home),
            "cargo-c" => cargo_c(report, &folder, &home),
            name => {
                let files = [languages::REQUIREMENTS, "tests/c/packaging/requirements.txt"];
                let tools = python::tools("target/venv-c-packages", &files);
                let Some(python) = report.part(&format!("the test {name} of c-packages"), tools) else { continue };
                let outcome =
                    if name == "conan" { conan(&folder, &python) } else { older_glibc(&folder, &python, &home) };
                check(report, &format!("c-packages {name}"), outcome);
            }
        }
    }
    Ok(())
}

/// Tests a tarball as users get it.
fn release(report: &mut Report, folder: &Path, home: &Home) -> Result<(), Error> {
    let how = Build { release: true, cpu: true, ..Build::default() };
    if let Some(Packed { path, prefix }) = packed(report, folder, &how) {
        sizes(&path, &prefix)?;
        tarball(report, "release", folder, &prefix, home);
        check(report, "tarball (release), no file names a build folder", no_build_path(&prefix, |_| true));
    }
    Ok(())
}

/// A tarball, and the folder to which it was unpacked and moved.
struct Packed {
    path: PathBuf,
    prefix: PathBuf,
}

/// Installs the library, packs it, deletes what was installed, unpacks the tarball and moves the unpacked folder.
fn packed(report: &mut Report, folder: &Path, how: &Build) -> Option<Packed> {
    let pack = || {
        let installed = c_library::install(Some(folder.join("installed")), how)?;
        let path = c_library::pack(&installed, &[])?;
        fs::remove_dir_all(&installed.prefix)?;
        let prefix = unpacked(&path, folder)?;
        Ok(Packed { path, prefix })
    };
    match pack() {
        Ok(packed) => Some(packed),
        Err(error) => {
            check(report, "c-library --tarball", Err(error));
            None
        }
    }
}

/// Unpacks a tarball and moves its only folder. Returns the moved folder.
fn unpacked(path: &Path, folder: &Path) -> Result<PathBuf, Error> {
    let (first, moved) = (folder.join("first"), folder.join("moved"));
    for folder in [&first, &moved] {
        sh::remove(folder)?;
        fs::create_dir_all(folder)?;
    }
    sh::output(Command::new("tar").arg("-xf").arg(path).arg("-C").arg(&first))?;
    let mut folders = fs::read_dir(&first)?;
    let unpacked = folders.next().ok_or("the tarball is empty")??;
    if folders.next().is_some() {
        return Err("the tarball contains more than one folder".into());
    }
    let prefix = moved.join("prefix");
    fs::rename(unpacked.path(), &prefix)?;
    Ok(prefix)
}

/// Tests a tarball that was built for a release.
pub(crate) fn test_tarball(report: &mut Report, path: &Path) -> Result<(), Error> {
    let folder = sh::target().join("c-tests/dist");
    let home = Home { folder: folder.join("home"), plugins: String::new() };
    fs::create_dir_all(&home.folder)?;
    let prefix = unpacked(path, &folder)?;
    for library in [Installed { prefix: prefix.clone() }.shared(), prefix.join("lib/pjrt/libpjrt_plugin_cpu.so")] {
        check(report, &format!("glibc of {}", library.display()), needs_only_glibc(&library));
    }
    tarball(report, "dist", &folder, &prefix, &home);
    check(report, "tarball (dist), no file names a build folder", no_build_path(&prefix, |_| true));
    Ok(())
}

/// Creates a command that finds only the plugins of a prefix.
fn without_settings(program: &Path, home: &Home) -> Command {
    let mut command = clean(program, home);
    command.env_remove("PJRT_NAMES_AND_LIBRARY_PATHS");
    command
}

/// Runs examples/c-minimal on the plugin named `cpu`, which must be the embedded device.
fn runs(program: &Path, home: &Home) -> Result<(), Error> {
    let said = sh::output(&mut without_settings(program, home))?;
    expect(&said, "pjrt_cpu speaks").and_then(|()| expect(&said, "2 3 4"))
}

/// Builds examples/c-minimal with a prefix, and runs it on the CPU device that was installed with the library.
fn tarball(report: &mut Report, profile: &str, folder: &Path, prefix: &Path, home: &Home) {
    let name = |what: &str| format!("tarball ({profile}), {what}");
    let library = Installed { prefix: prefix.to_path_buf() };
    let build = folder.join("cmake");
    let built = sh::remove(&build).and_then(|()| example("c-minimal", &build, &library, ""));
    check(report, &name("CMake"), built.and_then(|()| runs(&build.join("c_minimal"), home)));
    if present("pkg-config") {
        for is_static in [false, true] {
            let kind = if is_static { "static" } else { "shared" };
            // The library is found beside the program, and the device by the place of the library or the program.
            let program = prefix.join(format!("bin/c_minimal_{kind}"));
            let built = flags(&library, is_static).and_then(|flags| {
                fs::create_dir_all(prefix.join("bin"))?;
                let mut cc = Command::new("cc");
                cc.arg("-std=c11").arg(sh::root().join("examples/c-minimal/main.c")).arg("-o").arg(&program);
                sh::output(cc.args(flags).arg("-Wl,-rpath,$ORIGIN/../lib"))
            });
            check(report, &name(&format!("pkg-config, {kind} library")), built.and_then(|_| runs(&program, home)));
        }
    } else {
        report.skip(format!("{}: there is no `pkg-config`", name("pkg-config")));
    }
    // The programs still find the library and the device after the prefix was moved.
    let again = prefix.with_file_name("again");
    let moved = fs::rename(prefix, &again).map_err(Error::from).and_then(|()| {
        let outcomes = ["shared", "static"].map(|kind| {
            let program = again.join(format!("bin/c_minimal_{kind}"));
            if program.exists() { runs(&program, home) } else { Ok(()) }
        });
        fs::rename(&again, prefix)?;
        outcomes.into_iter().collect()
    });
    check(report, &name("moved with its programs"), moved);
    let is_text = |path: &Path| {
        let extension = path.extension().and_then(OsStr::to_str).unwrap_or_default();
        ["h", "hpp", "inc", "json", "pc", "cmake"].contains(&extension)
    };
    check(report, &name("no text names a build folder"), no_build_path(prefix, is_text));
}

/// Checks that some files contain neither the path of the checkout nor those of the user. The prefix is below the
/// checkout, so its own path is covered, too.
pub(crate) fn no_build_path(prefix: &Path, examined: impl Fn(&Path) -> bool) -> Result<(), Error> {
    let mut paths = vec![sh::root(), sh::target()];
    paths.extend(["CARGO_HOME", "HOME"].iter().filter_map(std::env::var_os).map(PathBuf::from));
    let (mut folders, mut seen, mut found) = (vec![prefix.to_path_buf()], 0, Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() && path != prefix.join("bin") {
                folders.push(path);
            } else if path.is_file() && examined(&path) {
                seen += 1;
                let contents = fs::read(&path)?;
                for build in &paths {
                    // A folder such as `/root` may also be the beginning of a word, such as `/rooted`.
                    let needle = [build.as_os_str().as_encoded_bytes(), b"/"].concat();
                    if contents.windows(needle.len()).any(|window| window == needle) {
                        found.push(format!("{} contains {}", path.display(), build.display()));
                    }
                }
            }
        }
    }
    match (seen, found.as_slice()) {
        (0, _) => Err(format!("there is no such file in {}", prefix.display()).into()),
        (_, []) => Ok(()),
        (_, found) => Err(found.join("\n").into()),
    }
}

/// Prints the sizes of what users download and install.
fn sizes(tarball: &Path, prefix: &Path) -> Result<(), Error> {
    let lib = prefix.join("lib");
    for path in [tarball.to_path_buf(), Installed { prefix: prefix.into() }.shared(), lib.join("libdevice_plugin.a")] {
        println!("{}: {:.1} MB", path.display(), fs::metadata(&path)?.len() as f64 / 1e6);
    }
    Ok(())
}

/// Gets the library by CMake's FetchContent.
fn fetch_content(report: &mut Report, folder: &Path, tarball: &Path, home: &Home) {
    let build = folder.join("fetch-content");
    let url = format!("file://{}", tarball.display());
    let built = sh::remove(&build).and_then(|()| {
        let none = Installed { prefix: folder.join("no prefix") };
        cmake(&recipe("fetch-content"), &build, &none, &[("DEVICE_PLUGIN_TARBALL", OsStr::new(&url))])
    });
    let name = "packaging/fetch-content";
    check(report, name, built.and_then(|()| runs(&build.join("c-minimal/c_minimal"), home)));
}

fn recipe(name: &str) -> PathBuf {
    sh::root().join("packaging").join(name)
}

/// The version of glibc in the oldest supported Linux distributions.
const GLIBC: (u32, u32) = (2, 28);

/// Checks that a library or a program, of any processor, works with the oldest supported glibc.
pub(crate) fn needs_only_glibc(file: &Path) -> Result<(), Error> {
    let versions = sh::output(Command::new("readelf").arg("--version-info").arg(file))?;
    let needed = versions.split("GLIBC_").skip(1).filter_map(|rest| {
        let (major, rest) = rest.split_once('.')?;
        let minor: String = rest.chars().take_while(char::is_ascii_digit).collect();
        Some((major.parse().ok()?, minor.parse().ok()?))
    });
    let newest: (u32, u32) = needed.max().ok_or("readelf lists no versions of glibc")?;
    println!("{} needs glibc {}.{}", file.display(), newest.0, newest.1);
    if newest > GLIBC {
        return Err(format!("{} needs glibc {}.{}", file.display(), newest.0, newest.1).into());
    }
    Ok(())
}

/// Builds for an older glibc, and checks which versions the libraries need and that they work here.
fn older_glibc(folder: &Path, python: &Path, home: &Home) -> Result<(), Error> {
    let prefix = folder.join("glibc");
    let version = format!("{}.{}", GLIBC.0, GLIBC.1);
    let mut build = Command::new(std::env::current_exe()?);
    build.args(["c-library", "--release", "--cpu", "--glibc", &version, "--prefix"]).arg(&prefix);
    sh::output(with_tools(&mut build, python)?)?;
    for library in [Installed { prefix: prefix.clone() }.shared(), prefix.join("lib/pjrt/libpjrt_plugin_cpu.so")] {
        needs_only_glibc(&library)?;
    }
    no_build_path(&prefix, |_| true)?;
    let build = folder.join("glibc-cmake");
    sh::remove(&build)?;
    example("c-minimal", &build, &Installed { prefix }, "")?;
    runs(&build.join("c_minimal"), home)
}

/// Puts the programs of a Python environment first.
pub(crate) fn with_tools<'a>(command: &'a mut Command, python: &Path) -> Result<&'a mut Command, Error> {
    let folder = python.parent().ok_or("Python is in no folder")?.to_path_buf();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder).chain(std::env::split_paths(&path));
    Ok(command.env("PATH", std::env::join_paths(folders)?))
}

/// Lets Conan build the package, with its own copy of the checkout, and run the recipe's test.
fn conan(folder: &Path, python: &Path) -> Result<(), Error> {
    let (home, target) = (folder.join("conan"), folder.join("conan-target"));
    sh::remove(&home)?;
    let conan = |arguments: &[&str]| {
        let mut conan = Command::new(python.with_file_name("conan"));
        // Both builds share the crates of the registry.
        conan.args(arguments).env("CONAN_HOME", &home).env("CARGO_TARGET_DIR", &target);
        conan.current_dir(recipe("conan"));
        sh::output(&mut conan)
    };
    conan(&["profile", "detect"])?;
    // Not below the recipe.
    let tests = format!("tools.cmake.cmake_layout:test_folder={}", home.join("test").display());
    for shared in ["True", "False"] {
        let option = format!("device_plugin/*:shared={shared}");
        // Fails if the recipe's test program fails.
        conan(&["create", ".", "--settings=build_type=Debug", "--options", &option, "--conf", &tests])?;
    }
    sh::remove(&target).and_then(|()| sh::remove(&home))
}

/// Builds the library with Corrosion, if CMake finds it.
fn corrosion(report: &mut Report, folder: &Path, home: &Home) {
    let build = folder.join("corrosion");
    let none = Installed { prefix: std::env::var_os("Corrosion_ROOT").map(PathBuf::from).unwrap_or_default() };
    let name = "packaging/corrosion";
    let built = sh::remove(&build)
        .and_then(|()| cmake(&recipe("corrosion"), &build, &none, &[("CARGO_PROFILE", OsStr::new("dev"))]));
    match built {
        Err(error) if error.to_string().contains("provided by \"Corrosion\"") => {
            report.skip(format!(
                "{name}: CMake finds no Corrosion; set Corrosion_ROOT to the folder of an installed one"
            ));
        }
        built => check(report, name, built.and_then(|()| runs(&build.join("c_minimal"), home))),
    }
}

/// Lets vcpkg build the overlay port, and builds a program with it. `VCPKG_ROOT` names the folder of vcpkg.
fn vcpkg(report: &mut Report, folder: &Path, home: &Home) {
    let name = "packaging/vcpkg";
    let Some(root) = std::env::var_os("VCPKG_ROOT").map(PathBuf::from) else {
        return report.skip(format!("{name}: VCPKG_ROOT does not name the folder of vcpkg"));
    };
    for triplet in ["x64-linux", "x64-linux-dynamic"] {
        let ran = || {
            let work = folder.join("vcpkg").join(triplet);
            sh::remove(&work)?;
            let mut install = Command::new(root.join("vcpkg"));
            install.args(["install", "device-plugin[cpu]", "--triplet", triplet, "--host-triplet", triplet]);
            install.args(["--binarysource=clear", "--disable-metrics", "--classic"]);
            install.arg(format!("--overlay-ports={}", recipe("vcpkg").display()));
            for (option, folder) in [("x-install-root", "installed"), ("x-packages-root", "packages")] {
                install.arg(format!("--{option}={}", work.join(folder).display()));
            }
            install.arg(format!("--x-buildtrees-root={}", work.join("buildtrees").display()));
            sh::output(install.env("VCPKG_ROOT", &root))?;
            let (build, toolchain) = (work.join("build"), root.join("scripts/buildsystems/vcpkg.cmake"));
            let options = [
                ("CMAKE_TOOLCHAIN_FILE", toolchain.as_os_str()),
                ("VCPKG_TARGET_TRIPLET", OsStr::new(triplet)),
                ("VCPKG_INSTALLED_DIR", &work.join("installed").into_os_string()),
                ("VCPKG_MANIFEST_MODE", OsStr::new("OFF")),
            ];
            let none = Installed { prefix: PathBuf::new() };
            cmake(&sh::root().join("examples/c-minimal"), &build, &none, &options)?;
            let mut program = without_settings(&build.join("c_minimal"), home);
            // The program with the static library is not installed below the prefix.
            let manifests = work.join("installed").join(triplet).join("share/pjrt/plugins.d");
            program.env("PJRT_REGISTRY_ADD_MANIFESTS", manifests);
            expect(&sh::output(&mut program)?, "2 3 4")
        };
        check(report, &format!("{name}, {triplet}"), ran());
    }
}

/// Lets cargo-c install the library, if a version that reads this project's manifests is installed.
fn cargo_c(report: &mut Report, folder: &Path, home: &Home) {
    let name = "cargo cinstall";
    if !present("cargo-cinstall") {
        return report.skip(format!("{name}: there is no `cargo-cinstall`"));
    }
    let prefix = folder.join("cargo-c");
    let ran = || {
        sh::remove(&prefix)?;
        let mut install = sh::cargo();
        install.args(["cinstall", "--package", "pjrt-c", "--debug", "--libdir", "lib", "--prefix"]).arg(&prefix);
        sh::output(&mut install)?;
        let mut cc = Command::new("cc");
        let program = folder.join("cargo-c-minimal");
        cc.arg("-std=c11").arg(sh::root().join("examples/c-minimal/main.c")).arg("-o").arg(&program);
        cc.args(flags(&Installed { prefix: prefix.clone() }, false)?);
        sh::output(cc.arg(format!("-Wl,-rpath,{}", prefix.join("lib").display())))?;
        let said = without_settings(&program, home).arg("no such plugin").output()?;
        expect(&String::from_utf8_lossy(&said.stderr), "no such plugin")
    };
    match ran() {
        Err(error) if error.to_string().contains("failed to parse manifest") => {
            report.skip(format!("{name}: the installed cargo-c is too old for this project's manifests"));
        }
        ran => check(report, name, ran),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_has_the_version_of_the_library() {
        let port = fs::read_to_string(recipe("vcpkg/device-plugin/vcpkg.json")).unwrap();
        let port: serde_json::Value = serde_json::from_str(&port).unwrap();
        assert_eq!(port["version"], env!("CARGO_PKG_VERSION"));
    }
}
