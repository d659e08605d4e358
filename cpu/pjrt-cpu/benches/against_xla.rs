//! Compares the embedded device with JAX's own CPU backend: `cargo bench -p pjrt-cpu --bench against_xla`.
//!
//! The programs are Python functions for JAX, so this starts `cargo xtask performance --print programs`. The baseline
//! is JAX's backend rather than XLA's CPU plugin alone, because the plugin lacks the factorizations of LAPACK.

use std::process::{Command, ExitCode};

fn main() -> std::io::Result<ExitCode> {
    let status = Command::new(env!("CARGO")).args(["xtask", "performance", "--print", "programs"]).status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
