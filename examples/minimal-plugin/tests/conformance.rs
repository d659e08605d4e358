//! Runs the cases of the conformance suite as tests. Cases for features that the plugin does not support are ignored.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use pjrt_conformance::{Profile, harness};

/// Includes the source of the plugin, because it is built as a C library, which Rust cannot link.
#[path = "../src/lib.rs"]
mod plugin;

fn main() -> ExitCode {
    harness::main(Profile::Jax, || pjrt::Plugin::from_static(plugin::Plugin::api()))
}
