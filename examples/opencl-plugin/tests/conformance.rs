//! Runs the cases of the conformance suite as tests. Cases for features that the plugin does not support are ignored.

mod common;

use std::process::ExitCode;

use common::client;
use pjrt::ClientOptions;
use pjrt_conformance::{Profile, harness};

fn main() -> ExitCode {
    // The suite starts this program again, with arguments that begin with two underscores.
    let is_child = std::env::args().nth(1).is_some_and(|argument| argument.starts_with("__"));
    if !is_child && client("conformance", &ClientOptions::new()).is_none() {
        return ExitCode::SUCCESS;
    }
    harness::main(Profile::Jax, || pjrt::Plugin::from_static(pjrt_plugin_opencl::Plugin::api()))
}
