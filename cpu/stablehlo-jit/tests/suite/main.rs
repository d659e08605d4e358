//! Tests of the generated code.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    reason = "a test; its casts change bits on purpose"
)]
#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]

mod limits;
mod oracle;
mod programs;
mod random_programs;
