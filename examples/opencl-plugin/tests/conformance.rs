//! Runs the cases of the conformance suite as tests. Cases for features that the plugin does not support are ignored.

use std::process::ExitCode;

use pjrt_conformance::{Profile, harness};

fn main() -> ExitCode {
    harness::main(Profile::Jax, || pjrt::Plugin::from_static(pjrt_plugin_opencl::Plugin::api()))
}
