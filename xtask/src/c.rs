//! The section "C and C++" of `cargo xtask test --all`: tests of libdevice_plugin in C and C++ programs.

mod languages;
pub(crate) mod packages;
mod programs;

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use self::programs::{Home, check, clean, cmake, example, expect, flags, present};
use crate::c_library::{self, Installed};
use crate::report::Report;
use crate::workspace::Workspace;
use crate::{Error, sh};

/// Builds the library, and runs the tests and examples that use it.
pub(crate) fn run(report: &mut Report, headers: Option<&Path>, plugins: &[PathBuf]) -> Result<(), Error> {
    for tool in ["cc", "c++", "cmake"] {
        if !present(tool) {
            report.skip(format!("C and C++: there is no `{tool}`; install it to run them"));
            return Ok(());
        }
    }
    let library = c_library::install(None, &c_library::Build::default())?;
    let folder = sh::target().join("c-tests");
    let home = folder.join("home");
    fs::create_dir_all(&home)?;

    // The device of the tests: the embedded CPU device, as a library of its own.
    let device = Workspace::build()?.library("pjrt_plugin_cpu");
    let home = Home { folder: home, plugins: format!("{CPU}:{}", device.display()) };
    let home = &home;
    lifetimes(report, &library, headers);
    sanitized(report, &folder.join("sanitized"), &library, headers, home);
    valgrind(report, &folder, &library, home);
    embedding(report, &folder, &library);
    pkg_config(report, &folder, &library, home);
    framework(report, &folder.join("cpp-framework"), &library, plugins, home);
    programs(report, &folder, &library, home);
    vendor(report, &folder.join("cpp-plugin"), &library);
    languages::run(report, &folder.join("languages"), &library, home);
    packages::run(report, &folder.join("packages"), home);
    Ok(())
}

/// Name of the embedded CPU device.
const CPU: &str = "pjrt_cpu";

/// Returns the sanitizers that the C compiler supports.
fn sanitizers(home: &Home) -> &'static str {
    if has_sanitizers(home) { "address,undefined" } else { "" }
}

/// Runs `tests/c`, under the sanitizers if the compiler supports them.
fn sanitized(report: &mut Report, build: &Path, library: &Installed, headers: Option<&Path>, home: &Home) {
    let sanitizers = sanitizers(home);
    if sanitizers.is_empty() {
        report.skip("sanitizers of tests/c: the C compiler cannot link -fsanitize=address,undefined".into());
    }
    let mut options = vec![("SANITIZE", OsStr::new(sanitizers))];
    if let Some(headers) = headers {
        options.push(("PJRT_INCLUDE_DIR", headers.as_os_str()));
    } else {
        report.skip("the parts of tests/c that call the plugin's table: they need the PJRT headers".into());
    }
    if let Err(error) = cmake(&sh::root().join("tests/c"), build, library, &options) {
        check(report, "tests/c builds", Err(error));
        return;
    }
    let c = ["options", "registry", "process", "threads", "exit", "caller", MISUSE];
    let cpp = ["cpp", "cpp_caller", "cpp_coroutine", "cpp_stablehlo"];
    for test in c.into_iter().chain(cpp).chain([VENDOR]) {
        // Only the static library has the interface for vendors.
        let kinds: &[_] = if test == VENDOR { &["static"] } else { &["shared", "static"] };
        for kind in kinds {
            let program = build.join(format!("{test}_{kind}"));
            let mut run = clean(&program, home);
            run.envs(std::env::vars().filter(|(name, _)| name.starts_with("DP_MISUSE_")));
            let ran = sh::output(&mut run).and_then(|said| expect(&said, " checks"));
            check(report, &format!("tests/c/{test} ({kind} library, sanitizers {sanitizers:?})"), ran);
        }
    }
}

/// The test of plugins in C++.
const VENDOR: &str = "cpp_vendor";

/// The test that makes random calls.
const MISUSE: &str = "misuse";

/// Runs the test that makes random calls under Valgrind, which also sees the code of the library.
fn valgrind(report: &mut Report, folder: &Path, library: &Installed, home: &Home) {
    if !present("valgrind") {
        return report.skip("tests/c/misuse.c under Valgrind: there is no `valgrind`".into());
    }
    let program = folder.join(MISUSE);
    let lib = library.prefix.join("lib");
    let ran = || {
        let mut cc = Command::new("cc");
        cc.args(["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-g", "-pthread", "-I"]).arg(library.prefix.join("include"));
        cc.arg(sh::root().join("tests/c/misuse.c")).arg("-o").arg(&program);
        cc.arg("-L").arg(&lib).arg(format!("-Wl,-rpath,{}", lib.display())).arg("-ldevice_plugin");
        sh::output(&mut cc)?;
        let mut run = clean(Path::new("valgrind"), home);
        // Pointers into the middle of an allocation, which Rust's `Arc` consists of, are possible leaks for Valgrind.
        run.args(["--quiet", "--error-exitcode=99", "--leak-check=full"]);
        run.args(["--show-leak-kinds=definite", "--errors-for-leak-kinds=definite"]).arg(&program);
        run.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("DP_MISUSE_STEPS", "2000");
        run.envs(std::env::vars().filter(|(name, _)| name.starts_with("DP_MISUSE_")));
        expect(&sh::output(&mut run)?, " checks")
    };
    check(report, "tests/c/misuse (shared library, Valgrind)", ran());
}

/// Index of the last case in `tests/c/lifetimes.cpp`, which needs the PJRT headers.
const CASES: usize = 16;

/// Checks that calls that would leave a dangling pointer do not compile. Case 0 has no such call, and must compile.
fn lifetimes(report: &mut Report, library: &Installed, headers: Option<&Path>) {
    for compiler in ["c++", "clang++"] {
        if !present(compiler) {
            report.skip(format!("tests/c/lifetimes.cpp with {compiler}: there is no `{compiler}`"));
            continue;
        }
        for case in 0..=CASES {
            if case == CASES && headers.is_none() {
                report.skip(format!("tests/c/lifetimes.cpp, case {case}: it needs the PJRT headers"));
                continue;
            }
            let mut compile = Command::new(compiler);
            compile.args(["-std=c++17", "-fsyntax-only", &format!("-DCASE={case}")]);
            compile.arg("-I").arg(library.prefix.join("include")).arg(sh::root().join("tests/c/lifetimes.cpp"));
            if let Some(headers) = headers {
                compile.arg("-DWITH_PJRT").arg("-isystem").arg(headers);
            }
            let result = match (case, sh::stderr(&mut compile)) {
                (0, Err(error)) => Err(error),
                (0, Ok(_)) => Ok(()),
                (_, Err(error)) => expect(&error.to_string(), "deleted"),
                (_, Ok(_)) => Err("it compiles, and its result points into a destroyed object".into()),
            };
            check(report, &format!("tests/c/lifetimes.cpp, case {case}, {compiler}"), result);
        }
    }
}

/// Checks that a shared library that links the static library exports none of the static library's symbols. Links with
/// the flags of CMake and with the flags of pkg-config.
fn embedding(report: &mut Report, folder: &Path, library: &Installed) {
    if !cfg!(target_os = "linux") {
        return report.skip("exports of a library that contains the static one: checked on Linux only".into());
    }
    let only_own = |path: &Path| {
        let exported = c_library::exports(path)?;
        if exported == ["embedding_version"] {
            return Ok(());
        }
        let some: Vec<&str> = exported.iter().take(5).map(String::as_str).collect();
        Err(format!("it exports {} symbols: {} ...", exported.len(), some.join(", ")).into())
    };
    check(
        report,
        "exports of a library with the archive in it, CMake",
        only_own(&folder.join("sanitized/libembedding.so")),
    );
    if !present("pkg-config") {
        return report.skip("exports of a library with the archive in it, pkg-config: there is no `pkg-config`".into());
    }
    let path = folder.join("libembedding.so");
    let linked = flags(library, true).and_then(|flags| {
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC"]).arg(sh::root().join("tests/c/embedding.c")).arg("-o").arg(&path).args(flags);
        sh::output(&mut cc)?;
        only_own(&path)
    });
    check(report, "exports of a library with the archive in it, pkg-config", linked);
}

fn has_sanitizers(home: &Home) -> bool {
    let (source, program) = (home.folder.join("empty.c"), home.folder.join("empty"));
    let mut cc = Command::new("cc");
    cc.arg("-fsanitize=address,undefined").arg(&source).arg("-o").arg(&program);
    fs::write(&source, "int main(void) { return 0; }\n").is_ok()
        && cc.output().is_ok_and(|out| out.status.success())
        && clean(&program, home).output().is_ok_and(|out| out.status.success())
}

/// Builds the C example with the flags of pkg-config, once with the shared and once with the static library.
fn pkg_config(report: &mut Report, folder: &Path, library: &Installed, home: &Home) {
    if !present("pkg-config") {
        report.skip("pkg-config file: there is no `pkg-config`".into());
        return;
    }
    for is_static in [false, true] {
        let kind = if is_static { "static" } else { "shared" };
        let program = folder.join(format!("pkg-config-{kind}"));
        let built = flags(library, is_static).and_then(|flags| {
            let mut cc = Command::new("cc");
            cc.args(["-std=c11", "-Wall", "-Wextra", "-Werror"]);
            cc.arg(sh::root().join("examples/c-minimal/main.c")).arg("-o").arg(&program).args(flags);
            cc.arg(format!("-Wl,-rpath,{}", library.prefix.join("lib").display()));
            sh::output(&mut cc)?;
            let needs = sh::output(Command::new("ldd").arg(&program))?;
            if needs.contains("libdevice_plugin") == is_static {
                return Err(format!("linked against the other library:\n{needs}").into());
            }
            expect(&sh::output(clean(&program, home).arg(CPU))?, "2 3 4")
        });
        check(report, &format!("pkg-config, {kind} library"), built);
    }
}

/// Runs the C++ framework on the embedded device and on XLA's CPU plugins. Each plugin runs once with its own
/// description and once with the description of a TPU.
fn framework(report: &mut Report, build: &Path, library: &Installed, plugins: &[PathBuf], home: &Home) {
    if let Err(error) = example("cpp-framework", build, library, "") {
        check(report, "examples/cpp-framework builds", Err(error));
        return;
    }
    let program = build.join("cpp_framework");
    let manifest = sh::root().join("examples/cpp-framework/tpu_like.json");
    let listed = sh::output(clean(&program, home).arg("--list")).and_then(|said| expect(&said, "capabilities"));
    check(report, "examples/cpp-framework --list", listed);
    if plugins.is_empty() {
        report.skip("examples/cpp-framework on XLA CPU: no plugin could be fetched".into());
    }
    let embedded = PathBuf::from(home.plugins.split_once(':').map_or("", |(_, path)| path));
    for plugin in std::iter::once(&embedded).chain(plugins) {
        let mut runs = |name: &str, said: &str, command: &mut Command| {
            let ran = sh::output(command).and_then(|out| expect(&out, said).and_then(|()| expect(&out, "(right)")));
            check(report, &format!("examples/cpp-framework on {}, {name}", plugin.display()), ran);
        };
        runs("unchanged", "lowered as gather, product in f32", clean(&program, home).arg(plugin));
        let mut like = clean(&program, home);
        runs(
            "with the description of a TPU",
            "lowered as one-hot dot_general, product in bf16",
            like.arg("--manifest").arg(&manifest).arg(plugin),
        );
    }
}

/// Builds and runs the examples that are programs, under the sanitizers if the compiler supports them.
fn programs(report: &mut Report, folder: &Path, library: &Installed, home: &Home) {
    for (name, said) in [("c-minimal", "2 3 4"), ("cpp-engine", "(right)"), ("cpp-train", "final loss")] {
        let build = folder.join(name);
        let ran = example(name, &build, library, sanitizers(home))
            .and_then(|()| sh::output(clean(&build.join(name.replace('-', "_")), home).arg(CPU)))
            .and_then(|out| expect(&out, said));
        check(report, &format!("examples/{name}"), ran);
    }
}

/// Builds the example of a plugin in C++, and runs the conformance suite on it.
fn vendor(report: &mut Report, build: &Path, library: &Installed) {
    let library =
        example("cpp-plugin", build, library, "").map(|()| build.join(format!("{DLL_PREFIX}cpp_example{DLL_SUFFIX}")));
    let ran = library.and_then(|library| {
        let pjrt = Workspace::build()?.command("pjrt");
        expect(&sh::output(Command::new(pjrt).arg("conform").arg(library))?, "0 unexpected")
    });
    check(report, "examples/cpp-plugin passes the conformance suite", ran);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::exports::declared_in;

    #[test]
    fn random_calls_cover_every_function() {
        let oracle = fs::read_to_string(sh::root().join("tests/c/misuse/oracle.h")).unwrap();
        let listed = oracle.split("X(").filter_map(|rest| rest.split(')').next());
        let called: BTreeSet<String> = listed.filter(|name| name.starts_with("dp_")).map(str::to_owned).collect();
        let headers = ["base", "registry"].map(|name| format!("include/device_plugin/{name}.h"));
        assert_eq!(called, declared_in(&headers).unwrap());
        assert!(called.len() > 60, "{}", called.len());
    }
}
