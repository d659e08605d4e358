//! The conformance suite's cases as tests. Cases that the plugin does not support are ignored.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use pjrt_conformance::{Profile, harness};

/// Includes the plugin's source, because Rust cannot link its library, which is one for C.
#[path = "../src/lib.rs"]
mod plugin;

fn main() -> ExitCode {
    harness::main(Profile::Jax, || pjrt::Plugin::from_static(plugin::Plugin::api()))
}
