//! `cargo xtask asan`: runs tests of the caller's side and of the vendor's side of the PJRT C API under the address and
//! leak sanitizers.
//!
//! The task omits the embedded CPU device, which is safe Rust. Compiled with the sanitizer and without optimization,
//! the device's kernels would take longer to compile than everything else. The caller's tests load real XLA plugins,
//! which are not instrumented. The plugins use the sanitizer's allocator, so the sanitizer finds allocation errors of
//! the plugins, too.
//!
//! The tests need a nightly compiler, whose standard library is not instrumented. The sanitizer finds an error of the
//! standard library only in the allocator, or in instrumented code that the standard library calls.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::{Error, package, sh};

/// Accepted leaks, in the format of the leak sanitizer's suppressions.
const SUPPRESSED: &str = "\
# Descriptions live as long as the process; two threads that make the same one keep the first.
leak:plugin_manifest::c_view::descriptor::exported
# Libraries of plugins stay mapped.
leak:pjrt::library::get_pjrt_api
# A plugin that rejected a callback may have kept it.
leak:callbacks::receive_their_own_kind_of_failure
# The plugins of these tests do not report when they stop using the memory.
leak:events::await_only_plugin_returns_errors
leak:events::no_wait_function_is_error
# They forget values of which the plugin may use the memory.
leak:real_execute::runs_and_copies_are_futures
leak:accidents::leaked
leak:run_options::leaked_stream_is_not_destroyed
# XLA never frees the names of the variables in its indexing maps.
leak:xla::detail::IndexingMapAttrStorage::construct
# The same in XLA's plugin of API 0.115, which has no symbols. Leaks of its objects are found with the other plugins.
leak:pjrt_c_api_cpu_plugin.so
";

/// The nightly toolchain.
pub(crate) struct Nightly {
    target: String,
}

impl Nightly {
    pub(crate) fn find() -> Result<Self, Error> {
        if !cfg!(target_os = "linux") {
            return Err("the sanitizers are set up for Linux".into());
        }
        let said = sh::output(&mut run(&["rustc", "-vV"])).map_err(|error| {
            format!("no nightly compiler ({}); `rustup toolchain install nightly`", first_line(&error.to_string()))
        })?;
        let target = said.lines().find_map(|line| line.strip_prefix("host: ")).ok_or("rustc -vV names no host")?;
        Ok(Self { target: target.to_owned() })
    }

    fn target(&self) -> PathBuf {
        sh::target().join("asan")
    }

    fn cargo(&self, arguments: &[&str]) -> Result<Command, Error> {
        fs::create_dir_all(self.target())?;
        let suppressions = self.target().join("suppressions");
        fs::write(&suppressions, SUPPRESSED)?;
        let mut cargo = run(&["cargo"]);
        cargo.args(arguments).args(["--target", &self.target]).current_dir(sh::root());
        cargo.env("CARGO_TARGET_DIR", self.target()).env("RUSTFLAGS", "-Zsanitizer=address -Cforce-frame-pointers=yes");
        // An allocation that is larger than the memory is an error of the caller. It must return null instead of ending
        // the process. A suppression matches a stack frame of the test, which the default limit of 30 frames may omit.
        cargo.env(
            "ASAN_OPTIONS",
            "allocator_may_return_null=1:detect_leaks=1:strict_string_checks=1:malloc_context_size=60",
        );
        cargo.env("LSAN_OPTIONS", format!("suppressions={}:print_suppressions=0", suppressions.display()));
        // The tests catch thousands of panics. Without this variable, each panic would print a symbolized backtrace.
        cargo.env("RUST_BACKTRACE", "0");
        Ok(cargo)
    }

    /// Runs the tests. `shows` decides whether a line of the tests' output is printed.
    pub(crate) fn test(&self, mut shows: impl FnMut(&str) -> bool) -> Result<(), Error> {
        let mut protocol = self.cargo(&["test", "-p", "device-plugin", "--lib", "--test", "protocol"])?;
        protocol.args(["--", "--show-output"]);
        sh::run_filtered(&mut protocol, &mut shows)?;
        // Run the tests of the caller's side with separately built plugins. Without plugins, these tests print that
        // they are skipped.
        let plugins = package::PLUGINS.iter().filter_map(|plugin| plugin.path().ok());
        let mut pjrt = self.cargo(&["test", "-p", "pjrt-rs", "--tests"])?;
        pjrt.args(["--", "--show-output"]).env("PJRT_TEST_PLUGINS", std::env::join_paths(plugins)?);
        sh::run_filtered(&mut pjrt, &mut shows)
    }
}

/// Creates a command that uses the nightly toolchain, even if another toolchain runs this task.
fn run(words: &[&str]) -> Command {
    let mut rustup = Command::new("rustup");
    rustup.args(["run", "nightly"]).args(words);
    for variable in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN", "CARGO_ENCODED_RUSTFLAGS"] {
        rustup.env_remove(variable);
    }
    rustup
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
