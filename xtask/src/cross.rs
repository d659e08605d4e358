//! `cargo xtask cross`: builds libraries for other platforms and runs their tests in an emulator.

mod platform;
mod toolchain;

use self::platform::{PLATFORMS, Platform};
use self::toolchain::Toolchain;
use crate::test::Report;
use crate::{Error, sh};

/// The packages that are built and tested: the vendor's side, and what it depends on. The embedded CPU device has three
/// times as many dependencies.
const PACKAGES: &[&str] = &["pjrt-types", "stablehlo-rs", "plugin-manifest", "device-plugin"];

/// The integration tests, in addition to the tests within each library.
const TESTS: &[&str] = &["protocol"];

/// The arguments of the task: `[--skip-missing] PLATFORM ...`. With the option, a platform whose tools are missing is a
/// skipped check.
pub(crate) fn arguments(args: &[&str]) -> Result<(), Error> {
    let (options, names): (Vec<&str>, Vec<&str>) = args.iter().partition(|arg| arg.starts_with('-'));
    if let Some(unknown) = options.iter().find(|option| **option != "--skip-missing") {
        return Err(format!("cross: unknown option {unknown}; the option is --skip-missing").into());
    }
    if names.is_empty() {
        let names: Vec<&str> = PLATFORMS.iter().map(|platform| platform.name).collect();
        return Err(format!("name one or more platforms: {}", names.join(", ")).into());
    }
    let platforms = names.iter().map(|name| Platform::named(name)).collect::<Result<Vec<_>, _>>()?;
    let mut report = Report::default();
    for platform in platforms {
        match platform.check_installed().and_then(|()| Toolchain::fetch()) {
            Ok(toolchain) => test(platform, &toolchain, &mut report),
            Err(error) if options.is_empty() => return Err(error),
            Err(error) => report.skip(format!("{}: {}", platform.name, sh::reason(&error))),
        }
    }
    report.close()
}

/// Builds and runs the tests.
fn test(platform: &Platform, toolchain: &Toolchain, report: &mut Report) {
    let name = platform.name;
    println!("\n== {name}");
    let mut tests = platform.cargo(toolchain, "test");
    PACKAGES.iter().for_each(|package| _ = tests.args(["-p", package]));
    tests.args(["--no-fail-fast", "--lib"]);
    TESTS.iter().for_each(|test| _ = tests.args(["--test", test]));
    // Passing tests list their skipped checks. Without this option, the output is hidden.
    tests.args(["--", "--show-output"]);
    for (test, why) in platform.skipped {
        tests.args(["--skip", test]);
        report.skip(format!("{test} on {name}: {why}"));
    }
    let outcome = sh::run_filtered(&mut tests, |line| report.cargo_line(line));
    report.check(&format!("cargo test for {name}"), outcome);
}
