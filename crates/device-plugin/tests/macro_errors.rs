//! Tests that each misuse of `#[device_plugin]` and `export!` has a message with a correction.
//!
//! `TRYBUILD=overwrite cargo test -p device-plugin --test macro_errors` regenerates the expected messages.

use std::process::Command;

/// The compiler version whose messages are in `tests/ui/rustc`.
const RUSTC: &str = "rustc 1.95.";

#[test]
fn misuse_says_what_to_write() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/pass/*.rs");
    cases.compile_fail("tests/ui/*.rs");
    // In these cases the compiler adds its own text, which differs between versions.
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().expect("rustc runs");
    let version = String::from_utf8_lossy(&version.stdout);
    if version.starts_with(RUSTC) {
        cases.compile_fail("tests/ui/rustc/*.rs");
    } else {
        println!("SKIPPED misuse_says_what_to_write: tests/ui/rustc is for {RUSTC}x, this is {version}");
    }
}
