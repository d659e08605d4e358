//! Tests that wrong uses of the API do not compile, and that the compiler names the reason.
//!
//! `TRYBUILD=overwrite cargo test -p pjrt-misuse` regenerates the expected messages.

#![allow(clippy::unwrap_used, reason = "a test program")]

use std::process::Command;

/// The compiler version whose messages are in `tests/misuse`.
const RUSTC: &str = "rustc 1.95.";

#[test]
fn misuse_does_not_compile() {
    // Messages differ between versions of the compiler.
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().unwrap();
    let version = String::from_utf8_lossy(&version.stdout);
    if version.starts_with(RUSTC) {
        trybuild::TestCases::new().compile_fail("tests/misuse/*.rs");
    } else {
        println!("SKIPPED misuse_does_not_compile: tests/misuse is for {RUSTC}x, this is {version}");
    }
}
