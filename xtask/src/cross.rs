//! `cargo xtask cross`: builds libraries and programs for other platforms, and runs the programs and the libraries'
//! tests in an emulator.

mod platform;
mod programs;
pub(crate) mod toolchain;
mod wine;

use std::process::Command;
use std::time::Instant;

use self::platform::{PLATFORMS, Platform};
use self::programs::{PLUGIN, Program};
use self::toolchain::Toolchain;
use self::wine::Wine;
use crate::report::Report;
use crate::{Error, sh};

/// Features of the packages. They leave out the CPU plugin's compiler for loops, which takes long to build.
const FEATURES: &str = "stablehlo-rs/default,plugin-manifest/default,device-plugin/default,plugin-registry/cpu,\
                        plugin-registry/stablehlo,plugin-registry/hazards";

/// Options of cargo for the CPU plugin and the command.
const PROGRAMS: [&str; 6] = ["-p", "pjrt-cpu-plugin", "-p", "pjrt-cli", "--bin", "pjrt"];

const OPTIONS: &[&str] = &["--skip-missing", "--programs"];

/// Parses the arguments `[--skip-missing] [--programs] PLATFORM ...`, and runs the task. With `--skip-missing`, a
/// platform whose tools are missing is a skipped check. With `--programs`, only programs run, and no tests.
pub(crate) fn arguments(args: &[&str]) -> Result<(), Error> {
    let (options, names): (Vec<&str>, Vec<&str>) = args.iter().partition(|arg| arg.starts_with('-'));
    if let Some(unknown) = options.iter().find(|option| !OPTIONS.contains(option)) {
        return Err(format!("cross: unknown option {unknown}; the options are {}", OPTIONS.join(", ")).into());
    }
    if names.is_empty() {
        let names: Vec<&str> = PLATFORMS.iter().map(|platform| platform.name).collect();
        return Err(format!("name one or more platforms: {}", names.join(", ")).into());
    }
    let platforms = names.iter().map(|name| Platform::named(name)).collect::<Result<Vec<_>, _>>()?;
    let only_programs = options.contains(&"--programs");
    let mut report = Report::default();
    for platform in platforms {
        match Emulated::prepare(platform) {
            Ok(emulated) => {
                println!("\n== {}", platform.name);
                if let Err(error) = timed("building the programs and libraries", || emulated.build()) {
                    report.check(&format!("building the programs for {}", platform.name), Err(error));
                    continue;
                }
                if !only_programs {
                    emulated.test(&mut report);
                }
                emulated.run_programs(&mut report);
            }
            Err(error) if !options.contains(&"--skip-missing") => return Err(error),
            Err(error) => report.skip(format!("{}: {}", platform.name, sh::reason(&error))),
        }
    }
    report.close()
}

/// A platform, with the tools that build and run its programs.
struct Emulated {
    platform: &'static Platform,
    toolchain: Toolchain,
    wine: Option<Wine>,
}

impl Emulated {
    fn prepare(platform: &'static Platform) -> Result<Self, Error> {
        platform.check_installed()?;
        let toolchain = timed("the toolchain", || Toolchain::fetch(platform.standard_library))?;
        Ok(Self { platform, toolchain, wine: timed("the emulator", || platform.wine())? })
    }

    /// Returns a cargo command that runs tests in the emulator.
    fn cargo(&self, task: &str) -> Command {
        let mut cargo = self.platform.cargo(&self.toolchain, task);
        self.wine.iter().for_each(|wine| wine.set_variables(&mut cargo));
        cargo
    }

    /// Returns a cargo command for the libraries of the packages with tests.
    fn packages(&self, task: &str) -> Command {
        let mut cargo = self.cargo(task);
        self.platform.packages().for_each(|package| _ = cargo.args(["-p", package]));
        cargo.args(["--lib", "--no-default-features", "--features", FEATURES]);
        if self.platform.has_full_command {
            cargo.args(PROGRAMS).args(["--features", "pjrt-cli/cpu,pjrt-cli/full"]);
        }
        cargo
    }

    /// Builds the programs, the CPU plugin and the plugin libraries of the tests.
    fn build(&self) -> Result<(), Error> {
        let mut libraries = self.packages("build");
        platform::LIBRARIES.iter().for_each(|library| _ = libraries.args(["--example", library]));
        sh::shown(&mut libraries)?;
        if self.platform.has_full_command {
            return Ok(());
        }
        // With the examples in one build, the command would have the features of its own tests.
        let mut programs = self.cargo("build");
        // With `pjrt-cli/cpu`, cargo would set the feature of the package's dependency on itself for its tests.
        sh::shown(programs.args(PROGRAMS).args(["--lib", "--no-default-features", "--features", "cpu"]))
    }

    /// Builds and runs the tests.
    fn test(&self, report: &mut Report) {
        let name = self.platform.name;
        let tests = || {
            let mut tests = self.packages("test");
            tests.arg("--no-fail-fast");
            self.platform.tests().for_each(|test| _ = tests.args(["--test", test]));
            tests
        };
        if let Err(error) = timed("building the tests", || sh::shown(tests().arg("--no-run"))) {
            return report.check(&format!("building the tests for {name}"), Err(error));
        }
        let mut tests = tests();
        // The tests of real plugins run on the CPU plugin that was built for the emulated platform.
        let plugin = self.platform.built().join(self.platform.plugin);
        tests.env("PJRT_CPU_PLUGIN", &plugin).env("PJRT_TEST_PLUGINS", &plugin);
        // Passing tests list their skipped checks in their output, which is hidden without this option.
        tests.args(["--", "--show-output"]);
        for (test, why) in self.platform.skipped.iter().chain(platform::FOR_XLA) {
            tests.args(["--skip", test]);
            report.skip(format!("{test} on {name}: {why}"));
        }
        let outcome = timed("the tests", || sh::run_filtered(&mut tests, |line| report.cargo_line(line)));
        report.check(&format!("cargo test for {name}"), outcome);
    }

    /// Runs the programs, and reports the outcome of each.
    fn run_programs(&self, report: &mut Report) {
        println!("\n== programs on {}", self.platform.name);
        for program in self.platform.programs {
            let line = format!("{} {}", self.platform.command, program.arguments.join(" "));
            let line = line.replace(PLUGIN, self.platform.plugin);
            let outcome = timed(&line, || self.run(program));
            report.count(&line, outcome);
        }
    }

    /// Runs a program and checks its output.
    fn run(&self, program: &Program) -> Result<(), Error> {
        let built = self.platform.built();
        let mut command = self.platform.emulate(&built.join(self.platform.command));
        self.wine.iter().for_each(|wine| wine.set_variables(&mut command));
        command.current_dir(sh::root());
        for argument in program.arguments {
            if *argument == PLUGIN {
                command.arg(built.join(self.platform.plugin))
            } else {
                command.arg(argument)
            };
        }
        let output = sh::output(&mut command)?;
        if output.contains(program.prints) {
            return Ok(());
        }
        Err(format!("{} did not print {:?}, but:\n{output}", self.platform.command, program.prints).into())
    }
}

/// Runs a step, and prints how long it took.
fn timed<T>(name: &str, step: impl FnOnce() -> T) -> T {
    let (start, before) = (Instant::now(), sh::processor_seconds());
    let outcome = step();
    let processor = sh::processor_seconds() - before;
    println!("{name}: {} s, {processor} s of processor time", start.elapsed().as_secs());
    outcome
}
