//! The section "C and C++" of `cargo xtask test --all`: tests of libplugin_registry in C and C++ programs.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::c_library::{self, Installed};
use crate::report::Report;
use crate::{Error, sh};

/// Builds the library, and runs the tests and examples that use it.
pub(crate) fn run(report: &mut Report, headers: Option<&Path>, plugins: &[PathBuf]) -> Result<(), Error> {
    for tool in ["cc", "c++", "cmake"] {
        if !present(tool) {
            report.skip(format!("C and C++: there is no `{tool}`; install it to run them"));
            return Ok(());
        }
    }
    let library = c_library::install(None, false)?;
    let folder = sh::target().join("c-tests");
    let home = folder.join("home");
    fs::create_dir_all(&home)?;

    lifetimes(report, &library, headers);
    sanitized(report, &folder.join("sanitized"), &library, headers, &home);
    valgrind(report, &folder, &library, &home);
    embedding(report, &folder, &library);
    pkg_config(report, &folder, &library, &home);
    let minimal = folder.join("c-minimal");
    check(
        report,
        "examples/c-minimal",
        example("c-minimal", &minimal, &library, None).and_then(|()| {
            let said = sh::output(clean(&minimal.join("c_minimal"), &home).arg("cpu"))?;
            expect(&said, "speaks PJRT 0.117")
        }),
    );
    match headers {
        Some(headers) => framework(report, &folder.join("cpp-framework"), &library, headers, plugins, &home),
        None => report.skip("examples/cpp-framework: it needs the PJRT headers".into()),
    }
    Ok(())
}

/// Counts a test, and prints its name.
fn check(report: &mut Report, name: &str, outcome: Result<(), Error>) {
    println!("C: {name} ... {}", if outcome.is_ok() { "ok" } else { "FAILED" });
    report.count(name, outcome);
}

fn present(tool: &str) -> bool {
    Command::new(tool).arg("--version").output().is_ok_and(|out| out.status.success())
}

fn expect(said: &str, part: &str) -> Result<(), Error> {
    if said.contains(part) { Ok(()) } else { Err(format!("expected {part:?} in:\n{said}").into()) }
}

/// Creates a command that does not read or write the user's files.
fn clean(program: &Path, home: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("HOME", home).env("PJRT_REGISTRY_LOCK_DIR", home);
    command
}

fn cmake(source: &Path, build: &Path, library: &Installed, options: &[(&str, &OsStr)]) -> Result<(), Error> {
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

fn example(name: &str, build: &Path, library: &Installed, headers: Option<&Path>) -> Result<(), Error> {
    let headers = headers.map(|headers| ("PJRT_INCLUDE_DIR", headers.as_os_str()));
    cmake(&sh::root().join("examples").join(name), build, library, headers.as_slice())
}

/// Runs `tests/c`, under the sanitizers if the compiler supports them.
fn sanitized(report: &mut Report, build: &Path, library: &Installed, headers: Option<&Path>, home: &Path) {
    let sanitizers = if has_sanitizers(home) {
        "address,undefined"
    } else {
        report.skip("sanitizers of tests/c: the C compiler cannot link -fsanitize=address,undefined".into());
        ""
    };
    let mut options = vec![("SANITIZE", OsStr::new(sanitizers))];
    if let Some(headers) = headers {
        options.push(("PJRT_INCLUDE_DIR", headers.as_os_str()));
    } else {
        report.skip("tests/c/exit.c, and to_pjrt in tests/c/cpp.cpp: they need the PJRT headers".into());
    }
    if let Err(error) = cmake(&sh::root().join("tests/c"), build, library, &options) {
        check(report, "tests/c builds", Err(error));
        return;
    }
    for test in ["options", "registry", "process", "threads", "exit", "cpp", MISUSE] {
        for kind in ["shared", "static"] {
            let program = build.join(format!("{test}_{kind}"));
            let mut run = clean(&program, home);
            run.envs(std::env::vars().filter(|(name, _)| name.starts_with("DP_MISUSE_")));
            let ran = sh::output(&mut run).and_then(|said| expect(&said, " checks"));
            check(report, &format!("tests/c/{test} ({kind} library, sanitizers {sanitizers:?})"), ran);
        }
    }
}

/// The test that makes random calls.
const MISUSE: &str = "misuse";

/// Runs the test that makes random calls under Valgrind, which also sees the code of the library.
fn valgrind(report: &mut Report, folder: &Path, library: &Installed, home: &Path) {
    if !present("valgrind") {
        return report.skip("tests/c/misuse.c under Valgrind: there is no `valgrind`".into());
    }
    let program = folder.join(MISUSE);
    let lib = library.prefix.join("lib");
    let ran = || {
        let mut cc = Command::new("cc");
        cc.args(["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-g", "-pthread", "-I"]).arg(library.prefix.join("include"));
        cc.arg(sh::root().join("tests/c/misuse.c")).arg("-o").arg(&program);
        cc.arg("-L").arg(&lib).arg(format!("-Wl,-rpath,{}", lib.display())).arg("-lplugin_registry");
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
const CASES: usize = 9;

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

fn has_sanitizers(folder: &Path) -> bool {
    let (source, program) = (folder.join("empty.c"), folder.join("empty"));
    let mut cc = Command::new("cc");
    cc.arg("-fsanitize=address,undefined").arg(&source).arg("-o").arg(&program);
    fs::write(&source, "int main(void) { return 0; }\n").is_ok()
        && cc.output().is_ok_and(|out| out.status.success())
        && clean(&program, folder).output().is_ok_and(|out| out.status.success())
}

/// Builds the C example with the flags of pkg-config, once with the shared and once with the static library.
fn pkg_config(report: &mut Report, folder: &Path, library: &Installed, home: &Path) {
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
            if needs.contains("libplugin_registry") == is_static {
                return Err(format!("linked against the other library:\n{needs}").into());
            }
            expect(&sh::output(clean(&program, home).arg("cpu"))?, "speaks PJRT")
        });
        check(report, &format!("pkg-config, {kind} library"), built);
    }
}

fn flags(library: &Installed, is_static: bool) -> Result<Vec<String>, Error> {
    let mut pkg_config = Command::new("pkg-config");
    pkg_config.env("PKG_CONFIG_PATH", library.prefix.join("lib/pkgconfig")).args(["--cflags", "--libs"]);
    let said = sh::output(pkg_config.arg(if is_static { "plugin_registry-static" } else { "plugin_registry" }))?;
    Ok(said.split_whitespace().map(str::to_owned).collect())
}

/// Runs the C++ framework on the embedded device and on XLA's CPU plugins. Each plugin runs once with its own
/// description and once with the description of a TPU.
fn framework(report: &mut Report, build: &Path, library: &Installed, headers: &Path, plugins: &[PathBuf], home: &Path) {
    if let Err(error) = example("cpp-framework", build, library, Some(headers)) {
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
    let embedded = PathBuf::from("cpu");
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::exports::declared;

    #[test]
    fn random_calls_cover_every_function() {
        let oracle = fs::read_to_string(sh::root().join("tests/c/misuse/oracle.h")).unwrap();
        let listed = oracle.split("X(").filter_map(|rest| rest.split(')').next());
        let called: BTreeSet<String> = listed.filter(|name| name.starts_with("dp_")).map(str::to_owned).collect();
        assert_eq!(called, declared().unwrap());
        assert!(called.len() > 60, "{}", called.len());
    }
}
