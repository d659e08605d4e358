//! Tests that incorrect uses of `pjrt` and `device-plugin` do not compile, and that the error message explains the
//! reason. For `#[device_plugin]` and `export!`, the message also contains a correction.
//!
//! `TRYBUILD=overwrite cargo test -p pjrt-misuse` regenerates the expected messages.

#![allow(clippy::unwrap_used, reason = "a test program")]

use std::process::Command;

/// The compiler version whose messages are in `tests/caller` and `tests/plugin_rustc`.
const RUSTC: &str = "rustc 1.95.";

#[test]
fn misuse_does_not_compile() {
    let cases = trybuild::TestCases::new();
    // The macros create the messages of these cases, so the messages do not depend on the compiler version.
    cases.compile_fail("tests/plugin/*.rs");
    // The compiler creates at least a part of the messages of these cases. This part differs between compiler versions.
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().unwrap();
    let version = String::from_utf8_lossy(&version.stdout);
    if version.starts_with(RUSTC) {
        cases.compile_fail("tests/plugin_rustc/*.rs");
        cases.compile_fail("tests/caller/*.rs");
    } else {
        println!("SKIPPED misuse_does_not_compile: the compiler's messages are those of {RUSTC}x, this is {version}");
    }
}
