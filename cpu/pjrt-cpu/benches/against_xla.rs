//! Compares the embedded device with JAX's own CPU backend: `cargo bench -p pjrt-cpu --bench against_xla`.
//!
//! The programs are Python functions for JAX, so this starts `cargo xtask performance --print programs`. The baseline
//! is JAX's backend rather than XLA's CPU plugin alone, because the plugin lacks the factorizations of LAPACK.

use std::process::Command;

fn main() {
    let status = Command::new(env!("CARGO")).args(["xtask", "performance", "--print", "programs"]).status();
    let status = status.unwrap_or_else(|error| panic!("cargo does not start: {error}"));
    assert!(status.success(), "cargo xtask performance: {status}");
}
