//! Compares the embedded device with JAX's own CPU backend: `cargo bench -p pjrt-cpu --bench against_xla`.
//!
//! Starts `cargo xtask performance --print programs`, because the programs are written for JAX. JAX's backend is XLA's
//! CPU plugin with the factorizations of LAPACK, which XLA's plugin alone lacks.

use std::process::Command;

fn main() {
    let status = Command::new(env!("CARGO")).args(["xtask", "performance", "--print", "programs"]).status();
    let status = status.unwrap_or_else(|error| panic!("cargo does not start: {error}"));
    assert!(status.success(), "cargo xtask performance: {status}");
}
