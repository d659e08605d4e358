//! `cargo xtask test`: runs the tests that need only Rust and a C compiler. With `--all`, it runs all tests, with the
//! real plugins and JAX if a package registry is reachable. With `--thorough`, it adds what takes long.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Instant;

use serde_json::Value;

use crate::jax_extension::Extension;
use crate::package::{PLUGINS, PLUGINS_WITHOUT_HARDWARE, Plugin};
use crate::report::{Report, Scope, is_result};
use crate::tsan::ThreadSanitizer;
use crate::workspace::{Workspace, release_cpu};
use crate::{Error, asan, c, codegen, exports, fuzz, jax, python, sh, vendor};

/// The checks that only larger scopes run, each with the option that includes it.
const LEFT_OUT: &[(Scope, &str)] = &[
    (Scope::All, "wrong uses of `pjrt` and `device-plugin`, which must not compile"),
    (Scope::All, "layouts of the PJRT headers, compared with the C compiler"),
    (Scope::All, "the Rust tests and the examples of `pjrt` on XLA's CPU plugins"),
    (Scope::All, "the CPU plugin in the release profile, under JAX"),
    (Scope::All, "the C interface in C and C++ programs, with sanitizers and Valgrind"),
    (Scope::All, "the fuzz targets"),
    (Scope::All, "the exports of the shared libraries"),
    (Scope::All, "DLPack tensors of PyTorch"),
    (Scope::All, "a Python module in Rust on the client of JAX"),
    (Scope::All, "the plugin that `pjrt new` writes, and its CI"),
    (Scope::All, "wheels of `pjrt package` in Python environments"),
    (Scope::All, "the conformance suite of pypjrt on the CPU plugin"),
    (Scope::All, "the OpenCL plugin, under JAX"),
    (Scope::Thorough, "the versions of JAX other than the oldest, the newest and 0.10.2"),
    (Scope::Thorough, "the address, leak and thread sanitizers"),
    (Scope::Thorough, "the plugins for other hardware, without their hardware"),
    (Scope::Thorough, "packages of the C library: release, older glibc, Conan, Corrosion, vcpkg and cargo-c"),
];

/// Runs the tests of a scope.
pub(crate) fn run(scope: Scope) -> Result<(), Error> {
    let left_out = LEFT_OUT.iter().filter(|(wider, _)| scope < *wider);
    let mut report = Report::default();
    report.left_out.extend(left_out);
    if scope == Scope::Rust {
        report.rust_only()?;
    } else {
        let matrix = report.all(scope == Scope::Thorough)?;
        println!("\n{matrix}");
    }
    report.close()
}

/// Runs every example of `pjrt` on the embedded CPU device. Returns the number of examples.
fn examples(workspace: Workspace) -> Result<u64, Error> {
    let mut ran = 0;
    for entry in std::fs::read_dir(sh::root().join("crates/pjrt/examples"))? {
        let path = entry?.path();
        let name = path.file_stem().and_then(OsStr::to_str).ok_or("an example has a name that is not UTF-8")?;
        sh::output(&mut example(workspace, name))?;
        println!("{name}: ok");
        ran += 1;
    }
    if ran == 0 { Err("crates/pjrt/examples is empty".into()) } else { Ok(ran) }
}

fn example(workspace: Workspace, name: &str) -> Command {
    let mut example = Command::new(workspace.example(name));
    example.current_dir(sh::root()).env_remove("PJRT_PLUGIN");
    example
}

/// Names of the examples that run on any plugin.
const PROGRAMS: &[&str] = &[
    "ahead_of_time",
    "async_download",
    "kv_cache",
    "layer_by_layer",
    "nanogpt_decode",
    "safetensors",
    "serialized_executable",
    "serve_threads",
    "serve_tokio",
    "several_devices",
    "streaming_upload",
    "train_mlp",
];

/// Runs the examples in [`PROGRAMS`] on a plugin. Returns the number of examples.
fn examples_on(workspace: Workspace, plugin: &Path) -> Result<u64, Error> {
    for name in PROGRAMS {
        let named = format!("other:{}", plugin.display());
        sh::output(example(workspace, name).env("PJRT_PLUGIN", "other").env("PJRT_NAMES_AND_LIBRARY_PATHS", named))?;
        println!("{name} on {}: ok", plugin.display());
    }
    Ok(PROGRAMS.len() as u64)
}

/// Packages plugins as wheels, installs the wheels, and runs JAX on these plugins.
fn wheels(
    workspace: Workspace,
    python: &Path,
    cpu: &Path,
    plugins: &OsStr,
    thorough: bool,
    report: &mut Report,
) -> Result<(), Error> {
    let mut run = |python: &Path, tests: &str| {
        let mut pytest = python::pytest(python);
        pytest.arg(sh::root().join(tests));
        pytest.env("PJRT_COMMAND", workspace.command("pjrt"));
        pytest.env("PJRT_LAYERS_LIBRARY", workspace.example_library("layers_plugin"));
        pytest.env("PJRT_CPU_PLUGIN", cpu).env("PJRT_TEST_PLUGINS", plugins);
        sh::run_watched(&mut pytest, |line| report.pytest_line(line))
    };
    run(python, "tests/package")?;
    // Also test the newest version of JAX on the oldest plugin, and a hostile manifest in the other versions.
    let (oldest, newest) = (python::JAX.first(), python::JAX.last());
    if let Some(Ok(python)) = newest.map(python::Jax::python) {
        run(&python, "tests/package/test_compat.py")?;
    }
    let chosen = [oldest, newest].map(|jax| jax.map(|jax| jax.version));
    for jax in python::JAX.iter().filter(|jax| thorough || chosen.contains(&Some(jax.version))) {
        if let Ok(python) = jax.python() {
            run(&python, "tests/package/test_hostile_manifests.py::test_jax_sees_exactly_the_values")?;
        }
    }
    Ok(())
}

impl Report {
    /// Runs the tests that need only Rust and a C compiler.
    fn rust_only(&mut self) -> Result<(), Error> {
        step("building");
        let workspace = Workspace::build()?;
        // The compiler builds the SDK again for the tests of programs that must not compile.
        self.rust_tests(&["pjrt-misuse"], |tests| {
            tests.env("PJRT_CPU_PLUGIN", workspace.library("pjrt_plugin_cpu"));
        });
        step("examples of `pjrt`");
        self.examples(workspace);
        Ok(())
    }

    /// Runs all tests, and returns a table of the outcomes with each version of JAX.
    fn all(&mut self, thorough: bool) -> Result<String, Error> {
        let headers = self.part("PJRT headers, compared with the C compiler", codegen::headers());
        let (plugins, plugin_files) = self.plugins(PLUGINS);
        let without_hardware = if thorough { self.plugins(PLUGINS_WITHOUT_HARDWARE).0 } else { OsString::new() };
        let main = python::JAX.iter().find(|jax| jax.version == python::MAIN);
        let main = main.map_or_else(|| Err("no such version".into()), python::Jax::python);
        let python = self.part(&format!("JAX {} and pypjrt in a Python environment", python::MAIN), main);
        jax::prepare(thorough);

        step("building the CPU plugin for JAX");
        let cpu = release_cpu(&[])?;

        self.rust_tests(&[], |tests| {
            tests.env("PJRT_CPU_PLUGIN", &cpu);
            if let Some(headers) = &headers {
                tests.env("PJRT_HEADERS", headers);
            }
            if !plugins.is_empty() {
                tests.env("PJRT_TEST_PLUGINS", &plugins);
            }
            if !without_hardware.is_empty() {
                tests.env("PJRT_TEST_PLUGINS_WITHOUT_HARDWARE", &without_hardware);
            }
        });

        step("examples of `pjrt`");
        let workspace = Workspace::build()?;
        self.examples(workspace);
        self.examples_on(workspace, plugin_files.last());

        self.c_and_cpp(headers.as_deref(), &plugin_files);
        if thorough {
            step("packages of the C library");
            let outcome = c::packages::slow(self, &c::packages::ALL);
            self.check("cargo xtask c-packages", outcome);
        }
        self.fuzz_targets();
        self.library_exports(workspace);
        if thorough {
            self.sanitizers();
        }
        // The tests with one version of JAX use little more than one core, and those of packages wait for
        // installations.
        std::thread::scope(|scope| {
            let packages = scope.spawn(|| {
                let mut report = Self::default();
                report.packages(workspace, python.as_deref(), &cpu, &plugins, thorough);
                report.jax_extension(&cpu);
                report
            });
            let matrix = self.jax(workspace, &cpu, &plugins, thorough);
            self.add(packages.join().map_err(|_| "the tests of packages panicked")?);
            matrix
        })
    }

    /// Runs the tests of what a vendor or a user installs, and of other projects.
    fn packages(&mut self, workspace: Workspace, python: Option<&Path>, cpu: &Path, plugins: &OsStr, thorough: bool) {
        self.torch(workspace);

        step("a vendor's first plugin: `pjrt new`, and its own CI");
        let outcome = vendor::run(python, |line| self.cargo_line(line));
        self.check("the plugin of `pjrt new`", outcome);

        if let Some(python) = python {
            step("wheels of `pjrt package` in fresh Python environments");
            let outcome = wheels(workspace, python, cpu, plugins, thorough, self);
            self.check("pytest tests/package", outcome);

            self.pypjrt(python, cpu);
            self.opencl(workspace, python);
        }
    }

    /// Builds and runs the tests of all packages that are not `excluded`. `set` sets the tests' environment variables.
    ///
    /// Two sequences of test programs run at the same time, because most programs wait for files, sockets or other
    /// processes for a part of their time.
    fn rust_tests(&mut self, excluded: &[&str], set: impl Fn(&mut Command) + Sync) {
        let tests = || {
            let mut tests = sh::cargo();
            tests.args(["test", "--workspace"]).args(excluded.iter().flat_map(|package| ["--exclude", package]));
            set(&mut tests);
            tests
        };
        step("building the Rust tests");
        if let Err(error) = sh::run(tests().args(["--quiet", "--no-run"])) {
            return self.check("building the Rust tests", Err(error));
        }
        step("Rust tests");
        let integration = match integration_tests(excluded) {
            Ok(names) => names.into_iter().flat_map(|name| ["--test".to_owned(), name]).collect::<Vec<_>>(),
            Err(error) => return self.check("listing the integration tests", Err(error)),
        };
        let integration: Vec<&str> = integration.iter().map(String::as_str).collect();
        let sequences: [&[(&str, &[&str])]; 2] = [
            &[("unit tests", &["--lib", "--bins"]), ("documentation", &["--doc"])],
            &[("integration tests", &integration)],
        ];
        let run = |name: &str, targets: &[&str]| {
            let mut tests = tests();
            tests.args(targets);
            // Passing tests list their skipped checks in their output, which is hidden without `--show-output`.
            tests.args(["--no-fail-fast", "--", "--show-output"]);
            let mut report = Self::default();
            let outcome = sh::run_in_sections(&mut tests, |line| report.cargo_line(line), is_result);
            report.check(&format!("cargo test, {name}"), outcome);
            report
        };
        let run = &run;
        std::thread::scope(|scope| {
            let sequences = sequences.map(|sequence| {
                scope.spawn(move || sequence.iter().map(|(name, targets)| run(name, targets)).collect::<Vec<Self>>())
            });
            for sequence in sequences {
                match sequence.join() {
                    Ok(reports) => reports.into_iter().for_each(|report| self.add(report)),
                    Err(_) => self.broken.push("reading the output of the tests".to_owned()),
                }
            }
        });
    }

    /// Runs the examples of `pjrt` on the embedded device.
    fn examples(&mut self, workspace: Workspace) {
        let outcome = examples(workspace).map(|ran| self.passed += ran);
        self.check("the examples of crates/pjrt", outcome);
    }

    /// Runs the examples of `pjrt` on the newest plugin, if there is one.
    fn examples_on(&mut self, workspace: Workspace, newest: Option<&PathBuf>) {
        match newest {
            Some(newest) => {
                let outcome = examples_on(workspace, newest).map(|ran| self.passed += ran);
                self.check(&format!("the programs of crates/pjrt/examples on {}", newest.display()), outcome);
            }
            None => {
                self.skipped.push("the programs of crates/pjrt/examples on XLA CPU: no plugin could be fetched".into())
            }
        }
    }

    /// Runs the tests of the C interface.
    fn c_and_cpp(&mut self, headers: Option<&Path>, plugins: &[PathBuf]) {
        step("C and C++");
        let outcome = c::run(self, headers, plugins);
        self.check("C and C++", outcome);
    }

    /// Runs each fuzz target for a short time.
    fn fuzz_targets(&mut self) {
        step("fuzz targets of the program readers");
        if self.part("fuzz targets under libFuzzer", fuzz::available()).is_some() {
            let outcome = fuzz::run(fuzz::Limit::Seconds(fuzz::SECONDS), &[]).map(|targets| self.passed += targets);
            self.check("cargo xtask fuzz", outcome);
        }
    }

    /// Checks the symbols of the shared libraries.
    fn library_exports(&mut self, workspace: Workspace) {
        step("exports of the shared libraries");
        if let Some(libraries) = self.part("symbols of the shared libraries", exports::elf()) {
            let outcome = exports::run(libraries, workspace).map(|checked| self.passed += checked);
            self.check("cargo xtask exports", outcome);
        }
    }

    /// Runs tests under sanitizers.
    fn sanitizers(&mut self) {
        step("the vendor side under sanitizers");
        if let Some(nightly) = self.part("tests under the address and leak sanitizers", asan::Nightly::find()) {
            let outcome = nightly.test(|line| self.cargo_line(line));
            self.check("cargo xtask asan", outcome);
        }
        if let Some(threads) = self.part("tests under the thread sanitizer", ThreadSanitizer::prepare()) {
            let outcome = threads.test(|line| self.cargo_line(line));
            self.check("cargo xtask tsan", outcome);
        }
    }

    /// Runs the tests with JAX. Returns a table of the outcomes with each version.
    fn jax(&mut self, workspace: Workspace, cpu: &Path, plugins: &OsStr, thorough: bool) -> Result<String, Error> {
        step("JAX on the CPU plugin");
        let libraries = jax::Libraries {
            command: &workspace.command("pjrt"),
            cpu,
            traced: &workspace.example_library("traced_plugin"),
            dlpack: &workspace.example_library("dlpack_exchange"),
            layers: &workspace.example_library("layers_plugin"),
            remote: &workspace.library("pjrt_plugin_remote"),
            plugins,
        };
        let package = jax::package(cpu)?;
        let rows = jax::run(&libraries, &package, thorough);
        let matrix = jax::matrix(&rows);
        self.rows(rows);
        Ok(matrix)
    }

    /// Lets Rust use the client and the arrays of JAX, on the CPU plugin and on the newest of XLA's.
    fn jax_extension(&mut self, cpu: &Path) {
        step("a Python module in Rust on the client of JAX");
        let Some(extension) = self.part("the Python module in Rust", Extension::prepare()) else { return };
        if let Err(error) = extension.build() {
            return self.check("building examples/jax-extension", Err(error));
        }
        // If one of XLA's plugins is missing, it is already counted as skipped.
        let [.., older, newest] = PLUGINS else { return };
        let (older, newest) = (older.path().ok(), newest.path().ok());
        for library in [cpu].into_iter().chain(newest.as_deref()) {
            let mut tests = extension.tests(library, older.as_deref());
            let outcome = sh::run_watched(&mut tests, |line| self.pytest_line(line));
            self.check(&format!("pytest examples/jax-extension on {}", library.display()), outcome);
        }
    }

    /// Exchanges DLPack tensors with PyTorch.
    fn torch(&mut self, workspace: Workspace) {
        step("DLPack tensors of PyTorch");
        let Some(python) = self.part("DLPack tensors of PyTorch", python::with_torch()) else { return };
        let mut pytest = python::pytest(&python);
        pytest.arg(sh::root().join("tests/dlpack/test_torch.py"));
        pytest.env("PJRT_DLPACK", workspace.example_library("dlpack_exchange"));
        let outcome = sh::run_watched(&mut pytest, |line| self.pytest_line(line));
        self.check("pytest tests/dlpack/test_torch.py", outcome);
    }

    /// Trains two networks with JAX on the OpenCL plugin, and compares their losses with those of JAX's CPU. The Rust
    /// tests contain the other tests of the plugin.
    fn opencl(&mut self, workspace: Workspace, python: &Path) {
        step("JAX on the OpenCL plugin");
        if self.part("training on the OpenCL plugin", opencl_driver()).is_none() {
            return;
        }
        let library = workspace.library("pjrt_plugin_opencl");
        let mut training = Command::new(python);
        training.arg(sh::root().join("examples/opencl-plugin/jax/train.py")).env("JAX_PLATFORMS", "opencl,cpu");
        training.env("PJRT_NAMES_AND_LIBRARY_PATHS", format!("opencl:{}", library.display()));
        let mut networks = 0;
        let outcome = sh::run_watched(&mut training, |line| networks += u64::from(line.ends_with("as on the CPU")));
        self.passed += networks;
        let outcome = outcome.and_then(|()| if networks == 2 { Ok(()) } else { Err("not all networks ran".into()) });
        self.check("examples/opencl-plugin/jax/train.py", outcome);
    }

    /// Runs the conformance suite of pypjrt on the CPU plugin.
    fn pypjrt(&mut self, python: &Path, cpu: &Path) {
        step("pypjrt.conform on the CPU plugin");
        let mut conform = Command::new(python);
        conform.args(["-m", "pypjrt.conform"]).arg(cpu);
        let mut failures = None;
        let outcome = sh::run_watched(&mut conform, |line| {
            if line.contains(" pass") && line.ends_with(" FAIL") {
                failures = Some(sh::number_before(line, " FAIL"));
                self.passed += sh::number_before(line, " pass");
            }
        });
        let outcome = outcome.and_then(|()| match failures {
            Some(0) => Ok(()),
            Some(failed) => Err(format!("pypjrt.conform: {failed} FAIL").into()),
            None => Err("pypjrt.conform printed no closing line".into()),
        });
        self.check("pypjrt.conform", outcome);
    }

    /// Returns the library paths of the available plugins, as a colon-separated list and as a vector.
    fn plugins(&mut self, plugins: &[Plugin]) -> (OsString, Vec<PathBuf>) {
        let (mut list, mut files) = (OsString::new(), Vec::new());
        for plugin in plugins {
            let Plugin { package, api, .. } = plugin;
            let part = format!("the plugin of API {api} ({} {})", package.name, package.version);
            let Some(path) = self.part(&part, plugin.path()) else { continue };
            if !files.is_empty() {
                list.push(":");
            }
            list.push(&path);
            files.push(path);
        }
        (list, files)
    }

    /// Adds the counts and the messages of the tests with each version of JAX to the report.
    fn rows(&mut self, rows: Vec<jax::Row>) {
        for jax::Row { version, outcome } in rows {
            match outcome {
                jax::Outcome::Ran { passed, failed, skipped, failures, result } => {
                    self.passed += passed;
                    self.failed += failed;
                    self.skipped.extend(skipped);
                    self.failures.extend(failures);
                    self.check(&format!("pytest tests/jax under JAX {version}"), result.map_err(Error::from));
                }
                // The list of left out checks contains these versions.
                jax::Outcome::Left => {}
                jax::Outcome::Missing(reason) => {
                    eprintln!("SKIPPED JAX {version}: {reason}");
                    self.skipped.push(format!("JAX {version}: {reason}"));
                }
            }
        }
    }
}

/// Returns the names of the integration tests that need only default features, of all packages that are not `excluded`.
fn integration_tests(excluded: &[&str]) -> Result<BTreeSet<String>, Error> {
    let metadata = sh::metadata()?;
    let mut names = BTreeSet::new();
    for package in metadata["packages"].as_array().ok_or("cargo metadata lists no packages")? {
        if excluded.iter().any(|name| package["name"] == *name) {
            continue;
        }
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let default = list(&package["features"]["default"]);
        let is_wanted = |target: &Value| {
            target["kind"][0] == "test" && list(&target["required-features"]).iter().all(|name| default.contains(name))
        };
        let targets = list(&package["targets"]);
        names.extend(
            targets.iter().filter(|target| is_wanted(target)).filter_map(|t| t["name"].as_str().map(str::to_owned)),
        );
    }
    Ok(names)
}

/// Returns an error if the system has no OpenCL driver.
fn opencl_driver() -> Result<(), Error> {
    let mut drivers = std::fs::read_dir("/etc/OpenCL/vendors").into_iter().flatten();
    let found = drivers.any(|entry| entry.is_ok_and(|entry| entry.path().extension() == Some(OsStr::new("icd"))));
    match found {
        true => Ok(()),
        false => Err("there is no OpenCL driver; on Debian, install ocl-icd-libopencl1 and pocl-opencl-icd".into()),
    }
}

/// Prints the name of a step, and the times since the first step began.
fn step(name: &str) {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    let elapsed = FIRST.get_or_init(Instant::now).elapsed().as_secs();
    println!("\n== {name} (after {elapsed} s, {} s of processor time)", sh::processor_seconds());
}
