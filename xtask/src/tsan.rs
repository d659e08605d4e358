//! `cargo xtask tsan`: runs tests with several threads under the thread sanitizer.
//!
//! The standard library is also instrumented, so that the sanitizer sees its locks and channels. This needs the source
//! of the standard library and the sanitizer's runtime library. [`Toolchain`] takes them from two Debian packages.

use std::process::Command;

use crate::cross::toolchain::{StandardLibrary, Toolchain};
use crate::{Error, sh};

/// Arguments of `cargo test`. Each list selects the tests of one package.
const TESTS: &[&[&str]] = &[
    &["-p", "device-plugin", "--lib", "--test", "protocol"],
    &["-p", "process-transport", "--lib", "--test", "local"],
    &["-p", "pjrt-rs", "--lib", "--test", "caller"],
    // The sanitizer cannot instrument the machine code that the device generates for loops.
    &["-p", "pjrt-cpu", "--no-default-features", "--features", "math", "--lib", "--test", "device"],
];

/// Arguments of `cargo test`: the cases of the conformance suite in which threads share each kind of object. A data
/// race fails the case's process.
const SHARED_OBJECTS: &[&str] = &["-p", "pjrt-plugin-minimal", "--test", "conformance", "--", "threads."];

/// Tests that are skipped, each with the reason.
const SKIPPED: &[(&str, &str)] = &[(
    "first_part::caller_runs_program_after_several_short_runs",
    "it needs runs of at most 200 us, and instrumented runs take longer",
)];

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// A compiler, with the flags that instrument all code.
pub(crate) struct ThreadSanitizer {
    toolchain: Toolchain,
    flags: String,
}

impl ThreadSanitizer {
    pub(crate) fn prepare() -> Result<Self, Error> {
        let toolchain = Toolchain::fetch(StandardLibrary::Built)?;
        let runtime = toolchain.thread_sanitizer()?;
        // GNU's default linker does not find some versioned symbols of the C library to which the runtime refers.
        let linker = ["-fuse-ld=gold", "-Wl,--whole-archive", runtime.to_str().ok_or("the path is not UTF-8")?];
        let libraries = ["-Wl,--no-whole-archive", "-lstdc++", "-lm", "-lpthread", "-lc"];
        let link = linker.into_iter().chain(libraries).map(|argument| format!("-Clink-arg={argument}"));
        let flags = ["-Zsanitizer=thread", "-Zexternal-clangrt", "-Cforce-frame-pointers=yes"].map(str::to_owned);
        Ok(Self { toolchain, flags: flags.into_iter().chain(link).collect::<Vec<_>>().join("\x1f") })
    }

    /// Runs the tests. `shows` decides whether a line of the tests' output is printed. A data race fails the test
    /// program.
    pub(crate) fn test(&self, mut shows: impl FnMut(&str) -> bool) -> Result<(), Error> {
        let mut options = vec!["--show-output"];
        for (test, reason) in SKIPPED {
            println!("SKIPPED: {test}: {reason}");
            options.extend(["--skip", test]);
        }
        for tests in TESTS {
            sh::run_filtered(self.cargo().args(*tests).arg("--").args(&options), &mut shows)?;
        }
        sh::run_filtered(self.cargo().args(SHARED_OBJECTS), &mut shows)
    }

    fn cargo(&self) -> Command {
        let mut cargo = sh::cargo();
        cargo.args(["test", "-Z", "build-std=std,panic_unwind", "--target", TARGET]);
        cargo.env("RUSTC", self.toolchain.rustc()).env("CARGO_TARGET_DIR", sh::target().join("tsan"));
        // The stable compiler accepts the unstable options only with this variable.
        cargo.env("RUSTC_BOOTSTRAP", "1").env("CARGO_ENCODED_RUSTFLAGS", &self.flags).env("CARGO_INCREMENTAL", "0");
        // An allocation that is larger than the memory is an error of the caller. It must return null instead of ending
        // the process.
        cargo.env("TSAN_OPTIONS", "allocator_may_return_null=1");
        // The tests catch thousands of panics. Without this variable, each panic would print a symbolized backtrace.
        cargo.env("RUST_BACKTRACE", "0");
        cargo
    }
}
